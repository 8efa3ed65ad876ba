"""Figures that are lower bounds are printed as such, by every output."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from planted_study import POOL, QUIET, planted
from rich.console import Console

from leadline.cli.live import _ended
from leadline.conclude.soak import conclude_soak
from leadline.conclude.study import conclude
from leadline.experiments.soak.record import _read, _written, interval_of, merged
from leadline.load.series import Outcomes, new_histogram
from leadline.model.record import StudyRecord
from leadline.model.result import AtLeast, StudyAnalysis
from leadline.model.soak import SoakTimes
from leadline.model.units import format_number
from leadline.report import document, page
from leadline.report.ci import text as ci_text
from leadline.report.export import export
from leadline.report.glance import axis
from leadline.report.summary import summary
from leadline.report.text import table
from leadline.report.words import number, signed


@pytest.fixture(scope="module")
def study() -> tuple[StudyRecord, StudyAnalysis]:
    """All of p99 is 10 s at least: nothing answers sooner, some not at all."""
    record, _ = planted(POOL, "", QUIET)
    trials = tuple(
        replace(trial, responses={**trial.responses, "p99": AtLeast(10_000.0 + trial.id)}) for trial in record.trials
    )
    bounded = replace(record, trials=trials)
    return bounded, conclude(bounded)


def test_a_bound_is_formatted_as_one() -> None:
    assert format_number(AtLeast(10_000.0)) == number(AtLeast(10_000.0)) == ">= 10,000"
    assert f"{AtLeast(12.345):.2f}" == ">= 12.35"
    assert signed(AtLeast(46.0)) == ">= +46.0"
    assert json.dumps(AtLeast(1.5)) == "1.5"


def test_terminal_page_and_glance(study: tuple[StudyRecord, StudyAnalysis], tmp_path: Path) -> None:
    out = io.StringIO()
    Console(file=out, width=300).print(table(*study))
    assert any(">= 10,0" in line for line in out.getvalue().splitlines() if line.startswith("baseline"))
    (p99,) = (one for one in study[1].responses if one.response == "p99")
    assert isinstance(p99.baseline_mean, AtLeast)
    assert p99.baseline_interval is None
    assert axis(study[0], p99).baseline.startswith(">= 10,0")
    html = page.build(*study, tmp_path / "page.html").read_text()
    assert "&gt;= 10,0" in html
    assert "lower bounds" in html


def test_live_lines(study: tuple[StudyRecord, StudyAnalysis]) -> None:
    assert "p99 >= 10,001 ms" in _ended(study[0].trials[0], "baseline")


def test_json_and_csv(study: tuple[StudyRecord, StudyAnalysis], tmp_path: Path) -> None:
    found = document.document(*study)
    assert all(trial["at_least"] == ["p99"] for trial in found["trials"])
    assert {one["response"]: one["baseline_at_least"] for one in found["analysis"]["responses"]} == {
        **{"throughput": False, "p50": False, "p99": True}
    }
    export(*study, tmp_path, ["csv"])
    trials, effects = (list(csv.DictReader((tmp_path / name).open())) for name in ("trials.csv", "effects.csv"))
    assert {row["at_least"] for row in trials} == {"p99"}
    assert float(trials[0]["p99"]) == 10_001.0
    assert {(row["response"], row["baseline_at_least"]) for row in effects} == {
        *{("throughput", "False"), ("p50", "False"), ("p99", "True")}
    }


def test_a_level_that_times_out_is_worse_by_at_least_so_much() -> None:
    record, _ = planted(POOL, "5: p99 60%", QUIET)
    trials = tuple(
        replace(trial, responses={**trial.responses, "p99": AtLeast(trial.responses["p99"])})
        if trial.planned.treatment[POOL] == 5
        else trial
        for trial in record.trials
    )
    analysis = conclude(replace(record, trials=trials))
    (p99,) = (one for one in analysis.responses if one.response == "p99")
    (effect,) = (effect for effect in p99.effects if effect.level == 5)
    assert isinstance(effect.percent, AtLeast)
    assert not isinstance(p99.baseline_mean, AtLeast)
    assert signed(effect.percent).startswith(">= +")
    said = ci_text(summary(replace(record, trials=trials), analysis), "md")
    assert "&gt;= +" in said


def test_soak() -> None:
    outcomes = Outcomes(new_histogram(), ok=90, failed=10, unanswered=10, unanswered_from=2000.0)
    outcomes.histogram.record_value(5_000_000, 90)
    outcomes.histogram.record_value(2_000_000_000, 10)
    interval = interval_of(0.0, 60.0, 0, outcomes, {})
    for one in (interval, merged([interval, interval]), _read(json.loads(json.dumps(_written(interval))))):
        assert (isinstance(one.p50, AtLeast), isinstance(one.p99, AtLeast)) == (False, True)
    answer = conclude_soak([interval], [interval], SoakTimes.of(60.0), {})
    assert any("the p99 of 1 of 1 intervals is a lower bound" in note for note in answer.notes)
