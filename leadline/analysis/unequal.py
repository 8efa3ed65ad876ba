"""Least squares in which every level has a noise of its own: standard errors and degrees of freedom.

Variances of groups of figures by MINQUE from the residuals' sums of squares (Rao 1971), so that blocks which groups
share do not mix them up. Degrees of freedom by Satterthwaite's match of two moments: for two groups without blocks it
is Welch's test, and for two levels in complete blocks the paired t test. A group of three figures says little about its
own noise. So each variance is drawn towards that of all by a fixed weight, as if ``PLAIN`` or ``FAMILY`` more degrees
of freedom had that of all (Smyth 2004): chosen by simulation, so that error rates hold for noises that differ by up to
five times (docs/concepts/statistics.md). Nothing is chosen by a look at the data.

Of two strata (whole plots, random blocks) each is analysed on its own, with a noise of its own for every level. What
changes inside groups is compared with the groups swept out, what changes only between groups by the groups' means. In
complete groups these are the two analyses of variance of a split plot (Scheffe, The Analysis of Variance, 1959, chapter
5), here with Welch's standard errors in both. A contrast of both, such as a level of the groups averaged over levels
that they hold unequally often, is a weighted mean of each group, judged like a mean; where some group has a part in it
inside only, the two variances are added. A mixed model has one noise for all levels, so its intervals fail where one
level has more than the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from leadline.analysis.linear import Fit, Stratum, centred, fit
from leadline.analysis.mixed import MixedFit
from leadline.analysis.table import Floats, Ints

PLAIN = 0.25  # degrees of freedom lent by the noise of all, for an interval on its own
FAMILY = 1.0  # the same for comparisons judged together
FEWEST = 3  # figures of a group that has a noise of its own; smaller groups share one
_EXACT = 2e10  # multiplications, beyond which groups are taken to be independent
_FLOOR = 0.1  # of the mean square of a group's residuals: the least that its variance may be


@dataclass(frozen=True)
class Groups:
    """One division of the figures: residuals' degrees of freedom ``df`` (g), variances ``own`` (g) over that of all,
    the inverse (g, g) of what their mean squares hold of each other, and the members' labels (n).
    """

    labels: Ints
    df: Floats
    own: Floats
    inverse: Floats

    @property
    def count(self) -> int:
        return len(self.df)


@dataclass(frozen=True)
class UnequalFit(Fit):
    """A least squares fit of n figures. ``basis`` (n, r) spans the columns, ``residuals`` (n) in units of sigma,
    ``swept`` the blocks
    taken out before; ``divisions`` maps the column of a contrast to how figures are grouped for it (n), None: others;
    ``crossed`` are those of one level of each factor, where factors are crossed.
    """

    basis: Floats = field(default_factory=lambda: np.zeros((0, 0)))
    residuals: Floats = field(default_factory=lambda: np.zeros(0))
    swept: Stratum | None = None
    divisions: Mapping[int | None, Ints] = field(default_factory=dict)
    crossed: tuple[int, ...] = ()
    planned: bool = False  # no figures yet: all groups are taken to have the noise of all

    def errors(self, contrasts: Floats) -> Floats:
        return self._judged(contrasts, PLAIN)[0]

    def degrees(self, contrasts: Floats) -> Floats:
        return self._judged(contrasts, PLAIN)[1]

    def together(self, contrasts: Floats) -> tuple[Floats, Floats]:
        """Standard errors (k) and degrees of freedom (k) of contrasts that are judged as one family."""
        return self._judged(contrasts, PLAIN if self.crossed else FAMILY)

    def scatter(self, contrasts: Floats) -> Floats:
        weights = self.weights(contrasts)
        for place, row in enumerate(contrasts):
            groups = self._groups(row)
            weights[place] *= np.sqrt(self._variances(groups, FAMILY))[groups.labels]
        return weights

    def weights(self, contrasts: Floats) -> Floats:
        """(k, n): contrasts as sums of figures."""
        return np.asarray(contrasts @ self.half @ self.basis.T, dtype=np.float64)

    def _judged(self, contrasts: Floats, lent: float) -> tuple[Floats, Floats]:
        weights = self.weights(contrasts)
        errors, degrees = np.empty(len(contrasts)), np.empty(len(contrasts))
        moments: dict[int, tuple[Floats, Floats, Floats]] = {}
        for place, row in enumerate(contrasts):
            groups = self._groups(row)
            variances = self._variances(groups, lent)
            if id(groups) not in moments:
                moments[id(groups)] = self._moments(groups, variances, lent)
            figures, mean, spread = moments[id(groups)]
            squares = weights[place] ** 2
            loads = _sums(groups.labels, squares, groups.count)
            quadratic = loads @ groups.inverse
            variance = float(loads @ variances)
            degrees[place] = variance**2 / max(float(quadratic @ spread @ quadratic), 1e-300)
            expected = float(quadratic @ mean)
            unbiased = float(squares @ figures) / expected if self.crossed and expected > 0 else 1.0
            errors[place] = self.sigma * np.sqrt(variance * unbiased)
        return errors, np.clip(degrees, 1.0, float(self.df))

    def _variances(self, groups: Groups, lent: float) -> Floats:
        share = lent / (lent + groups.df)
        return np.asarray(share + (1 - share) * groups.own, dtype=np.float64)

    def _moments(self, groups: Groups, variances: Floats, lent: float) -> tuple[Floats, Floats, Floats]:
        """Variances of the figures (n); for these the means (g) of the groups' sums of squares, and half their
        covariance (g, g), with the degrees of freedom that are lent to each.
        """
        figures = self._figures(groups, variances)
        if self.left_over is None:
            mean: Floats = np.asarray(variances * groups.df, dtype=np.float64)
            spread = np.diag(variances**2 * groups.df)
        else:
            middle = (self.left_over * figures) @ self.left_over
            mean = _sums(groups.labels, np.diag(middle), groups.count)
            spread = _summed(middle**2, groups.labels, groups.count)
        weights = np.sqrt(groups.df / (groups.df + lent))
        return figures, mean, np.asarray(spread * np.outer(weights, weights), dtype=np.float64)

    def _figures(self, groups: Groups, variances: Floats) -> Floats:
        """Variances (n) of the figures. Where factors are crossed each may have its part in them, so that a level's
        figures differ, too: the product of the factors' ratios to the noise of all.
        """
        if not self.crossed:
            return variances[groups.labels]
        ratios = np.ones(len(self.residuals))
        for column in self.crossed:
            factor = self._of(column)
            ratios *= self._variances(factor, PLAIN)[factor.labels]
        return np.asarray(ratios * (1 / ratios.mean()), dtype=np.float64)

    @cached_property
    def left_over(self) -> Floats | None:
        """(n, n): takes figures to their residuals; None where there are too many."""
        count = len(self.residuals)
        if float(count) ** 3 * len(self.divisions) > _EXACT:
            return None
        inside = np.eye(count) if self.swept is None else centred(np.eye(count), self.swept.starts)
        return np.asarray(inside - self.basis @ self.basis.T, dtype=np.float64)

    @cached_property
    def _known(self) -> dict[int | None, Groups]:
        return {}

    def _groups(self, contrast: Floats) -> Groups:
        used = np.flatnonzero(contrast)
        return self._of(int(used[0]) if len(used) == 1 and int(used[0]) in self.divisions else None)

    def _of(self, key: int | None) -> Groups:
        if key not in self._known:
            self._known[key] = self._divided(_merged(self.divisions[key]))
        return self._known[key]

    def _divided(self, labels: Ints) -> Groups:
        count = int(labels.max()) + 1
        squares = _sums(labels, self.residuals**2, count)
        sure = np.ones(count)
        sizes = np.bincount(labels, minlength=count)
        if self.left_over is None:
            free = 1 - np.sum(self.basis**2, axis=1)
            df = np.maximum(_sums(labels, free, count), 1e-9) * (self.df / float(free.sum()))
            return Groups(labels, df, sure if self.planned else squares / df, np.diag(1 / df))
        df = np.maximum(_sums(labels, np.diag(self.left_over), count), 0.0)
        sums = _summed(self.left_over**2, labels, count)
        inverse = np.asarray(np.linalg.pinv(sums, rcond=1e-8, hermitian=True), dtype=np.float64)
        usual = squares / np.maximum(df, 1e-9 * sizes)
        variances_own = sure if self.planned else np.maximum(inverse @ squares, _FLOOR * usual)
        return Groups(labels, df, variances_own, inverse)


def _sums(labels: Ints, values: Floats, count: int) -> Floats:
    return np.asarray(np.bincount(labels, values, count), dtype=np.float64)


def _summed(square: Floats, labels: Ints, count: int) -> Floats:
    """(g, g): sums of a matrix (n, n) over pairs of groups."""
    member = np.asarray(labels[:, None] == np.arange(count), dtype=np.float64)
    return np.asarray(member.T @ square @ member, dtype=np.float64)


def _merged(labels: Ints) -> Ints:
    """Labels 0, 1, ... in which groups that are too small are one, with the largest where they stay too small."""
    _, codes, sizes = np.unique(labels, return_inverse=True, return_counts=True)
    small = sizes < FEWEST
    into = np.arange(len(sizes))
    if small.any():
        alone = int(sizes[small].sum()) < FEWEST and not small.all()
        into[small] = int(np.argmax(sizes)) if alone else int(np.flatnonzero(small)[0])
    return np.asarray(np.unique(into[codes], return_inverse=True)[1], dtype=np.int64)


def unequal(
    fitted: Fit,
    design: Floats,
    values: Floats,
    swept: Stratum | None,
    divisions: Mapping[int | None, Ints],
    crossed: tuple[int, ...] = (),
) -> UnequalFit:
    """A least squares fit of ``values`` (n) on ``design`` (n, p) with noise by group. Rows in the order of blocks."""
    if swept is not None:
        design, values = centred(design, swept.starts), centred(values[:, None], swept.starts)[:, 0]
    return UnequalFit(
        *(fitted.beta, fitted.half, fitted.rows, fitted.df, fitted.sigma),
        basis=design @ fitted.half,
        residuals=(values - design @ fitted.beta) / fitted.sigma,
        swept=swept,
        divisions=divisions,
        crossed=crossed,
    )


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
