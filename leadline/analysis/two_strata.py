"""Two strata, each analysed on its own, with a noise of its own for every level: whole plots, random blocks.

What changes inside groups is compared with the groups swept out, what changes only between groups by the groups' means.
In complete groups these are the two analyses of variance of a split plot (Scheffe, The Analysis of Variance, 1959,
chapter 5), here with Welch's standard errors (``unequal``) in both. A contrast
of both, such as a level of the groups averaged over levels that they hold unequally often, is a weighted mean of each
group, judged like a mean; where some group has a part in it inside only, the two variances are added. A mixed model has
one noise for all levels, so its intervals fail where one level has more than the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from leadline.analysis.linear import fit
from leadline.analysis.mixed import MixedFit
from leadline.analysis.strata import Stratum, centred
from leadline.analysis.table import Floats, Ints
from leadline.analysis.unequal import UnequalFit, unequal

_CONSTANT = 1e-9
_MANY = 5  # figures of every treatment, with which each has a noise of its own and factors' noises are not multiplied
Divisions = Mapping[int | None, Ints]  # as UnequalFit has them


@dataclass(frozen=True)
class TwoStrataFit(MixedFit):
    """A mixed fit whose contrasts are judged by two fits: ``inside`` groups, and ``between`` their means (g).
    ``outer`` (p) are 1 for columns that are constant in every group, which have ``columns`` (g, p); ``means`` (g, p) of
    the others in the groups. ``rest`` (n): figures less what the others explain.
    """

    inside: UnequalFit | None = None
    between: UnequalFit | None = None
    outer: tuple[float, ...] = ()
    columns: Floats = field(default_factory=lambda: np.zeros((0, 0)))
    means: Floats = field(default_factory=lambda: np.zeros((0, 0)))
    rest: Floats = field(default_factory=lambda: np.zeros(0))

    def estimates(self, contrasts: Floats) -> Floats:
        assert self.inside is not None
        assert self.between is not None
        outer = contrasts * np.array(self.outer)
        return self.inside.estimates(contrasts - outer) + self.between.estimates(outer)

    def errors(self, contrasts: Floats) -> Floats:
        return self._judged(contrasts, False)[0]

    def degrees(self, contrasts: Floats) -> Floats:
        return self._judged(contrasts, False)[1]

    def together(self, contrasts: Floats) -> tuple[Floats, Floats]:
        """Standard errors (k) and degrees of freedom (k) of contrasts that are judged as one family."""
        return self._judged(contrasts, True)

    def _judged(self, contrasts: Floats, family: bool) -> tuple[Floats, Floats]:
        assert self.inside is not None
        assert self.between is not None
        outer = contrasts * np.array(self.outer)
        inner = contrasts - outer - self.between.weights(outer) @ self.means
        errors, degrees = np.zeros(len(contrasts)), np.ones(len(contrasts))
        for place, rows in enumerate(zip(_cleaned(inner), _cleaned(outer), strict=True)):
            parts = [(fitted, row) for fitted, row in zip((self.inside, self.between), rows, strict=True) if row.any()]
            weighted = self._weighted(*rows) if len(parts) == 2 else None
            if weighted is not None:
                parts = [(weighted, rows[1])]
            pairs = np.array([_one(fitted, row, family) for fitted, row in parts]).reshape(len(parts), 2)
            largest = float(pairs[:, 0].max(initial=0.0))
            if not largest > 0:
                continue
            shares = (pairs[:, 0] / largest) ** 2  # of the larger variance: neither overflows nor vanishes
            errors[place] = largest * np.sqrt(shares.sum())
            degrees[place] = max(float(shares.sum() ** 2 / np.sum(shares**2 / pairs[:, 1])), 1.0)
        return errors, degrees

    def _weighted(self, inner: Floats, outer: Floats) -> UnequalFit | None:
        """The fit of each group's weighted mean; None where a group has no weight as a whole."""
        assert self.inside is not None
        assert self.between is not None
        assert self.inside.swept is not None
        starts = self.inside.swept.starts
        shares = self.between.weights(outer[None])[0]
        inside = self.inside.weights(inner[None])[0]
        used = np.maximum.reduceat(np.abs(inside), starts) > _CONSTANT
        if np.any(used & (np.abs(shares) <= _CONSTANT)):
            return None
        sizes = np.diff(np.append(starts, len(self.rest)))
        figures = np.add.reduceat(self.rest, starts) / sizes
        figures[used] += np.add.reduceat(inside * self.rest, starts)[used] / shares[used]
        fitted = fit(self.columns, figures)
        if fitted.sigma == 0:
            return None
        return unequal(fitted, self.columns, figures, None, self.between.divisions, self.between.crossed)


def _one(fitted: UnequalFit, row: Floats, family: bool) -> tuple[float, float]:
    """Standard error and degrees of freedom of one contrast (p)."""
    judged = fitted.together(row[None]) if family else (fitted.errors(row[None]), fitted.degrees(row[None]))
    return float(judged[0][0]), float(judged[1][0])


def _cleaned(rows: Floats) -> Floats:
    return np.where(np.abs(rows) > _CONSTANT, rows, 0.0)


def two_strata(
    mixed: MixedFit,
    design: Floats,
    values: Floats,
    groups: Stratum,
    judged: slice,
    mains: slice,
    divisions: Divisions,
    crossed: tuple[int, ...],
) -> MixedFit:
    """The fit of ``values`` (n) on ``design`` (n, p), rows in the order of groups; ``mixed`` itself where a stratum
    has no noise of its own to judge by, or does not determine the columns ``judged``. ``mains``: those of levels.
    """
    starts = groups.starts
    inner = centred(design, starts)
    outer = np.max(np.abs(inner), axis=0, initial=0.0) <= _CONSTANT
    inside = fit(inner, centred(values[:, None], starts)[:, 0], len(starts), float(np.linalg.norm(values)))
    sizes = np.diff(np.append(starts, len(values)))
    means = np.add.reduceat(design, starts, axis=0) / sizes[:, None]
    outer_part = np.where(outer, 0.0, means)
    columns = np.where(outer, means, 0.0)
    figures = np.add.reduceat(values, starts) / sizes - outer_part @ inside.beta
    between = fit(columns, figures)
    if min(inside.df, between.df) <= 0 or min(inside.sigma, between.sigma) == 0:
        return mixed
    between_crossed = tuple(key for key in crossed if outer[key])
    between_crossed = between_crossed if len(between_crossed) > 1 else ()  # of one factor every level has its own
    units = np.eye(design.shape[1])[judged]
    parts = zip(outer[judged], inside.estimable(units), between.estimable(units), strict=True)
    if [after if is_outer else before for is_outer, before, after in parts] != mixed.estimable(units):
        return mixed
    levels = np.unique(columns[:, mains].round(9), axis=0, return_inverse=True)[1].reshape(len(starts)).astype(np.int64)
    if int(np.bincount(np.unique(divisions[None], return_inverse=True)[1]).min()) >= _MANY:
        divisions, crossed = {None: divisions[None]}, ()
    of_groups: dict[int | None, Ints] = {None: levels}
    of_groups |= {key: labels[starts] for key, labels in divisions.items() if key is not None and outer[key]}
    return TwoStrataFit(
        **{name: getattr(mixed, name) for name in MixedFit.__dataclass_fields__},
        inside=unequal(inside, design, values, groups, divisions, crossed),
        between=unequal(between, columns, figures, None, of_groups, between_crossed),
        outer=tuple(outer.astype(float)),
        columns=columns,
        means=outer_part,
        rest=values - np.where(outer, 0.0, design) @ inside.beta,
    )
