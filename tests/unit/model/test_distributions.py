"""The distributions against scipy.stats, their far tails included."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from scipy import stats

from leadline.model import distributions

MIDDLE = [0.0, 1e-8, 1e-4, 0.01, 0.025, 0.3, 0.5, 0.7, 0.975, 0.99, 1 - 1e-9, 1.0]
TAILS = [1e-300, 1e-100, 1e-16]  # in which scipy's own F and beta are off or nan
PLACES = np.array([-1e6, -300.0, -38.0, -8.0, -2.0, -0.1, 0.0, 1e-9, 0.1, 1.0, 2.0, 8.0, 38.0, 300.0, 1e6])
FREE = np.array([0.3, 1.0, 1.5, 2.0, 3.0, 7.7, 30.0, 200.0, 1e5])
SHAPES: dict[str, tuple[np.ndarray, ...]] = {
    "norm": (),
    "t": (np.append(FREE, [np.inf, 0.0, -1.0, np.nan]),),
    "chi2": (np.append(FREE, [0.0, np.nan]),),
    "f": (np.array([1.0, 2.5, 8.0, 90.0]), np.array([0.0, 1.0, 3.3, 12.0, 400.0])),
    "beta": (np.array([0.5, 1.0, 4.0, 300.0]), np.array([1.0, 2.5, 70.0])),
}


def functions() -> list[tuple[str, str]]:
    return [
        (law, name)
        for law in SHAPES
        for name in ("cdf", "sf", "ppf", "isf")
        if hasattr(getattr(distributions, law), name)
    ]


def places(law: str, name: str) -> np.ndarray:
    if name not in ("ppf", "isf"):
        return PLACES
    return np.array(MIDDLE if law in ("f", "beta") else TAILS + MIDDLE)


@pytest.mark.parametrize(("law", "name"), functions())
def test_same_as_scipy(law: str, name: str) -> None:
    grid: Any = np.meshgrid(places(law, name), *SHAPES[law], indexing="ij")
    ours = getattr(getattr(distributions, law), name)(*grid)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        theirs = getattr(getattr(stats, law), name)(*grid)
    np.testing.assert_allclose(ours, theirs, rtol=1e-7 if name in ("ppf", "isf") else 1e-10, atol=1e-300)


@pytest.mark.parametrize("degrees", [(1, 1), (2, 12), (8, 3.3), (90, 400)])
def test_far_tail_of_f_is_its_own_inverse(degrees: tuple[float, float]) -> None:
    tails = np.array([1e-100, 1e-16, 1e-12])
    np.testing.assert_allclose(distributions.f.sf(distributions.f.isf(tails, *degrees), *degrees), tails, rtol=1e-8)


def test_noncentral_t_same_as_scipy() -> None:
    grid = np.meshgrid([-3.0, 0.0, 1.0, 2.2, 4.0, 9.0], [1.0, 4.0, 12.5, 80.0], [0.0, 0.4, 2.0, 5.0], indexing="ij")
    for name in ("cdf", "sf"):
        ours, theirs = (getattr(of.nct, name)(*grid) for of in (distributions, stats))
        np.testing.assert_allclose(ours, theirs, rtol=1e-7, atol=1e-12)


def test_a_number_gives_a_number() -> None:
    assert isinstance(float(distributions.t.isf(0.025, 4)), float)
    assert distributions.t.isf(0.025, [3, 4]).shape == (2,)
