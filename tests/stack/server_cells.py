"""One cell of servers x databases x modes: a start, a short load, all audits, a stop."""

import json
import os
import re
import socket
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from ssl import create_default_context
from urllib.parse import urlsplit
from urllib.request import urlopen

import listeners
import polars as pl
import pytest

from leadline.host.files import LocalFiles
from leadline.host.java import java_pid
from leadline.host.local import LocalHost
from leadline.load.driver import DriverRun
from leadline.load.result import read_summary
from leadline.model.errors import FailureClass, TrialFailure
from leadline.model.knob import ApplyCost, Level
from leadline.model.study import StackChoice
from leadline.model.workload import Workload
from leadline.observe.base import ObserverContext
from leadline.observe.pools import PoolsObserver
from leadline.stack import postgres as client
from leadline.stack import probe
from leadline.stack.assembly import Stack
from leadline.stack.options import StackOptions

LOAD = Workload(users=12, ramp_up=0.5, steady=2.5, ramp_down=0.2)
_VARIABLES: Mapping[str, str | int | float] = {"units": 1, "think": "10ms"}
DEALERSHIP = Workload(scenario="dealership", ramp_up=0.5, steady=6.0, ramp_down=0.5)
FAST: Mapping[str, str | int | float] = {"units": 1, "dealer_cycle": "200ms", "plant_cycle": "40ms"}
_TICKS = os.sysconf("SC_CLK_TCK")

Settings = Mapping[str, Level]


@dataclass(frozen=True)
class Cell:
    """Seconds until ready, CPU seconds and resident bytes of the server by then; what the load did."""

    ready: float
    cpu: float
    resident: int
    ok: int
    failed: int
    per_second: float
    copies: int  # see copies()
    pools: dict[str, float]  # largest value of every metric of its pools, threads and statement caches


def stack(
    place: Path,
    server: str,
    mode: str,
    database: str = "postgres",
    java: Path | None = None,
    properties: Mapping[str, str] | None = None,
    app: str = "brokerage",
) -> Stack:
    """Provisioned, its data in place, nothing running; the port for HTTP is free and known."""
    choice = StackChoice.model_validate(
        {"app": app, "server": server, "mode": mode, "database": database, "java": str(java) if java else None}
    )
    options = StackOptions(http_port=LocalHost().free_port(), properties=properties or {}, ready_timeout=400.0)
    made = Stack(choice, LocalHost(state=place / "state"), place / "home", options)
    made.provision(print)
    made.prepare_data(print)
    made.reset_data(place / "trial")
    return made


def changes_while_it_runs(made: Stack, levels: Settings) -> None:
    """Every live knob of ``levels`` takes another level while the server runs, and then its own again; each is read
    back, and none has the server start its application anew.
    """
    names = {knob.name for knob in made.server.knobs() if knob.apply_cost is ApplyCost.LIVE} & set(levels)
    others: dict[str, Level] = {}
    for name in names:
        level = levels[name]
        assert not isinstance(level, str)
        others[name] = not level if isinstance(level, bool) else level + 3
    assert others
    restarts = made.restarts()
    for wanted in (others, {name: levels[name] for name in names}):
        made.apply(wanted)
        assert {name: made.read_back(name) for name in names} == wanted
    assert made.restarts() == restarts


@contextmanager
def locked(made: Stack, table: str) -> Iterator[None]:
    """Inside, nobody else can write to a table. PostgreSQL lets go of it with the connection."""
    with client.connect(made.endpoint(), timeout=60) as connection:
        connection.run("BEGIN")
        connection.run(f"LOCK TABLE {table} IN EXCLUSIVE MODE")
        yield


def run(made: Stack, place: Path, levels: Settings, check: Callable[[Stack], None] = lambda _: None) -> Cell:
    """Start, ``check`` the running server, load, audit and stop; everything must be right."""
    trial = place / "trial"
    try:
        made.start_database(levels, trial)
        ready = made.start_server(levels, trial)
        cpu, resident = use(java_pid(LocalFiles(), made.processes()["server"]))
        check(made)
        certificate = made.certificate()
        if certificate is not None:
            (trial / "tls.crt").write_text(certificate)
        trusted = trial / "tls.crt" if certificate else None
        observer = PoolsObserver(LocalHost())
        observer.start(ObserverContext(trial, made.processes(), interval=0.25))
        own = made.application.name == "dealership"
        workload, variables = (DEALERSHIP, FAST) if own else (LOAD, _VARIABLES)
        load = DriverRun(workload, made.url(), 1, trial / "driver", variables, ca=trusted)
        subprocess.run(load.argv(), stdout=subprocess.DEVNULL, check=True, timeout=60)
        observer.stop()
        assert observer.warnings == []
        pools = largest(observer.collect())
        result = read_summary(load.out)
        copied = copies(made)
        total = result.total.items()
        counts = {name: {"ok": each.ok, "failed": each.failed, "skipped": each.skipped} for name, each in total}
        made.drain(trial / "times.csv")
        assert abs(result.littles_law.relative_error or 0) < 0.02
        audits = made.audit(counts, trial / "logs" / "audit.log")
        assert audits
        assert [f"{each.name}: {each.detail}" for each in audits if not each.passed] == []
        no_password_in(made)
        listeners.check(made)
        assert "Pause" in (trial / "raw" / "gc.log").read_text()
    finally:
        unclean = made.down()
    assert unclean == [], unclean
    ok, failed = (sum(each[kind] for each in counts.values()) for kind in ("ok", "failed"))
    assert ok > 0
    return Cell(ready, cpu, resident, ok, failed, result.all.per_second, copied, pools)


def largest(series: Path | None) -> dict[str, float]:
    """Of every metric of the pools' series."""
    assert series is not None
    rows = pl.read_parquet(series).group_by("metric").agg(pl.col("value").max())
    return {str(metric): float(value) for metric, value in rows.iter_rows()}


def use(pid: int) -> tuple[float, int]:
    """CPU seconds so far and resident bytes of a process (proc_pid_stat(5))."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS, int(fields[21]) * os.sysconf("SC_PAGESIZE")


def answers_by_tls_only(made: Stack) -> None:
    """The application is at an https URL with the run's certificate, and HTTP at its port gets no page."""
    url = urlsplit(made.url())
    assert url.scheme == "https"
    assert url.port is not None
    path = f"{url.path}{made.deployment().ready.path}"
    assert probe.Client(url.port, made.certificate()).get(path)[0] == 200
    try:
        status, _, _ = probe.Client(url.port).get(path)
    except (OSError, ValueError):
        return
    assert status >= 400


def copies(made: Stack) -> int:
    """Arguments and results that arrived as copies at beans and servlets since the server started."""
    certificate = made.certificate()
    trust = create_default_context(cadata=certificate) if certificate else None
    with urlopen(f"{made.url()}/health", timeout=30, context=trust) as answer:
        return int(json.load(answer)["copies"])


def no_password_in(made: Stack) -> None:
    password = made.endpoint().password
    files = [path for part in (made.server, made.database) for path in part.artefacts() if path.is_file()]
    assert files
    assert [path.name for path in files if password in path.read_text(errors="replace")] == []


def refuses_to_start(made: Stack, place: Path, levels: Settings, words: str) -> TrialFailure:
    """The failure of a start that must not become ready; nothing runs after it."""
    with pytest.raises(TrialFailure, match=words) as failure:
        made.up(levels, place / "trial")
    assert made.down() == []
    return failure.value


@contextmanager
def taken_after_the_check(made: Stack) -> Iterator[None]:
    """Something else listens on the server's port before the server can."""
    with pytest.MonkeyPatch.context() as patch, socket.socket() as squatter:
        patch.setattr(LocalHost, "port_taken", lambda _host, _port: "")
        squatter.bind(("127.0.0.1", made.options.http_port))
        squatter.listen()
        yield


def port_taken(made: Stack, place: Path) -> None:
    """A port that is taken is nobody's treatment: infrastructure, with the port's number."""
    with taken_after_the_check(made):
        failure = refuses_to_start(made, place, {}, f"port {made.options.http_port} .* taken")
    assert failure.failure_class is FailureClass.INFRASTRUCTURE
    assert re.search(r"Address already in use|Port \d+ (was already|seems to be) in use", failure.evidence)
