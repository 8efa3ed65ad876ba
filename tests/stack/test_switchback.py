"""A real switchback trial: settings change under load, every slot is read back, the host is put back; a profile names
where a planted cost is.
"""

import csv
import json
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from conftest import leadline

from leadline.host.java import find_java, java_home, java_homes
from leadline.host.local import LocalHost
from leadline.store.lab import Store
from leadline.trial.slotmeasure import slot_series

pytestmark = pytest.mark.stack

KNOB, COST = "vm.dirty_expire_centisecs", "app.extra_cpu"
STUDY = """\
study: live-knobs
question: Do the age of dirty pages and a cost of 3 ms matter?
stack: { server: tomcat, mode: direct, java: JAVA }
workload: { users: 20, variables: { think: 200ms }, ramp_up: 3s, steady: 29s, ramp_down: 1s }
factors:
  vm.dirty_expire_centisecs: [3000, 500]
  app.extra_cpu: [0, 3000]
settings: { jvm.heap: 256m }
profile: light
design: { replicates: 1, seed: 5, switchback: { slot: 3s } }
responses: [throughput, p50, p99, cpu_per_transaction]
"""


@dataclass(frozen=True)
class Run:
    directory: Path
    document: dict[str, Any]
    before: dict[str, Any]
    java: int

    @property
    def slots(self) -> list[dict[str, Any]]:
        slots: list[dict[str, Any]] = self.document["trials"][0]["slots"]
        return slots


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    host = LocalHost()
    if reason := host.writable(KNOB):
        pytest.skip(f"host: {reason}")
    java = next((home for home in java_homes() if home.jdk and home.major >= 25), java_home(find_java()))
    directory = tmp_path_factory.mktemp("switchback")
    (directory / "live.yaml").write_text(STUDY.replace("JAVA", str(java.path)))
    before = {KNOB: host.read_back(KNOB)}
    done = leadline("run", "live.yaml", "--json", cwd=directory)
    assert done.returncode in (0, 4), done.stderr  # what differs is not what is asked
    return Run(directory, json.loads(done.stdout), before, java.major)


def test_every_slot_was_set_and_read_back(run: Run) -> None:
    (trial,) = run.document["trials"]
    assert trial["state"] == "done", trial["failure_message"]
    assert [slot["index"] for slot in run.slots] == list(range(9))
    for slot in run.slots:
        assert slot["found"] == slot["levels"]
        assert slot["matches"] is True
    for block in range(3):
        keys = {slot["treatment_key"] for slot in run.slots[3 * block : 3 * block + 3]}
        assert len(keys) == 3
    assert {slot["treatment"] for slot in run.slots if slot["role"] == "baseline"} == {"baseline"}


def test_slots_follow_the_drivers_clock(run: Run) -> None:
    (trial,) = run.document["trials"]
    summary = json.loads((Path(trial["directory"]) / "driver" / "summary.json").read_text())
    assert summary["phases"]["steady"] == pytest.approx([3, 30], abs=0.01)
    start = summary["started_unix_ns"] / 1e9 + 3
    for slot in run.slots:
        assert slot["due"] == pytest.approx(start + 3 * slot["index"], abs=1e-3)
        assert slot["due"] <= slot["set_from"] + 1e-6
        assert slot["set_from"] <= slot["set_at"]
        if slot["failure"] is None:
            assert slot["due"] < slot["measured_from"] < slot["measured_until"] <= slot["due"] + 3.001
    assert all(one["set_at"] < other["set_at"] for one, other in pairwise(run.slots))


def test_the_host_was_put_back(run: Run) -> None:
    host = LocalHost()
    assert {KNOB: host.read_back(KNOB)} == run.before
    undone = [reading for reading in run.document["trials"][0]["readings"] if reading["phase"] == "undone"]
    assert KNOB in {reading["knob"] for reading in undone}
    assert all(reading["matches"] for reading in undone)


def test_the_slots_can_be_analysed(run: Run) -> None:
    lab = Store(run.directory / "lab")
    record = lab.load(lab.find("live-knobs"))
    observations = record.observations()
    measured = [one for one in observations if one.failure is None]
    assert measured, [slot["failure_message"] for slot in run.slots]
    for one in measured:
        assert one.responses["throughput"] > 0
        assert one.responses["errors"] == 0
        assert one.responses["p50"] <= one.responses["p99"]
        assert one.responses["cpu_per_transaction"] > 0
        assert one.seconds is not None
        assert one.seconds >= 1
    series = slot_series(record.trials[0])
    assert {one.slot for one in measured} <= {one.slot for one in series}
    assert all(len(one.seconds) == len(one.values["throughput"]) for one in series)
    effects = run.document["analysis"]["responses"][0]["effects"]
    assert {(effect["factor"], effect["level"]) for effect in effects} == {(KNOB, 500), (COST, 3000)}
    assert all(effect["percent"] is not None or effect["reason"] for effect in effects)


def test_a_profile_in_some_of_the_slots_tells_where_the_cost_is(run: Run) -> None:
    profile = run.document["analysis"]["profile"]
    assert "CPU per transaction" in profile["notes"][0]
    level = next(level for level in profile["levels"] if level["factor"] == COST)
    assert level["total"]["change"] > 0.5, "ms per transaction; two slots against four, beside a busy neighbour"
    if run.java < 25:
        return  # samples of at most five threads, too few in so short a study
    change = {path["path"][-1]: path["change"] for path in level["paths"] if path["path"][0] == "application"}
    pay = "leadline.common.ExtraCosts.pay"
    assert change[pay] > 1, "of 3 ms"
    callers = ("application", *(f"leadline.common.ExtraCosts.{name}" for name in ("doFilter", "answers")))
    below = [frame for frame in change if frame.startswith(("java.", "sun.", "com.sun."))]
    assert change[pay] == max(ms for frame, ms in change.items() if frame not in (*callers, *below))
    exported = leadline("export", "live-knobs", "--format", "folded", cwd=run.directory)
    assert exported.returncode == 0, exported.stderr
    assert "ExtraCosts.pay" in (run.directory / "export" / f"stacks-{COST}=3000.folded").read_text()


def test_what_was_run_is_shown(run: Run) -> None:
    assert "switchback" in Path(run.document["run"]["report"]).read_text()
    plan = leadline("run", "live.yaml", "--dry-run", cwd=run.directory)
    assert plan.returncode == 0, plan.stderr
    assert "9 slots" in plan.stdout
    exported = leadline("export", "live-knobs", "--format", "csv", cwd=run.directory)
    assert exported.returncode == 0, exported.stderr
    with (run.directory / "export" / "slots.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert [row["slot"] for row in rows] == [str(index) for index in range(9)]
    assert [row[KNOB] for row in rows] == [str(slot["levels"][KNOB]) for slot in run.slots]
