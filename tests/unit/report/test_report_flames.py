"""Differential flame graphs, from the stacks that were sampled in a study."""

from dataclasses import replace
from pathlib import Path

import pytest
from report_fixture import CACHE, NASTY, POOL, fake_study

from leadline.analysis.frames import Recording, frame_effects
from leadline.model.frames import CODE, CONNECTION_WAIT, LevelWaits, StudyWaits
from leadline.report import view
from leadline.report.flames import Flame, Flames, waits
from leadline.report.page import render

DRIVER = "org.postgresql.core.v3.QueryExecutorImpl.execute"


@pytest.fixture(scope="module")
def content(tmp_path_factory: pytest.TempPathFactory) -> view.View:
    record, analysis = fake_study(tmp_path_factory.mktemp("profile") / "lab", replicates=4)
    return view.gather(record, analysis, figures=False)


@pytest.fixture(scope="module")
def flames(content: view.View) -> Flames:
    assert content.flames is not None
    return content.flames


def _level(flames: Flames, setting: str) -> Flame:
    return next(level for level in flames.levels if level.setting == setting)


def test_a_frame_that_a_level_loses_is_coloured_as_less(flames: Flames) -> None:
    frames = {frame.name: frame for frame in _level(flames, f"{POOL} = 1").frames}
    assert frames[DRIVER].tone == "down3"
    assert frames["JDBC driver"].tone == "down3"
    assert "QueryExecutorImpl.execute and below" in frames[DRIVER].title
    assert frames["all CPU"].width == 1


def test_frames_lie_within_their_callers(flames: Flames) -> None:
    for level in flames.levels:
        open_: list[tuple[float, float]] = []
        for frame in level.frames:
            del open_[frame.depth :]
            if open_:
                assert open_[-1][0] - 1e-9 <= frame.left
                assert frame.left + frame.width <= sum(open_[-1]) + 1e-9
            open_.append((frame.left, frame.width))


def test_a_change_that_is_none_is_grey(flames: Flames) -> None:
    assert {frame.tone for frame in _level(flames, f"{CACHE} = 0").frames} == {""}


def test_a_bar_is_the_cpu_of_its_layers(flames: Flames, content: view.View) -> None:
    base = next(response for response in content.analysis.responses if response.response == "cpu_per_transaction")
    assert base.baseline_mean is not None
    assert sum(layer.ms for layer in flames.bars["baseline"]) == pytest.approx(base.baseline_mean, rel=0.02)
    assert {"JDBC driver", "application"} <= {layer.layer for layer in flames.bars["baseline"]}
    assert "JDBC driver" not in {layer.layer for layer in flames.bars[f"{POOL} = 1"]}


def test_the_page_has_graphs_a_table_and_no_markup_of_a_method(content: view.View) -> None:
    text = render(content)
    assert text.count('<div class="flame"') == len(content.flames.levels if content.flames else ())
    assert "QueryExecutorImpl.execute</div>" in text
    assert NASTY not in text


def test_a_study_without_a_profile_says_how_to_take_one(tmp_path: Path) -> None:
    record, analysis = fake_study(tmp_path / "lab", replicates=1, profiled=False)
    assert analysis.profile is None
    assert "unless the study file has <code>profile: off</code>" in render(view.gather(record, analysis))


def test_the_page_tells_what_response_times_consist_of(content: view.View) -> None:
    recordings = [
        Recording({f"{CONNECTION_WAIT};Orders.place": 30.0 * treated + at, CODE: 2.0}, treated)
        for treated in (False, True)
        for at in (1.0, 1.1, 0.9)
    ]
    effects = replace(frame_effects(recordings, sampled=False), methods=())
    level = LevelWaits(POOL, 1, f"{POOL}=1", "p99", effects, f"{POOL}=1, p99: 30 ms {NASTY}.")
    tables = waits(content.record, StudyWaits((level,), ("the slowest",), ("a note",)))
    assert tables is not None
    assert {name: [part.layer for part in bar] for name, bar in tables.bars.items()} == {
        "baseline, p99": [CODE, CONNECTION_WAIT],
        f"{POOL} = 1, p99": [CODE, CONNECTION_WAIT],
    }
    assert tables.levels[0].rows[0][3] == "response time"
    text = render(replace(content, waits=tables)).replace("<wbr>", "")
    for words in ("Where the time goes", "waiting for a connection in Orders.place", "the slowest", "a note"):
        assert words in text
    assert NASTY not in text
