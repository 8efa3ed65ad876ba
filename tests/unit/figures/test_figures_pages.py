"""Study C's table: the published figures, a study with known truth, pages over time, and bad tables refused."""

from __future__ import annotations

import csv
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import Command
from report_fixture import fake_study
from scipy import stats
from test_figures_cli import leadline, results_csv

from leadline.design.make import make_plan
from leadline.figures.pages import BY_NAME, COMPARED, PageTable, pages_of, read_pages
from leadline.model.design import Design
from leadline.model.errors import FailureClass, UsageError
from leadline.model.knob import ApplyCost
from leadline.model.plan import Factor, Plan
from leadline.model.result import Observation
from leadline.report.figures.pages import csv_table, lines, over_time
from leadline.store.lab import Store

PUBLISHED = Path(__file__).parents[3] / "docs" / "evidence" / "study-c-published.csv"
SERVERS = Factor("web.server", ("httpd", "nginx", "tomcat"), "httpd", apply_cost=ApplyCost.RESTART)
# user and system CPU a page, pages/s: the truth
TRUTH = {"httpd": (0.10, 0.20, 1000.0), "nginx": (0.04, 0.15, 1500.0), "tomcat": (0.30, 0.20, 800.0)}


leadline_of_pages = Command("figures")
refused = leadline_of_pages.refused
PLAN = make_plan([SERVERS], Design(kind="one-at-a-time", replicates=5, sentinels=None))


def made(seed: int = 1) -> tuple[Plan, list[Observation]]:
    """Trials around the truth; a block shifts all of its trials alike."""
    rng, plan = np.random.default_rng(seed), PLAN
    shifts = rng.normal(0, 0.3, size=1 + max(trial.block for trial in plan.trials))
    observations = []
    for trial in plan.trials:
        user, system, pages = TRUTH[str(trial.treatment.as_dict()["web.server"])]
        drawn = np.exp(rng.normal(0, 0.05, size=3) + shifts[trial.block])
        responses = {"throughput": pages * drawn[0], "mean": 20.0 * drawn[0], "errors": 0.0}
        responses |= {"user_cpu_per_transaction": user * drawn[1], "system_cpu_per_transaction": system * drawn[2]}
        observations.append(
            Observation(
                *(trial.position, trial.position, trial.block, trial.replicate, trial.role, trial.treatment, 0.0),
                responses={name: float(value) for name, value in responses.items()},
            )
        )
    return plan, observations


def published() -> PageTable:
    return read_pages(PUBLISHED.read_text(), "published")


# the published table -----------------------------------------------------------------------------------------------


def test_the_published_cpu_a_page() -> None:
    old, new = published().rows
    assert [round(row.figures["user_ms"].value, 2) for row in (old, new)] == [5.77, 5.05]
    assert [round(row.figures["system_ms"].value, 1) for row in (old, new)] == [72.4, 7.7]
    assert new.figures["pages"].value == 53_827_939
    assert all(figure.interval is None for row in (old, new) for figure in row.figures.values())


def test_the_published_ratios() -> None:
    (ratios,) = published().ratios.values()
    assert ratios["pages_per_s"].value == pytest.approx(6.0856, abs=1e-3)
    assert 1 / ratios["mean_ms"].value == pytest.approx(5.1021, abs=1e-3)
    assert 1 / ratios["system_ms"].value == pytest.approx(9.38, abs=0.01)
    assert 1 / ratios["user_ms"].value == pytest.approx(1.141, abs=1e-3)


def test_the_command_prints_and_writes_it(tmp_path: Path) -> None:
    output = leadline_of_pages(PUBLISHED, "--pages", "--out", tmp_path)
    assert "6.09 times the pages" in output
    assert "no intervals" in output
    written = list(csv.DictReader((tmp_path / "pages.csv").open()))
    assert [float(row["user_ms"]) for row in written] == pytest.approx([5.767, 5.053], abs=1e-3)
    told = leadline_of_pages.document(PUBLISHED, "--pages")
    assert told["format"] == "leadline-pages/1"
    assert told["rows"][1]["figures"]["system_ms"]["value"] == pytest.approx(7.71, abs=0.01)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("system,cpus\n", "no rows below a head"),
        ("system,cpus,cpu_user,cpu_system,pages_per_sec\na,1,2,3,4\n", r"no column pages_per_s; did you mean pages_p"),
        ("system,cpus,cpu_user,cpu_system,pages_per_s\na,1,2,3\n", r"t\.csv, row 1: 4 cells where the head has 5"),
        ("system,cpus,cpu_user,cpu_system,pages_per_s\na,1,2,x,4\n", r"row 1: cpu_system is 'x', not a number"),
        (
            "system,cpus,cpu_user,cpu_system,pages_per_s\na,1,2,3,-4\n",
            r"row 1: pages_per_s is '-4', not a number of at",
        ),
        ("system,cpus,cpu_user,cpu_system,pages_per_s\na,0,2,3,4\n", r"row 1: cpus and pages_per_s are above 0"),
        ("system,cpus,cpu_user,cpu_system,pages_per_s\na,,2,3,4\n", r"row 1: cpus is '', not a number"),
    ],
)
def test_bad_tables(text: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        read_pages(text, "t.csv")


def test_options_that_say_nothing_here(tmp_path: Path) -> None:
    assert "--cv means nothing beside --pages" in refused(PUBLISHED, "--pages", "--cv", "3")
    assert "--system names a factor of a study" in refused(PUBLISHED, "--pages", "--system", "x")
    other = tmp_path / "table.txt"
    other.write_text("x")
    assert "a table of pages ends in .csv" in refused(other, "--pages")


# a study -----------------------------------------------------------------------------------------------------------


def test_a_row_a_system_with_students_interval_of_the_logarithms() -> None:
    plan, observations = made()
    table = pages_of(plan, observations)
    assert next(row.system for row in table.rows) == "httpd"
    assert {row.system for row in table.rows} == set(TRUTH)
    for row in table.rows:
        assert row.trials == 5
        for name in COMPARED:
            response = BY_NAME[name].response
            values = [
                math.log(one.responses[response])
                for one in observations
                if one.treatment.as_dict()["web.server"] == row.system
            ]
            ends = stats.t.interval(0.95, 4, loc=np.mean(values), scale=stats.sem(values))
            found = row.figures[name]
            assert found.value == pytest.approx(math.exp(np.mean(values)))
            assert found.interval is not None
            assert (found.interval.low, found.interval.high) == pytest.approx(np.exp(ends))
        assert row.figures["failed_share"].value == 0


def test_ratios_are_paired_by_block_and_hold_the_truth_as_often_as_they_say() -> None:
    held, width = 0, []
    for seed in range(120):
        plan, observations = made(seed)
        ratio = pages_of(plan, observations).ratios["nginx"]["user_ms"]
        assert ratio.interval is not None
        held += ratio.interval.contains(0.4)
        width.append(math.log(ratio.interval.high / ratio.interval.low))
    assert 104 <= held < 120  # 95 % of 120 is 114; the binomial's middle 99.9 %
    assert np.mean(width) < 0.3, "the blocks' shifts of 30 % are not in it"


def test_failed_trials_are_in_no_row_and_what_lacks_is_told() -> None:
    plan, observations = made()
    broken = [
        replace(one, responses={}, failure=FailureClass.WORKLOAD) if at == 0 else one
        for at, one in enumerate(observations)
    ]
    table = pages_of(plan, broken)
    assert sum(row.trials for row in table.rows) == len(observations) - 1
    assert "1 trials failed and are in no row." in table.notes
    plain = [replace(one, responses={"throughput": 5.0}) for one in observations]
    assert any("user_cpu_per_transaction" in note for note in pages_of(plan, plain).notes)
    with pytest.raises(UsageError, match="nothing to put in a table"):
        pages_of(plan, [replace(one, responses={}) for one in observations])


def test_text_and_file_have_every_figure() -> None:
    table = pages_of(*made())
    told = "\n".join(lines(table))
    assert all(one.title in told for one in table.measures)
    head, *rows = csv_table(table)
    assert len(rows) == 3
    assert all(len(row) == len(head) for row in rows)
    assert head[:2] == ["system", "trials"]


def test_pages_over_time_of_a_stored_study(tmp_path: Path) -> None:
    record, _ = fake_study(tmp_path, replicates=1)
    drawn = over_time(record)
    assert drawn is not None
    rows = drawn.spec["datasets"]["rows0"]
    for trial in {row["trial"] for row in rows}:
        pages = [row["pages"] for row in rows if row["trial"] == trial]
        assert pages == sorted(pages)
        assert pages[-1] > 0
    assert drawn.svg().startswith("<svg")


def test_of_a_lab_without_the_study(tmp_path: Path) -> None:
    Store(tmp_path / "lab", create=True)
    assert "pages" in refused("pages", "--pages", "--lab", tmp_path / "lab")


DOCS = Path(__file__).parents[3] / "docs" / "concepts" / "study-a.md"
FIGURES = ("throughput", "extremes", "failures", "sensitivity", "ranking", "grouping")
DOCUMENT_BY_NAME = ("failures.classes", "failures.settings", "failures.systems.classes")  # keys are the table's own


def printed(document: dict[str, Any]) -> dict[str, set[str]]:
    """Path of an object -> its keys, lists passed through."""
    found: dict[str, set[str]] = {}

    def walk(path: str, value: Any) -> None:
        if isinstance(value, list):
            for each in value:
                walk(path, each)
        elif isinstance(value, dict) and path not in DOCUMENT_BY_NAME:
            found.setdefault(path, set()).update(value)
            for key, each in value.items():
                walk(f"{path}.{key}", each)

    for name in FIGURES:
        walk(name, document[name])
    return {("interval" if {"low", "high", "level"} == keys else path): keys for path, keys in found.items()}


def test_the_documented_keys_are_those_printed(tmp_path: Path) -> None:
    groups = ["--groups", "red=a,b", "--groups", "blue=c,d"]
    source = results_csv(tmp_path / "results.csv")
    found = printed(leadline.document(source, *groups))
    table = DOCS.read_text(encoding="utf-8").split("| object | keys |\n", 1)[1].split("\n\n", 1)[0]
    rows = re.findall(r"^\| `([\w.]+)` \| (.+) \|$", table, flags=re.MULTILINE)
    assert {path: set(re.findall(r"`(\w+)`", keys)) for path, keys in rows} == found
