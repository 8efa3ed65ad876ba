"""Checks of findings by studies, the study that would check them, and the command over a stored lab."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import report_fixture
from report_fixture import fake_study

from leadline.advice import Finding, checked
from leadline.advice.check import checking_study, document, status
from leadline.checks.files.study import parse_study
from leadline.model.errors import UsageError
from leadline.model.knob import ApplyCost, Kind, Knob, Level
from leadline.model.plan import Factor, Plan, PlannedTrial, Role, Treatment
from leadline.model.record import StudyRecord
from leadline.model.result import Drift, Effect, Interval, ResponseAnalysis, StudyAnalysis, Verdict
from leadline.model.study import Study
from leadline.report.advising import advice, lines
from leadline.report.files import read
from leadline.report.observed import observed

POOL = "server.datasource.max_connections"
KNOBS = {
    POOL: Knob(POOL, Kind.INTEGER, ApplyCost.RESTART, "a pool", default=8, minimum=1, maximum=10_000),
    "jvm.heap": Knob("jvm.heap", Kind.SIZE, ApplyCost.RESTART, "the heap"),
}
DRIFT = Drift(None, None, None, None, False, "no drift")


def finding(now: Level = 10, then: Level = 50, **more: Any) -> Finding:
    found = Finding(
        "server.pool", "server.pool", "server", "connection pool too small", "jdbc/x", "all were in use", 3, (),
        ("baseline",), 3, 3, ("throughput", "p50"), POOL, now, None, then, "they wait",
    )  # fmt: skip
    return replace(found, **more)


def study(factors: dict[str, list[Any]] | None = None, **more: Any) -> Study:
    content = {"study": "pools", "question": "?", "workload": {"users": 40}, "settings": {"jvm.heap": "256m"}}
    return Study.model_validate({**content, "factors": factors or {POOL: [10, 50]}, **more})


def result(
    levels: Sequence[Level], effects: Sequence[tuple[Level, str, float, float, float, Verdict]], **more: Any
) -> tuple[StudyRecord, StudyAnalysis]:
    """A study of the pool, its first level the baseline; effects: level, response, percent, low, high, verdict."""
    factor = Factor(POOL, tuple(levels), levels[0])
    planned = PlannedTrial(0, 0, 0, Role.BASELINE, Treatment.of({POOL: levels[0]}), 1)
    plan = Plan("one-at-a-time", 1, (factor,), (planned,), ())
    one = StudyRecord(7, study({POOL: list(levels)}, **more), "", plan, 0.0, {}, ())
    found = [
        ResponseAnalysis(
            response, 1.0, None, 3,
            tuple(
                Effect(POOL, level, levels[0], name, verdict, 5, 0, percent, None, Interval(low, high), 0.01, 0.02)
                for level, name, percent, low, high, verdict in effects
                if name == response
            ),
            None, DRIFT, (), None, None,
        )
        for response in dict.fromkeys(name for _, name, *_ in effects)
    ]  # fmt: skip
    return one, StudyAnalysis(tuple(found), 10, {}, "")


def check(results: list[tuple[StudyRecord, StudyAnalysis]], one: Finding | None = None) -> list[Any]:
    return checked(one or finding(), study(), {"jvm.heap": 256 << 20, POOL: 10}, results, KNOBS)


def test_no_study_is_no_check() -> None:
    assert check([]) == []
    assert status([]) == "suggestion"


def test_a_better_response_confirms() -> None:
    (found,) = check([result([10, 50], [(50, "throughput", 12.0, 8.0, 16.0, Verdict.BETTER)])])
    assert (found.status, found.run, found.percent) == ("confirmed", "pools@7", 12.0)
    assert found.interval == Interval(8.0, 16.0)
    assert "50 instead of 10 changes throughput by +12.0 % [+8.0, +16.0], better" in found.sentence
    assert status([found]) == "confirmed"
    (wide,) = check([result([10, 50], [(50, "throughput", -30.0, -90.0, 7e6, Verdict.UNDETERMINED)])])
    assert "by \u221230.0 % with an interval beyond tenfold: the interval allows both" in wide.sentence


def test_levels_are_said_with_their_unit() -> None:
    small, large = 64 << 20, 256 << 20
    record, analysis = result([10, 50], [(50, "throughput", 12.0, 8.0, 16.0, Verdict.BETTER)])
    trial = replace(record.plan.trials[0], treatment=Treatment.of({"jvm.heap": small}))
    plan = replace(record.plan, factors=(Factor("jvm.heap", (small, large), small),), trials=(trial,))
    (effect,) = analysis.responses[0].effects
    effect = replace(effect, factor="jvm.heap", level=large, baseline=small)
    analysis = replace(analysis, responses=(replace(analysis.responses[0], effects=(effect,)),))
    heap = finding(small, large, name="jvm.heap", knob="jvm.heap")
    whole = replace(record, study=study({"jvm.heap": ["64m", "256m"]}, settings={}), plan=plan)
    (found,) = checked(heap, study(settings={}), {"jvm.heap": small}, [(whole, analysis)], KNOBS)
    assert "jvm.heap 256m instead of 64m changes throughput" in found.sentence


def test_the_other_way_round_is_turned() -> None:
    """The study's baseline is the level to try: one connection fewer cost 50 % there, so more gain 100 %."""
    (found,) = check([result([50, 10], [(10, "throughput", -50.0, -60.0, -37.5, Verdict.WORSE)])])
    assert found.status == "confirmed"
    assert found.percent == pytest.approx(100.0)
    assert found.interval is not None
    assert (found.interval.low, found.interval.high) == pytest.approx((60.0, 150.0))


def test_one_response_that_is_worse_refutes() -> None:
    effects = [
        (50, "throughput", 12.0, 8.0, 16.0, Verdict.BETTER),
        (50, "p50", 30.0, 20.0, 41.0, Verdict.WORSE),
    ]
    (found,) = check([result([10, 50], effects)])
    assert (found.status, found.response) == ("not confirmed", "p50")


def test_no_difference_refutes_and_noise_leaves_it_open() -> None:
    (found,) = check([result([10, 50], [(50, "throughput", 0.1, -1.0, 1.0, Verdict.EQUIVALENT)])])
    assert found.status == "not confirmed"
    assert "no difference that matters" in found.sentence
    (found,) = check([result([10, 50], [(50, "throughput", 3.0, -1.0, 7.0, Verdict.UNDETERMINED)])])
    assert found.status == "open"
    assert status([found]) == "open"


def test_a_response_that_the_change_is_not_meant_for_says_nothing() -> None:
    assert check([result([10, 50], [(50, "startup", 12.0, 8.0, 16.0, Verdict.WORSE)])]) == []


def test_the_nearest_level_of_the_same_direction_counts() -> None:
    effects = [(level, "throughput", float(level), 1.0, 99.0, Verdict.BETTER) for level in (2, 20, 40, 200)]
    (found,) = check([result([10, 2, 20, 40, 200], effects)])
    assert found.level == 40
    assert check([result([10, 2], effects)]) == []
    assert check([result([2, 50], effects)]) == [], "the level it had is not in the study"


def test_no_limit_is_more_than_any_number() -> None:
    one = finding(100, -1)
    effects = [(level, "throughput", 5.0, 1.0, 9.0, Verdict.BETTER) for level in (1, 10_000)]
    (found,) = check([result([100, 1, 10_000], effects)], one)
    assert found.level == 10_000


@pytest.mark.parametrize(
    "more",
    [
        {"workload": {"users": 80}},
        {"settings": {"jvm.heap": "512m"}},
        {"settings": {"jvm.heap": "256m", "vm.swappiness": 1}},
        {"stack": {"server": "tomcat"}},
    ],
)
def test_another_stack_load_or_setting_is_another_question(more: dict[str, Any]) -> None:
    better = [(50, "throughput", 12.0, 8.0, 16.0, Verdict.BETTER)]
    assert check([result([10, 50], better, **more)]) == []


def test_the_same_level_in_another_spelling_is_the_same() -> None:
    better = [(50, "throughput", 12.0, 8.0, 16.0, Verdict.BETTER)]
    assert len(check([result([10, 50], better, settings={"jvm.heap": 256 << 20})])) == 1


def test_the_study_that_would_check() -> None:
    heap = finding(64 << 20, 256 << 20, name="jvm.heap", knob="jvm.heap", responses=("gc_share",))
    held = {"jvm.heap": "64m", "vm.swappiness": 60}
    found = checking_study([finding(), heap], "pools@7", study(responses=["p50"]), held, KNOBS, 5)
    text = json.dumps(found)
    parsed = parse_study(text, "check.yaml").study
    assert parsed.factors == {POOL: [10, 50], "jvm.heap": ["64m", "256m"]}
    assert parsed.settings == {"vm.swappiness": 60}
    assert parsed.workload.users == 40
    assert parsed.design.seed == 5
    assert parsed.responses == ["p50", "throughput", "gc_share"]


def test_what_cannot_be_checked_says_why() -> None:
    with pytest.raises(UsageError, match="no setting to try: mend it"):
        checking_study([finding(then=None, remedy="mend it")], "r", study(), {}, KNOBS, 1)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"two findings concern server\.datasource\.max_connections: choose one"):
        checking_study([finding(), finding(name="server.pool.2")], "r", study(), {}, KNOBS, 1)
    with pytest.raises(UsageError, match="nothing to check"):
        checking_study([], "r", study(), {}, KNOBS, 1)


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> tuple[StudyRecord, StudyAnalysis]:
    """Of the pool sizes 10, 1, 2 and 40 only 1 is starved, and it halves the throughput."""
    return fake_study(tmp_path_factory.mktemp("lab"), replicates=2)


def test_facts_are_what_was_planted(planted: tuple[StudyRecord, StudyAnalysis]) -> None:
    record, _ = planted
    done = [read(trial) for trial in record.trials]
    found = observed(record, done, KNOBS)
    assert len(found) == sum(trial.state == "done" for trial in record.trials)
    starved = next(one for one in found if one.levels[POOL] == 1)
    assert starved.samples >= 25
    assert starved.pools[0].full_share == 1.0
    assert starved.pools[0].waiting_mean == pytest.approx(14, abs=3)
    assert starved.threads[0].limit is None
    assert starved.host.idle == pytest.approx(0.64, abs=0.05)
    assert starved.load.dropped == 0
    assert starved.load.limit is False
    assert starved.levels["jvm.heap"] == 512 << 20


def test_the_planted_pool_is_the_one_pool_that_is_found(planted: tuple[StudyRecord, StudyAnalysis]) -> None:
    record, analysis = planted
    found = advice(record, KNOBS, analyse=lambda _: analysis)
    pools = [one for one in found.findings if one.rule == "server.pool"]
    assert [(one.now, one.seen == one.trials) for one in pools] == [(1, True)]
    (checks,) = [found.checks[one.name] for one in pools]
    assert [check.status for check in checks] == ["confirmed"]
    assert checks[0].level == 10, "the study's own baseline is what it can be held against"
    text = "\n".join(lines(found, found.findings, {}))
    assert f"Try {POOL} = " in text
    assert "Confirmed by pools-fake@3" in text
    content = document(found.run, found.trials, found.findings, found.checks, {})
    assert json.loads(json.dumps(content, allow_nan=False))["findings"][0]["status"] == "confirmed"


def test_the_written_study_holds_the_levels_under_which_it_was_found(
    planted: tuple[StudyRecord, StudyAnalysis],
) -> None:
    record, _ = planted
    found = advice(record, KNOBS)
    one = next(each for each in found.findings if each.rule == "server.pool")
    written = found.study([one])
    assert written["factors"][POOL][0] == 1
    assert written["settings"][report_fixture.HEAP] == "512m"
    assert POOL not in written["settings"]


def test_a_name_that_is_no_finding(planted: tuple[StudyRecord, StudyAnalysis]) -> None:
    found = advice(planted[0], KNOBS)
    with pytest.raises(UsageError, match=r"did you mean server\.pool\?"):
        found.chosen(["server.pol"])


def test_a_study_without_trials_says_so(planted: tuple[StudyRecord, StudyAnalysis]) -> None:
    found = advice(replace(planted[0], trials=()), KNOBS)
    assert lines(found, [], {})[-1].endswith("there is nothing to analyse.")
