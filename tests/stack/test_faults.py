"""Whose fault it is, on real services: each killed, stopped and asked to end, under load; the class is asserted.

A short set in every run; every process, signal and phase with LEADLINE_MATRIX=1.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
import server_cells
from witnesses import matrix

from leadline.host.base import ProcessSpec
from leadline.host.local import LocalHost
from leadline.host.process import LocalProcess
from leadline.host.signals import LOG
from leadline.model.errors import FailureClass, TrialFailure
from leadline.model.study import Study
from leadline.places.real import RealSystem
from leadline.stack import probe, started
from leadline.stack.assembly import Stack
from leadline.stack.web import common as web

pytestmark = [pytest.mark.stack, pytest.mark.usefixtures("own_cache")]

FULL = matrix("a process, a signal or a phase")
SIGNALS = {"KILL": signal.SIGKILL, "TERM": signal.SIGTERM, "STOP": signal.SIGSTOP}
FEW = {("backend", "KILL"), ("server", "TERM"), ("database", "STOP")}
STACKS = {"postgres": "nginx", "mariadb": "httpd"}


@pytest.fixture(scope="module", params=["postgres", pytest.param("mariadb", marks=FULL)])
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    place = tmp_path_factory.mktemp("faults")
    stack = server_cells.stack(place, "tomcat", "direct", request.param)
    stack.options = replace(stack.options, web_servers=(STACKS[request.param],))
    stack.provision(print)
    yield stack
    stack.down()


def up(stack: Stack, tmp_path: Path) -> None:
    stack.reset_data(tmp_path / "trial")
    stack.up({web.SERVER.name: STACKS[stack.database.name]}, tmp_path / "trial")
    stack.check_alive()
    stack.check_members()


def victim(stack: Stack, what: str) -> int:
    """The process to be hit: a service's first one, or a member of one."""
    role = {"backend": "database", "worker": "web"}.get(what, what)
    process = stack.processes()[role]
    if what == role:
        return process.pid
    if what == "worker":
        return next(pid for pid in process.pids() if pid != process.pid)
    for pid in process.pids():
        words = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
        if "leadline" in words and " idle" in words:
            return pid
    raise AssertionError("the pool has no session")


def judged(stack: Stack) -> TrialFailure:
    """As the trial's life does: while the load goes on, and after it."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            stack.check_alive()
            stack.check_members()
        except TrialFailure as failure:
            return failure
        time.sleep(0.05)
    raise AssertionError("nothing was seen")


@pytest.mark.parametrize(
    ("what", "name"),
    [
        pytest.param(what, name, marks=() if (what, name) in FEW else FULL)
        for what in ("server", "database", "backend", "web", "worker")
        for name in SIGNALS
        if (what, name) != ("worker", "TERM")  # it ends in order, and another takes its place
    ],
)
def test_no_signal_from_outside_is_a_levels_fault(made: Stack, tmp_path: Path, what: str, name: str) -> None:
    if what == "backend" and made.database.name != "postgres":
        pytest.skip("host: MariaDB's sessions are threads, which no signal ends alone")
    up(made, tmp_path)
    try:
        os.kill(pid := victim(made, what), SIGNALS[name])
        failure = judged(made)
    finally:
        made.down()
    assert failure.failure_class is FailureClass.INFRASTRUCTURE, failure
    assert "from outside" in failure.message or "leadline did not ask" in failure.message
    assert name != "KILL" or "SIGKILL" in failure.message, pid
    assert not LOG.open or name == "TERM" or f"(process {os.getpid()})" in failure.message


@FULL
@pytest.mark.parametrize("name", list(SIGNALS))
@pytest.mark.parametrize("what", ["database", "server", "web"])
def test_a_start_that_a_signal_ends_is_no_levels_fault(
    made: Stack, tmp_path: Path, what: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    hit: list[int] = []
    asked = probe.ready

    def ready(*given: Any) -> str:
        """While it is asked for its first answer."""
        if what in made.processes() and not hit:
            hit.append(made.processes()[what].pid)
            os.kill(hit[0], SIGNALS[name])
        return "not yet" if hit else asked(*given)

    def answer() -> None:
        raise started.QueryError(ready())

    monkeypatch.setattr(probe, "ready", ready)
    if what == "database":
        monkeypatch.setattr(made.database, "_ask_first", answer)
    monkeypatch.setattr(made, "options", replace(made.options, ready_timeout=20.0))
    made.reset_data(tmp_path / "trial")
    try:
        with pytest.raises(TrialFailure) as caught:
            made.up({web.SERVER.name: STACKS[made.database.name]} if what == "web" else {}, tmp_path / "trial")
    finally:
        made.down()
    assert hit
    assert caught.value.failure_class is FailureClass.INFRASTRUCTURE, caught.value


@FULL
@pytest.mark.parametrize("name", list(SIGNALS))
@pytest.mark.parametrize("phase", ["start", "load"])
def test_a_driver_that_a_signal_hits_is_no_levels_fault(made: Stack, tmp_path: Path, phase: str, name: str) -> None:
    stack = {"server": "tomcat", "mode": "direct", "database": made.database.name}
    load = {"users": 2, "ramp_up": 1, "steady": 20, "ramp_down": 0}
    document = {"study": "driver", "question": "?", "stack": stack, "workload": load, "factors": {"jvm.heap": ["256m"]}}
    study = Study.model_validate(document)

    class Host(LocalHost):
        def start(self, spec: ProcessSpec) -> LocalProcess:
            drivers.append(super().start(spec))
            if phase == "start":
                os.kill(drivers[0].pid, SIGNALS[name])
            return drivers[0]

    def hit(_: object) -> None:
        if drivers[0].alive():
            os.kill(drivers[0].pid, SIGNALS[name])

    drivers: list[LocalProcess] = []
    system = RealSystem(study, Host(state=tmp_path / "state"), tmp_path / "lab")
    system._stack = made
    up(made, tmp_path)
    try:
        with pytest.raises(TrialFailure) as caught:
            system.load(tmp_path / "trial", 1, hit)
    finally:
        made.down()
    assert caught.value.failure_class is FailureClass.INFRASTRUCTURE, caught.value
    assert "the driver" in caught.value.message
    assert not drivers[0].pids()


@FULL
@pytest.mark.parametrize("name", list(SIGNALS))
def test_a_stop_that_a_signal_disturbs_ends_all_the_same(made: Stack, tmp_path: Path, name: str) -> None:
    up(made, tmp_path)
    pids = [made.processes()[role].pid for role in ("server", "database", "web")]
    for pid in pids:
        os.kill(pid, SIGNALS[name])
    made.down()  # raises nothing: what a signal does while services are stopped is no trial's failure
    assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()]


@FULL
@pytest.mark.parametrize("what", ["database", "server"])  # a web server answers without a page more
def test_a_limit_from_outside_is_no_levels_fault(made: Stack, tmp_path: Path, what: str) -> None:
    parent = Path("/sys/fs/cgroup/memory")
    if not os.access(parent / "memory.limit_in_bytes", os.W_OK):
        pytest.skip("host: no control groups of version 1 that this user may make")
    group = parent / f"somebody-elses-{os.getpid()}"
    group.mkdir()
    up(made, tmp_path)
    try:
        (group / "memory.limit_in_bytes").write_text(str(2 << 20))
        (group / "memory.swappiness").write_text("0")
        for pid in made.processes()[what].pids():
            (group / "cgroup.procs").write_text(str(pid))
        with suppress(OSError):
            for _ in range(500 if what == "server" else 1):
                urlopen(made.url(), timeout=5)  # what it answers with needs memory
        failure = judged(made)
    finally:
        made.down()
        group.rmdir()
    assert failure.failure_class is FailureClass.INFRASTRUCTURE, failure
