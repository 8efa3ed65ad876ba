"""Flame graphs of treatments, from the stacks that were sampled."""

from pathlib import Path

import polars as pl
import pytest
from report_fixture import NASTY, POOL, STACKS, fake_study

from leadline.model.plan import Role
from leadline.report import files as trial_files
from leadline.report import view
from leadline.report.files import TrialFiles
from leadline.report.page import render
from leadline.report.profile import ALL, COLOURS, library, profile

DRIVER, MAP = "org.postgresql.core.v3.QueryExecutorImpl.execute", "java.util.HashMap.get"


@pytest.fixture(scope="module")
def content(tmp_path_factory: pytest.TempPathFactory) -> view.View:
    record, analysis = fake_study(tmp_path_factory.mktemp("profile") / "lab", replicates=2)
    return view.gather(record, analysis, figures=False)


def test_widths_are_the_shares_of_the_samples(content: view.View) -> None:
    assert content.profile is not None
    flame = content.profile.flames[0]
    assert flame.treatment == "baseline"
    frames = {(frame.depth, frame.name): frame for frame in flame.frames}
    whole = sum(STACKS.values())
    assert frames[0, ALL].width == 1
    assert frames[4, DRIVER].width == pytest.approx(12 / whole)
    assert frames[3, "app.Orders.place"].width == pytest.approx(16 / whole)
    assert [frame.depth for frame in flame.frames if frame.name == MAP] == [4, 4], "one below each caller"
    inner, outer = frames[4, DRIVER], frames[3, "app.Orders.place"]
    assert outer.left <= inner.left
    assert inner.left + inner.width <= outer.left + outer.width + 1e-12
    assert flame.methods[MAP] == pytest.approx((7 / whole,) * 3)


def test_only_the_steady_state_counts(content: view.View) -> None:
    assert content.profile is not None
    one = next(
        files
        for files in content.files
        if files.trial.planned.role is Role.BASELINE and files.series.get("profile") is not None
    )
    alone = profile({"baseline": [one]})
    assert alone is not None
    table = one.series["profile"]
    assert 0 < alone.flames[0].samples == one.under_load(table)["value"].sum() < table["value"].sum()


def test_a_treatment_without_a_method_has_none_of_it(content: view.View) -> None:
    assert content.profile is not None
    starved = next(flame for flame in content.profile.flames if flame.treatment == f"{POOL} = 1")
    assert DRIVER not in starved.methods
    assert DRIVER in content.profile.methods


def test_frames_too_small_to_be_seen_are_left_out(content: view.View) -> None:
    trial = content.files[0].trial
    rows = {"a.A.run;b.B.hot": 9_995, "a.A.run;b.B.rare": 5}
    table = pl.DataFrame(
        [(0, "profile.samples", stack, float(samples)) for stack, samples in rows.items()],
        schema=["time_ns", "metric", "subject", "value"],
        orient="row",
    )
    found = profile({"baseline": [TrialFiles(trial, series={"profile": table})]})
    assert found is not None
    assert [frame.name for frame in found.flames[0].frames] == [ALL, "a.A.run", "b.B.hot"]
    assert "b.B.rare" in found.flames[0].methods, "the table's shares are of all samples"


def test_nothing_sampled_is_said(content: view.View) -> None:
    assert profile({"baseline": [TrialFiles(content.files[0].trial)]}) is None
    assert profile({}) is None


@pytest.mark.parametrize(
    ("method", "of"),
    [
        ("org.postgresql.core.v3.QueryExecutorImpl.execute", "org.postgresql"),
        ("java.util.HashMap.get", "JDK"),
        ("com.sun.proxy.$Proxy.find", "JDK"),
        ("com.ibm.ws.Servlet.service", "com.ibm"),
        ("app.Orders.place", "app"),
        ("Main.main", "Main"),
        ("(no stack)", "(no stack)"),
    ],
)
def test_libraries_are_told_by_the_package(method: str, of: str) -> None:
    assert library(method) == of


def test_the_page_has_graphs_a_table_and_no_markup_of_a_method(tmp_path: Path) -> None:
    record, analysis = fake_study(tmp_path / "lab", replicates=1)
    shown = view.gather(record, analysis)
    assert shown.profile is not None
    text = render(shown)
    assert text.count('class="flames" data-flame=') == 2
    assert "QueryExecutorImpl.execute</div>" in text
    assert "Methods that ran most" in text
    assert NASTY not in text
    assert {shown.profile.colour(DRIVER), shown.profile.colour(MAP)} <= set(range(COLOURS))


def test_a_study_without_a_profile_says_how_to_take_one(tmp_path: Path) -> None:
    record, analysis = fake_study(tmp_path / "lab", replicates=1)
    for file in (tmp_path / "lab").rglob("series/profile.parquet"):
        file.unlink()
    assert trial_files.read(record.trials[0]).series.get("profile") is None
    text = render(view.gather(record, analysis))
    assert "<code>profile: true</code> in the study file" in text
    assert 'id="flame-graphs"' not in text
