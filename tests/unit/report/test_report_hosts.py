"""Effects by host in the terminal, on the page and in the JSON document."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from leadline.lab.results import analysis_of
from leadline.lab.studyfile import parse_study
from leadline.lab.testbed import RunOptions
from leadline.model.knob import ApplyCost, Kind, Knob
from leadline.model.record import StudyRecord
from leadline.model.result import StudyAnalysis
from leadline.report import text, view
from leadline.report.document import document
from leadline.report.page import render
from leadline.simulate import parse_truth
from leadline.simulate.testbed import SimulatedTestbed

SERVICE = [Knob("server.pool", Kind.INTEGER, ApplyCost.RESTART, "a pool", default=10, minimum=1)]
STUDY = """
study: pool
question: Does it?
workload: { users: 40, ramp_up: 2s, steady: 20s, ramp_down: 1s }
factors: { server.pool: [10, 20] }
design: { replicates: 6, sentinels: null, seed: 3 }
responses: [throughput]
"""
TRUTH = """
truth:
  noise: { trials: 0.2%, seconds: 0.5%, latency_trials: 0.5%, latency_seconds: 1% }
  effects: [{ when: { server.pool: 20 }, percent: { throughput: 30% } }]
  hosts: { count: 2, own: [{ host: 2, when: { server.pool: 20 }, percent: { throughput: -40% } }] }
"""


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> tuple[StudyRecord, StudyAnalysis]:
    lab: Path = tmp_path_factory.mktemp("lab")
    file = parse_study(STUDY, "pool.yaml")
    place = SimulatedTestbed(parse_truth(TRUTH, "truth.yaml"), lab, service_knobs=SERVICE, host=[])
    record = place.store.load(place.run(file, place.plan(file), RunOptions()).study_id)
    return record, analysis_of(record)


def test_the_terminal_says_what_a_level_does_on_each_host(study: tuple[StudyRecord, StudyAnalysis]) -> None:
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(text.table(*study), soft_wrap=True)
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
