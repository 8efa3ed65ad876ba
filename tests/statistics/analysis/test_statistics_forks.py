"""Forks: worlds as blocks, no noise inside a world, effects that vary from world to world."""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from witnesses import matrix

from leadline.analysis.comparisons import EXACT
from leadline.analysis.forks import CONSTANT, NO_ORDER, ONE_WORLD
from leadline.analysis.study import analyse
from leadline.design.make import make_plan
from leadline.model.design import Design
from leadline.model.errors import FailureClass
from leadline.model.knob import ApplyCost
from leadline.model.plan import Factor, Plan
from leadline.model.result import Effect, Observation, ResponseAnalysis, Scope, Verdict
from leadline.planning.forecast import Setup, forecast
from leadline.planning.noise import assumed
from leadline.planning.power import precision_of

Effects = Mapping[str, float]
Draw = Callable[[np.random.Generator], float]
LONGER = matrix("some hundred simulated studies more")
STUDIES = 300  # Monte Carlo error of 5 %: 1.3 %


def live(name: str, levels: int = 2, cost: ApplyCost = ApplyCost.LIVE) -> Factor:
    return Factor(name, tuple(range(levels)), 0, apply_cost=cost)


def plan_of(*factors: Factor, worlds: int, of: str = "one-at-a-time") -> Plan:
    return make_plan(factors, Design.model_validate({"kind": "forks", "worlds": worlds, "of": of}))


def observed(plan: Plan, rng: np.random.Generator, spread: Mapping[str, Draw], effects: Effects) -> list[Observation]:
    """What forks give: the world's own level, and for each changed level its effect as it is in this world."""
    worlds: dict[int, float] = {}
    varies: dict[tuple[int, str, object], float] = {}
    found = []
    for trial in plan.trials:
        log = worlds.setdefault(trial.block, float(rng.normal(7.0, 0.05)))
        for name, level in trial.treatment.levels:
            if level != 0 and name in spread:
                key = (trial.block, name, level)
                log += effects.get(name, 0.0) + varies.setdefault(key, spread[name](rng))
        found.append(
            Observation(
                trial=trial.position + 1,
                position=trial.position,
                block=trial.block,
                replicate=trial.replicate,
                role=trial.role,
                treatment=trial.treatment,
                started=float(trial.position),
                responses={"throughput": math.exp(log)},
            )
        )
    return found


def normal(size: float) -> Draw:
    return lambda rng: float(rng.normal(0.0, size))


def analysed(plan: Plan, found: list[Observation], full: bool = False) -> ResponseAnalysis:
    return analyse(plan, found, ["throughput"], verdicts_only=not full).responses[0]


def by_name(one: ResponseAnalysis) -> dict[tuple[str, object], Effect]:
    return {(effect.factor, effect.level): effect for effect in one.effects}


def rates(plan: Plan, spread: Mapping[str, Draw], studies: int = STUDIES) -> tuple[float, float]:
    """Coverage of plain intervals, and the share of studies in which some simultaneous interval misses the truth."""
    rng = np.random.default_rng(20)
    effects = {name: 0.003 * at for at, name in enumerate(spread)}
    covered, wrong = [], 0
    for _ in range(studies):
        missed = False
        for effect in analysed(plan, observed(plan, rng, spread, effects)).effects:
            truth = 100 * math.expm1(effects[effect.factor])
            if effect.interval is None or effect.simultaneous is None:
                assert effect.reason in (CONSTANT, EXACT)  # the same difference in every world, by chance
                continue
            covered.append(effect.interval.contains(truth))
            missed |= not effect.simultaneous.contains(truth)
        wrong += missed
    return float(np.mean(covered)), wrong / studies


WIDE = {"a": 0.0002, "b": 0.001, "c": 0.002, "d": 0.02}  # settings differ a hundredfold in how they vary


@pytest.mark.parametrize(
    ("of", "worlds"),
    [
        ("one-at-a-time", 3),
        ("full-factorial", 5),
        *(pytest.param("one-at-a-time", worlds, marks=LONGER) for worlds in (5, 10)),
        *(pytest.param("full-factorial", worlds, marks=LONGER) for worlds in (3, 10)),
    ],
)
def test_intervals_hold_whatever_each_setting_does(of: str, worlds: int) -> None:
    names = list(WIDE)[: 4 if of == "one-at-a-time" else 3]
    plan = plan_of(*(live(name, 3 if name == "b" else 2) for name in names), worlds=worlds, of=of)
    coverage, family = rates(plan, {name: normal(WIDE[name]) for name in names}, STUDIES // 2)
    assert coverage == pytest.approx(0.95, abs=0.025)
    assert family <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / (STUDIES // 2))


def test_a_restart_that_starts_another_past_does_not_widen_the_others() -> None:
    plan = plan_of(live("heap", 2, ApplyCost.RESTART), live("a"), worlds=5)
    found = analysed(plan, observed(plan, np.random.default_rng(3), {"heap": normal(0.02), "a": normal(0.0002)}, {}))
    effects = by_name(found)
    width = {
        name: effect.interval.high - effect.interval.low for (name, _), effect in effects.items() if effect.interval
    }
    assert width["heap"] > 20 * width["a"]


@pytest.mark.parametrize(
    ("draw", "least"),
    [
        (lambda rng: float(rng.standard_t(3)) * 0.002, 0.93),  # heavy tails
        (lambda rng: (float(rng.exponential()) - 1) * 0.002, 0.85),  # skewed: the t interval is known to be short
        (lambda rng: 0.002 * float(rng.choice([-1.0, 1.0])), 0.80),  # two kinds of worlds
    ],
)
def test_where_worlds_do_not_differ_as_normal_figures_do(draw: Draw, least: float) -> None:
    coverage, _ = rates(plan_of(live("a"), live("b"), worlds=6), {"a": draw, "b": draw})
    assert coverage >= least


def test_in_complete_worlds_it_is_the_paired_t_test() -> None:
    plan = plan_of(live("a", 3), live("b"), worlds=6)
    found = observed(plan, np.random.default_rng(4), {"a": normal(0.002), "b": normal(0.01)}, {"a": 0.004})
    for effect in analysed(plan, found).effects:
        logs = {
            (one.block, dict(one.treatment.levels)[effect.factor]): math.log(one.responses["throughput"])
            for one in found
            if sum(level != 0 for _, level in one.treatment.levels) == (dict(one.treatment.levels)[effect.factor] != 0)
        }
        differences = [logs[world, effect.level] - logs[world, 0] for world in range(6)]
        assert effect.p_value == pytest.approx(stats.ttest_1samp(differences, 0.0).pvalue)
        assert effect.df == pytest.approx(5)


def test_what_gives_the_same_figure_in_every_world_is_identical() -> None:
    plan = plan_of(live("a"), live("nothing"), live("c"), worlds=4)
    found = observed(plan, np.random.default_rng(5), {"a": normal(0.001), "c": normal(0.001)}, {"a": 0.01, "c": -0.01})
    one = analysed(plan, found, full=True)
    assert [effect.factor for effect in one.effects] == ["a", "nothing", "c"]  # by size
    same = by_name(one)["nothing", 1]
    assert (same.verdict, same.percent, same.interval, same.simultaneous) == (Verdict.IDENTICAL, 0.0, None, None)
    assert same.reason == "the same figure to the last digit in all 4 worlds"
    alone = analysed(plan_of(live("a"), live("c"), worlds=4), _without(found, "nothing"))
    for name in ("a", "c"):  # the copies of the baseline's figures are no evidence
        for which in ("interval", "simultaneous"):
            wide, other = getattr(by_name(one)[name, 1], which), getattr(by_name(alone)[name, 1], which)
            assert (wide.low, wide.high) == pytest.approx((other.low, other.high))
    assert one.drift.sentence == NO_ORDER


def _without(found: list[Observation], name: str) -> list[Observation]:
    from leadline.model.plan import Treatment

    kept = [one for one in found if dict(one.treatment.levels)[name] == 0]
    return [
        replace(one, treatment=Treatment(tuple(pair for pair in one.treatment.levels if pair[0] != name)))
        for one in kept
    ]


def test_a_tie_in_some_worlds_is_not_identical() -> None:
    plan = plan_of(live("a"), live("b"), worlds=4)
    found = observed(plan, np.random.default_rng(6), {"a": normal(0.001), "b": normal(0.001)}, {})
    base = {one.block: one.responses for one in found if one.role.value == "baseline"}
    some = [replace(one, responses=base[one.block]) if one.block < 3 and one.treatment["b"] else one for one in found]
    effect = by_name(analysed(plan, some))["b", 1]
    assert effect.verdict is Verdict.EQUIVALENT
    assert effect.interval is not None
    assert effect.interval.low < 0 < effect.interval.high


def test_a_level_of_a_crossed_design_is_identical_only_with_all_other_levels() -> None:
    plan = plan_of(live("a"), live("b"), worlds=3, of="full-factorial")
    found = observed(plan, np.random.default_rng(7), {"a": normal(0.001)}, {"a": 0.01})
    assert by_name(analysed(plan, found))["b", 1].verdict is Verdict.IDENTICAL
    apart = [
        replace(one, responses={"throughput": one.responses["throughput"] * 1.001})
        if one.treatment["a"] and one.treatment["b"]
        else one
        for one in found
    ]
    assert by_name(analysed(plan, apart))["b", 1].verdict is not Verdict.IDENTICAL


def test_nothing_changes_anything() -> None:
    plan = plan_of(live("a"), live("b"), worlds=3)
    one = analysed(plan, observed(plan, np.random.default_rng(8), {}, {}), full=True)
    assert {effect.verdict for effect in one.effects} == {Verdict.IDENTICAL}
    constant = [
        replace(each, responses={"throughput": 5.0}) for each in observed(plan, np.random.default_rng(8), {}, {})
    ]
    assert {effect.verdict for effect in analysed(plan, constant).effects} == {Verdict.IDENTICAL}


@pytest.mark.parametrize("of", ["one-at-a-time", "full-factorial", "plackett-burman"])
def test_one_world_gives_differences_without_intervals(of: str) -> None:
    plan = plan_of(live("a"), live("b"), live("c"), worlds=1, of=of)
    spread = {name: normal(0.001) for name in "ab"}
    one = analysed(plan, observed(plan, np.random.default_rng(9), spread, {"a": 0.01}), full=True)
    assert one.reason == ONE_WORLD
    assert {effect.scope for effect in one.effects} == {Scope.THIS_WORLD}
    assert all(
        effect.interval is None and effect.simultaneous is None and effect.p_value is None for effect in one.effects
    )
    assert by_name(one)["a", 1].percent == pytest.approx(1.0, abs=0.5)
    assert by_name(one)["c", 1].verdict is Verdict.IDENTICAL
    assert {effect.verdict for effect in one.effects} == {Verdict.UNDETERMINED, Verdict.IDENTICAL}


def test_a_difference_that_is_the_same_in_every_world_is_told_without_an_interval() -> None:
    plan = plan_of(live("a"), worlds=3)
    found = [
        replace(one, responses={"throughput": 2.0**one.block * (1.5 if one.treatment["a"] else 1.0)})
        for one in observed(plan, np.random.default_rng(10), {}, {})
    ]
    effect = analysed(plan, found).effects[0]
    assert (effect.interval, effect.verdict) == (None, Verdict.UNDETERMINED)
    assert effect.percent == pytest.approx(50.0)
    plan = plan_of(live("a"), live("b"), worlds=3)
    found = observed(plan, np.random.default_rng(10), {"a": lambda _: 0.0, "b": normal(0.01)}, {"a": 0.01})
    effects = by_name(analysed(plan, found, full=True))
    assert (effects["a", 1].interval, effects["a", 1].reason) == (None, CONSTANT)
    assert effects["b", 1].interval is not None


def test_forks_that_failed_leave_their_worlds_out() -> None:
    plan = plan_of(live("a"), live("b"), worlds=6)
    found = observed(plan, np.random.default_rng(11), {"a": normal(0.002), "b": normal(0.002)}, {"a": 0.02})
    broken = [
        replace(one, responses={}, failure=FailureClass.CONFIGURATION) if one.treatment["b"] and one.block < 2 else one
        for one in found
    ]
    effects = by_name(analysed(plan, broken))
    assert effects["a", 1].verdict is Verdict.BETTER
    assert effects["b", 1].df == pytest.approx(5, abs=2)
    every = [
        replace(one, responses={}, failure=FailureClass.CONFIGURATION) if one.treatment["b"] else one for one in found
    ]
    assert by_name(analysed(plan, every))["b", 1].verdict is Verdict.FAILED


def test_many_worlds_are_swept_out_and_give_the_same() -> None:
    plan = plan_of(live("a"), worlds=60)
    found = observed(plan, np.random.default_rng(12), {"a": normal(0.002)}, {"a": 0.001})
    logs = {(one.block, one.treatment["a"]): math.log(one.responses["throughput"]) for one in found}
    differences = [logs[world, 1] - logs[world, 0] for world in range(60)]
    effect = analysed(plan, found).effects[0]
    assert effect.p_value == pytest.approx(stats.ttest_1samp(differences, 0.0).pvalue)


@pytest.mark.parametrize(("worlds", "of"), [(3, "one-at-a-time"), (5, "one-at-a-time"), (4, "full-factorial")])
def test_a_study_of_few_worlds_finds_what_is_forecast(worlds: int, of: str) -> None:
    """Its degrees of freedom are of worlds, not of forks."""
    plan, sigma = plan_of(live("a", 3), live("b", 3), worlds=worlds, of=of), 0.005
    found = precision_of(plan)
    assert not isinstance(found, str)
    size = found.smallest(sigma, 0.8)
    assert size is not None
    rng, hits, studies = np.random.default_rng(worlds), 0, 200
    for _ in range(studies):
        observations = [
            replace(one, responses={"throughput": one.responses["throughput"] * math.exp(rng.normal(0, sigma))})
            for one in observed(plan, rng, {"a": lambda _: 0.0}, {"a": size})
        ]
        hits += by_name(analysed(plan, observations))["a", 1].verdict is Verdict.BETTER
    assert hits / studies == pytest.approx(0.8, abs=3.5 * math.sqrt(0.16 / studies))


@pytest.mark.parametrize("of", ["one-at-a-time", "full-factorial"])
def test_of_one_world_nothing_is_forecast(of: str) -> None:
    plan = plan_of(live("a", 3), live("b", 3), worlds=1, of=of)
    assert precision_of(plan) == ONE_WORLD
    found = forecast(plan, assumed("throughput", 0.5, "given"), Setup(30.0, 30.0), effect=5.0)
    assert (found.smallest[0.8], found.reason) == (None, ONE_WORLD)
