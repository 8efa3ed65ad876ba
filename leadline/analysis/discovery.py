"""Adjusted p values, and estimates without the winner's share of luck."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from leadline.analysis.table import Floats


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """P values adjusted by Holm (1979) for all that are known, in the given order; None stays None."""
    ranked = sorted((p_value, at) for at, p_value in enumerate(p_values) if p_value is not None)
    adjusted: list[float | None] = [None] * len(p_values)
    largest = 0.0
    for rank, (p_value, at) in enumerate(ranked):
        largest = max(largest, min(1.0, (len(ranked) - rank) * p_value))
        adjusted[at] = largest
    return adjusted


def q_values(p_values: Floats) -> Floats:
    """Benjamini-Hochberg adjusted p values (k), in the given order.

    Valid for independent and positively dependent tests: comparisons with one baseline are (Benjamini and Yekutieli
    2001).
    """
    count = len(p_values)
    order = np.argsort(p_values, kind="stable")
    raised = p_values[order] * count / np.arange(1, count + 1)
    adjusted = np.empty(count)
    adjusted[order] = np.minimum(1.0, np.minimum.accumulate(raised[::-1])[::-1])
    return adjusted


def spread_of_truth(estimates: Floats, covariance: Floats) -> float:
    """Variance of true effects around zero by REML for ``estimates`` (k) with sampling ``covariance`` (k, k).

    Effects are changes from a baseline, so their prior mean is zero and nothing is spent on it: the likelihood itself
    is the restricted one. Never negative.
    """
    values, vectors = np.linalg.eigh(covariance)
    values = np.maximum(values, 1e-12 * max(float(values[-1]), 1e-300))
    squares = (vectors.T @ estimates) ** 2
    top = max(float(np.max(estimates**2)), float(values[-1]))
    grid = np.concatenate([[0.0], np.geomspace(1e-6 * top, 10 * top, 400)])
    total = values[:, None] + grid[None, :]
    deviance = np.sum(np.log(total) + squares[:, None] / total, axis=0)
    best = int(np.argmin(deviance))
    if best in (0, len(grid) - 1):
        return float(grid[best])
    fine = np.linspace(grid[best - 1], grid[best + 1], 201)
    total = values[:, None] + fine[None, :]
    return float(fine[np.argmin(np.sum(np.log(total) + squares[:, None] / total, axis=0))])


def shrunken(estimates: Floats, covariance: Floats) -> Floats:
    """Posterior means (k) of true effects under a normal prior around zero (empirical Bayes, Efron and Morris 1975).

    The prior's variance is :func:`spread_of_truth`. Comparisons share their baseline; its luck is shared out too,
    because the whole covariance is used.
    """
    spread = spread_of_truth(estimates, covariance)
    if spread <= 0:
        return np.zeros(len(estimates))
    total = covariance + spread * np.eye(len(estimates))
    return np.asarray(spread * np.linalg.solve(total, estimates), dtype=np.float64)
