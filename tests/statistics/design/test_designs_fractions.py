"""Regular fractions: least aberration, resolution, aliases, against published tables and exhaustive searches."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leadline.design import plackett_burman
from leadline.design.coding import level_indices
from leadline.design.fractional_factorial import (
    ADDED,
    Choice,
    available,
    choose,
    matrix,
    search,
    signs,
    treatments,
    word_lengths,
)
from leadline.design.properties import regular_fraction
from leadline.model.design import Design
from leadline.model.errors import UsageError
from leadline.model.plan import Factor

# Box, Hunter and Hunter, Statistics for Experimenters: the highest resolution by runs (rows) for 3, 4 ... 11 factors.
RESOLUTIONS = {
    4: {3: 3},
    8: {4: 4, 5: 3, 6: 3, 7: 3},
    16: {5: 5, 6: 4, 7: 4, 8: 4, 9: 3, 10: 3, 11: 3},
    32: {6: 6, 7: 4, 8: 4, 9: 4, 10: 4, 11: 4},
    64: {7: 7, 8: 5, 9: 4, 10: 4, 11: 4},
    128: {8: 8, 9: 6, 10: 5, 11: 5},
}
# Chen, Sun and Wu (1993), Int. Statist. Rev. 61, 131-145: words of length 3, 4, 5, 6 of the best fractions.
PUBLISHED = {
    (4, 6): (0, 3, 0, 0),
    (4, 7): (0, 7, 0, 0),
    (4, 8): (0, 14, 0, 0),
    (4, 9): (4, 14, 8, 0),
    (4, 10): (8, 18, 16, 8),
    (4, 11): (12, 26, 28, 24),
    (4, 12): (16, 39, 48, 48),
    (4, 15): (35, 105, 168, 280),
    (5, 7): (0, 1, 2, 0),
    (5, 8): (0, 3, 4, 0),
    (5, 9): (0, 6, 8, 0),
    (5, 10): (0, 10, 16, 0),
    (5, 11): (0, 25, 0, 27),
    (5, 12): (0, 38, 0, 52),
    (5, 13): (0, 55, 0, 96),
    (5, 14): (0, 77, 0, 168),
    (5, 15): (0, 105, 0, 280),
    (5, 16): (0, 140, 0, 448),
    (6, 8): (0, 0, 2, 1),
    (6, 9): (0, 1, 4, 2),
    (6, 10): (0, 2, 8, 4),
    (6, 11): (0, 4, 14, 8),
    (6, 12): (0, 6, 24, 16),
    (6, 13): (0, 14, 28, 24),
}


def two_level(count: int) -> list[Factor]:
    return [Factor(f"f{number:02d}", ("off", "on"), "off") for number in range(count)]


def columns_of(q: int, factors: int) -> tuple[int, ...]:
    return (*(1 << bit for bit in range(q)), *ADDED[(q, factors)])


def words_by_listing(q: int, columns: tuple[int, ...]) -> list[int]:
    """Word lengths from all 2^p products of generators."""
    p = len(columns) - q
    generators = [
        (1 << (q + number)) | sum(1 << bit for bit in range(q) if columns[q + number] >> bit & 1) for number in range(p)
    ]
    found = [0] * len(columns)
    for chosen in range(1, 1 << p):
        word = 0
        for number in range(p):
            if chosen >> number & 1:
                word ^= generators[number]
        found[word.bit_count() - 1] += 1
    return found


@pytest.mark.parametrize(("runs", "factors"), [(runs, k) for runs, row in RESOLUTIONS.items() for k in row])
def test_the_resolution_is_that_of_box_hunter_and_hunter(runs: int, factors: int) -> None:
    choice = next(choice for choice in available(factors) if choice.runs == runs)
    assert choice.resolution == RESOLUTIONS[runs][factors]


@pytest.mark.parametrize("size", PUBLISHED)
def test_word_lengths_are_those_published(size: tuple[int, int]) -> None:
    assert word_lengths(size[0], columns_of(*size))[2:6] == PUBLISHED[size]


@pytest.mark.parametrize(("q", "factors"), [(3, 5), (3, 6), (4, 5), (4, 6), (4, 7), (4, 8), (4, 9), (4, 10)])
def test_no_fraction_of_8_or_16_runs_has_less_aberration(q: int, factors: int) -> None:
    every = [column for column in range(1, 1 << q) if column & (column - 1)]
    basic = [1 << bit for bit in range(q)]
    best = min(word_lengths(q, [*basic, *added]) for added in itertools.combinations(every, factors - q))
    assert word_lengths(q, columns_of(q, factors)) == best


def test_the_search_finds_the_table_again() -> None:
    for q, factors in ((4, 9), (5, 10), (6, 9)):
        found = word_lengths(q, (*(1 << bit for bit in range(q)), *search(q, factors, 6, seed=5)))
        assert found == word_lengths(q, columns_of(q, factors))


@pytest.mark.parametrize("size", [size for size in ADDED if size[1] - size[0] <= 9])
def test_word_lengths_are_those_of_the_whole_defining_relation(size: tuple[int, int]) -> None:
    columns = columns_of(*size)
    assert list(word_lengths(size[0], columns)) == words_by_listing(size[0], columns)


@pytest.mark.parametrize("size", ADDED)
def test_every_fraction_is_balanced_orthogonal_and_holds_the_baseline(size: tuple[int, int]) -> None:
    q, factors = size
    coded = matrix(Choice(q, columns_of(q, factors), foldover=False))
    assert coded.shape == (1 << q, factors)
    assert np.array_equal(coded.T @ coded, (1 << q) * np.eye(factors))
    assert not coded.sum(axis=0).any()
    assert (coded[0] == -1).all()


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 5), st.integers(1, 4), st.randoms(use_true_random=False))
def test_a_fraction_is_recognised_whatever_the_order_and_signs(q: int, extra: int, source: object) -> None:
    rng = np.random.default_rng(source.randrange(2**32))  # type: ignore[attr-defined]
    columns = [*(1 << bit for bit in range(q)), *rng.integers(1, 1 << q, extra).tolist()]
    turned = rng.choice([-1, 1], len(columns))
    coded = (signs(q)[:, columns] * turned)[rng.permutation(1 << q)]
    coded = np.repeat(coded, rng.integers(1, 3), axis=0)[:, rng.permutation(len(columns))]
    found = regular_fraction(coded)
    assert found is not None
    for word in found.words():
        assert (coded[:, list(word.effect)].prod(axis=1) == word.sign).all()
    constant = sum(
        abs(int(coded[:, list(effect)].prod(axis=1).sum())) == len(coded)
        for size in range(1, len(columns) + 1)
        for effect in itertools.combinations(range(len(columns)), size)
    )
    assert constant == len(found.words()) == sum(found.word_lengths)
    mains = [(factor,) for factor in range(len(columns))]
    for effect, aliases in found.aliases(mains, order=3).items():
        own = coded[:, list(effect)].prod(axis=1)
        others = [e for size in (1, 2, 3) for e in itertools.combinations(range(len(columns)), size) if e != effect]
        inner = {e: int(own @ coded[:, list(e)].prod(axis=1)) / len(coded) for e in others}
        assert {alias.effect: alias.sign for alias in aliases} == {e: v for e, v in inner.items() if abs(v) == 1}


def test_what_is_no_regular_fraction_is_not_called_one() -> None:
    twelve = plackett_burman.matrix(12)
    assert twelve is not None
    assert regular_fraction(twelve) is None
    assert regular_fraction(signs(3)[:7, [1, 2, 4]]) is None
    projected = twelve[:, :2]  # a full factorial of two factors, three times
    found = regular_fraction(projected)
    assert found is not None
    assert found.resolution is None


def test_the_eighth_of_seven_factors_has_the_published_defining_relation() -> None:
    """2^(7-4): sixteen words with the identity, seven of three letters, seven of four, one of seven."""
    coded = matrix(Choice(3, columns_of(3, 7), foldover=False))
    found = regular_fraction(coded)
    assert found is not None
    lengths = [len(word.effect) for word in found.words()]
    assert lengths == [3] * 7 + [4] * 7 + [7]
    pairs = found.aliases([(0,)], order=2)[(0,)]
    assert len(pairs) == 3
    assert {factor for alias in pairs for factor in alias.effect} == set(range(1, 7))


@pytest.mark.parametrize(
    ("factors", "keys", "runs", "resolution"),
    [
        (7, {}, 16, 4),
        (7, {"resolution": 3}, 8, 3),
        (7, {"resolution": 5}, 64, 7),
        (8, {"resolution": 5}, 64, 5),
        (7, {"foldover": True}, 16, 4),
        (15, {"foldover": True}, 32, 4),
        (33, {"resolution": 3}, 64, 3),
        (33, {}, 128, 4),
        (7, {"runs": 32}, 32, 4),
    ],
)
def test_the_fewest_runs_that_reach_the_resolution(
    factors: int, keys: dict[str, int], runs: int, resolution: int
) -> None:
    design = Design(kind="fractional-factorial", **keys)
    choice = choose(two_level(factors), design)
    assert (choice.runs, choice.resolution) == (runs, resolution)
    made = treatments(two_level(factors), design)
    assert len(set(made)) == len(made) == runs
    found = regular_fraction(2 * level_indices(two_level(factors), made) - 1)
    assert found is not None
    assert found.resolution == resolution
    assert math.prod(level_indices(two_level(factors), made[:1])[0] + 1) == 1  # the baseline first


@pytest.mark.parametrize(
    ("factors", "keys", "words"),
    [
        (two_level(2), {}, "full-factorial takes 4 runs"),
        (two_level(3), {}, "4 runs reach III, and full-factorial takes 8"),
        (two_level(12), {"resolution": 5}, "32 runs reach IV, and d-optimal with `model: interactions` takes about 80"),
        (two_level(7), {"runs": 8}, "8 runs of 7 factors reach resolution III at most, not IV; resolution IV takes 16"),
        (two_level(7), {"runs": 24}, "no fraction of 7 factors has 24 runs; there are 8, 16, 32, 64"),
        (two_level(4), {"foldover": True}, "would only repeat the same runs"),
        (two_level(41), {}, "plackett-burman can"),
        ([*two_level(3), Factor("x", (1, 2, 3), 1)], {}, "d-optimal takes any mixture"),
        ([Factor(name, (1, 2, 3), 1) for name in "abc"], {}, "definitive-screening takes three levels"),
    ],
)
def test_a_fraction_that_cannot_be_says_what_would_do(factors: list[Factor], keys: dict[str, int], words: str) -> None:
    with pytest.raises(UsageError) as refusal:
        choose(factors, Design(kind="fractional-factorial", **keys))
    assert words in str(refusal.value)
