"""A study in virtual time, from its file to its report; a web server of busybox stands for a stack's JVM and database,
whose start takes minutes under emulation. All worlds are run twice with LEADLINE_MATRIX=1 only, else the first one.
"""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from page_guests import SCENARIO, FakeCaptures
from witnesses import MATRIX, matrix

import leadline
from leadline.model.errors import FailureClass
from leadline.model.record import StudyRecord
from leadline.places.guest import boot
from leadline.places.guest.boot import QEMU
from leadline.places.virtual import guests

pytestmark = pytest.mark.skipif(shutil.which(QEMU) is None, reason=f"{QEMU} is not installed")

STUDY = """\
study: forks
question: Do settings of the kernel change what a page costs?
stack: { app: brokerage, mode: direct, server: tomcat, database: postgres, host: virtual-time }
guest: { memory: 384m, disk: { size: 32m }, swap: 32m }
workload: { scenario: page.yaml, users: 3, ramp_up: 1s, steady: 1s, ramp_down: 0s }
factors:
  vm.stat_interval: [1, 2]
  vm.nr_hugepages: [0, 4096]  # more than fit
design: { kind: forks, worlds: 2 }
responses: [throughput, mean, p99, server_cpu_per_transaction]
"""


AGAIN = 2 if MATRIX else 1  # worlds


def run(directory: Path, lab: str, worlds: int) -> tuple[StudyRecord, Path]:
    study = leadline.read(directory / "forks.yaml", [f"design.worlds={worlds}"])
    ended = leadline.run(study, directory / lab)
    assert ended.complete, ended.stopped
    assert isinstance(ended.result, leadline.StudyResult)
    ended.result.report(ended.page)
    return ended.result.record, ended.page


def figures(record: StudyRecord) -> dict[int, tuple[Any, ...]]:
    """All that the driver and the guest's kernel counted."""
    found: dict[int, tuple[Any, ...]] = {}
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
    print(f"{AGAIN} of 2 worlds run twice, both with LEADLINE_MATRIX=1")
    first, page = run(tmp_path, "lab-1", 2)
    monkeypatch.setattr(boot, "library", lambda: "the second lab has no plugin")
    second, plain = run(tmp_path, "lab-2", AGAIN)
    found, again = figures(first), figures(second)
    assert again == {position: found[position] for position in again}
    assert len(again) == 2 * AGAIN

    worlds = [trial.planned.block for trial in first.trials if trial.failure is None]
    assert worlds == [0, 0, 1, 1]
    assert found[0] != found[1]  # timers at other moments
    assert found[0] != found[3]  # another world

    failed = [trial for trial in first.trials if trial.failure is not None]
    assert [trial.failure for trial in failed] == [FailureClass.CONFIGURATION] * 2
    told = [trial.failure_message for trial in failed]
    assert told[:AGAIN] == [trial.failure_message for trial in second.trials if trial.failure is not None]
    assert all("vm.nr_hugepages is " in text or "ran out of memory" in text for text in told)

    readings = {(one.knob, one.phase, one.found) for one in first.trials[1].readings}
    assert {("vm.stat_interval", phase, "2") for phase in ("before", "after")} <= readings
    facts = json.loads((first.trials[0].directory / "logs" / "guest.json").read_text())  # type: ignore[operator]
    assert facts["guest"]["clocksource"] == "tsc"
    assert facts["guest"]["vm.swappiness"] == "60"
    counted = (first.trials[0].directory / "raw" / "figures-before").read_text()  # type: ignore[operator]
    assert re.search(r"SwapTotal: +327\d\d kB", counted)
    assert "Where the difference comes from: vm.stat_interval = 2" in page.read_text()
    instructions = []
    for trial in first.trials:
        if trial.failure is None:
            counts = json.loads((trial.directory / "raw" / "instructions.json").read_text())  # type: ignore[operator]
            summary, _, _ = found[trial.planned.position]
            assert counts["syscalls.accept"] == summary["total"]["page"]["ok"]  # the web server's, one each
            instructions.append(counts.get("instructions.kernel.vmstat_shepherd", 0))  # looks once in an interval
    assert instructions[0] > instructions[1]
    assert instructions[2] > instructions[3]
    assert "instructions.kernel." in page.read_text()
    assert "were not counted: the second lab has no plugin." in plain.read_text()
    assert "instructions.kernel." not in plain.read_text()
    assert not list((tmp_path / "lab-1" / "guests").iterdir())  # saved guests are gone


PLANTED = """\
study: planted
question: Which code executes more instructions?
stack: { app: brokerage, server: tomcat, mode: direct, host: virtual-time }
guest: { memory: 1536m }
workload: { users: 4, variables: { think: 100ms }, ramp_up: 8s, steady: 6s }
factors: { app.extra_cpu: [0, 500] }
settings: { jvm.heap: 128m }
design: { kind: forks, worlds: 2, seed: 3 }
responses: [cpu_per_transaction]
"""


@matrix("a study of forks of a real server takes six minutes")
def test_the_java_method_that_executes_more_is_named(tmp_path: Path) -> None:
    (tmp_path / "planted.yaml").write_text(PLANTED)
    ended = leadline.run(leadline.read(tmp_path / "planted.yaml"), tmp_path / "lab")
    assert ended.complete, ended.stopped
    assert isinstance(ended.result, leadline.StudyResult)
    costs: dict[Any, list[int]] = {0: [], 500: []}
    for trial in ended.result.record.trials:
        assert trial.failure is None, trial.failure_message
        counts = json.loads((trial.directory / "raw" / "instructions.json").read_text())  # type: ignore[operator]
        assert any(name.startswith("instructions.server.org.apache.") for name in counts)
        of_filter = [count for name, count in counts.items() if ".leadline.common.ExtraCosts." in name]
        costs[trial.planned.treatment["app.extra_cpu"]].append(sum(of_filter))
    assert min(costs[500]) > 20 * max(costs[0]), costs
    ended.result.report(ended.page)
    assert "instructions.server.leadline.common.ExtraCosts." in ended.page.read_text()
