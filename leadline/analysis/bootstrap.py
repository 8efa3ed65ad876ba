"""BCa intervals: bias-corrected and accelerated bootstrap of means over the units a level was assigned to.

Efron, Better bootstrap confidence intervals, J. Am. Stat. Assoc. 82 (1987), as SciPy has it; expanded for few units as
in Hesterberg, What teachers should know about the bootstrap, Am. Stat. 69 (2015): nominal tails are those of the normal
law at the t quantile times the root of units over degrees of freedom, since a resample spreads less than the noise.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from leadline.analysis.table import Floats, Ints

FEWEST = 8  # units on each side, or pairs
RESAMPLES = 1999
_LARGEST = 2000  # units; beyond, every mean is as good as normal
_SEED = 1987


@dataclass(frozen=True)
class Resampled:
    """Interval of the mean difference on the scale of the figures; None with a ``reason``."""

    interval: tuple[float, float] | None
    reason: str = ""


def of_two(one: Floats, other: Floats, level: float, ratio: float, unit: str) -> Resampled:
    """Mean of ``one`` less that of ``other``; ``ratio`` is figures over degrees of freedom in the model that freed them
    of other effects.
    """
    fewest = min(len(one), len(other))
    if fewest < FEWEST:
        return Resampled(None, f"{fewest} {unit} on a side, and a bootstrap needs {FEWEST}")
    if np.ptp(one) == 0 or np.ptp(other) == 0:
        return Resampled(None, "all figures of a side are equal")
    df = len(one) + len(other) - 2
    return _bca((one, other), level, max(ratio, (df + 2) / df), df)


def of_pairs(values: Floats, treated: Ints, unit: Ints, level: float, name: str) -> Resampled:
    """Mean over units of the difference, inside each, between the means with ``treated`` 1 and 0."""
    differences = []
    for number in np.unique(unit):
        one, other = (values[(unit == number) & (treated == side)] for side in (1, 0))
        if len(one) and len(other):
            differences.append(float(one.mean() - other.mean()))
    if len(differences) < FEWEST:
        return Resampled(None, f"{len(differences)} {name} hold both levels, and a bootstrap needs {FEWEST}")
    if np.ptp(differences) == 0:
        return Resampled(None, "all differences are equal")
    df = len(differences) - 1
    return _bca((np.array(differences),), level, (df + 1) / df, df)


def _bca(samples: tuple[Floats, ...], level: float, ratio: float, df: int) -> Resampled:
    if max(len(one) for one in samples) > _LARGEST:
        return Resampled(None, f"more than {_LARGEST:,} figures, whose means are as good as normal")
    expanded = 1 - 2 * float(stats.norm.sf(math.sqrt(ratio) * stats.t.isf((1 - level) / 2, df)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of degenerate resamples, which the result shows
        found = stats.bootstrap(
            samples,
            _mean if len(samples) == 1 else _difference,
            n_resamples=RESAMPLES,
            confidence_level=min(expanded, 1 - 2 / RESAMPLES),
            method="BCa",
            vectorized=True,
            rng=np.random.default_rng(_SEED),
        ).confidence_interval
    ends = float(found.low), float(found.high)
    if not all(map(math.isfinite, ends)):
        return Resampled(None, "resamples lie on one side of the estimate alone")
    return Resampled(ends)


def _mean(values: Floats, axis: int) -> NDArray[np.float64]:
    return np.asarray(np.mean(values, axis=axis))


def _difference(one: Floats, other: Floats, axis: int) -> NDArray[np.float64]:
    return np.asarray(np.mean(one, axis=axis) - np.mean(other, axis=axis))
