"""Levels against their baseline level: estimates become effects with verdicts, or a reason why not.

In unreplicated screening noise comes from the effects themselves, most of which are taken to be none: Lenth, Quick and
easy analysis of unreplicated factorials, Technometrics 31 (1989). Critical values are not his approximations but come
from simulating the null law of the same statistic (Ye and Hamada, J. Qual. Technol. 32, 2000) under the design's own
correlation, with a fixed seed.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TypeVar

import numpy as np

from leadline.analysis.carry import HIDDEN, CarriedFit
from leadline.analysis.columns import Main, Model
from leadline.analysis.failures import fails_alike
from leadline.analysis.hosts import HostsFit
from leadline.analysis.linear import Fit
from leadline.analysis.maxt import MaxT, max_t
from leadline.analysis.sequential import TOO_EARLY, Interim
from leadline.analysis.table import Floats, Sample, Scale, StudyTable, equivalence_p, inside
from leadline.analysis.unequal import TwoStrataFit, UnequalFit
from leadline.model import distributions
from leadline.model.errors import BLAMED
from leadline.model.result import CellMean, Effect, Interaction, Interval, Observation, ResponseKind, Verdict
from leadline.model.units import signed

CROSS = " x "  # joins the names of the two factors, and of the two levels, of an interaction
NO_NOISE = "no degree of freedom is left for the noise; two or more replicates, or sentinels, would give intervals"
EXACT = "repeated trials gave exactly the same figures, so there is no noise to hold a difference against"
LOST = (
    "its trials cannot be compared with the baseline: no block holds both; running the missing trials, or complete "
    "blocks (design.blocks: by-replicate), help"
)
TOO_NOISY = "the noise is too large for an interval in percent"


_E = TypeVar("_E", bound=Effect)
_FOR_FAMILIES = UnequalFit | TwoStrataFit | HostsFit  # fits with another noise for comparisons judged together
KNOWN = 1e9  # degrees of freedom of a noise that is as good as known


def _common(degrees: Floats, separate: bool) -> float:
    """The degrees of freedom of the noise that all comparisons have in common, else those of a known noise."""
    return KNOWN if separate or np.ptp(degrees) > 1e-6 * degrees[0] else float(degrees[0])


@dataclass(frozen=True)
class Family:
    """Comparisons judged together. Arrays hold the estimable ones only; ``place[i]`` is the i-th contrast's index
    in them, None where the data do not determine it. ``law`` is None where the noise is not known. ``critical`` times
    ``errors`` is half the width of a simultaneous interval; ``strict`` (k) are the standard errors that this rests on,
    and ``shared`` (k) their degrees of freedom. ``ends`` (k each) hold whatever the
    carry-over between slots is; None without slots. ``interim``: how one of several analyses of a study judges.
    """

    place: tuple[int | None, ...]
    estimates: Floats
    errors: Floats
    scatter: Floats
    degrees: Floats
    law: MaxT | LenthLaw | None
    critical: Floats
    strict: Floats
    shared: Floats
    ends: tuple[Floats, Floats] | None = None
    interim: Interim | None = None
    separate: bool = False

    @property
    def df(self) -> float:
        """The most degrees of freedom that any comparison has; 0 where there are none."""
        return float(self.degrees.max(initial=0.0))

    @classmethod
    def of(cls, fit: Fit, contrasts: Sequence[Floats], level: float, interim: Interim | None = None) -> Family:
        level = level if interim is None else interim.level
        rows = np.array(contrasts).reshape(len(contrasts), len(fit.beta))
        estimable = fit.estimable(rows)
        place = tuple(sum(estimable[:index]) if good else None for index, good in enumerate(estimable))
        chosen = rows[np.array(estimable, dtype=bool)]
        scatter = fit.scatter(chosen)
        judged = len(chosen) > 0 and fit.df > 0 and fit.sigma > 0
        law: MaxT | LenthLaw | None = None
        if judged:
            law = (
                fit.law(scatter)
                if isinstance(fit, LenthFit)
                else max_t(np.eye(len(chosen)) if fit.separate else Fit.scatter(fit, chosen))
            )
        errors = fit.errors(chosen)
        degrees = fit.degrees(chosen) if judged else np.full(len(chosen), float(fit.df))
        strict, shared = fit.together(chosen) if isinstance(fit, _FOR_FAMILIES) else (errors, degrees)
        critical = np.zeros(len(chosen))
        if law is not None and level >= 1:
            critical = np.full(len(chosen), math.inf)
        elif law is not None:
            common = _common(shared, fit.separate)
            critical = np.full(len(chosen), law.quantile(level, common))
            if common == KNOWN:
                critical = np.asarray(distributions.t.isf(distributions.norm.sf(critical), shared), dtype=np.float64)
            if not isinstance(law, LenthLaw):
                critical = np.maximum(critical * strict / errors, distributions.t.isf((1 - level) / 2, degrees))
        carried = fit.plain if isinstance(fit, HostsFit) else fit
        ends = carried.ends(chosen, critical) if isinstance(carried, CarriedFit) and law is not None else None
        fields = (place, fit.estimates(chosen), errors, scatter, degrees, law, critical, strict, shared)
        return cls(*fields, ends, interim, fit.separate)

    def plain(self, place: int) -> float:
        """P value of one comparison alone, two-sided."""
        if isinstance(self.law, LenthLaw):
            return self.law.single_sf(self.ratio(place))
        return float(2 * distributions.t.sf(self.ratio(place), self.degrees[place]))

    def together(self, place: int) -> float:
        """The same with the noise that comparisons judged together rest on."""
        if isinstance(self.law, LenthLaw):
            return self.plain(place)
        return float(
            2 * distributions.t.sf(abs(float(self.estimates[place])) / float(self.strict[place]), self.shared[place])
        )

    def reach(self, place: int, level: float) -> float:
        """Half the width of the interval of one comparison alone."""
        if isinstance(self.law, LenthLaw):
            critical = self.law.single_quantile(level)
        else:
            critical = float(distributions.t.ppf((1 + level) / 2, self.degrees[place]))
        return critical * float(self.errors[place])

    def adjusted(self, place: int) -> float:
        """P value among all comparisons.

        Where comparisons have different degrees of freedom, their denominators are taken to have nothing in common:
        each statistic is taken to the normal one of the same plain p value. What they do have in common would only
        make the largest smaller.
        """
        if self.law is None or np.isinf(self.critical[place]):
            return 1.0
        ratio, common = (
            abs(float(self.estimates[place])) / float(self.strict[place]),
            _common(self.shared, self.separate),
        )
        if common == KNOWN:
            ratio = float(distributions.norm.isf(distributions.t.sf(ratio, self.shared[place])))
        p_value = self.law.sf(ratio, common)
        p_value = p_value if isinstance(self.law, LenthLaw) else max(p_value, self.plain(place))
        return p_value if self.interim is None else self.interim.repeated(p_value)

    def ratio(self, place: int) -> float:
        return abs(float(self.estimates[place])) / float(self.errors[place])


def unestimated(table: StudyTable, main: Main, response: str, reason: str = "") -> Effect:
    """A level without an estimate: failed altogether, or undetermined with the reason."""
    factor, level = main
    trials = table.of_levels(main)
    failed = [trial for trial in trials if trial.failure is not None]
    if trials and len(failed) == len(trials):
        alike = fails_alike(table, main)
        blamed = not alike and any(trial.failure in BLAMED for trial in failed)
        verdict, reason = Verdict.FAILED if blamed else Verdict.UNDETERMINED, f"{_all_failed(failed)}{alike}"
    elif not trials:
        verdict, reason = Verdict.UNDETERMINED, "no trial of this level has finished"
    else:
        verdict = Verdict.UNDETERMINED
    chosen = table.factors[factor]
    return Effect(
        factor=chosen.name,
        level=chosen.levels[level],
        baseline=chosen.baseline,
        response=response,
        verdict=verdict,
        trials=len(trials),
        failures=len(failed),
        reason=reason,
    )


def _all_failed(failed: Sequence[Observation]) -> str:
    counts = Counter(trial.failure.value for trial in failed if trial.failure is not None)
    classes = ", ".join(f"{name} {count}" for name, count in sorted(counts.items()))
    unit = "trial" if any(trial.slot is None for trial in failed) else "slot"
    return f"all {len(failed)} {unit}s failed ({classes})" if len(failed) > 1 else f"its only {unit} failed ({classes})"


def effects_of(
    table: StudyTable,
    sample: Sample,
    kind: ResponseKind,
    scale: Scale,
    model: Model,
    family: Family,
    level: float,
    margin: float | None = None,
    lost: str = LOST,
) -> list[Effect]:
    """One effect for every level that is not its factor's baseline, ranked: best first, without estimate last.

    ``lost`` is the reason for levels that have figures but no estimate.
    """
    ranked: list[tuple[tuple[int, float], Effect]] = []
    sign = 1.0 if kind.higher_is_better else -1.0
    measured = {
        (factor, cell[factor])
        for cell in (table.cells[int(index)] for index in np.unique(sample.cells))
        for factor in range(len(table.factors))
    }
    for main, place in zip(model.mains, family.place, strict=True):
        effect = unestimated(table, main, kind.name)
        if main not in measured or place is None:
            if not effect.reason:
                none = f"no trial of this level gave a figure for {kind.name}"
                effect = replace(effect, reason=lost if main in measured else none)
            ranked.append(((2 if effect.verdict is Verdict.FAILED else 1, 0.0), effect))
            continue
        ranked.append(
            ((0, -sign * float(family.estimates[place])), _estimated(effect, family, place, scale, sign, level, margin))
        )
    return [effect for _, effect in sorted(ranked, key=lambda pair: pair[0])]


def _estimated(
    effect: _E, family: Family, place: int, scale: Scale, sign: float, level: float, margin: float | None
) -> _E:
    """The effect with percent, intervals, p values and the verdict."""
    value, error = float(family.estimates[place]), float(family.errors[place])
    percent = scale.percent(value)
    difference = "" if percent is not None else _difference(scale, value)
    if family.law is None:
        reason = NO_NOISE if family.df <= 0 else EXACT
        return replace(effect, percent=percent, reason=_join(difference, reason))
    plain = family.reach(place, level)
    if math.isinf(family.critical[place]):
        interval, reason = scale.interval(value, plain, level), _join(difference, TOO_EARLY)
        p_value, df = family.plain(place), float(family.degrees[place])
        return replace(
            effect, percent=percent, interval=interval, p_value=p_value, p_adjusted=1.0, df=df, reason=reason
        )
    wide = float(family.critical[place]) * error
    interval, simultaneous = scale.interval(value, plain, level), scale.interval(value, wide, level)
    verdict = Verdict.UNDETERMINED
    if abs(value) > wide:
        verdict = Verdict.BETTER if sign * value > 0 else Verdict.WORSE
    if percent is None:
        difference = (
            f"{difference} [{signed(value - wide, 3)}, {signed(value + wide, 3)}]" if not scale.log else difference
        )
    elif interval is None or simultaneous is None:
        difference, interval, simultaneous = TOO_NOISY, None, None
    hidden = family.ends is not None and not inside(scale.between(*(float(end[place]) for end in family.ends)), margin)
    if inside(simultaneous, margin) and hidden:
        difference = _join(difference, HIDDEN)
    elif inside(simultaneous, margin):
        if verdict is Verdict.UNDETERMINED:
            verdict, difference = Verdict.EQUIVALENT, f"within {margin:g} %"
        else:
            difference = f"but less than {margin:g} %"
    degrees, p_adjusted = float(family.degrees[place]), family.adjusted(place)
    if family.interim is not None:  # its table of levels is not exact
        p_adjusted = min(p_adjusted, 1 - level) if abs(value) > wide else max(p_adjusted, 1 - level)
    return replace(
        effect,
        verdict=verdict,
        percent=percent,
        interval=interval,
        simultaneous=simultaneous,
        p_value=family.plain(place),
        p_adjusted=p_adjusted,
        equivalence_p=equivalence_p(scale, value, error, degrees, margin) if margin else None,
        df=degrees,
        reason=difference,
    )


def _difference(scale: Scale, value: float) -> str:
    if scale.log:
        return "the ratio to the baseline is too large to be given in percent"
    return f"the baseline is zero, so there is no percentage; the difference is {signed(value, 3)}"


def _join(*parts: str) -> str:
    return "; ".join(part for part in parts if part)


def interactions_of(
    table: StudyTable,
    kind: ResponseKind,
    scale: Scale,
    model: Model,
    fit: Fit,
    level: float,
    margin: float | None = None,
    interim: Interim | None = None,
) -> list[Interaction]:
    """Two-factor interactions, a family of their own: how two levels together differ from each alone combined.

    ``factor`` is ``a x b``, ``level`` is ``level of a x level of b``; a verdict says whether together they are better
    or worse than the two effects alone would give. Those the data do not determine are left out.
    """
    if not model.pairs:
        return []
    family = Family.of(fit, [model.interaction(pair) for pair in model.pairs], level, interim)
    sign = 1.0 if kind.higher_is_better else -1.0
    interactions = []
    for ((f, a), (g, b)), place in zip(model.pairs, family.place, strict=True):
        if place is None:
            continue
        first, other = table.factors[f], table.factors[g]
        trials = table.of_levels((f, a), (g, b))
        text = [
            CROSS.join(table.describe(factor.name, chosen) for factor, chosen in pair)
            for pair in (
                ((first, first.levels[a]), (other, other.levels[b])),
                ((first, first.baseline), (other, other.baseline)),
            )
        ]
        effect = Interaction(
            factors=(first.name, other.name),
            levels=(first.levels[a], other.levels[b]),
            baselines=(first.baseline, other.baseline),
            factor=first.name + CROSS + other.name,
            level=text[0],
            baseline=text[1],
            response=kind.name,
            verdict=Verdict.UNDETERMINED,
            trials=len(trials),
            failures=sum(trial.failure is not None for trial in trials),
        )
        interactions.append(
            (-abs(float(family.estimates[place])), _estimated(effect, family, place, scale, sign, level, margin))
        )
    return [effect for _, effect in sorted(interactions, key=lambda pair: pair[0])]


def cell_means(
    table: StudyTable, sample: Sample, scale: Scale, pairs: Sequence[Interaction], fit: Fit, level: float
) -> list[CellMean]:
    """Means of all combinations of two factors' levels, for the pairs of factors that have interactions.

    Means are taken on the scale of the analysis (geometric ones of positive responses) over all trials that had both
    levels; intervals have the model's residual noise.
    """

    def back(value: float) -> float:
        return math.exp(value) if scale.log and value < 600 else math.inf if scale.log else value

    index = {factor.name: number for number, factor in enumerate(table.factors)}
    values, means = scale.into(sample.values), []
    cells = np.array(table.cells)[sample.cells]
    reach = fit.sigma * float(distributions.t.ppf((1 + level) / 2, fit.df)) if fit.df > 0 else None
    for names in dict.fromkeys(pair.factors for pair in pairs):
        f, g = (index[name] for name in names)
        for a, b in itertools.product(range(len(table.factors[f].levels)), range(len(table.factors[g].levels))):
            chosen = values[(cells[:, f] == a) & (cells[:, g] == b)]
            if not len(chosen):
                continue
            middle = float(chosen.mean())
            half = None if reach is None else reach / float(np.sqrt(len(chosen)))
            interval = (
                None
                if half is None or not math.isfinite(back(middle + half))
                else Interval(back(middle - half), back(middle + half), level)
            )
            levels = (table.factors[f].levels[a], table.factors[g].levels[b])
            means.append(CellMean(names, levels, back(middle), interval, len(chosen)))
    return means


LARGEST = 100  # treatments; beyond, pairs are too many to be of use to a reader


def maximal_groups(different: list[tuple[int, int]], count: int) -> list[frozenset[int]]:
    """All largest sets of 0..count-1 without a pair that differs.

    Insert and absorb: Piepho, An algorithm for a letter-based representation of all-pairwise comparisons (2004).
    """
    groups = [frozenset(range(count))]
    for first, other in different:
        split = [group for group in groups if first in group and other in group]
        maximal = [group for group in groups if group not in split]
        for group in split:
            for part in (group - {first}, group - {other}):
                if not any(part <= group for group in maximal):
                    maximal = [group for group in maximal if not group <= part] + [part]
        groups = maximal
    return groups


def told_apart(fit: Fit, treatments: Floats, level: float) -> list[tuple[int, int]]:
    """Pairs of rows of ``treatments`` (t, p; contrasts against the baseline) that differ.

    Tukey-Kramer with the design's own correlation: simultaneous over all pairs at ``level``.
    """
    pairs = [(i, j) for i in range(len(treatments)) for j in range(i + 1, len(treatments))]
    family = Family.of(fit, [treatments[i] - treatments[j] for i, j in pairs], level)
    return [
        pair
        for pair, place in zip(pairs, family.place, strict=True)
        if place is not None and family.ratio(place) > family.critical[place]
    ]


def ordered_groups(fit: Fit, treatments: Floats, names: list[str], level: float, best_high: bool) -> list[list[str]]:
    """Groups as names, the best treatment first in each, and the group with the best mean first."""
    values = fit.estimates(treatments) * (-1.0 if best_high else 1.0)
    place = {int(index): rank for rank, index in enumerate(np.lexsort((np.arange(len(values)), values)))}
    groups = maximal_groups(told_apart(fit, treatments, level), len(names))
    ranked = sorted(sorted(place[index] for index in group) for group in groups)
    order = sorted(place, key=lambda index: place[index])
    return [[names[order[rank]] for rank in group] for group in ranked]


FEWEST = 6  # contrasts
_DRAWS = 20_000
_SEED = 1989


@dataclass(frozen=True)
class LenthLaw:
    """Null law of |contrast| / standard error: ``single`` and ``largest`` are sorted draws, of one and of the largest.

    It has the methods of ``maxt.MaxT``; it has its degrees of freedom in itself and needs none.
    """

    single: Floats
    largest: Floats

    def sf(self, value: float, _df: float) -> float:
        """P(largest > value)."""
        return _beyond(self.largest, value)

    def quantile(self, level: float, _df: float) -> float:
        return float(np.quantile(self.largest, level))

    def single_sf(self, value: float) -> float:
        """P(|one contrast| / standard error > value)."""
        return _beyond(self.single, value)

    def single_quantile(self, level: float) -> float:
        return float(np.quantile(self.single, level))


@dataclass(frozen=True)
class LenthFit(Fit):
    """A saturated fit whose ``sigma`` is Lenth's pseudo standard error; ``all_units`` (m, r) are the contrasts that it
    was made from, scaled to unit variance.
    """

    all_units: Floats

    def degrees(self, contrasts: Floats) -> Floats:
        return np.full(len(contrasts), len(self.all_units) / 3)

    def law(self, scatter: Floats) -> LenthLaw:
        units = scatter / np.linalg.norm(scatter, axis=1, keepdims=True)
        single, largest = _null(units.tobytes(), self.all_units.tobytes(), units.shape[1])
        return LenthLaw(single, largest)


def pseudo_error(contrasts: Floats) -> Floats:
    """Lenth's pseudo standard error of each row (d) of unit-variance contrasts (d, m)."""
    sizes = np.abs(contrasts)
    first = 1.5 * np.median(sizes, axis=1)
    trimmed = np.where(sizes < 2.5 * first[:, None], sizes, np.nan)
    return np.asarray(1.5 * np.nanmedian(trimmed, axis=1), dtype=np.float64)


def lenth_fit(saturated: Fit, contrasts: Floats) -> Fit:
    """The saturated fit with a noise, from its estimable ``contrasts`` (m, p): all effects and interactions. Unchanged
    where these are fewer than six or half of them are exactly nothing.
    """
    estimable = contrasts[np.array(saturated.estimable(contrasts), dtype=bool)]
    if len(estimable) < FEWEST:
        return saturated
    scatter = saturated.scatter(estimable)
    lengths = np.linalg.norm(scatter, axis=1)
    standard = saturated.estimates(estimable) / lengths
    if np.median(np.abs(standard)) <= 1e-12 * max(1e-300, float(np.max(np.abs(standard)))):
        return saturated
    sigma = float(pseudo_error(standard[None, :])[0])
    units = scatter / lengths[:, None]
    return LenthFit(saturated.beta, saturated.half, saturated.rows, max(1, len(estimable) // 3), sigma, units)


@lru_cache(maxsize=32)
def _null(family: bytes, everything: bytes, width: int) -> tuple[Floats, Floats]:
    rng = np.random.default_rng(_SEED)
    draws = rng.normal(size=(_DRAWS, width))
    error = pseudo_error(draws @ np.frombuffer(everything).reshape(-1, width).T)
    ratios = np.abs(draws @ np.frombuffer(family).reshape(-1, width).T) / error[:, None]
    return np.sort(ratios.ravel()), np.sort(ratios.max(axis=1))


def _beyond(draws: Floats, value: float) -> float:
    return float((len(draws) - np.searchsorted(draws, value, side="left") + 1) / (len(draws) + 1))
