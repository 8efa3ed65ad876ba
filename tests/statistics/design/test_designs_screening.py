"""Plackett-Burman and definitive screening designs and the matrices they are made of."""

import itertools
from collections import Counter

import numpy as np
import pytest

from leadline.design import definitive_screening, plackett_burman
from leadline.design.coding import conference, hadamard, jacobsthal, prime_power
from leadline.model.design import Design
from leadline.model.errors import UsageError
from leadline.model.plan import Factor

# First rows as Plackett and Burman printed them (1946); the row of 36 is theirs read backwards from another place.
FIRST_ROWS = {
    8: "+++-+--",
    12: "++-+++---+-",
    20: "++--++++-+-+----++-",
    24: "+++++-+-++--++--+-+----",
}
PRINTED_36 = "-+-+++---+++++-+++--+----+-+-++--+-"


def row_text(row: np.ndarray) -> str:
    return "".join("+" if value > 0 else "-" for value in row)


@pytest.mark.parametrize("runs", FIRST_ROWS)
def test_plackett_burman_rows_are_the_published_ones(runs: int) -> None:
    found = plackett_burman.matrix(runs)
    assert found is not None
    published = FIRST_ROWS[runs]
    assert row_text(found[0]) in {published, published[:1] + published[:0:-1]}
    assert all(row_text(found[shift]) == row_text(np.roll(found[0], shift)) for shift in range(runs - 1))


def test_plackett_burman_of_36_is_the_published_one_up_to_order() -> None:
    found = plackett_burman.matrix(36)
    assert found is not None
    backwards = {row_text(row)[::-1] for row in found[:-1]}
    assert PRINTED_36 in backwards


@pytest.mark.parametrize("runs", range(4, 129, 4))
def test_plackett_burman_columns_are_orthogonal_and_balanced(runs: int) -> None:
    found = plackett_burman.matrix(runs)
    if found is None:
        assert runs in (92, 116)
        return
    assert np.array_equal(found.T @ found, runs * np.eye(runs - 1))
    assert not found.sum(axis=0).any()
    assert (found[-1] == -1).all()


def test_a_size_that_is_not_built_falls_back_to_the_next() -> None:
    factors = [Factor(f"f{number}", (0, 1), 0) for number in range(90)]
    assert plackett_burman.count(factors, Design(kind="plackett-burman")) == 96


def two_levels(count: int) -> list[Factor]:
    return [Factor(f"f{number}", (0, 1), 0) for number in range(count)]


def test_a_foldover_clears_main_effects_of_two_factor_interactions() -> None:
    runs = plackett_burman.treatments(two_levels(11), Design(kind="plackett-burman", foldover=True))
    coded = np.array([[2 * int(run[f"f{number}"]) - 1 for number in range(11)] for run in runs])
    assert coded.shape == (24, 11)
    for a, b in itertools.combinations(range(11), 2):
        assert not (coded.T @ (coded[:, a] * coded[:, b])).any()


def test_plackett_burman_of_12_mixes_a_third_of_every_interaction_into_a_main_effect() -> None:
    found = plackett_burman.matrix(12)
    assert found is not None
    shares = Counter(
        abs(int(found[:, c] @ (found[:, a] * found[:, b])))
        for a, b in itertools.combinations(range(11), 2)
        for c in range(11)
        if c not in (a, b)
    )
    assert shares == {4: 495}


@pytest.mark.parametrize(
    ("factors", "keys", "words"),
    [
        (two_levels(11), {"runs": 18}, "the nearest that does has 16"),
        (two_levels(130), {}, "more than 128 runs"),
        ([Factor("a", (1, 2, 3), 1), *two_levels(3)], {}, "d-optimal takes any mixture"),
    ],
)
def test_plackett_burman_refuses_with_what_would_do(factors: list[Factor], keys: dict[str, int], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        plackett_burman.count(factors, Design(kind="plackett-burman", **keys))


@pytest.mark.parametrize("q", [3, 5, 7, 9, 11, 25, 27, 49, 81])
def test_the_quadratic_character_of_a_field(q: int) -> None:
    """Half of the elements that are not zero are squares; J J' = q I - 1; J 1 = 0."""
    matrix = np.array(jacobsthal(q))
    assert np.array_equal(np.unique(matrix, return_counts=True)[1], [q * (q - 1) // 2, q, q * (q - 1) // 2])
    assert np.array_equal(matrix @ matrix.T, q * np.eye(q) - np.ones((q, q)))
    assert np.array_equal(matrix.T, matrix * (1 if q % 4 == 1 else -1))


def test_prime_powers() -> None:
    assert [q for q in range(2, 30) if prime_power(q)] == [
        *(2, 3, 4, 5, 7, 8, 9, 11, 13, 16, 17, 19, 23, 25, 27, 29),
    ]
    assert prime_power(49) == (7, 2)
    with pytest.raises(ValueError, match="odd prime"):
        jacobsthal(15)


@pytest.mark.parametrize("order", range(2, 61, 2))
def test_conference_matrices(order: int) -> None:
    found = conference(order)
    if found is None:
        assert order in (2, 22, 34, 36, 46, 52, 58, 60)
        return
    assert np.array_equal(found.T @ found, (order - 1) * np.eye(order))
    assert not np.diag(found).any()
    assert set(np.unique(found)) == {-1, 0, 1}


@pytest.mark.parametrize("order", [1, 2, *range(4, 92, 4)])
def test_hadamard_matrices_below_92(order: int) -> None:
    found = hadamard(order)
    assert found is not None
    assert np.array_equal(found.T @ found, order * np.eye(order))
    assert (found[:, 0] == 1).all()


def three_levels(count: int) -> list[Factor]:
    return [Factor(f"f{number}", (1, 5, 9), 5) for number in range(count)]


@pytest.mark.parametrize("factors", [3, 4, 5, 6, 7, 8, 10, 11, 12, 13, 15, 18, 21, 26, 33])
def test_definitive_screening_is_what_jones_and_nachtsheim_promise(factors: int) -> None:
    coded = definitive_screening.matrix(factors)
    order = definitive_screening.order_for(factors)
    assert order is not None
    assert coded.shape == (2 * order + 1, factors)
    assert not coded[-1].any()
    rows = Counter(map(tuple, coded.tolist()))
    assert all(rows[tuple(-value for value in row)] == times for row, times in rows.items())
    products = coded.T @ coded
    assert np.array_equal(products, (2 * order - 2) * np.eye(factors))  # three zeros in every column
    for a, b in itertools.combinations_with_replacement(range(factors), 2):
        assert not (coded.T @ (coded[:, a] * coded[:, b])).any()
    squares = np.hstack([np.ones((len(coded), 1)), coded, coded**2])
    assert np.linalg.matrix_rank(squares) == 1 + 2 * factors


def test_the_screening_design_of_four_factors_is_the_published_one_up_to_names_and_signs() -> None:
    """Jones and Nachtsheim (2011); a run, and below it its mirror image, the last one in the middle."""
    published = {(0, 1, -1, -1), (-1, 0, -1, 1), (-1, -1, 0, -1), (-1, 1, 1, 0)}
    published |= {(-a, -b, -c, -d) for a, b, c, d in published} | {(0, 0, 0, 0)}
    ours = definitive_screening.matrix(4)
    assert any(
        {tuple(row) for row in (ours[:, list(order)] * signs).tolist()} == published
        for order in itertools.permutations(range(4))
        for signs in itertools.product((-1, 1), repeat=4)
    )


@pytest.mark.parametrize(("factors", "runs"), [(4, 9), (6, 13), (8, 17), (10, 21), (12, 25), (7, 17), (21, 49)])
def test_definitive_screening_sizes(factors: int, runs: int) -> None:
    """2 m + 1 for even m; one fake factor for an odd number; 22 has no conference matrix, 24 has."""
    assert definitive_screening.count(three_levels(factors), Design()) == runs


def test_levels_are_ordered_low_middle_high() -> None:
    assert definitive_screening.ordered_levels(Factor("a", (20, 5, 60), 20)) == (5, 20, 60)
    assert definitive_screening.ordered_levels(Factor("a", ("small", "mid", "big"), "mid")) == ("small", "mid", "big")
    runs = definitive_screening.treatments([Factor(name, (20, 5, 60), 20) for name in "abcd"], Design())
    assert set(runs[-1].as_dict().values()) == {20}
    assert Counter(run["a"] for run in runs) == {20: 3, 5: 3, 60: 3}


@pytest.mark.parametrize(
    ("factors", "words"),
    [
        ([*three_levels(3), Factor("b", (True, False), True)], "b has two: add a middle level, or use d-optimal"),
        (two_levels(4), "plackett-burman screens two-level factors"),
        ([*three_levels(3), Factor("b", (1, 2, 3, 4), 1)], "b has more: name three, or use d-optimal"),
    ],
)
def test_definitive_screening_refuses_other_level_counts(factors: list[Factor], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        definitive_screening.count(factors, Design())
