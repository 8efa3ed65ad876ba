"""The first screen of a study that varies its load alone: no load is better or worse than another."""

import io
import json
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from leadline.checks.files.study import parse_study
from leadline.experiments.results import analysis_of
from leadline.model.errors import FailureClass
from leadline.model.knob import ApplyCost, Kind, Knob
from leadline.model.record import StudyRecord
from leadline.model.result import Drift, Interval, ResponseAnalysis, StudyAnalysis
from leadline.places.simulated import SimulatedTestbed, parse_truth
from leadline.places.testbed import RunOptions
from leadline.report import text, view, words
from leadline.report.document import document
from leadline.report.glance import glance
from leadline.report.page import render
from leadline.report.text import table
from leadline.store.lab import Store

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
    return dict(glance(record, analysis).loads)


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


def test_an_interrupted_trial_is_not_called_failed(record: StudyRecord) -> None:
    first = next(trial for trial in record.trials if trial.planned.treatment["load.users"] == 80)
    cut = replace(first, failure=FailureClass.INTERRUPTED, responses={})
    rows = shown(replace(record, trials=tuple(cut if one.id == first.id else one for one in record.trials)))
    assert "to" not in rows["load.users = 80"][0]


def test_no_load_is_called_better_than_another(record: StudyRecord) -> None:
    console = Console(width=200, record=True, file=StringIO())
    console.print(table(record, analysis_of(record)))
    rows = [line for line in console.export_text().splitlines() if line.startswith("load.users = ")]
    assert len(rows) == 3
    assert all(" to " in row for row in rows)
    assert not {word for row in rows for word in row.split()} & {"better", "worse", "higher", "lower"}


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


SERVICE = [Knob("server.pool", Kind.INTEGER, ApplyCost.RESTART, "a pool", default=10, minimum=1)]
HOSTS_STUDY = """
study: pool
question: Does it?
workload: { users: 40, ramp_up: 2s, steady: 20s, ramp_down: 1s }
factors: { server.pool: [10, 20] }
design: { replicates: 6, sentinels: null, seed: 3 }
responses: [throughput]
"""
HOSTS_TRUTH = """
truth:
  noise: { trials: 0.2%, seconds: 0.5%, latency_trials: 0.5%, latency_seconds: 1% }
  effects: [{ when: { server.pool: 20 }, percent: { throughput: 30% } }]
  hosts: { count: 2, own: [{ host: 2, when: { server.pool: 20 }, percent: { throughput: -40% } }] }
"""


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> tuple[StudyRecord, StudyAnalysis]:
    lab: Path = tmp_path_factory.mktemp("lab")
    file = parse_study(HOSTS_STUDY, "pool.yaml")
    place = SimulatedTestbed(parse_truth(HOSTS_TRUTH, "truth.yaml"), lab, service_knobs=SERVICE, host=[])
    record = place.store.load(place.run(file, place.plan(file), RunOptions()).study_id)
    return record, analysis_of(record)


def test_the_terminal_says_what_a_level_does_on_each_host(study: tuple[StudyRecord, StudyAnalysis]) -> None:
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(text.table(*study, verbose=True), soft_wrap=True)
    line = next(line for line in console.export_text().splitlines() if line.startswith("By host, "))
    assert line.startswith("By host, server.pool = 20: host-1 +")
    assert " better; host-2 −2" in line
    assert line.endswith(" worse.")


def test_the_page_draws_each_host(study: tuple[StudyRecord, StudyAnalysis]) -> None:
    html = render(view.gather(*study, figures=False))
    panel = html[html.index('<details id="hosts-of-throughput" open>') :]
    panel = panel[: panel.index("</details>")]
    assert "<summary>Host by host: 2 hosts, which differ</summary>" in panel
    assert panel.count('<svg class="ci ') == 2
    assert panel.index("<td>host-1</td>") < panel.index("<td>host-2</td>")


def test_the_document_has_hosts_and_effects(study: tuple[StudyRecord, StudyAnalysis]) -> None:
    found = json.loads(json.dumps(document(*study), allow_nan=False))
    across = found["analysis"]["responses"][0]["across_hosts"]
    assert across["hosts"] == ["host-1", "host-2"]
    assert [(one["host"], one["verdict"]) for one in across["effects"]] == [("host-1", "better"), ("host-2", "worse")]
    assert across["spreads"][0]["percent"] > 10
    assert {trial["host"] for trial in found["trials"]} == {"host-1", "host-2"}
    assert found["analysis"]["responses"][0]["effects"][0]["scope"] == "these hosts"


ONE = ResponseAnalysis(
    response="throughput",
    baseline_mean=100.0,
    baseline_interval=Interval(10.0, 190.0, 0.95),
    baseline_trials=6,
    effects=(),
    luck=None,
    drift=Drift(None, None, None, None, False, ""),
    groups=(),
    residual_cv=None,
    detectable=None,
)


@pytest.mark.parametrize(
    ("blocks", "text"),
    [(0, "6 trials"), (1, "6 trials"), (2, "6 trials; two blocks: wide by 1 degree of freedom"), (3, "6 trials")],
)
def test_an_interval_of_two_blocks_says_why_it_is_wide(blocks: int, text: str) -> None:
    assert words.baseline_trials(replace(ONE, baseline_blocks=blocks)) == text
