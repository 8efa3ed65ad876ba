"""The first screen of a study that varies its load alone: no load is better or worse than another."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from leadline.lab.results import analysis_of
from leadline.lab.store import Store
from leadline.lab.studyfile import parse_study
from leadline.lab.testbed import RunOptions
from leadline.model.errors import FailureClass
from leadline.model.record import StudyRecord
from leadline.report.glance import glance
from leadline.report.text import table
from leadline.report.view import strongest
from leadline.simulate.testbed import SimulatedTestbed
from leadline.simulate.truthfile import parse_truth

TRUTH = "truth:\n  seed: 1\n  server: { cores: 2, demand: 3ms, database_demand: 1ms, delay: 2ms, think: 100ms }\n"
STUDY = """\
study: loads
question: how far does it go?
workload: { ramp_up: 2s, steady: 10s, ramp_down: 1s }
factors: { load.users: [20, 10, 80] }
design: { replicates: 2, kind: full-factorial, sentinels: null }
responses: [throughput, p90]
"""


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> StudyRecord:
    lab = tmp_path_factory.mktemp("lab")
    bed = SimulatedTestbed(parse_truth(TRUTH, "truth.yaml"), lab, host=[])
    file = parse_study(STUDY, "s.yaml")
    bed.run(file, bed.plan(file), RunOptions())
    store = Store(lab)
    return store.load(store.find("loads"))


def shown(record: StudyRecord) -> dict[str, tuple[str, ...]]:
    analysis = analysis_of(record)
    return dict(glance(record, analysis, strongest(analysis)).loads)


def test_loads_ascend_with_the_range_of_their_trials(record: StudyRecord) -> None:
    rows = shown(record)
    assert list(rows) == ["load.users = 10", "load.users = 20", "load.users = 80"]
    least, greatest = sorted(
        trial.responses["throughput"] for trial in record.trials if trial.planned.treatment["load.users"] == 20
    )
    assert rows["load.users = 20"][0] == f"{least:.3g} to {greatest:.3g}"


def test_a_failed_trial_is_counted_and_is_no_figure(record: StudyRecord) -> None:
    first = next(one for one in record.trials if one.planned.treatment["load.users"] == 80)
    failed = replace(first, failure=FailureClass.WORKLOAD, responses={})
    rows = shown(replace(record, trials=tuple(failed if one.id == first.id else one for one in record.trials)))
    assert "to" not in rows["load.users = 80 (1 of 2 failed)"][0]


def test_no_load_is_called_better_than_another(record: StudyRecord) -> None:
    console = Console(width=200, record=True, file=StringIO())
    console.print(table(record, analysis_of(record)))
    verdicts = {line.split()[-1] for line in console.export_text().splitlines() if line.startswith("  load.users = ")}
    assert "higher" in verdicts
    assert not verdicts & {"better", "worse"}


def test_a_study_of_settings_has_none(tmp_path: Path) -> None:
    file = parse_study(
        STUDY.replace("load.users: [20, 10, 80]", "jvm.heap: [256m, 512m]").replace(
            "workload: {", "workload: { users: 20,"
        ),
        "s.yaml",
    )
    bed = SimulatedTestbed(parse_truth(TRUTH, "truth.yaml"), tmp_path, host=[])
    bed.run(file, bed.plan(file), RunOptions())
    store = Store(tmp_path)
    assert shown(store.load(store.find("loads"))) == {}
