"""D-optimal designs, and what describe_design says about designs whose properties are known."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leadline.design.coding import contrasts, level_indices, model_matrix, model_terms, model_width
from leadline.design.d_optimal import runs_of, search, treatments
from leadline.design.make import make_plan
from leadline.design.properties import aliases_text, d_efficiency, describe_design, properties_text
from leadline.model.design import Design
from leadline.model.errors import UsageError
from leadline.model.knob import ApplyCost
from leadline.model.plan import Factor


def factors_of(*levels: int) -> list[Factor]:
    return [Factor("ABCDEFGHIJK"[number], tuple(range(count)), 0) for number, count in enumerate(levels)]


@pytest.mark.parametrize("count", range(2, 8))
def test_contrasts_are_orthogonal_and_of_one_size(count: int) -> None:
    for baseline in range(count):
        table = contrasts(Factor("a", tuple(range(count)), baseline))
        assert np.allclose(table.T @ table, count * np.eye(count - 1))
        assert np.allclose(table.sum(axis=0), 0)
    assert np.array_equal(contrasts(Factor("a", (0, 1), 0)), [[-1], [1]])


@pytest.mark.parametrize("levels", [(2, 3), (2, 3, 4), (3, 3)])
def test_a_full_factorial_has_full_efficiency(levels: tuple[int, ...]) -> None:
    factors = factors_of(*levels)
    every = np.array(list(itertools.product(*(range(count) for count in levels))))
    for interactions in (False, True):
        model = model_matrix(factors, every, interactions)
        assert model.shape == (math.prod(levels), model_width(factors, interactions))
        assert model_terms(factors, interactions)[-1].columns[-1] == model.shape[1] - 1
        assert np.allclose(model.T @ model, len(every) * np.eye(model.shape[1]))
        assert d_efficiency(model) == pytest.approx(100)


@pytest.mark.parametrize(
    ("levels", "runs", "interactions"),
    [((2,) * 7, 8, False), ((2,) * 11, 12, False), ((3,) * 4, 9, False), ((2, 2, 2), 8, True), ((2, 2, 3), 12, True)],
)
def test_exchange_finds_orthogonal_designs_that_exist(levels: tuple[int, ...], runs: int, interactions: bool) -> None:
    """The eighth of 2^7, Plackett-Burman of 12, the nine-run array of four three-level factors, full factorials."""
    factors = factors_of(*levels)
    best = max(
        d_efficiency(model_matrix(factors, search(factors, runs, interactions, seed), interactions)) or 0.0
        for seed in (1, 2, 3)
    )
    assert best == pytest.approx(100)


def test_no_exchange_of_one_level_improves_the_design() -> None:
    factors = factors_of(2, 3, 4, 2)
    chosen = search(factors, 14, False, seed=4)
    reached = np.linalg.slogdet((model := model_matrix(factors, chosen, False)).T @ model)[1]
    for row, number in itertools.product(range(1, 14), range(4)):
        for level in range(len(factors[number].levels)):
            other = chosen.copy()
            other[row, number] = level
            model = model_matrix(factors, other, False)
            assert np.linalg.slogdet(model.T @ model)[1] <= reached + 1e-6


@settings(max_examples=15, deadline=None)
@given(st.lists(st.integers(2, 4), min_size=2, max_size=5), st.booleans(), st.integers(0, 10**6))
def test_every_d_optimal_design_estimates_its_model_and_holds_the_baseline(
    levels: list[int], interactions: bool, seed: int
) -> None:
    factors = [
        Factor(f"f{n}", tuple(range(count)), count - 1) for n, count in enumerate(levels[: 3 if interactions else 5])
    ]
    design = Design(kind="d-optimal", model="interactions" if interactions else "main-effects", seed=seed)
    made = treatments(factors, design)
    assert made == treatments(factors, design)
    assert len(made) == runs_of(factors, design) >= model_width(factors, interactions)
    assert all(made[0][factor.name] == factor.baseline for factor in factors)
    efficiency = d_efficiency(model_matrix(factors, level_indices(factors, made), interactions))
    assert efficiency is not None
    assert 50 < efficiency <= 100 + 1e-9


def test_runs_are_given_or_sensible_and_too_few_are_refused() -> None:
    factors = factors_of(3, 2, 4, 2)
    assert model_width(factors, False) == 8
    assert runs_of(factors, Design(kind="d-optimal", runs=8)) == 8
    assert runs_of(factors, Design(kind="d-optimal")) == 12  # divided by 2, 3, 4, 6 and 12
    with pytest.raises(
        UsageError, match="7 runs cannot estimate the 8 figures of main effects; the smallest number is 8"
    ):
        runs_of(factors, Design(kind="d-optimal", runs=7))
    with pytest.raises(UsageError, match="`model: main-effects` takes fewer"):
        runs_of(factors, Design(kind="d-optimal", runs=7, model="interactions"))
    with pytest.raises(UsageError, match="name fewer factors"):
        runs_of(
            [Factor(f"f{n}", tuple(range(5)), 0) for n in range(20)], Design(kind="d-optimal", model="interactions")
        )


def test_properties_of_an_orthogonal_screening_design() -> None:
    plan = make_plan(
        factors_of(*(2,) * 7), Design(kind="fractional-factorial", resolution=3, replicates=2, sentinels=None)
    )
    found = describe_design(plan)
    assert (found.trials, found.runs, found.blocks, found.baseline_trials) == (16, 8, 2, 2)
    assert found.residual_df == 16 - 2 - 7
    assert (found.regular, found.resolution, found.word_lengths) == (True, 3, (7, 7, 0, 0, 1))
    assert found.d_efficiency == pytest.approx(100)
    assert found.correlation == pytest.approx(0, abs=1e-9)
    for effect in found.mains:
        assert effect.inflation == pytest.approx(1)
        assert effect.estimable
        assert not effect.clear
        assert [abs(mixed.weight) for mixed in effect.aliases] == [1, 1, 1]
    assert not any(effect.estimable for effect in found.interactions)
    lines = aliases_text(found)
    assert lines[0] == "resolution III; words: 7 of length 3, 7 of length 4, 1 of length 7"
    assert sum(line.startswith("A ") for line in lines) == 1


def test_aliases_of_main_effects_are_told_with_their_sign() -> None:
    """What an interaction alone adds to a main effect's estimate is its weight."""
    factors = factors_of(*(2,) * 6)
    for design in (
        Design(kind="fractional-factorial", resolution=3, replicates=1),
        Design(kind="plackett-burman", replicates=1),
        Design(kind="d-optimal", runs=9, replicates=1),
    ):
        plan = make_plan(factors, design)
        runs = [trial.treatment for trial in plan.trials if trial.role.value != "sentinel"]
        coded = 2.0 * level_indices(factors, runs) - 1
        mains = np.hstack([np.ones((len(runs), 1)), coded])
        told = {
            (effect.name, mixed.effect): mixed.weight
            for effect in describe_design(plan).mains
            for mixed in effect.aliases
        }
        for a, b in itertools.combinations(range(6), 2):
            estimate = np.linalg.solve(mains.T @ mains, mains.T @ (coded[:, a] * coded[:, b]))[1:]
            for number, factor in enumerate(factors):
                name = f"{factors[a].name} x {factors[b].name}"
                assert told.get((factor.name, name), 0.0) == pytest.approx(estimate[number], abs=1e-5)


def test_resolution_four_and_five_clear_what_they_promise() -> None:
    four = describe_design(make_plan(factors_of(*(2,) * 6), Design(kind="fractional-factorial", replicates=2)))
    assert four.resolution == 4
    assert all(effect.clear for effect in four.mains)
    assert not any(effect.clear for effect in four.interactions)
    five = describe_design(make_plan(factors_of(*(2,) * 5), Design(kind="fractional-factorial", resolution=5)))
    assert all(effect.clear for effect in (*five.mains, *five.interactions))
    assert "5 of 5 main effects free of two-factor interactions; 10 of 10 interactions" in aliases_text(five)[-1]


def test_definitive_screening_clears_straight_lines() -> None:
    found = describe_design(make_plan(factors_of(*(3,) * 6), Design(kind="definitive-screening", sentinels=None)))
    assert all(effect.clear for effect in found.mains)
    assert any("curvature" in remark for remark in found.remarks)


def test_one_at_a_time_pays_for_every_level_and_sees_no_interaction() -> None:
    found = describe_design(make_plan(factors_of(*(2,) * 7), Design(replicates=4, sentinels=None)))
    # the variance of a difference of two means of four over 32 trials, against that of two means of sixteen
    assert [effect.inflation for effect in found.mains] == [pytest.approx((1 / 4 + 1 / 4) / (1 / 16 + 1 / 16))] * 7
    assert not any(effect.estimable for effect in found.interactions)
    assert "baseline of all other factors" in properties_text(found)[-1]


def test_blocks_take_their_share() -> None:
    """Each of seven levels in a block of two with the baseline: every difference is seen inside its block alone."""
    design = Design(blocks="incomplete", block_size=2, replicates=1, sentinels=50, seed=2)
    plan = make_plan(factors_of(*(2,) * 7), design)
    found = describe_design(plan)
    assert found.blocks == 7
    assert all(effect.estimable for effect in found.mains)
    assert found.residual_df == len(plan.trials) - 7 - 7


def test_what_cannot_be_estimated_is_named() -> None:
    plan = make_plan(factors_of(2, 2, 2), Design(kind="full-factorial", replicates=1))
    # only trials in which A and B go together
    kept = tuple(trial for trial in plan.trials if trial.treatment["A"] == trial.treatment["B"])
    found = describe_design(type(plan)(plan.kind, plan.seed, plan.factors, kept))
    assert [effect.estimable for effect in found.mains] == [False, False, True]
    assert found.mains[0].inflation is None
    assert found.d_efficiency is None
    assert "cannot be estimated: A, B" in properties_text(found)


def test_whole_plot_effects_and_dear_changes_are_told() -> None:
    factors = [*factors_of(2, 2), Factor("K", ("a", "b"), "a", apply_cost=ApplyCost.KERNEL)]
    found = describe_design(make_plan(factors, Design(kind="full-factorial", replicates=3, sentinels=None)))
    assert found.plots == 6
    assert [effect.whole_plot for effect in found.mains] == [False, False, True]
    assert 3 <= found.dear_changes["kernel"] <= 5
    assert any("whole-plot effects: K" in line for line in properties_text(found))


def test_many_interactions_are_not_looked_at_but_said() -> None:
    found = describe_design(make_plan([Factor(f"f{n}", tuple(range(4)), 0) for n in range(20)], Design(sentinels=None)))
    assert found.interactions == ()
    assert "too many to look at" in found.remarks[0]
