"""NIST Statistical Reference Datasets, analysis of variance, from the files that SciPy installs with its tests."""

import math
from dataclasses import dataclass
from importlib import resources

import numpy as np
from numpy.typing import NDArray

from leadline.analysis.linear import fit

Floats = NDArray[np.float64]
# name -> constant leading digits, from the files' headers
SETS = {
    **{"SiRstv": 3, "SmLs01": 1, "SmLs02": 1, "SmLs03": 1, "AtmWtAg": 7},
    **{"SmLs04": 7, "SmLs05": 7, "SmLs06": 7, "SmLs07": 13, "SmLs08": 13, "SmLs09": 13},
}


@dataclass(frozen=True)
class Anova:
    """One-way analysis of variance: sums of squares, F statistic, R squared and the residual standard deviation."""

    between: float
    within: float
    statistic: float
    r_squared: float
    deviation: float


@dataclass(frozen=True)
class Reference:
    """Certified values, and the data: ``groups`` (n) and ``values`` (n)."""

    certified: Anova
    groups: Floats
    values: Floats


def reference(name: str) -> Reference:
    """One data set; the data start at line 61 of its file."""
    text = (resources.files("scipy.stats") / "tests" / "data" / "nist_anova" / f"{name}.dat").read_text()
    lines = text.splitlines()
    between, within, r_squared, deviation = (
        next(line.split() for line in lines if line.strip().startswith(words))
        for words in ("Between", "Within", "Certified R-Squared", "Standard Deviation")
    )
    certified = Anova(
        float(between[-3]), float(within[-2]), float(between[-1]), float(r_squared[-1]), float(deviation[-1])
    )
    data = np.array([line.split() for line in lines[60:] if line.strip()], dtype=np.float64)
    return Reference(certified, data[:, 0], data[:, 1])


def anova(groups: Floats, values: Floats) -> Anova:
    """By the product's least squares: the model of one mean against that of a mean for each group."""
    whole = fit(np.ones((len(values), 1)), values)
    cells = fit(np.asarray(groups[:, None] == np.unique(groups), dtype=np.float64), values)
    total, within = whole.sigma**2 * whole.df, cells.sigma**2 * cells.df
    between = total - within
    statistic = between / (whole.df - cells.df) / cells.sigma**2
    return Anova(between, within, statistic, between / total, cells.sigma)


def digits(found: float, certified: float) -> float:
    """Log relative error: the number of right digits, at most 15."""
    wrong = abs(found - certified) / abs(certified)
    return 15.0 if wrong == 0 else min(15.0, max(0.0, -math.log10(wrong)))
