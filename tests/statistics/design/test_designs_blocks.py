"""Incomplete blocks, squares, whole plots and sentinels of plans."""

import dataclasses
import itertools
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leadline.design.arrange import around_baseline, meetings
from leadline.design.make import make_plan, plan_from_json, plan_to_json
from leadline.design.order import abba, dear_changes, dear_levels, latin, williams, williams_rows
from leadline.layouts.check import check_plan, plan_problems
from leadline.model.design import Design
from leadline.model.errors import UsageError
from leadline.model.knob import ApplyCost
from leadline.model.plan import Factor, Plan, Role, Treatment


def factors_of(count: int, levels: int = 2) -> list[Factor]:
    return [Factor(f"f{number}", tuple(range(levels)), 0) for number in range(count)]


KERNEL = Factor("kernel", ("5.15", "6.1", "6.8"), "5.15", apply_cost=ApplyCost.KERNEL)
MOUNT = Factor("mount", ("a", "b"), "a", apply_cost=ApplyCost.REMOUNT)


def mixed_costs() -> list[Factor]:
    return [*factors_of(2), KERNEL, MOUNT]


@settings(max_examples=30, deadline=None)
@given(st.integers(2, 9), st.integers(1, 3), st.integers(0, 10**6))
def test_latin_squares(treatments: int, squares: int, seed: int) -> None:
    rows = np.array(latin(treatments, squares * treatments, seed))
    for square in rows.reshape(squares, treatments, treatments):
        for line in (*square, *square.T):
            assert sorted(line) == list(range(treatments))


@settings(max_examples=30, deadline=None)
@given(st.integers(2, 9), st.integers(1, 2), st.integers(0, 10**6))
def test_williams_squares_hold_each_ordered_pair_equally_often(treatments: int, squares: int, seed: int) -> None:
    whole = williams_rows(treatments)
    assert whole == treatments * (1 + treatments % 2)
    rows = williams(treatments, squares * whole, seed)
    for start in range(0, len(rows), whole):
        square = rows[start : start + whole]
        pairs = Counter(pair for row in square for pair in itertools.pairwise(row))
        assert set(pairs) == set(itertools.permutations(range(treatments), 2))
        assert set(pairs.values()) == {1 + treatments % 2}
        for place in range(treatments):
            assert set(Counter(row[place] for row in square).values()) == {1 + treatments % 2}


def test_abba_blocks_cancel_a_straight_drift_and_share_the_start() -> None:
    rows = abba(2, 24, seed=3)
    for row in rows:
        assert row == row[::-1]
        drift = np.arange(4)
        assert drift[np.array(row) == 0].sum() == drift[np.array(row) == 1].sum()
    assert sum(row[0] for row in rows) == len(rows) // 2
    assert any(abba(2, 24, seed)[0] != rows[0] for seed in range(20))


@pytest.mark.parametrize(
    ("others", "replicates", "size", "meet"),
    [
        (7, 3, 4, (1, 1)),
        (6, 5, 4, (2, 2)),
        (4, 3, 3, (1, 1)),
        (9, 4, 4, (1, 1)),
        (13, 4, 5, (1, 1)),
        (10, 3, 6, (1, 2)),
    ],
)
def test_incomplete_blocks_are_balanced_where_they_can_be(
    others: int, replicates: int, size: int, meet: tuple[int, int]
) -> None:
    """The seven-point plane, the planes of order 2, 3 and others: every pair of treatments meets equally often."""
    blocks = around_baseline(others, replicates, size, seed=1)
    assert meetings(blocks, others) == meet
    assert all(len(set(block)) == len(block) == size - 1 for block in blocks)
    assert set(Counter(itertools.chain(*blocks)).values()) == {replicates}


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 12), st.integers(1, 4), st.integers(2, 8), st.integers(0, 10**6))
def test_incomplete_blocks_hold_every_treatment_equally_often(
    others: int, replicates: int, size: int, seed: int
) -> None:
    size = min(size, others)
    blocks = around_baseline(others, replicates, size, seed)
    assert set(Counter(itertools.chain(*blocks)).values()) == {replicates}
    sizes = [len(block) for block in blocks]
    assert max(sizes) <= size - 1
    assert max(sizes) - min(sizes) <= 1
    assert all(len(set(block)) == len(block) for block in blocks)


def test_a_factorial_in_blocks_of_four_confounds_the_three_factor_interaction_only() -> None:
    factors = factors_of(3)
    plan = make_plan(factors, Design(kind="full-factorial", blocks="incomplete", block_size=4, sentinels=None))
    assert len({trial.block for trial in plan.trials}) == 6
    for block in range(6):
        coded = np.array([[2 * int(t.treatment[f.name]) - 1 for f in factors] for t in plan.trials if t.block == block])
        assert len(coded) == 4
        assert not coded.sum(axis=0).any()
        for a, b in itertools.combinations(range(3), 2):
            assert (coded[:, a] * coded[:, b]).sum() == 0
        assert abs(coded.prod(axis=1).sum()) == 4


def test_blocks_that_would_hide_a_main_effect_are_refused() -> None:
    factors = [Factor("a", (0, 1), 0)]
    design = Design(kind="plackett-burman", blocks="incomplete", block_size=2, sentinels=3)
    check_plan(make_plan(factors, design))
    seven = Design(kind="fractional-factorial", resolution=3, runs=8, blocks="incomplete", block_size=2, replicates=1)
    with pytest.raises(UsageError, match="is not distinguishable from the blocks; set block_size to 4"):
        make_plan(factors_of(7), seven)


KINDS_AND_BLOCKS = [
    ("one-at-a-time", {}, 3, 2),
    ("full-factorial", {}, 3, 2),
    ("fractional-factorial", {"resolution": 3}, 6, 2),
    ("fractional-factorial", {"foldover": True}, 7, 2),
    ("plackett-burman", {}, 9, 2),
    ("plackett-burman", {"foldover": True}, 5, 2),
    ("definitive-screening", {}, 5, 3),
    ("d-optimal", {}, 4, 3),
    ("d-optimal", {"model": "interactions"}, 3, 3),
]
BLOCKS = [
    {"replicates": 2},
    {"replicates": 1, "sentinels": 4},
    {"replicates": 3, "sentinels": None},
    {"replicates": 2, "blocks": "incomplete", "block_size": 6},
]


@pytest.mark.parametrize(("kind", "keys", "count", "levels"), KINDS_AND_BLOCKS)
@pytest.mark.parametrize("blocks", BLOCKS)
def test_every_plan_is_sound_repeatable_and_survives_json(
    kind: str, keys: dict[str, object], count: int, levels: int, blocks: dict[str, object]
) -> None:
    factors = factors_of(count, levels)
    design = Design(kind=kind, seed=11, **keys, **blocks)
    if kind == "one-at-a-time" and design.block_size:
        design = design.model_copy(update={"block_size": 3})
    plan = make_plan(factors, design)
    check_plan(plan)
    assert plan == make_plan(factors, design) == plan_from_json(plan_to_json(plan))
    other = make_plan(factors, design.model_copy(update={"seed": 12}))
    assert [trial.treatment for trial in other.trials] != [trial.treatment for trial in plan.trials]


@pytest.mark.parametrize("blocks", ["latin", "williams", "abba"])
@pytest.mark.parametrize("sentinels", [None, 2, 6])
def test_squares_stay_whole_with_sentinels(blocks: str, sentinels: int | None) -> None:
    count = 1 if blocks == "abba" else 3
    plan = make_plan(factors_of(count), Design(blocks=blocks, replicates=8, sentinels=sentinels))
    check_plan(plan)
    if sentinels is not None:
        assert plan.trials[0].role is not Role.TREATMENT
        assert plan.trials[-1].role is not Role.TREATMENT
        for before, trial, after in zip(plan.trials, plan.trials[1:], plan.trials[2:], strict=False):
            inside = before.block == trial.block == after.block
            assert not (inside and trial.role is Role.SENTINEL)


@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from(["one-at-a-time", "full-factorial", "d-optimal"]),
    st.integers(2, 4),
    st.sampled_from([None, 2, 5]),
    st.integers(0, 10**6),
)
def test_whole_plots_keep_dear_levels(kind: str, replicates: int, sentinels: int | None, seed: int) -> None:
    factors = mixed_costs()
    plan = make_plan(factors, Design(kind=kind, replicates=replicates, sentinels=sentinels, seed=seed))
    check_plan(plan)
    numbers = [trial.plot for trial in plan.trials]
    assert numbers[0] == 0
    assert all(b - a in (0, 1) for a, b in itertools.pairwise(numbers) if a is not None and b is not None)
    for _, group in itertools.groupby(plan.trials, key=lambda trial: trial.plot):
        assert len({(trial.block, dear_levels(factors, trial.treatment)) for trial in group}) == 1
    changes = dear_changes(factors, [trial.treatment for trial in plan.trials])
    # each kernel once a block at most, and the ends may need the baseline's
    assert changes["kernel"] <= 3 * replicates + 1
    assert any(f"{changes['kernel']} of kernel" in note for note in plan.notes)
    if sentinels is not None:
        assert plan.trials[0].treatment == plan.trials[-1].treatment == plan.baseline


def test_the_order_of_plots_and_inside_plots_is_random() -> None:
    firsts = Counter()  # type: ignore[var-annotated]
    inside = set()
    for seed in range(60):
        plan = make_plan(mixed_costs(), Design(kind="full-factorial", replicates=2, sentinels=None, seed=seed))
        firsts[plan.trials[0].treatment["kernel"]] += 1
        inside.add(tuple(trial.treatment["f0"] for trial in plan.trials[:4]))
    assert set(firsts) == {"5.15", "6.1", "6.8"}
    assert max(firsts.values()) < 40
    assert len(inside) > 3


@pytest.mark.parametrize(
    ("factors", "keys", "words"),
    [
        (factors_of(3), {"blocks": "latin"}, "set replicates to 4, or blocks to by-replicate"),
        (factors_of(4), {"blocks": "williams", "replicates": 5}, "set replicates to 10"),
        (factors_of(2), {"blocks": "abba", "replicates": 4}, "ABBA orders two treatments, here are 3"),
        (factors_of(1), {"blocks": "abba"}, "replicates must be even; set it to 4"),
        (factors_of(4), {"blocks": "incomplete"}, "need a block_size, smaller than the 5 runs"),
        (factors_of(4), {"blocks": "incomplete", "block_size": 5}, "holds all 5 runs of a replicate"),
        (factors_of(4), {"block_size": 3}, "block_size is of incomplete blocks, but blocks is by-replicate"),
        (factors_of(2), {"foldover": True}, "one-at-a-time has no foldover; fractional-factorial and plackett-burman"),
        (factors_of(2), {"kind": "plackett-burman", "resolution": 3}, "fractional-factorial has it"),
        (factors_of(2), {"kind": "plackett-burman", "blocks": "latin", "replicates": 8}, "2 factors repeats some"),
        (mixed_costs(), {"replicates": 1}, "kernel, mount has one whole plot"),
        (mixed_costs(), {"blocks": "williams", "replicates": 12}, "blocks order trials freely, and kernel, mount"),
    ],
)
def test_blocks_that_do_not_fit_say_what_would(factors: list[Factor], keys: dict[str, object], words: str) -> None:
    with pytest.raises(UsageError) as refusal:
        make_plan(factors, Design(**keys))
    assert words in str(refusal.value)


def damaged(plan: Plan, position: int, **changes: object) -> tuple[str, ...]:
    trials = list(plan.trials)
    trials[position] = dataclasses.replace(trials[position], **changes)  # type: ignore[arg-type]
    return plan_problems(dataclasses.replace(plan, trials=tuple(trials)))


def test_damage_is_found() -> None:
    plots = make_plan(mixed_costs(), Design(replicates=2))
    assert any("not in whole plots" in problem for problem in damaged(plots, 1, plot=None))
    assert any("stand together" in problem for problem in damaged(plots, 0, plot=9))
    treated = next(trial.position for trial in plots.trials if trial.role is Role.TREATMENT)
    other = plots.trials[treated].treatment.as_dict() | {"kernel": "6.8", "mount": "b"}
    assert any(
        "hard-to-change factor changes" in problem for problem in damaged(plots, treated, treatment=Treatment.of(other))
    )
    square = make_plan(factors_of(3), Design(blocks="williams", replicates=4, sentinels=None))
    swapped = list(square.trials)
    swapped[0], swapped[1] = (
        dataclasses.replace(swapped[0], treatment=swapped[1].treatment, role=swapped[1].role),
        dataclasses.replace(swapped[1], treatment=swapped[0].treatment, role=swapped[0].role),
    )
    problems = plan_problems(dataclasses.replace(square, trials=tuple(swapped)))
    assert any("equally often at place" in problem for problem in problems)
    assert any("follow each other" in problem for problem in problems)
    screening = make_plan(factors_of(4, 3), Design(kind="definitive-screening", replicates=1))
    run = next(trial.position for trial in screening.trials if trial.role is Role.TREATMENT)
    turned = Treatment.of(dict.fromkeys((f"f{n}" for n in range(4)), 2))
    assert any("mirror image" in problem for problem in damaged(screening, run, treatment=turned))
    fraction = make_plan(factors_of(5), Design(kind="fractional-factorial", resolution=3, replicates=2))
    lost = next(trial.position for trial in fraction.trials if trial.role is Role.TREATMENT)
    assert any("balanced and orthogonal" in problem for problem in damaged(fraction, lost, role=Role.SENTINEL))
    assert damaged(fraction, lost, treatment=Treatment.of({"x": 1}))[0].startswith("some trial has a factor or level")
    assert "unknown blocks" in plan_problems(dataclasses.replace(fraction, blocks="spiral"))[0]
