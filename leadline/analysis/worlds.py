"""Worlds as the blocks of a randomised complete block design: the noise of a comparison of forks.

Inside a world there is no noise. What is left of a difference after its mean over worlds is how it varies from world
to world, and that is another thing for every setting: one touches nothing, another the whole course of a run. Where
factors are crossed a level varies with the world in all its treatments together, too. So the noise of a contrast is
that of its own values in the worlds, which are independent whatever is inside them, and nothing is borrowed from other
contrasts. In complete worlds that is the paired t test (Scheffe, The Analysis of Variance, 1959, chapter 8: treatments
x random blocks); where trials are missing, the clustered sandwich with as many degrees of freedom as worlds, less one
(Bell and McCaffrey 2002, Survey Methodology 28, 169-181).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from leadline.analysis.linear import Fit
from leadline.analysis.strata import Stratum, centred
from leadline.analysis.table import Floats, Ints

_ROUNDING = 1e-9  # of the standard error that the residuals of all figures give: less is none


@dataclass(frozen=True)
class WorldsFit(Fit):
    """A fit of n figures whose contrasts have the noise of their values in the worlds. ``basis`` (n, r) spans the
    columns; ``residuals`` (n); ``worlds`` (n) counts from 0; ``varying`` (p, worlds) tells in which a column varies.
    """

    basis: Floats = field(default_factory=lambda: np.zeros((0, 0)))
    residuals: Floats = field(default_factory=lambda: np.zeros(0))
    worlds: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    varying: NDArray[np.bool_] = field(default_factory=lambda: np.zeros((0, 0), dtype=np.bool_))

    @property
    def separate(self) -> bool:
        return True

    def errors(self, contrasts: Floats) -> Floats:
        scatter = self.sigma * np.linalg.norm(self.scatter(contrasts), axis=1)
        return np.asarray(np.maximum(scatter, _ROUNDING * self._usual(contrasts)), dtype=np.float64)

    def constant(self, contrasts: Floats) -> NDArray[np.bool_]:
        """(k): whether a contrast is the same in every world that tells of it: nothing is known of its noise."""
        same = self.errors(contrasts) <= 2 * _ROUNDING * self._usual(contrasts)
        return np.asarray(same | (self._used(contrasts).sum(axis=1) < 2), dtype=np.bool_)

    def degrees(self, contrasts: Floats) -> Floats:
        return np.asarray(np.maximum(self._used(contrasts).sum(axis=1) - 1.0, 1.0), dtype=np.float64)

    def scatter(self, contrasts: Floats) -> Floats:
        """(k, worlds): what each world adds to the contrasts beyond its share, in units of sigma."""
        moved = self._in_worlds(self._weights(contrasts) * self.residuals) / self.sigma
        used = self._used(contrasts).sum(axis=1, keepdims=True)
        return np.asarray(moved * np.sqrt(used / np.maximum(used - 1, 1)), dtype=np.float64)

    def _usual(self, contrasts: Floats) -> Floats:
        """Standard errors (k) from the residuals of all figures."""
        return np.asarray(self.sigma * np.linalg.norm(contrasts @ self.half, axis=1), dtype=np.float64)

    def _weights(self, contrasts: Floats) -> Floats:
        """(k, n): contrasts as sums of figures."""
        return np.asarray(contrasts @ self.half @ self.basis.T, dtype=np.float64)

    def _used(self, contrasts: Floats) -> NDArray[np.bool_]:
        """(k, worlds): the worlds that tell of a contrast: one of its columns varies there."""
        uses = np.abs(contrasts) > 1e-12
        return np.asarray(uses.astype(np.int64) @ self.varying.astype(np.int64) > 0, dtype=np.bool_)

    def _in_worlds(self, figures: Floats) -> Floats:
        member = np.asarray(self.worlds[:, None] == np.arange(int(self.worlds.max()) + 1), dtype=np.float64)
        products: Floats = figures @ member
        return products


def worlds_fit(fit: Fit, design: Floats, values: Floats, swept: Stratum | None, blocks: Ints) -> WorldsFit:
    """The least squares ``fit`` of ``values`` (n) on ``design`` (n, p), judged by how it varies between ``blocks`` (n).
    Rows in the order of blocks.
    """
    worlds = np.unique(blocks, return_inverse=True)[1].astype(np.int64)
    inside = [design[worlds == world] for world in range(int(worlds.max()) + 1)]
    varying = np.column_stack([np.ptp(rows, axis=0) > 1e-12 for rows in inside])
    if swept is not None:
        design, values = centred(design, swept.starts), centred(values[:, None], swept.starts)[:, 0]
    residuals = values - design @ fit.beta
    return WorldsFit(fit.beta, fit.half, fit.rows, fit.df, fit.sigma, design @ fit.half, residuals, worlds, varying)
