"""Plans of switchback slots: order, balance, what cannot be planned, plans from a study file."""

import math
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from lab_fakes import CACHE, POOL, FakeHost

from leadline.checks.files.study import parse_study
from leadline.checks.plan import cost, plan_study
from leadline.design.kind import DesignError
from leadline.design.make import make_plan, plan_from_json, plan_to_json
from leadline.design.slots import CarryOver, abba, random_blocks, williams, williams_square
from leadline.layouts import assumed_wash_out, steady_seconds, switchback_plan
from leadline.layouts.check import plan_problems
from leadline.model.design import Design, Switchback
from leadline.model.errors import UsageError
from leadline.model.knob import ApplyCost, Level
from leadline.model.plan import Factor, Plan, Role, Treatment
from leadline.model.workload import Workload

STUDY = """\
study: live
question: does it?
workload: { users: 5, ramp_up: 1s, steady: 65s }
factors:
  vm.fake_live: [10, 20, 30]
design: { replicates: 2, switchback: { slot: 5s } }
responses: [throughput]
"""
LIVE = Factor("vm.live", (10, 20, 30), 10, apply_cost=ApplyCost.LIVE)
LABEL = Factor("label", ("a", "b"), "a", pseudo=True, apply_cost=ApplyCost.LIVE)
RESTART = Factor("server.pool", (10, 2), 10)
KERNEL = Factor("kernel", ("old", "new"), "old", apply_cost=ApplyCost.KERNEL)


def plan(*factors: Factor, steady: float = 120, **keys: Any) -> Plan:
    switchback = {key: keys.pop(key) for key in ("slot", "wash_out", "order") if key in keys}
    design = Design(switchback=Switchback(**{"slot": 5, **switchback}), **keys)
    return switchback_plan(factors or (LIVE,), design, Workload(users=5, ramp_up=1, steady=steady))


def test_every_block_of_slots_holds_every_treatment_once() -> None:
    made = plan(LIVE, LABEL, replicates=3)
    assert plan_problems(made) == ()
    wanted = {Treatment.of({"vm.live": live, "label": label}) for live, label in [(10, "a"), (20, "a"), (30, "a")]}
    wanted.add(Treatment.of({"vm.live": 10, "label": "b"}))
    for trial in made.trials:
        assert steady_seconds(trial) == 120
        assert trial.treatment == trial.slots[0].treatment
        for block in range(6):
            assert {slot.treatment for slot in trial.slots[4 * block : 4 * block + 4]} == wanted
    assert made.trials[0].slots != made.trials[1].slots
    assert plan(LIVE, LABEL, replicates=3) == made
    assert plan(LIVE, LABEL, replicates=3, seed=2).trials != made.trials
    assert plan_from_json(plan_to_json(made)) == made


def test_the_full_factorial_crosses_the_live_factors() -> None:
    made = plan(LIVE, LABEL, kind="full-factorial")
    assert len({slot.treatment for slot in made.trials[0].slots}) == 6


@pytest.mark.parametrize("order", [random_blocks, williams])
@pytest.mark.parametrize(
    ("treatments", "blocks", "trials"), [(2, 10, 2), (3, 8, 3), (5, 12, 4), (7, 20, 3), (12, 5, 5)]
)
@pytest.mark.parametrize("seed", range(5))
def test_who_follows_whom_is_nearly_even(order: Any, treatments: int, blocks: int, trials: int, seed: int) -> None:
    carry = CarryOver(treatments)
    for row in order(treatments, blocks, trials, seed):
        assert len(row) == treatments * blocks
        carry.add(None, row)
    pairs = [carry.pairs[a][b] for a in range(treatments) for b in range(treatments) if a != b]
    assert max(pairs) - min(pairs) <= 4
    assert max(carry.first) - min(carry.first) <= math.ceil(trials / treatments) + 1
    if treatments > 3:
        assert sum(carry.pairs[a][a] for a in range(treatments)) <= (trials * blocks) // 8


@pytest.mark.parametrize("treatments", range(2, 12))
def test_williams_squares_have_every_ordered_pair_equally_often(treatments: int) -> None:
    rows = williams_square(treatments)
    pairs = Counter(pair for row in rows for pair in pairwise(row))
    each = 1 if treatments % 2 == 0 else 2
    assert pairs == {(a, b): each for a in range(treatments) for b in range(treatments) if a != b}
    for place in range(treatments):
        assert Counter(row[place] for row in rows) == dict.fromkeys(range(treatments), each)


def test_two_treatments_in_random_blocks_are_no_fixed_cycle() -> None:
    orders = {tuple(random_blocks(2, 12, 1, seed)[0]) for seed in range(20)}
    assert len(orders) > 10
    assert all({row[at : at + 2] for at in range(0, 24, 2)} == {(0, 1), (1, 0)} for row in orders)


@pytest.mark.parametrize("seed", range(4))
def test_abba_cancels_a_straight_drift(seed: int) -> None:
    for row in abba(2, 4, 3, seed):
        for at in range(0, 8, 4):
            assert row[at : at + 4] in ([0, 1, 1, 0], [1, 0, 0, 1])
    one, other = abba(2, 4, 2, seed)
    assert {one[0], other[0]} == {0, 1}


def test_other_factors_change_between_trials() -> None:
    made = plan(LIVE, RESTART, replicates=2, sentinels=None)
    assert [len({slot.treatment["server.pool"] for slot in trial.slots}) for trial in made.trials] == [1] * 4
    assert Counter((t.block, t.treatment["server.pool"], t.role.value) for t in made.trials) == {
        (block, level, role): 1 for block in (0, 1) for level, role in ((10, "baseline"), (2, "treatment"))
    }
    assert {trial.plot for trial in made.trials} == {None}
    with_sentinels = plan(LIVE, RESTART, replicates=1, sentinels=3)
    assert with_sentinels.trials[0].role is not Role.TREATMENT
    assert with_sentinels.trials[-1].role is not Role.TREATMENT


def test_levels_dearer_than_a_restart_make_whole_plots() -> None:
    made = plan(LIVE, RESTART, KERNEL, kind="full-factorial", replicates=3, steady=60)
    plots: dict[int | None, set[Level]] = {}
    for trial in made.trials:
        plots.setdefault(trial.plot, set()).add(trial.treatment["kernel"])
    assert len(plots) == 6
    assert all(len(kernels) == 1 for kernels in plots.values())
    assert [trial.plot for trial in made.trials] == sorted(trial.plot or 0 for trial in made.trials)


@pytest.mark.parametrize(
    ("factors", "keys", "words"),
    [
        ((LIVE,), {"steady": 14}, "too short for one block of 3 slots of 5s: it takes 15s"),
        (
            (LIVE,),
            {"steady": 15, "replicates": 1},
            "cannot distinguish a drift from an effect; set design.replicates to 2",
        ),
        ((RESTART,), {}, "needs a factor that can be changed in the running system"),
        ((LIVE,), {"kind": "plackett-burman"}, "plackett-burman takes two levels of every factor"),
        ((LIVE,), {"blocks": "latin"}, "design.switchback.order, one of random-blocks, williams, abba"),
        ((LIVE,), {"order": "abba"}, "abba takes two slot treatments, here are 3"),
        ((LABEL,), {"order": "abba", "steady": 15}, "one block of 4 slots of 5s: it takes 20s"),
        ((LIVE,), {"slot": 2.5}, "say 2s or 3s"),
        ((LIVE,), {"slot": 1}, "the shortest slot is 2s"),
        ((LIVE,), {"wash_out": 4.5}, "leaves no whole second of a slot of 5s; say 4s or less"),
        ((LIVE, RESTART), {"replicates": 1, "sentinels": None}, "one trial of each level of server.pool"),
        ((LIVE,), {"slot": 2, "steady": 400_000}, "slots, more than 100,000"),
    ],
)
def test_a_plan_that_cannot_be_says_what_would_do(factors: Any, keys: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError) as error:
        plan(*factors, **keys)
    assert words in str(error.value)


def test_damaged_slots_are_found() -> None:
    made = plan(LIVE, RESTART)
    first = made.trials[0]

    def damaged(**changes: Any) -> tuple[str, ...]:
        return plan_problems(replace(made, trials=(replace(first, **changes), *made.trials[1:])))

    assert "has no slots" in damaged(slots=())[0]
    assert "without gaps" in damaged(slots=first.slots[:3] + first.slots[4:])[0]
    assert "does not start at the levels" in damaged(treatment=made.trials[0].slots[1].treatment)[0]
    assert "hold every treatment once" in damaged(slots=(first.slots[1], *first.slots[1:]))[-1]
    other = Treatment.of({"vm.live": 10, "server.pool": 2 if first.treatment["server.pool"] == 10 else 10})
    slots = (*first.slots[:-1], replace(first.slots[-1], treatment=other))
    assert any("cannot be changed live" in problem for problem in damaged(slots=slots))


def test_the_wash_out_is_a_third_of_the_slot_unless_given() -> None:
    assert assumed_wash_out(Switchback(slot=6)) == 2
    assert assumed_wash_out(Switchback(slot=60)) == 3
    assert assumed_wash_out(Switchback(slot=60, wash_out=0)) == 0


# planning from a file


def test_the_plan_of_a_file_has_slots_and_their_cost() -> None:
    file = parse_study(STUDY, "live.yaml")
    planned = plan_study(file, FakeHost(), [POOL, CACHE])  # type: ignore[arg-type]
    assert [len(trial.slots) for trial in planned.plan.trials] == [12, 12]
    assert cost(file.study, planned.plan, overhead=20) == 2 * (20 + 1 + 60 + 2)
    assert "12 slots a trial, 4 blocks of 3 treatments" in planned.plan.notes[0]
    assert any("The steady state is 1m instead of 1m5s" in note for note in planned.plan.notes)


def test_a_refusal_names_file_and_line() -> None:
    file = parse_study(STUDY.replace("65s", "10s"), "live.yaml")
    with pytest.raises(UsageError) as error:
        plan_study(file, FakeHost(), [POOL, CACHE])  # type: ignore[arg-type]
    assert str(error.value).startswith("live.yaml:6: workload.steady of 10s is too short")


def test_a_host_that_forbids_the_live_knobs_is_told_of() -> None:
    file = parse_study(STUDY.replace("  vm.fake_live", "  server.pool: [10, 2]\n  vm.fake_live"), "live.yaml")
    with pytest.raises(UsageError) as error:
        plan_study(file, FakeHost("only root may write it"), [POOL, CACHE])  # type: ignore[arg-type]
    assert "design.switchback needs a factor that can be changed in the running system" in str(error.value)
    assert "vm.fake_live is left out: only root may write it" in str(error.value)


FACTORS = [Factor("a", (1, 2), 1), Factor("b", (1, 2), 1)]


def test_a_factor_that_no_configuration_varies_is_refused() -> None:
    both = Design(kind="configurations", configurations={"usual": {}, "other": {"a": 2, "b": 2}}, sentinels=None)
    assert {factor.name for factor in make_plan(FACTORS, both).factors} == {"a", "b"}
    one = both.model_copy(update={"configurations": {"usual": {}, "other": {"a": 2}, "same": {"a": 2, "b": 1}}})
    with pytest.raises(DesignError, match="are the same"):
        make_plan(FACTORS, one)
    one = both.model_copy(update={"configurations": {"usual": {}, "other": {"a": 2}}})
    with pytest.raises(DesignError, match="no configuration varies b") as refused:
        make_plan(FACTORS, one)
    assert refused.value.path == ("factors", "b")
