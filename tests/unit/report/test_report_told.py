"""What the report says of the load, beneath the panels, and of what to try next."""

from typing import Any

import polars as pl
import pytest
from report_fixture import POOL, T0, fake_study

from leadline.model.knob import ApplyCost, Kind, Knob
from leadline.model.plan import PlannedTrial, Role, Treatment
from leadline.model.record import Phases, StudyRecord, TrialRecord
from leadline.model.result import StudyAnalysis
from leadline.model.workload import Workload
from leadline.report import page, view
from leadline.report.files import TrialFiles, read
from leadline.report.view import sentences
from leadline.report.words import load_text

KNOBS = {
    name: Knob(name, Kind.INTEGER, ApplyCost.RESTART, "")
    for name in (POOL, "server.threads.max", "server.datasource.statement_cache")
}


@pytest.mark.parametrize(
    ("load", "text"),
    [
        ({"users": 40}, "40 users"),
        ({"users": 1}, "1 user"),
        ({"arrivals": "open", "rate": 20}, "poisson arrivals at 20 sessions/s"),
        (
            {"arrivals": "constant", "rate": 2.5, "bursts": "2s/3s"},
            "constant arrivals at 2.5 sessions/s in bursts of 2s/3s",
        ),
        (
            {"arrivals": "open", "rate": 9, "bursts": "random:2s/3s"},
            "poisson arrivals at 9 sessions/s in bursts of 2s/3s (random)",
        ),
        ({"profile": "0s:10,60s:100"}, "users from 10 to 100 over 1m"),
        (
            {"arrivals": "open", "profile": "0s:5,30s:50,90s:5"},
            "poisson arrivals of sessions/s by a profile of 3 points over 1m30s, 5 to 50",
        ),
        ({"profile": "0s:25"}, "25 users"),
        ({"arrivals": "replay", "replay": "/somewhere/day.txt"}, "arrivals as recorded in day.txt"),
        (
            {"arrivals": "replay", "replay": "day.txt", "speed": 4},
            "arrivals as recorded in day.txt at 4 times its speed",
        ),
        (
            {"preset": "clients-threads", "clients": 30, "threads": 2},
            "60 users (30 clients x 2 threads) in the shape of WPT",
        ),
        ({"generator": {"name": "k6", "script": "a/shop.js"}}, "load by k6, shop.js"),
        ({"generator": "wrk"}, "load by wrk"),
    ],
)
def test_the_load_in_words(load: dict[str, Any], text: str) -> None:
    assert load_text(Workload.model_validate(load)) == text


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> tuple[StudyRecord, StudyAnalysis]:
    return fake_study(tmp_path_factory.mktemp("lab"), replicates=1)


def sampled(rows: dict[str, float | list[float]]) -> TrialFiles:
    """A trial of ten steady seconds with these metrics of one subject; a list is one value a second."""
    table = []
    for metric, value in rows.items():
        for second in range(10):
            now = value[second] if isinstance(value, list) else value
            table.append((int((T0 + second) * 1e9), metric, "http", float(now)))
    frame = pl.DataFrame(table, schema=["time_ns", "metric", "subject", "value"], orient="row")
    planned = PlannedTrial(0, 0, 0, Role.BASELINE, Treatment.of({}), 1)
    phases = Phases(T0, T0, T0 + 10, T0 + 10)
    return TrialFiles(TrialRecord(1, planned, "done"), series={"pools": frame}, phases=phases)


def test_18_of_50_threads_busy(study: tuple[StudyRecord, StudyAnalysis]) -> None:
    files = sampled({"threads.active": 18, "threads.size": 50, "threads.max": 50, "threads.queue": 0})
    assert sentences(study[0], files, KNOBS)["threads"] == (
        "http: 18 of 50 threads busy on average, 18 at most; nothing queued."
    )


def test_exhausted_threads_come_with_the_level_to_try(study: tuple[StudyRecord, StudyAnalysis]) -> None:
    files = sampled({"threads.active": 50, "threads.size": 50, "threads.max": 50, "threads.queue": 12})
    said = sentences(study[0], files, KNOBS)["threads"]
    assert said.startswith(
        "http: 50 of 50 threads busy on average, 50 at most; 12 tasks queued on average. Next to try:"
    )
    assert "server.threads.max = 80, as 50 served and 12 queued want 62 threads at once" in said


def test_a_server_that_tells_no_maximum(study: tuple[StudyRecord, StudyAnalysis]) -> None:
    said = sentences(study[0], sampled({"threads.active": 3, "threads.size": 16}), KNOBS)["threads"]
    assert said == "http: 3 of its 16 threads busy on average, 3 at most; it tells no maximum."


def test_discards_of_statements(study: tuple[StudyRecord, StudyAnalysis]) -> None:
    files = sampled(
        {
            "statements.uses": [1000.0 * second for second in range(10)],
            "statements.prepared": [400.0 * second for second in range(10)],
            "statements.discarded": [390.0 * second for second in range(10)],
            "statements.kept": 20,
        }
    )
    said = sentences(study[0], files, {})["statements"]
    assert said.startswith("Statements of http: 1,000 uses a second, 400 prepared, 390 discarded; 20 kept at the end.")
    calm = sampled({"statements.uses": [1000.0 * second for second in range(10)], "statements.discarded": 7})
    assert "none discarded" in sentences(study[0], calm, {})["statements"]


def test_the_page_holds_the_advice_and_the_pool_panel_the_next_level(
    study: tuple[StudyRecord, StudyAnalysis],
) -> None:
    record, analysis = study
    starved = next(t for t in record.trials if t.state == "done" and t.planned.treatment[POOL] == 1)
    said = sentences(record, read(starved), KNOBS)["pool"]
    assert "was starved: the only connection was in use in" in said
    assert f"Next to try: {POOL} = " in said
    calm = next(
        t for t in record.trials if t.state == "done" and t.planned.treatment[POOL] == 40 and t.planned.position != 5
    )
    assert "Next to try" not in sentences(record, read(calm), KNOBS).get("pool", "")
    text = page.render(view.gather(record, analysis, figures=False, knobs=KNOBS))
    assert '<h2 id="advice">What to try next</h2>' in text
    assert "server: connection pool too small" in text
    assert "Confirmed by pools-fake@3" in text
    assert "40 users ·" in text
