"""A live factor's effect differs between server instances (trials), each factor's by its own amount.

With slots a treatment is compared inside every instance. The error of a new instance's effect is that of this treatment
x instance, as in the analysis of variance with random trials (Scheffe, The Analysis of Variance, 1959, chapter 8). One
factor's says nothing of another's: in a pooled one a factor that differs much hides among those that do not. It is used
wherever there are two instances, whether a test sees a difference or not: the test misses differences that are as large
as the error. Two or three instances tell too little of one factor: there all share an error.

Instances are the clusters of a sandwich variance with the bias-reduced squares of Bell and McCaffrey (2002, Survey
Methodology 28, 169-181) and Satterthwaite's degrees of freedom (Pustejovsky and Tipton 2018, Journal of Business and
Economic Statistics 36, 672-683). In balanced slots this is the t test on the instances' own effects, with one degree of
freedom less than instances.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from leadline.analysis.carry import changing_factors
from leadline.analysis.columns import Main, Model
from leadline.analysis.linear import Fit, Strata, centred, fit, in_groups, innermost
from leadline.analysis.mixed import MixedFit, whiten
from leadline.analysis.table import Floats, Ints, Sample, Scale
from leadline.model import distributions
from leadline.model.result import Component
from leadline.model.units import format_number

ALPHA = 0.05
LARGEST = 1.5e8  # figures times the square of the columns of treatment x instance
UNTESTED = "Whether effects differ between server instances cannot be tested: "
Flags = np.ndarray[tuple[int], np.dtype[np.bool_]]
_HIGH = 0.975  # of the distribution by which the errors of instances and of slots are compared
_FEWEST = 2.5  # degrees of freedom of a factor's own error; with fewer, of two or three instances, factors share one
_NOTHING = 1e-9  # of a contrast's variance: instances that tell less of it tell nothing


@dataclass(frozen=True)
class Clusters:
    """Groups of independent figures, whose first rows are ``starts`` (g). ``basis`` (n, r) spans a model's columns with
    orthonormal vectors, ``half`` (p, r) takes contrasts there.
    """

    basis: Floats
    half: Floats
    starts: Ints

    @cached_property
    def adjusted(self) -> Floats:
        """(n, r): the basis times the root of the inverse of what a cluster's residuals keep of its errors."""
        adjusted = np.empty_like(self.basis)
        for part in self._parts:
            left, values, right = np.linalg.svd(self.basis[part], full_matrices=False)
            kept = 1 - values**2
            adjusted[part] = (left * np.where(kept > 1e-8, values / np.sqrt(np.maximum(kept, 1e-8)), 0.0)) @ right
        return adjusted

    def weights(self, contrasts: Floats) -> Floats:
        """(k, n): weights of residuals, whose sums over each cluster, squared, add up to a contrast's variance."""
        return np.asarray(contrasts @ self.half @ self.adjusted.T, dtype=np.float64)

    def squares(self, weights: Floats, residuals: Floats) -> Floats:
        """Variances (k) of contrasts, in the square of the unit of ``residuals`` (n)."""
        sums = np.add.reduceat(weights * residuals, self.starts, axis=1)
        return np.asarray(np.sum(sums**2, axis=1), dtype=np.float64)

    def expected(self, weights: Floats) -> tuple[Floats, Floats]:
        """Means (k) of :meth:`squares` and their degrees of freedom (k) where errors are independent with variance 1;
        both are 0 where no two clusters tell of a contrast.
        """
        lengths = np.array([np.sum(weights[:, part] ** 2, axis=1) for part in self._parts])  # (g, k)
        moved = np.array([weights[:, part] @ self.basis[part] for part in self._parts])  # (g, k, r)
        means, degrees = np.zeros(len(weights)), np.zeros(len(weights))
        for place in range(len(weights)):
            products = np.diag(lengths[:, place]) - moved[:, place] @ moved[:, place].T
            mean = float(np.trace(products))
            if mean > _NOTHING * float(np.sum(weights[place] ** 2)):
                means[place], degrees[place] = mean, mean**2 / float(np.sum(products**2))
        return means, degrees

    def shared(self, weights: Floats, residuals: Floats) -> tuple[float, float]:
        """The mean ratio of :meth:`squares` to their means over contrasts (k) of one factor, and its degrees of freedom
        where errors are independent; both are 0 where no two clusters tell of any.
        """
        means, _ = self.expected(weights)
        told = weights[means > 0] / np.sqrt(means[means > 0])[:, None]
        if not len(told):
            return 0.0, 0.0
        moved = np.array([told[:, part] @ self.basis[part] for part in self._parts])  # (g, k, r)
        spread = np.einsum("gkr,hmr->gkhm", moved, moved)
        for number, part in enumerate(self._parts):
            spread[number, :, number, :] -= told[:, part] @ told[:, part].T
        ratio = float(np.mean(self.squares(told, residuals)))
        return ratio, len(told) ** 2 / float(np.sum(spread**2))

    @cached_property
    def _parts(self) -> list[slice]:
        ends = [*self.starts[1:], len(self.basis)]
        return [slice(int(start), int(end)) for start, end in zip(self.starts, ends, strict=True)]


@dataclass(frozen=True)
class InstancesFit(MixedFit):
    """A fit whose contrasts of live columns are those of a new instance: each has an error of its own, from how it
    differs between instances, and is never surer than ``plain``, the fit of the slots. ``live`` (p) tells the columns;
    ``residuals`` (n) are those of the clusters' figures. ``family`` (k, p): contrasts that are taken to differ alike
    between instances, so that they share an error; if empty each has its own.
    """

    plain: Fit | None = None
    live: tuple[bool, ...] = ()
    clusters: Clusters | None = None
    residuals: Floats = field(default_factory=lambda: np.zeros(0))
    family: Floats = field(default_factory=lambda: np.zeros((0, 0)))

    @property
    def separate(self) -> bool:
        return True

    def errors(self, contrasts: Floats) -> Floats:
        return self._judged(contrasts)[0]

    def degrees(self, contrasts: Floats) -> Floats:
        return self._judged(contrasts)[1]

    def scatter(self, contrasts: Floats) -> Floats:
        """(k, r): as of any fit, in the lengths that go with :meth:`errors`."""
        scatter = super().scatter(contrasts)
        lengths = self.sigma * np.maximum(np.linalg.norm(scatter, axis=1), 1e-300)
        return np.asarray(scatter * (self.errors(contrasts) / lengths)[:, None], dtype=np.float64)

    def _judged(self, contrasts: Floats) -> tuple[Floats, Floats]:
        assert self.clusters is not None
        assert self.plain is not None
        weights = self.clusters.weights(contrasts)
        means, free = self.clusters.expected(weights)
        squares = self.clusters.squares(weights, self.residuals)
        if len(self.family):
            ratio, together = self.clusters.shared(self.clusters.weights(self.family), self.residuals)
            squares, free = ratio * means, np.full(len(means), together)
        own = np.any(np.abs(contrasts[:, np.array(self.live)]) > 1e-12, axis=1) & (means > 0) & (squares > 0)
        errors, degrees = np.sqrt(squares), np.clip(free, 1.0, float(self.df))
        plain, plain_degrees = self.plain.errors(contrasts), self.plain.degrees(contrasts)
        widths = [side * distributions.t.ppf(_HIGH, df) for side, df in ((errors, degrees), (plain, plain_degrees))]
        agree = widths[0] < widths[1]  # by luck more than their slots let them
        own &= ~agree
        return np.where(own, errors, plain), np.where(own, degrees, plain_degrees)


@dataclass(frozen=True)
class Instances:
    """``fit`` is the one to judge effects by. ``p_value``: the smallest of any effect's test of no difference between
    instances, adjusted (Bonferroni) for effects and the study's responses. ``spreads``: standard deviations in percent
    of the effects that were seen to differ, which ``components`` have as variances.
    """

    fit: Fit
    p_value: float | None
    sentence: str
    spreads: Mapping[Main, float | None] = field(default_factory=dict)
    components: tuple[Component, ...] = ()

    @property
    def detected(self) -> bool:
        return bool(self.components)


def planned_degrees(model: Model, sample: Sample, planned: Fit) -> Floats:
    """Degrees of freedom (k) that the estimable main effects of a plan will have, from ``planned`` (``within``): those
    between instances of live levels, the fit's own of the others.
    """
    order, starts = innermost(sample)
    contrasts = np.array([model.effect(main) for main in model.mains])
    contrasts = contrasts[planned.estimable(contrasts)]
    clusters = Clusters(centred(model.rows(sample)[order], starts) @ planned.half, planned.half, starts)
    weights = clusters.weights(contrasts)
    means, free = clusters.expected(weights)
    if _shares(free):
        free = np.full(len(means), clusters.shared(weights, np.zeros(len(order)))[1])
    return np.where(means > 0, np.minimum(free, planned.df), float(planned.df))


def between_instances(model: Model, sample: Sample, scale: Scale, fitted: Fit, strata: Strata) -> Instances:
    """The fit for a new instance, and an F test of each live level x instances."""
    count = len(np.unique(sample.trials))
    live = _live_columns(model, changing_factors(model.table, sample))
    if count < 2 or not live.any():
        return Instances(fitted, None, "")
    if not isinstance(fitted, MixedFit):
        return Instances(fitted, None, UNTESTED + "there are too few slots.")
    design, values = model.rows(sample)[strata.order], scale.into(sample.values)[strata.order]
    rows = whiten(strata, np.column_stack([design, values]), fitted.parameters).columns
    starts = _starts(sample.trials[strata.order])
    clusters = Clusters(rows[:, :-1] @ fitted.half, fitted.half, starts)
    effects = _Effects.of(model, live, clusters)
    chosen = InstancesFit(
        **{name: getattr(fitted, name) for name in MixedFit.__dataclass_fields__},
        plain=fitted,
        live=tuple(bool(flag) for flag in live),
        clusters=clusters,
        residuals=rows[:, -1] - rows[:, :-1] @ fitted.beta,
        family=effects.contrasts if _shares(effects.free) else np.zeros((0, 0)),
    )
    crossed = in_groups(rows[:, :-1][:, live], starts)
    if len(crossed) * crossed.shape[1] ** 2 > LARGEST:
        return Instances(chosen, None, UNTESTED + f"{count} instances with so many slots are too many.")
    wide = fit(np.column_stack([rows[:, :-1], crossed]), rows[:, -1], strata.swept.groups if strata.swept else 0)
    if wide.df < 4 or wide.sigma == 0:
        return Instances(chosen, None, UNTESTED + "too few slots of each level are in an instance.")
    return _tested(model, scale, chosen, effects, wide, count)


@dataclass(frozen=True)
class _Effects:
    """Main effects of live levels (k): ``contrasts`` (k, p), and of :meth:`Clusters.squares` their ``weights`` (k, n),
    ``means`` and degrees of freedom ``free``.
    """

    mains: Sequence[Main]
    contrasts: Floats
    weights: Floats
    means: Floats
    free: Floats

    @classmethod
    def of(cls, model: Model, live: Flags, clusters: Clusters) -> _Effects:
        mains = [main for number, main in enumerate(model.mains) if live[model.leading + number]]
        contrasts = np.array([model.effect(main) for main in mains]).reshape(len(mains), model.width)
        weights = clusters.weights(contrasts)
        return cls(mains, contrasts, weights, *clusters.expected(weights))


def _shares(free: Floats) -> bool:
    """Whether effects with these degrees of freedom of their own share one error."""
    return float(free.max(initial=0.0)) < _FEWEST


def _tested(model: Model, scale: Scale, chosen: InstancesFit, effects: _Effects, wide: Fit, count: int) -> Instances:
    """With the tests of each live main effect; ``wide`` has treatment x instance out of its noise."""
    assert chosen.clusters is not None
    told = np.flatnonzero(np.array(chosen.estimable(effects.contrasts)) & (effects.means > 0))
    if not len(told):
        return Instances(chosen, None, UNTESTED + "no level is in more than one instance.")
    expected = wide.sigma**2 * effects.means[told]
    squares = chosen.clusters.squares(effects.weights[told], chosen.residuals)
    tests = len(told) * model.table.responses
    p_values = np.minimum(1.0, tests * distributions.f.sf(squares / expected, effects.free[told], wide.df))
    smallest = float(p_values.min())
    spreads, components = dict[Main, float | None](), list[Component]()
    for at in np.flatnonzero(p_values < ALPHA):
        main, degrees = effects.mains[told[at]], float(effects.free[told[at]])
        variance = float(squares[at] - expected[at]) * (degrees + 1)
        spreads[main] = scale.percent(float(np.sqrt(variance)))
        name = f"instances in the effect of {model.table.level_name(*main)}"
        components.append(Component(name, variance, spreads[main], degrees))
    if not components:
        text = f"Effects do not differ visibly between the {count} server instances (p = {smallest:.2g})"
        return Instances(chosen, smallest, f"{text}; intervals are for a new instance all the same.")
    named = ", ".join(
        model.table.level_name(*main) + ("" if spread is None else f" by {format_number(spread, 2)} %")
        for main, spread in spreads.items()
    )
    text = (
        f"Effects differ between the {count} server instances (standard deviations; p = {smallest:.2g}): {named}. "
        "Intervals are for a new instance; more trials, rather than more slots, would narrow them."
    )
    return Instances(chosen, smallest, text, spreads, tuple(components))


def _live_columns(model: Model, changing: set[int]) -> Flags:
    live = np.zeros(model.width, dtype=bool)
    for number, (factor, _) in enumerate(model.mains):
        live[model.leading + number] = factor in changing
    for number, pair in enumerate(model.pairs):
        live[model.leading + len(model.mains) + number] = any(factor in changing for factor, _ in pair)
    return live


def _starts(trials: Ints) -> Ints:
    return np.flatnonzero(np.r_[True, trials[1:] != trials[:-1]]).astype(np.int64)
