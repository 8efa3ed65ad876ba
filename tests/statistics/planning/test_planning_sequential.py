"""Whole sequential studies, simulated: error rates, power, trials saved."""

import math
import sys
from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from group_sequential import spending_bounds
from scipy import stats
from simulated_study import SimulatedSystem, pseudo_factors
from witnesses import matrix

from leadline.analysis.study import analyse
from leadline.design.make import make_plan
from leadline.layouts import switchback_plan
from leadline.model.design import Design, Switchback
from leadline.model.errors import UsageError
from leadline.model.knob import ApplyCost, Level
from leadline.model.plan import Factor, Plan, Role, Treatment
from leadline.model.result import Observation, StudyAnalysis, Verdict
from leadline.model.workload import Workload
from leadline.places.simulated import Model, Truth, simulate_observations
from leadline.planning.boundary import boundary_of
from leadline.planning.looks import Look, State, conditional_power, due, look, schedule
from leadline.planning.power import precision_of

LONGER = matrix("some hundred simulated studies more")

STUDIES = 150


def sequential(plan: Plan, observations: Sequence[Observation], looks: int) -> tuple[Look, list[Observation]]:
    """A study with looks as the lab runs it: the last look, and the trials that were run until then."""
    blocks = schedule(plan, looks)
    ran: list[Observation] = []
    gone: set[Treatment] = set()
    for number in range(1, len(blocks) + 1):
        low = blocks[number - 2] if number > 1 else 0
        ran += [
            each
            for each in observations
            if low <= each.block < blocks[number - 1] and not (each.role is Role.TREATMENT and each.treatment in gone)
        ]
        found = look(plan, ran, "throughput", blocks, number)
        if found.stop:
            break
        gone = set(found.drop)
    return found, ran


def repeated(plan: Plan, ran: Sequence[Observation], blocks: Sequence[int], number: int) -> StudyAnalysis:
    """The analysis as the results show it after a look."""
    strict = boundary_of(plan, ran, "throughput", blocks, number).interim(number)
    return analyse(plan, ran, ["throughput"], interim=lambda _: strict)


def test_null_studies_end_early_and_keep_the_error_rate() -> None:
    plan = make_plan(pseudo_factors(4), Design(replicates=6, sentinels=None))
    wrong, trials = 0, 0
    for seed in range(STUDIES):
        found, ran = sequential(plan, SimulatedSystem(cv=0.04).run(plan, 10_000 + seed), 3)
        wrong += any(each.state in (State.BETTER, State.WORSE) for each in found.settlings)
        trials += len(ran)
    assert wrong / STUDIES <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / STUDIES)
    assert trials / STUDIES < 0.8 * len(plan.trials)


def test_large_effects_are_found_with_fewer_trials_and_small_ones_are_not_lost() -> None:
    """Two true effects of +15 and -12 %, two nulls: all found, in fewer trials than the plan has."""
    plan = make_plan(pseudo_factors(4), Design(replicates=9, sentinels=None))
    effects: dict[tuple[str, Level], float] = {("pseudo1", "b"): 1.15, ("pseudo2", "b"): 0.88}
    both, trials, wrong = 0, 0, 0
    for seed in range(14):
        observations = SimulatedSystem(effects=effects, cv=0.04).run(plan, seed)
        found, ran = sequential(plan, observations, 3)
        states = {each.comparison.factor: each.state for each in found.settlings}
        both += states["pseudo1"] is State.BETTER and states["pseudo2"] is State.WORSE
        wrong += any(states[name] in (State.BETTER, State.WORSE) for name in ("pseudo3", "pseudo4"))
        trials += len(ran)
    assert both >= 13
    assert wrong <= 3
    assert trials / 14 < 0.75 * len(plan.trials)


@LONGER
def test_repeated_intervals_cover_whatever_rule_ended_the_study() -> None:
    """Simultaneous intervals after stopping, widened for the looks: all true effects covered in 95 % of studies."""
    plan = make_plan(pseudo_factors(3), Design(replicates=6, sentinels=None))
    truth = {"pseudo1": 8.0, "pseudo2": 0.0, "pseudo3": -4.0}
    effects: dict[tuple[str, Level], float] = {(name, "b"): 1 + value / 100 for name, value in truth.items()}
    blocks = schedule(plan, 3)
    covered = 0
    for seed in range(60):
        found, ran = sequential(plan, SimulatedSystem(effects=effects, cv=0.04).run(plan, 500 + seed), 3)
        analysis = repeated(plan, ran, blocks, found.number)
        ranges = {each.factor: each.simultaneous for each in analysis.responses[0].effects}
        covered += all(
            (interval := ranges[name]) is not None and interval.contains(value) for name, value in truth.items()
        )
    assert covered / 60 >= 0.95 - 3 * math.sqrt(0.05 * 0.95 / 60)


def test_the_adjusted_analysis_and_the_look_agree() -> None:
    plan = make_plan(pseudo_factors(3), Design(replicates=6, sentinels=None))
    blocks = schedule(plan, 2)
    for seed in range(20):
        observations = SimulatedSystem(effects={("pseudo1", "b"): 1.07}, cv=0.03).run(plan, seed)
        found = look(plan, observations, "throughput", blocks, 2)
        analysis = repeated(plan, observations, blocks, 2)
        for settling in found.settlings:
            effect = next(e for e in analysis.responses[0].effects if e.factor == settling.comparison.factor)
            assert effect.simultaneous is not None
            assert settling.interval is not None
            assert effect.simultaneous.low == pytest.approx(settling.interval.low, abs=0.02)
            assert effect.simultaneous.high == pytest.approx(settling.interval.high, abs=0.02)
            assert effect.verdict is settling.verdict
            assert effect.p_adjusted is not None
            assert effect.q_value == effect.p_adjusted
            assert (effect.p_adjusted <= 0.05) == (effect.verdict in (Verdict.BETTER, Verdict.WORSE))


def test_a_look_before_anything_can_be_said_goes_on() -> None:
    plan = make_plan(pseudo_factors(2), Design(replicates=3, sentinels=None))
    observations = SimulatedSystem(cv=0.04).run(plan, 3)
    found = look(plan, [each for each in observations if each.block < 1], "throughput", schedule(plan, 3), 1)
    assert not found.stop
    assert all(each.interval is None and each.state is State.OPEN for each in found.settlings)
    assert not look(plan, [], "throughput", schedule(plan, 3), 1).stop


def test_a_level_whose_trials_all_failed_stays_open() -> None:
    plan = make_plan(pseudo_factors(2), Design(replicates=4, sentinels=None))
    system = SimulatedSystem(cv=0.04, failing={("pseudo1", "b"): 1.0})
    found = look(plan, system.run(plan, 3), "throughput", schedule(plan, 2), 2)
    settling = next(each for each in found.settlings if each.comparison.factor == "pseudo1")
    assert settling.percent is None
    assert settling.state is State.OPEN
    assert found.stop


def test_a_margin_settles_what_makes_no_difference() -> None:
    plan = make_plan(pseudo_factors(2), Design(replicates=8, sentinels=None))
    observations = SimulatedSystem(cv=0.005).run(plan, 3)
    blocks = schedule(plan, 2)
    found = look(plan, [each for each in observations if each.block < 4], "throughput", blocks, 1, margin=5.0)
    assert found.stop
    assert {each.state for each in found.settlings} == {State.SAME}


def test_conditional_power() -> None:
    # half the information, nothing seen yet, one standard error of optimism
    now, end = 1.0, math.sqrt(0.5)
    assert conditional_power(0.0, now, end, 2.0, optimism=0.0) == pytest.approx(
        2 * 0.5 * math.erfc(2.0 * end / math.sqrt(0.25) / math.sqrt(2)), rel=1e-9
    )
    assert conditional_power(3.0, now, end, 2.0) > 0.99
    assert conditional_power(2.0, now, now, 1.9) == 1.0
    assert conditional_power(1.0, now, now, 1.9) == 0.0


def test_looks_come_after_blocks() -> None:
    plan = make_plan(pseudo_factors(2), Design(replicates=7, sentinels=None))
    assert schedule(plan, 3) == (2, 5, 7)
    assert schedule(plan, 1) == (7,)
    assert schedule(plan, 7) == tuple(range(1, 8))
    assert [due(plan, [block], (2, 5, 7)) for block in range(7)] == [0, 0, 1, 1, 1, 2, 2]
    assert due(plan, [], (2, 5, 7)) == 3
    with pytest.raises(UsageError, match="8 interim analyses need 8 blocks, and this plan has 7"):
        schedule(plan, 8)


LOAD = Workload(users=20, ramp_up=5, steady=90)
NOISE = {"trials": 0.05, "seconds": 0.05, "autocorrelation": 0.5}
LIVE = [Factor(f"vm.k{number}", (0, 1), 0, apply_cost=ApplyCost.LIVE) for number in (1, 2)]
SLOTLOOKS_STUDIES = 24
FOUND = (State.BETTER, State.WORSE)


def plan_of(factors: list[Factor], replicates: int = 6) -> Plan:
    design = Design(replicates=replicates, sentinels=None, switchback=Switchback(slot=6, wash_out=1))
    return switchback_plan(factors, design, LOAD)


def played(plan: Plan, truth: Truth, model: Model, seed: int) -> tuple[dict[str, State], int]:
    """A study with three looks as the lab runs it: what is called of each factor, and instances that were run."""
    observations = simulate_observations(plan, truth, LOAD, seed, model=model, wash_out=1)
    blocks = schedule(plan, 3)
    for number, end in enumerate(blocks, 1):
        found = look(plan, [each for each in observations if each.block < end], "throughput", blocks, number)
        if found.stop:
            break
    return {each.comparison.factor: each.state for each in found.settlings}, end


@pytest.fixture(scope="module")
def null_looks() -> list[list[Look]]:
    """All three looks at studies without effects, whether or not an earlier one would have ended the study."""
    plan, truth = plan_of(LIVE), Truth.model_validate({"noise": NOISE})
    model, blocks = Model(truth, LOAD), schedule(plan, 3)
    found = []
    for seed in range(SLOTLOOKS_STUDIES):
        every = simulate_observations(plan, truth, LOAD, seed, model=model, wash_out=1)
        found.append([look(plan, every, "throughput", blocks, number) for number in (1, 2, 3)])
    return found


def test_null_studies_keep_the_error_rate_and_end_early(null_looks: list[list[Look]]) -> None:
    """Shares of 5 % of studies over all looks, none of the first (the spending leaves it 1 in 5,000)."""
    called = np.array([[any(each.state in FOUND for each in one.settlings) for one in looks] for looks in null_looks])
    assert called.any(axis=1).mean() <= 0.05 + 2.5 * math.sqrt(0.05 * 0.95 / SLOTLOOKS_STUDIES)
    assert not called[:, 0].any()
    ended = [next(number for number, one in enumerate(looks, 1) if one.stop) for looks in null_looks]
    assert np.mean(ended) < 2.8
    assert min(ended) < 3


def test_intervals_at_every_look_are_as_wide_as_their_estimates_err(null_looks: list[list[Look]]) -> None:
    """Null estimates in units of their repeated intervals, times the textbook bound of the look, have a spread of 1 at
    most. Less where few instances say how much effects differ between them: each look judges with the degrees of
    freedom of its instances, one at the first, so that its intervals say nothing yet. A look that forgot its wider
    bound would give 1.9 and 1.3 times as much at the first two.
    """
    for number, bound in enumerate(spending_bounds([1 / 3, 2 / 3, 1.0], 1 - math.sqrt(0.95))):
        sizes = []
        for each in (settling for looks in null_looks for settling in looks[number].settlings):
            assert each.percent is not None
            if each.interval is None:  # beyond all percentages
                assert number == 0
                continue
            half = math.log((100 + each.interval.high) / (100 + each.interval.low)) / 2
            sizes.append(bound * math.log1p(each.percent / 100) / half)
        assert math.sqrt(np.mean(np.square([0.0, *sizes]))) < 1.1
    assert math.sqrt(np.mean(np.square(sizes))) > 0.2, "at the end they say something"


def test_large_effects_are_found_with_fewer_instances() -> None:
    effects = [
        {"when": {"vm.k1": 1}, "percent": {"throughput": 0.12}},
        {"when": {"vm.k2": 1}, "percent": {"throughput": -0.1}},
    ]
    plan, truth = plan_of(LIVE), Truth.model_validate({"noise": NOISE, "effects": effects})
    model = Model(truth, LOAD)
    found = [played(plan, truth, model, seed) for seed in range(3)]
    assert all(states == {"vm.k1": State.BETTER, "vm.k2": State.WORSE} for states, _ in found)
    assert sum(instances for _, instances in found) <= 0.8 * 6 * 3


def test_factors_between_trials_and_whole_plots_are_refused_with_what_would_do() -> None:
    with pytest.raises(
        UsageError, match=r"server.pool changes between trials; set looks to 1, or leave switchback out"
    ):
        schedule(plan_of([*LIVE, Factor("server.pool", (1, 2), 1)]), 2)
    assert schedule(plan_of(LIVE, replicates=4), 2) == (2, 4)


def test_forecasts_have_the_standard_errors_that_slots_turn_out_to_have() -> None:
    """The carry-over that is not known costs 1.4 times the standard error: the forecast has it within 15 %."""
    noise = NOISE | {"autocorrelation": 0.0}
    plan, truth = plan_of(LIVE), Truth.model_validate({"noise": noise})
    model, sizes = Model(truth, LOAD), []
    for seed in range(24):
        seen = simulate_observations(plan, truth, LOAD, seed, model=model, wash_out=1)
        for effect in analyse(plan, seen, ["throughput"], verdicts_only=True).responses[0].effects:
            assert effect.interval is not None
            assert effect.df is not None
            half = math.log((100 + effect.interval.high) / (100 + effect.interval.low)) / 2
            sizes.append(half / float(stats.t.ppf(0.975, effect.df)))
    found = precision_of(plan)
    assert not isinstance(found, str)
    assert np.mean(sizes) == pytest.approx(0.05 / math.sqrt(5) * found.error, rel=0.15)


UNEQUAL_STUDIES = 80
FACTORS = [Factor(f"k{number}", (0, 1), 0) for number in range(4)]


def noisy(plan: Plan, ratios: Mapping[Treatment, float], seed: int, cv: float = 0.03) -> list[Observation]:
    """Null observations of a plan; ``ratios``: noise of a treatment over that of the others."""
    rng = np.random.default_rng(seed)
    blocks = rng.normal(0.0, 0.05, 1 + max(trial.block for trial in plan.trials))
    found = []
    for trial in plan.trials:
        value = math.exp(blocks[trial.block] + rng.normal(0.0, cv * ratios.get(trial.treatment, 1.0)))
        begun = 60.0 * trial.position
        found.append(
            Observation(
                *(trial.position + 1, trial.position, trial.block, trial.replicate, trial.role, trial.treatment),
                *(begun, {"throughput": value}),
            )
        )
    return found


def rates(plan: Plan, ratios: Mapping[Treatment, float], looks: int, studies: int) -> float:
    """Share of null studies in which any look calls any level better or worse."""
    blocks = schedule(plan, looks)
    wrong = 0
    for seed in range(studies):
        every = noisy(plan, ratios, seed)
        called = False
        for number, end in enumerate(blocks, 1):
            seen = [each for each in every if each.block < end]
            strict = boundary_of(plan, seen, "throughput", blocks, number).interim(number)
            found = analyse(plan, seen, ["throughput"], verdicts_only=True, interim=lambda _, strict=strict: strict)
            called |= any(each.verdict in (Verdict.BETTER, Verdict.WORSE) for each in found.responses[0].effects)
        wrong += called
    return wrong / studies


def upper(rate: float, studies: int) -> float:
    return rate + 3 * math.sqrt(rate * (1 - rate) / studies)


@pytest.mark.parametrize("noisy_baseline", [pytest.param(False, marks=LONGER), True])
def test_looks_keep_the_error_rate_where_one_level_is_five_times_as_noisy(noisy_baseline: bool) -> None:
    plan = make_plan(FACTORS, Design(replicates=9, sentinels=None))
    baseline = plan.baseline.as_dict()
    which = plan.baseline if noisy_baseline else Treatment.of(baseline | {"k0": 1})
    assert rates(plan, {which: 5.0}, 3, UNEQUAL_STUDIES) <= upper(0.05, UNEQUAL_STUDIES)


if __name__ == "__main__":
    number = int(sys.argv[1])
    for replicates, looks in ((6, 3), (9, 3), (10, 5)):
        plan = make_plan(FACTORS, Design(replicates=replicates, sentinels=None))
        noisy_level = Treatment.of(plan.baseline.as_dict() | {"k0": 1})
        for ratio in (1.0, 3.0, 5.0):
            for which in (noisy_level, plan.baseline):
                print(replicates, looks, ratio, which == plan.baseline, rates(plan, {which: ratio}, looks, number))
