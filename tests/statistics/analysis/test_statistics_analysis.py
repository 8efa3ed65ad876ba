"""What the analysis says about studies with trouble: sentences, never NaN."""

from __future__ import annotations

import dataclasses
import math
import random
from collections.abc import Iterator, Mapping
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simulated_strata import SimulatedStrata, incomplete_plan, slots_plan, split_plot_plan
from simulated_study import SimulatedSystem, pseudo_factors

from leadline.analysis.comparisons import maximal_groups
from leadline.analysis.study import analyse
from leadline.conclude.answer import Facts, answer
from leadline.conclude.study import in_words
from leadline.design.make import make_plan
from leadline.model.design import Design
from leadline.model.errors import FailureClass
from leadline.model.judgement import Judgement
from leadline.model.knob import Level
from leadline.model.naming import Describe, plain_level
from leadline.model.plan import Factor, Plan
from leadline.model.result import Observation, StudyAnalysis, Verdict

FACTORS = [
    Factor("server.datasource.max_connections", (10, 2, 40), 10),
    Factor("jvm.heap", (512, 256), 512),
]
PLAN = make_plan(FACTORS, Design(replicates=3, sentinels=4))
CROSSED = make_plan(FACTORS, Design(kind="full-factorial", replicates=2, sentinels=4))
POOL = "server.datasource.max_connections"


def numbers(value: object) -> Iterator[float]:
    """Every number anywhere in a result."""
    if isinstance(value, float):
        yield value
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            yield from numbers(getattr(value, field.name))
    elif isinstance(value, Mapping):
        for part in value.values():
            yield from numbers(part)
    elif isinstance(value, tuple):
        for part in value:
            yield from numbers(part)


def said(result: StudyAnalysis, describe: Describe = plain_level) -> str:
    """The answer of a study that has finished."""
    words = tuple(in_words(one, describe) for one in result.responses)
    return answer(
        dataclasses.replace(result, responses=words),
        Facts(describe, Judgement(trials=result.trials, done=result.trials), 30.0),
    ).text


def sound(result: StudyAnalysis) -> StudyAnalysis:
    """No NaN, no infinity, no such word; a reason wherever a figure is missing; verdicts that their intervals bear."""
    assert all(math.isfinite(number) for number in numbers(result))
    text = " ".join([said(result), *result.warnings, *(r.drift.sentence for r in result.responses)])
    assert "nan" not in text.lower().split()
    assert "inf" not in text.lower().split()
    assert said(result).endswith(".")
    for response in result.responses:
        for effect in response.effects:
            if effect.percent is None or effect.interval is None:
                assert effect.reason
            if effect.simultaneous is not None and effect.interval is not None:
                slack = 1e-6 * (effect.interval.high - effect.interval.low)
                assert effect.simultaneous.low <= effect.interval.low + slack
                assert effect.interval.high <= effect.simultaneous.high + slack
                told = effect.verdict in (Verdict.BETTER, Verdict.WORSE)
                assert told == (not effect.simultaneous.contains(0.0))
    return result


def with_values(plan: Plan, value: float | Mapping[int, float], response: str = "throughput") -> list[Observation]:
    observations = SimulatedSystem().run(plan, 1)
    return [
        dataclasses.replace(o, responses={response: value[o.position] if isinstance(value, Mapping) else value})
        for o in observations
    ]


def only(result: StudyAnalysis, factor: str, level: Level) -> tuple[Verdict, str]:
    chosen = next(e for e in result.responses[0].effects if (e.factor, e.level) == (factor, level))
    return chosen.verdict, chosen.reason


FIGURES = st.one_of(
    st.none(),
    st.sampled_from(list(FailureClass)),
    st.floats(allow_nan=True, allow_infinity=True),
    st.floats(1, 1000),
    st.sampled_from([0.0, 100.0, 101.0]),
)


@settings(max_examples=80, deadline=None)
@given(st.data(), st.sampled_from([PLAN, CROSSED]), st.sampled_from(["throughput", "p99", "errors", "unheard of"]))
def test_no_failure_pattern_and_no_figure_gives_nan(data: st.DataObject, plan: Plan, response: str) -> None:
    observations = []
    for trial in SimulatedSystem().run(plan, 1):
        drawn = data.draw(FIGURES)
        if isinstance(drawn, FailureClass):
            observations.append(dataclasses.replace(trial, responses={}, failure=drawn))
        elif drawn is None and data.draw(st.booleans()):
            continue
        else:
            observations.append(dataclasses.replace(trial, responses={} if drawn is None else {response: drawn}))
    sound(analyse(plan, observations, [response]))


STRATA = [
    split_plot_plan(replicates=2, whole=2),
    slots_plan(trials=2, blocks_of_slots=3, levels=3),
    slots_plan(trials=4, blocks_of_slots=2, levels=2, heaps=2),
    incomplete_plan(),
    make_plan(pseudo_factors(4), Design(kind="fractional-factorial", replicates=2, sentinels=4)),
    make_plan(pseudo_factors(5), Design(kind="plackett-burman", replicates=1, sentinels=4)),
]


@settings(max_examples=60, deadline=None)
@given(st.data(), st.sampled_from(range(len(STRATA))), st.sampled_from(["throughput", "p99", "errors"]))
def test_no_trouble_in_any_stratum_gives_nan(data: st.DataObject, number: int, response: str) -> None:
    """Whatever part of a study with whole plots, slots, incomplete blocks or aliases is lost or strange."""
    observations = []
    share = data.draw(st.sampled_from([0.02, 0.3, 0.8]))
    chance = data.draw(st.randoms(use_true_random=False))
    for one in SimulatedStrata().run(STRATA[number], data.draw(st.integers(0, 99)), response):
        if chance.random() < share:
            drawn = data.draw(FIGURES)
            if isinstance(drawn, FailureClass):
                one = dataclasses.replace(one, responses={}, failure=drawn)
            elif drawn is None:
                continue
            else:
                one = dataclasses.replace(one, responses={response: drawn})
        observations.append(one)
    sound(analyse(STRATA[number], observations, [response]))


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10_000), st.floats(0, 0.6), st.sampled_from([PLAN, CROSSED]))
def test_the_order_of_observations_does_not_matter(seed: int, failing: float, plan: Plan) -> None:
    system = SimulatedSystem(failing={(POOL, 2): failing}, infrastructure=failing / 3)
    observations = system.run(plan, seed)
    shuffled = random.Random(seed).sample(observations, len(observations))
    assert analyse(plan, observations, ["throughput"]) == analyse(plan, shuffled, ["throughput"])


def test_every_unfinished_study_says_something() -> None:
    observations = SimulatedSystem().run(PLAN, 5)
    for done in range(len(observations)):
        result = sound(analyse(PLAN, observations[:done], ["throughput", "p99"]))
        assert "have not finished" in result.warnings[0]


def test_the_answer_names_effect_interval_and_what_could_have_been_found() -> None:
    result = analyse(PLAN, SimulatedSystem(effects={(POOL, 2): 0.62}).run(PLAN, 3), ["throughput"])
    assert said(result).startswith(f"{POOL}=2 hurts: throughput \u2212")
    assert "Not known: throughput of " in said(result)
    assert f"half of that takes at most {4 * result.trials} trials, about " in said(result)


def test_the_answer_holds_the_best_against_luck() -> None:
    faster = SimulatedSystem(effects={(POOL, 40): 1.3})
    told = said(analyse(PLAN, faster.run(PLAN, 3), ["throughput"]))
    assert f"{POOL}=40 helps: throughput +" in told
    assert "luck alone" in told
    assert "fresh trials" in told
    null = said(analyse(PLAN, SimulatedSystem().run(PLAN, 3), ["throughput"]))
    assert null.startswith("No change of throughput is distinguishable from noise")


def test_levels_are_written_with_their_unit() -> None:
    system = SimulatedSystem(effects={("jvm.heap", 256): 0.5})
    result = analyse(PLAN, system.run(PLAN, 3), ["throughput"], describe=lambda _knob, level: f"{level}m")
    assert said(result, lambda _knob, level: f"{level}m").startswith("jvm.heap=256m hurts")
    assert any("jvm.heap=256m" in group for group in result.responses[0].groups)


def test_lower_is_better_for_latencies() -> None:
    system = SimulatedSystem(effects={(POOL, 2): 2.0, ("jvm.heap", 256): 0.5})
    result = sound(analyse(PLAN, system.run(PLAN, 2, "p99"), ["p99"]))
    assert only(result, POOL, 2)[0] is Verdict.WORSE
    assert only(result, "jvm.heap", 256)[0] is Verdict.BETTER
    assert result.responses[0].effects[0].factor == "jvm.heap"
    assert result.responses[0].groups[0] == ("jvm.heap=256",)
    assert "jvm.heap=256 helps: p99 \u2212" in said(result)


def test_a_level_whose_trials_all_failed_is_a_result() -> None:
    result = sound(analyse(PLAN, SimulatedSystem(failing={(POOL, 2): 1.0}).run(PLAN, 1), ["throughput"]))
    verdict, reason = only(result, POOL, 2)
    assert verdict is Verdict.FAILED
    assert reason == "all 3 trials failed (configuration 3)"
    assert result.failures == {"configuration": 3}
    assert f"Every trial of {POOL}=2 failed (configuration)" in said(result)
    assert result.responses[0].effects[-1].level == 2


def test_a_level_that_fails_more_often_is_warned_of_and_a_lost_network_is_not() -> None:
    plan = make_plan(FACTORS, Design(replicates=8))
    system = SimulatedSystem(failing={(POOL, 40): 0.9})
    blamed = analyse(plan, system.run(plan, 2), ["throughput"])
    assert any(f"{POOL}=40 fails more often" in warning for warning in blamed.warnings)
    excused = [
        dataclasses.replace(o, failure=FailureClass.INFRASTRUCTURE if o.failure else None) for o in system.run(plan, 2)
    ]
    assert not any("fails more often" in warning for warning in analyse(plan, excused, ["throughput"]).warnings)


def test_all_failed() -> None:
    broken = SimulatedSystem(infrastructure=1.0).run(PLAN, 1)
    result = sound(analyse(PLAN, broken, ["throughput"]))
    assert result.responses[0].reason.startswith(f"all {len(broken)} trials failed; ")
    # a lost host judges no setting
    assert {effect.verdict for effect in result.responses[0].effects} == {Verdict.UNDETERMINED}


def test_a_constant_response_is_not_an_estimate() -> None:
    for value, response in ((0.0, "errors"), (7.0, "throughput")):
        result = sound(analyse(PLAN, with_values(PLAN, value, response), [response]))
        assert "the same figure" in result.responses[0].reason
        assert result.responses[0].baseline_mean == pytest.approx(value)


def test_repeats_without_any_noise_get_no_interval() -> None:
    values = {t.position: 100.0 if t.treatment[POOL] == 10 else 90.0 for t in PLAN.trials}
    result = sound(analyse(PLAN, with_values(PLAN, values), ["throughput"]))
    effect = next(e for e in result.responses[0].effects if e.level == 2)
    assert effect.percent == pytest.approx(-10)
    assert effect.interval is None
    assert "no noise" in effect.reason


def test_the_blocks_behind_a_baseline_interval_are_counted() -> None:
    everything = SimulatedSystem().run(PLAN, 1)
    for blocks in (1, 2, 3):
        kept = [o for o in everything if PLAN.trials[o.position].block < blocks]
        found = sound(analyse(PLAN, kept, ["throughput"])).responses[0]
        assert found.baseline_blocks == blocks
        theirs = [t for t in PLAN.trials if t.treatment == PLAN.baseline and t.block < blocks]
        assert found.baseline_trials == len(theirs)


def test_one_trial_of_each_gives_no_interval_and_says_what_would() -> None:
    first = {t.treatment: t.position for t in reversed(PLAN.trials) if t.block == 0}
    kept = [o for o in SimulatedSystem().run(PLAN, 1) if o.position in first.values()]
    result = sound(analyse(PLAN, kept, ["throughput"]))
    assert "replicates, or sentinels" in result.responses[0].effects[0].reason
    assert result.responses[0].effects[0].percent is not None


def test_lost_baseline_trials_are_named() -> None:
    kept = [o for o in SimulatedSystem().run(PLAN, 1) if o.treatment != PLAN.baseline]
    result = sound(analyse(PLAN, kept, ["throughput"]))
    assert "no baseline trial" in result.responses[0].reason


def test_errors_from_zero_have_a_verdict_without_a_percentage() -> None:
    values = {t.position: 0.05 + 0.001 * t.block if t.treatment[POOL] == 2 else 0.0 for t in PLAN.trials}
    result = sound(analyse(PLAN, with_values(PLAN, values, "errors"), ["errors"]))
    verdict, reason = only(result, POOL, 2)
    assert verdict is Verdict.WORSE
    assert "the baseline is zero" in reason


def test_shares_are_compared_as_percent_of_the_baseline() -> None:
    values = {t.position: (0.04 if t.treatment[POOL] == 2 else 0.02) + 1e-4 * (t.position % 3) for t in PLAN.trials}
    result = sound(analyse(PLAN, with_values(PLAN, values, "gc_share"), ["gc_share"]))
    effect = next(e for e in result.responses[0].effects if e.level == 2)
    assert effect.percent == pytest.approx(100, abs=3)
    assert effect.verdict is Verdict.WORSE


def test_full_factorial_finds_main_effects_and_the_interaction() -> None:
    factors = pseudo_factors(3)
    plan = make_plan(factors, Design(kind="full-factorial", replicates=4))
    together = frozenset({("pseudo1", "b"), ("pseudo2", "b")})
    system = SimulatedSystem(effects={("pseudo3", "b"): 0.8}, crossed={together: 1.44}, cv=0.03)
    result = sound(analyse(plan, system.run(plan, 1), ["throughput"]))
    mains = {e.factor: e for e in result.responses[0].effects}
    crossed = {e.factor: e for e in result.responses[0].interactions}
    # averaged over the other factor's two levels, a ratio of 1.44 at one of them is 1.2
    assert mains["pseudo1"].percent == pytest.approx(20, abs=5)
    assert mains["pseudo3"].percent == pytest.approx(-20, abs=4)
    assert crossed["pseudo1 x pseudo2"].percent == pytest.approx(44, abs=8)
    assert crossed["pseudo1 x pseudo2"].verdict is Verdict.BETTER
    assert crossed["pseudo1 x pseudo3"].verdict is Verdict.UNDETERMINED
    assert "pseudo1=b helps only with pseudo2=b (throughput +4" in said(result)


def test_drift_is_warned_of_and_taken_out() -> None:
    plan = make_plan(pseudo_factors(6), Design(replicates=5))
    result = sound(analyse(plan, SimulatedSystem(drift=1.0, block_cv=0.0).run(plan, 1), ["throughput"]))
    drift = result.responses[0].drift
    assert drift.detected
    assert drift.percent is not None
    assert drift.hours is not None
    assert (1 + drift.percent / 100) ** (1 / drift.hours) == pytest.approx(2.0, abs=0.4)  # doubles in an hour
    assert any("straight line over time was taken out" in warning for warning in result.warnings)


def test_responses_that_drift_together_share_a_warning() -> None:
    plan = make_plan(pseudo_factors(6), Design(replicates=5))
    system = SimulatedSystem(drift=1.0, block_cv=0.0)
    both = [
        replace(one, responses=one.responses | {"p90": 1.01 * one.responses["throughput"]})
        for one in system.run(plan, 1)
    ]
    result = sound(analyse(plan, both, ["throughput", "p90"]))
    assert all(response.drift.detected for response in result.responses)
    (warning,) = [text for text in result.warnings if "detects a drift" in text]
    assert warning.endswith("a straight line over time was taken out. The same holds for p90.")


def test_groups_are_the_largest_sets_without_a_difference() -> None:
    assert maximal_groups([], 3) == [frozenset({0, 1, 2})]
    assert set(maximal_groups([(0, 2), (0, 3), (1, 3)], 4)) == {frozenset({0, 1}), frozenset({1, 2}), frozenset({2, 3})}


@settings(max_examples=60, deadline=None)
@given(st.sets(st.tuples(st.integers(0, 6), st.integers(0, 6)).filter(lambda pair: pair[0] < pair[1])))
def test_groups_cover_every_pair_that_does_not_differ(different: set[tuple[int, int]]) -> None:
    groups = maximal_groups(sorted(different), 7)
    together = {(i, j) for group in groups for i in group for j in group if i < j}
    assert together == {(i, j) for i in range(7) for j in range(i + 1, 7)} - different
    assert not any(one < other for one in groups for other in groups)
    assert set().union(*groups) == set(range(7))


def test_responses_are_told_apart_by_kind_of_failure_to_measure() -> None:
    result = sound(analyse(PLAN, SimulatedSystem().run(PLAN, 1), ["throughput", "startup", "throughput"]))
    assert [response.response for response in result.responses] == ["throughput", "startup"]
    assert result.responses[1].reason == "no trial gave a figure for startup"
