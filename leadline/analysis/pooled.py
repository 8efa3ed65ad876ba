"""The noise that several comparisons of the same kind have in common, such as the steps of a tuning.

A comparison of two blocks has few degrees of freedom of its own. Those of others are added where its own noise is not
the larger one by an F test before pooling (Bozivich, Bancroft and Hartley 1956). The test is one-sided, and at
``ALIKE``: at the usual 0.25 a step with 1.5 to 2 times the noise of the others errs three times too often at the
levels by which a tuning decides; at 0.5 it is 1.7 times, and steps of equal noise err half as often as they may.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from leadline.analysis.linear import Fit
from leadline.model import distributions

ALIKE = 0.5  # level of the test by which the noise of others is not used


@dataclass(frozen=True)
class Residual:
    """``variance`` of the logarithms of one trial's figures, with its degrees of freedom."""

    df: int
    variance: float


def pooled(fit: Fit, others: Sequence[Residual]) -> Fit:
    """``fit`` with its noise and that of ``others`` as one, as a plain fit; ``fit`` itself where its own is larger."""
    df = sum(other.df for other in others)
    if df <= 0 or fit.df <= 0 or fit.sigma <= 0:
        return fit
    variance = sum(other.df * other.variance for other in others) / df
    if variance <= 0 or distributions.f.sf(fit.sigma**2 / variance, fit.df, df) < ALIKE:
        return fit
    every = fit.df + df
    sigma = float((fit.df * fit.sigma**2 + df * variance) / every) ** 0.5
    return Fit(fit.beta, fit.half, fit.rows, every, sigma)
