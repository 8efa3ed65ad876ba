"""Noisy bisection: its probabilities against numerical integration, and how often plays of it are right."""

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from scipy import integrate

from leadline.planning.bisection import (
    Bisection,
    Block,
    Changes,
    Found,
    expected,
    halves,
    next_block,
    play,
    prefixes,
    rows,
)

A, B = frozenset[int](), frozenset({0, 1, 2})
FEW = (
    Block((A, B, A), (0.0, 1.9, 0.2)),
    Block((B, frozenset({0}), B), (5.2, 3.1, 4.9)),
    Block((A, frozenset({0, 1}), A), (-3.0, -2.9, -3.3)),
)


def marginal(state: Bisection, change: int, scale: float) -> float:
    """Likelihood ratio of one change against none: size and noise integrated numerically, block by block."""
    sigma = np.exp(np.linspace(-5, 5, 400))[:, None]
    size = sigma * np.linspace(-60, 60, 2401)[None, :]
    one, none = np.ones_like(size), np.ones_like(sigma)
    for block in state.blocks:
        held, values = rows(block.treatments, state.changes)[:, change], np.array(block.values)
        centred, moved = values - values.mean(), held - held.mean()
        squares = (centred @ centred) - 2 * size * (centred @ moved) + size**2 * (moved @ moved)
        one = one * sigma ** (1 - len(values)) * np.exp(-squares / (2 * sigma**2))
        none = none * sigma ** (1 - len(values)) * np.exp(-(centred @ centred) / (2 * sigma**2))
    relative = size / sigma
    prior = np.exp(-(relative**2) / (2 * scale)) / math.sqrt(2 * math.pi * scale)
    inner = integrate.trapezoid(one * prior, relative[0], axis=1)
    logs = np.log(sigma[:, 0])
    return float(integrate.trapezoid(inner, logs) / integrate.trapezoid(none[:, 0], logs))


@pytest.mark.parametrize("scale", [4.0, 64.0])
def test_the_probabilities_are_those_of_numerical_integration(scale: float) -> None:
    state = Bisection(3, FEW, prefixes(3))
    information, sums = state._regressors
    own = np.diag(information)
    exact = np.exp(state._likelihood(np.log1p(scale * own), sums**2 / (own + 1 / scale)) - state._likelihood(0.0, 0.0))
    assert [marginal(state, change, scale) for change in range(3)] == pytest.approx(exact.tolist(), rel=0.01)
    assert state._weights.sum() == pytest.approx(1)


def test_block_means_and_the_unit_have_no_part() -> None:
    state = Bisection(3, FEW, prefixes(3))
    moved = tuple(
        replace(block, values=tuple(7 * value + 100 * at for value in block.values)) for at, block in enumerate(FEW)
    )
    assert Bisection(3, moved, prefixes(3))._weights == pytest.approx(state._weights)


@pytest.mark.parametrize(("changes", "ordered"), [(15, True), (12, False)])
def test_one_culprit_is_found_and_wrong_answers_are_rarer_than_said(changes: int, ordered: bool) -> None:
    wrong, trials = 0, []
    for seed in range(30):
        rng = np.random.default_rng(seed)
        culprit = int(rng.integers(changes))

        def measure(held: Changes, culprit: int = culprit, rng: np.random.Generator = rng) -> float:
            return 4.0 * (culprit in held) + float(rng.normal())

        usable = prefixes(changes) if ordered else halves(changes, seed)
        state = play(Bisection(changes, (), usable, margin=0.3), measure)
        wrong += not (state.found is Found.ONE and state.places == ((culprit,),))
        trials.append(state.trials)
    assert wrong <= 4  # two are expected at most; more has a probability below 5 %
    assert np.mean(trials) < 35


def test_two_culprits_and_gradual_changes_are_not_told_as_one() -> None:
    for effects, found in (
        ({3: 4.0, 9: 4.0}, {Found.TWO}),
        (dict.fromkeys(range(15), 0.8), {Found.MANY, Found.TWO}),
    ):
        told = []
        for seed in range(10):
            rng = np.random.default_rng(seed)

            def measure(held: Changes, effects: dict[int, float] = effects, rng: np.random.Generator = rng) -> float:
                return sum(effects.get(one, 0.0) for one in held) + float(rng.normal())

            told.append(play(Bisection(15, (), prefixes(15)), measure).found)
        assert sum(each in found for each in told) >= 8, told


def test_where_nothing_differs_nothing_is_found() -> None:
    rng = np.random.default_rng(5)
    plays = [play(Bisection(7, (), prefixes(7), margin=0.8), lambda _: float(rng.normal())) for _ in range(10)]
    found = [each.found for each in plays]
    assert found.count(Found.NONE) >= 6
    assert Found.ONE not in found


@pytest.mark.parametrize("culprit", range(8))
def test_exact_probes_bisect(culprit: int) -> None:
    state = play(Bisection(8, (), prefixes(8), exact=True), lambda held: 1.0 + 0.001 * (culprit in held))
    assert (state.found, state.places) == (Found.ONE, ((culprit,),))
    assert len(state.blocks) <= 4  # the ends, and three halvings


def test_an_exact_probe_between_the_ends_speaks_against_one_step() -> None:
    assert play(Bisection(8, (), prefixes(8), exact=True), lambda held: float(len(held))).found is not Found.ONE


def test_changes_that_no_treatment_separates_are_told_together() -> None:
    usable = tuple(held for held in prefixes(6) if len(held) not in (3, 4))
    rng = np.random.default_rng(1)
    state = play(Bisection(6, (), usable), lambda held: 6.0 * (3 in held) + float(rng.normal()))
    assert (state.found, state.places) == (Found.ONE, ((2, 3, 4),))


def test_a_block_begins_and_ends_with_an_end_and_the_first_has_both() -> None:
    state = Bisection(9, (), prefixes(9))
    assert next_block(state) == (A, frozenset(range(9)), A)
    rng = np.random.default_rng(2)
    for block in play(state, lambda held: 3.0 * (5 in held) + float(rng.normal())).blocks:
        assert block.treatments[0] == block.treatments[-1]
        assert len(block.treatments[0]) in (0, 9)
        assert all(one != other for one, other in pairwise(block.treatments))


def test_what_a_dry_run_expects_falls_with_the_effect() -> None:
    small, large = (expected(15, prefixes(15), effect, 1.0, plays=6).trials for effect in (3.0, 8.0))
    assert large < small
    assert expected(15, prefixes(15), 0.01, 1.0, exact=True).probes <= 6
