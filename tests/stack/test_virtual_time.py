"""A study in virtual time, from its file to its report; a web server of busybox stands for a stack's JVM and database,
whose start takes minutes under emulation.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

import leadline
from leadline.guest.boot import QEMU
from leadline.host.base import ProcessSpec
from leadline.model.errors import FailureClass
from leadline.model.knob import Level
from leadline.model.record import StudyRecord
from leadline.virtual import guests
from leadline.virtual.capture import Captured, Started

pytestmark = pytest.mark.skipif(shutil.which(QEMU) is None, reason=f"{QEMU} is not installed")

STUDY = """\
study: forks
question: Do settings of the kernel change what a page costs?
stack: { app: brokerage, mode: direct, server: tomcat, database: postgres, host: virtual-time }
guest: { memory: 384m, disk: { size: 32m }, swap: 32m }
workload: { scenario: page.yaml, users: 3, ramp_up: 1s, steady: 2s, ramp_down: 0s }
factors:
  vm.stat_interval: [1, 2]
  vm.nr_hugepages: [0, 4096]  # more than fit
design: { kind: forks, worlds: 2 }
responses: [throughput, mean, p99, server_cpu_per_transaction]
"""
SCENARIO = """\
scenario: page
description: One page.
parameters: { think: 20ms, session_length: 100 }
pause: { kind: think, shape: exponential, mean: "${think}" }
arrivals: { unit: session, session_length: "${session_length}" }
mix: { page: 1 }
transactions:
  page:
    - get: /page.html
      check: { contains: pages }
"""
PORT = 28_401


class FakeCaptures:
    """Captures of a stack that is one process."""

    def __init__(self, _study: object, _host: object, home: Path) -> None:
        self._home = home

    def versions(self) -> Mapping[str, str]:
        return {"httpd": "busybox"}

    def prepare(self, progress: Callable[[str], None]) -> None:
        progress("nothing is provisioned")

    def take(self, levels: Mapping[str, Level], number: int) -> Captured:
        assert not levels
        site, kept = self._home / "site", self._home / f"capture-{number}"
        shutil.rmtree(self._home, ignore_errors=True)
        inside = kept / site.relative_to("/")
        inside.mkdir(parents=True)
        (inside / "page.html").write_text("pages\n" * 500)
        for part in ("logs", "raw"):
            (self._home / "trial" / part).mkdir(parents=True)
        argv = ["httpd", "-f", "-p", f"127.0.0.1:{PORT}", "-h", str(site)]
        spec = ProcessSpec("server", argv, self._home / "trial" / "logs" / "server.log", cwd=site, owns=[site])
        url = f"http://127.0.0.1:{PORT}"
        return Captured(self._home / "trial", [Started(spec, kept)], url, f"{url}/page.html", 0, {})


def run(directory: Path, lab: str) -> tuple[StudyRecord, Path]:
    study = leadline.read(directory / "forks.yaml")
    ended = leadline.run(study, directory / lab)
    assert ended.complete, ended.stopped
    assert isinstance(ended.result, leadline.StudyResult)
    ended.result.report(ended.page)
    return ended.result.record, ended.page


def figures(record: StudyRecord) -> dict[int, object]:
    """All that the driver and the guest's kernel counted."""
    found: dict[int, object] = {}
    for trial in record.trials:
        if trial.failure is None:
            assert trial.directory is not None
            summary = json.loads((trial.directory / "driver" / "summary.json").read_text())
            counters = json.loads((trial.directory / "raw" / "figures.json").read_text())
            found[trial.planned.position] = (summary, counters, dict(trial.responses))
    return found


def test_a_study_of_forks_gives_the_same_digits_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guests, "Captures", FakeCaptures)
    (tmp_path / "forks.yaml").write_text(STUDY)
    (tmp_path / "page.yaml").write_text(SCENARIO)
    monkeypatch.chdir(tmp_path)
    (first, page), (second, _) = (run(tmp_path, lab) for lab in ("lab-1", "lab-2"))
    found = figures(first)
    assert found == figures(second)

    worlds = [trial.planned.block for trial in first.trials if trial.failure is None]
    assert worlds == [0, 0, 1, 1]
    assert found[0] != found[1]  # timers at other moments
    assert found[0] != found[3]  # another world

    failed = [trial for trial in first.trials if trial.failure is not None]
    assert [trial.failure for trial in failed] == [FailureClass.CONFIGURATION] * 2
    told = [trial.failure_message for trial in failed]
    assert told == [trial.failure_message for trial in second.trials if trial.failure is not None]
    assert all("vm.nr_hugepages is " in text or "ran out of memory" in text for text in told)

    readings = {(one.knob, one.phase, one.found) for one in first.trials[1].readings}
    assert {("vm.stat_interval", phase, "2") for phase in ("before", "after")} <= readings
    facts = json.loads((first.trials[0].directory / "logs" / "guest.json").read_text())  # type: ignore[operator]
    assert facts["guest"]["clocksource"] == "tsc"
    assert facts["guest"]["vm.swappiness"] == "60"
    counted = (first.trials[0].directory / "raw" / "figures-before").read_text()  # type: ignore[operator]
    assert re.search(r"SwapTotal: +327\d\d kB", counted)
    assert "Where the difference comes from: vm.stat_interval = 2" in page.read_text()
    assert not list((tmp_path / "lab-1" / "guests").iterdir())  # saved guests are gone
