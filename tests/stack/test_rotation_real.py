"""A real rotation: four Tomcats side by side, each with its own database, loaded in turns; all ended, all put back."""

import csv
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from conftest import leadline

pytestmark = pytest.mark.stack

STUDY = """\
study: side-by-side
question: What do another statement and a wait cost?
stack: { server: tomcat, mode: direct }
workload: { users: 5, variables: { think: 100ms }, ramp_up: 1s, steady: 6s, ramp_down: 1s,
            warm_up: { load: 2s, pause: 1s, cycles: 1, until: cycles } }
factors: { app.extra_statements: [0, 2], app.extra_wait: [0, 900], database.synchronous_commit: [on, off] }
settings: { jvm.heap: 128m }
design: { replicates: 2, seed: 3, rotation: { slot: 2s, warm_up_slot: 1s, idle: 1, instances: 2 } }
responses: [throughput, p50, cpu_per_transaction]
"""


@dataclass(frozen=True)
class Run:
    directory: Path
    document: dict[str, Any]

    @property
    def trials(self) -> list[dict[str, Any]]:
        trials: list[dict[str, Any]] = self.document["trials"]
        return trials


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    directory = tmp_path_factory.mktemp("rotation")
    (directory / "side.yaml").write_text(STUDY)
    done = leadline("run", "side.yaml", "--json", cwd=directory)
    assert done.returncode in (0, 4), done.stderr  # what differs is not what is asked
    return Run(directory, json.loads(done.stdout))


def test_every_instance_had_load_in_its_own_turns_only(run: Run) -> None:
    loaded: dict[str, set[int]] = {}
    starts = set()
    for trial in run.trials:
        assert trial["state"] == "done", trial["failure_message"]
        driver = Path(trial["directory"]) / "driver"
        summary = json.loads((driver / "summary.json").read_text())
        starts.add(round(summary["started_unix_ns"] / 1e9, 1))
        with (driver / "seconds.csv").open() as stream:
            rows = [row for row in csv.DictReader(stream) if row["transaction"] == "all"]
        loaded[trial["directory"]] = {int(row["second"]) for row in rows if int(row["ok"]) > 1}
        windows = [window.split("-") for window in summary["arrivals"]["windows"].split(",")]
        spans = [(int(begin.rstrip("s")), int(end.rstrip("s"))) for begin, end in windows]
        inside = {second for begin, end in spans for second in range(begin, end)}
        # A transaction that was under way at the end of a turn may end right after it.
        assert loaded[trial["directory"]] <= inside | {end for _, end in spans}
        assert len(inside) == 7
        # Connections outlive the turns of others; one may end by itself where the machine is busy.
        assert summary["requests"]["reconnects"] < len(spans)
    assert len(loaded) == 4
    assert max(starts) - min(starts) <= 0.1


def test_idle_instances_were_looked_at_and_every_response_is_there(run: Run) -> None:
    for trial in run.trials:
        audits = {audit["name"]: audit for audit in trial["audits"]}
        assert "the idle instances used" in audits["idle-instances"]["detail"]
        assert all(audit["passed"] for audit in audits.values())
        for name in ("throughput", "p50", "cpu_per_transaction", "server_cpu_per_transaction", "gc_share"):
            assert trial["responses"][name] >= 0
        assert trial["responses"]["errors"] == 0
    effects = run.document["analysis"]["responses"][0]["effects"]
    assert {(effect["factor"], effect["level"]) for effect in effects} == {
        ("app.extra_statements", 2),
        ("app.extra_wait", 900),
        ("database.synchronous_commit", "off"),
    }


def test_the_warm_up_loaded_every_instance_and_its_transactions_were_audited(run: Run) -> None:
    for trial in run.trials:
        assert trial["steady"]["sentence"].endswith("Warm-up: as planned after 9s, 1 cycle.")
        done = sum(
            total["ok"]
            for part in ("warm-up/1/driver", "driver")
            for total in json.loads((Path(trial["directory"]) / part / "summary.json").read_text())["total"].values()
        )
        rows = [audit for audit in trial["audits"] if audit["name"].startswith("rows-are-counts-")]
        assert rows
        assert done > 0


def test_live_levels_changed_in_the_slots_of_every_instance_and_were_read_back(run: Run) -> None:
    for trial in run.trials:
        assert all("s late" in slot["failure_message"] for slot in trial["slots"] if slot["failure"])  # a busy machine
        assert len(trial["slots"]) == 3
        assert len({slot["treatment_key"] for slot in trial["slots"]}) == 3
        for slot in trial["slots"]:
            assert set(slot["found"]) == {"app.extra_wait", "database.synchronous_commit"}
            assert slot["matches"] is True
            assert slot["failure"] or slot["responses"]["throughput"] > 0
        after = {one["knob"]: one for one in trial["readings"] if one["phase"] == "after"}
        assert after["app.extra_wait"]["found"] == str(trial["slots"][-1]["found"]["app.extra_wait"])


def test_what_was_run_is_shown(run: Run) -> None:
    assert "Rotation: 4 instances side by side" in Path(run.document["run"]["report"]).read_text()
