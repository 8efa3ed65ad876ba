"""The point of diminishing returns on studies whose truth is known."""

import math
from dataclasses import replace

import pytest
from simulated_study import SimulatedSystem

from leadline.analysis.returns import Returns, diminishing_returns
from leadline.design.make import make_plan
from leadline.model.design import Design
from leadline.model.knob import Level
from leadline.model.plan import Factor, Plan

HEAP = "jvm.heap"
LEVELS = (256, 96, 128, 512, 1024)  # MiB, the first the baseline
# A throughput that saturates: 512 is 0.5 % behind the best, 256 is 5 %.
TRUTH: dict[Level, float] = {96: 0.80, 128: 0.88, 256: 0.95, 512: 0.995, 1024: 1.0}
RATIOS: dict[tuple[str, Level], float] = {(HEAP, level): value / TRUTH[256] for level, value in TRUTH.items()}


def plan(replicates: int = 8, kind: str = "one-at-a-time", others: tuple[Factor, ...] = ()) -> Plan:
    design = Design.model_validate({"kind": kind, "replicates": replicates, "sentinels": None})
    return make_plan([Factor(HEAP, LEVELS, 256), *others], design)


def found(made: Plan, system: SimulatedSystem, seed: int, response: str = "throughput") -> Returns:
    (one, *_) = diminishing_returns(made, system.run(made, seed, response), response)
    return one


def test_the_smallest_level_that_is_as_good_as_the_best() -> None:
    one = found(plan(), SimulatedSystem(effects=RATIOS, cv=0.004), 1)
    assert [step.level for step in one.steps] == [96, 128, 256, 512, 1024]
    assert one.best == 1024
    assert one.smallest == 512
    assert "512 is the smallest level shown to be no more than 2 % worse than the best, 1024" in one.sentence
    assert [step.enough for step in one.steps] == [False, False, False, True, True]
    assert one.steps[0].change is None


def test_gains_are_per_doubling() -> None:
    one = found(plan(20), SimulatedSystem(effects=RATIOS, cv=0.002), 2)
    assert [step.doublings for step in one.steps] == [None, pytest.approx(math.log2(128 / 96)), 1.0, 1.0, 1.0]
    truth = [
        100 * ((TRUTH[high] / TRUTH[low]) ** (1 / math.log2(high / low)) - 1)
        for low, high in ((96, 128), (128, 256), (256, 512), (512, 1024))
    ]
    for step, expected in zip(one.steps[1:], truth, strict=True):
        assert step.change == pytest.approx(expected, abs=0.5)
        assert step.change_interval is not None
        assert step.change_interval.low < expected < step.change_interval.high


@pytest.mark.parametrize("cv", [0.01, 0.03])
def test_a_level_that_is_too_small_is_hardly_ever_called_enough(cv: float) -> None:
    """The intervals hold over all pairs, so a level more than 2 % behind passes in at most 5 % of studies."""
    made, system = plan(8), SimulatedSystem(effects=RATIOS, cv=cv)
    runs = [found(made, system, seed) for seed in range(60)]
    wrong = sum(one.smallest is not None and float(one.smallest) < 512 for one in runs)
    assert wrong <= 7  # 5 % of 60 are 3; more than 7 have a chance below 2 %
    right = sum(one.smallest == 512 for one in runs)
    if cv == 0.01:
        assert right >= 20, "an honest method that never finds it is of no use"


def test_a_response_where_less_is_better() -> None:
    effects: dict[tuple[str, Level], float] = {key: 1 / ratio for key, ratio in RATIOS.items()}
    one = found(plan(), SimulatedSystem(effects=effects, cv=0.004), 3, "p99")
    assert (one.best, one.smallest) == (1024, 512)
    assert one.steps[1].change is not None
    assert one.steps[1].change < 0


def test_no_effect_at_all_is_the_smallest_level() -> None:
    one = found(plan(12), SimulatedSystem(cv=0.003), 4)
    assert one.smallest == 96
    assert all(step.enough for step in one.steps)


def test_much_noise_says_that_it_cannot_tell() -> None:
    one = found(plan(2), SimulatedSystem(effects=RATIOS, cv=0.03), 1)
    near = next(step for step in one.steps if step.level == 512)
    assert one.smallest == one.best
    assert near.level == one.best or not (near.enough or near.short)
    assert "may be as good. More replicates would tell" in one.sentence


def test_a_curve_that_still_rises_asks_for_more() -> None:
    rising = {(HEAP, level): 1 + 0.1 * math.log2(level / 256) for level in LEVELS}
    one = found(plan(), SimulatedSystem(effects=rising, cv=0.003), 9)
    assert one.smallest == one.best == 1024
    assert [step.short for step in one.steps] == [True, True, True, True, False]
    assert "a larger one may pay yet" in one.sentence


def test_a_curve_with_its_peak_inside_does_not() -> None:
    peak: dict[tuple[str, Level], float] = {(HEAP, level): 0.8 for level in LEVELS if level != 512}
    one = found(plan(), SimulatedSystem(effects=peak, cv=0.003), 10)
    assert one.best == 512
    assert one.sentence.endswith("worse.")


def test_that_a_larger_one_does_not_pay_is_not_claimed_from_noise() -> None:
    """No level differs and the noise is large: whichever comes out best, the others may be as good."""
    flat = [found(plan(3), SimulatedSystem(cv=0.05), seed) for seed in range(40)]
    smallest = [one for one in flat if one.best == 96]
    assert smallest
    for one in smallest:
        assert one.sentence.startswith(f"No larger {HEAP} is shown to pay: the smallest, 96, was the best, and ")
        assert one.sentence.endswith("1024 may be as good.")


def test_a_larger_one_that_is_shown_to_be_worse_is_not_said_to_be_as_good() -> None:
    falling: dict[tuple[str, Level], float] = {(HEAP, 96): 1.25, (HEAP, 512): 0.8, (HEAP, 1024): 0.8}
    one = found(plan(), SimulatedSystem(effects=falling, cv=0.003), 11)
    assert one.sentence == f"No larger {HEAP} is shown to pay: the smallest, 96, was the best."


def test_without_repeats_there_is_no_interval_and_it_says_why() -> None:
    made = plan(2)
    first = [one for one in SimulatedSystem(effects=RATIOS, cv=0.003).run(made, 5) if one.replicate == 0]
    (one,) = diminishing_returns(made, first, "throughput")
    assert one.smallest is None
    assert one.best == 1024
    assert "two or more replicates" in one.sentence
    assert all(step.change_interval is None for step in one.steps)


def test_over_another_factor_s_levels() -> None:
    """A full factorial: the heap's returns averaged over the collectors, of which one costs a tenth."""
    collector = Factor("jvm.collector", ("g1", "serial"), "g1")
    effects: dict[tuple[str, Level], float] = {**RATIOS, ("jvm.collector", "serial"): 0.9}
    made = plan(5, "full-factorial", (collector,))
    returns = diminishing_returns(made, SimulatedSystem(effects=effects, cv=0.004).run(made, 6), "throughput")
    assert {one.factor for one in returns} == {HEAP}, "words have no order"
    assert [one.under for one in returns] == ["", "jvm.collector = g1", "jvm.collector = serial"]
    assert returns[0].smallest == 512
    assert {step.trials for step in returns[0].steps} == {10}


def test_what_differs_from_mode_to_mode_is_told_for_each() -> None:
    """The heap gains nothing in one mode and saturates at 512 in the other."""
    mode = Factor("app.mode", ("direct", "orm"), "direct")
    crossed = {frozenset({(HEAP, level), ("app.mode", "orm")}): RATIOS[HEAP, level] for level in LEVELS if level != 256}
    made = plan(8, "full-factorial", (mode,))
    system = SimulatedSystem(crossed=crossed, cv=0.003)
    by_mode = {
        one.under: one for one in diminishing_returns(made, system.run(made, 12), "throughput") if one.factor == HEAP
    }
    assert by_mode["app.mode = direct"].smallest == 96
    assert by_mode["app.mode = orm"].smallest == 512
    change = by_mode["app.mode = orm"].steps[3].change
    assert change == pytest.approx(100 * (0.995 / 0.95 - 1), abs=0.5)


def test_a_level_that_always_fails_is_left_out() -> None:
    system = SimulatedSystem(effects=RATIOS, cv=0.004, failing={(HEAP, 96): 1.0})
    one = found(plan(), system, 7)
    assert [step.level for step in one.steps] == [128, 256, 512, 1024]
    assert one.smallest == 512


def test_from_nothing_the_step_is_whole() -> None:
    factor = Factor("server.datasource.statement_cache", (10, 0, 60), 10)
    design = Design.model_validate({"replicates": 8, "sentinels": None})
    made = make_plan([factor], design)
    system = SimulatedSystem(effects={(factor.name, 0): 0.8, (factor.name, 60): 1.1}, cv=0.003)
    one = found(made, system, 8)
    assert one.steps[1].doublings is None
    assert one.steps[1].change == pytest.approx(25.0, abs=1.0)
    assert one.smallest == 60
    assert "a larger one may pay yet" in one.sentence


def test_nothing_to_say() -> None:
    made = plan(2)
    assert diminishing_returns(made, [], "throughput") == []
    two = make_plan([Factor(HEAP, (1, 2), 1)], Design())
    assert diminishing_returns(two, SimulatedSystem().run(two, 1), "throughput") == []
    same = [replace(one, responses={"throughput": 5.0}) for one in SimulatedSystem().run(made, 1)]
    assert diminishing_returns(made, same, "throughput") == []
