"""Any differences between the treatments of a study, judged together as one family."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from leadline.analysis.columns import Model, fitted_with_strata
from leadline.analysis.comparisons import EXACT, LOST, NO_NOISE, TOO_NOISY, Family
from leadline.analysis.instances import InstancesFit, between_instances
from leadline.analysis.linear import Fit, Residual, pooled
from leadline.analysis.table import Floats, Sample, Scale, StudyTable, as_one_factor, response_kind, sample_of, scale_of
from leadline.analysis.unequal import FEWEST
from leadline.model import distributions
from leadline.model.plan import Plan, Treatment
from leadline.model.result import Interval, Observation, Verdict

Pair = tuple[Treatment, Treatment]  # a treatment, and the one it is compared with


@dataclass(frozen=True)
class Change:
    """A treatment against another, percent of the other.

    ``interval`` is at ``interval.level`` for this comparison alone, ``simultaneous`` for all of the family, which the
    verdict follows. ``trials`` and ``failures`` are of the treatment, ``against`` the other's trials that count. None
    where nothing could be estimated, with ``reason``.
    """

    verdict: Verdict
    trials: int
    failures: int
    against: int
    percent: float | None = None
    interval: Interval | None = None
    simultaneous: Interval | None = None
    p_value: float | None = None
    p_adjusted: float | None = None
    df: float | None = None
    reason: str = ""

    @property
    def better(self) -> bool:
        return self.verdict is Verdict.BETTER


def contrasts(
    plan: Plan,
    observations: Sequence[Observation],
    response: str,
    pairs: Sequence[Pair],
    *,
    level: float = 0.95,
    family_level: float | None = None,
    others: Sequence[Residual] = (),
) -> list[Change]:
    """One change for each pair; the plan is one of whole configurations, each of which has its own noise.

    Least squares with blocks (docs/concepts/statistics.md); simultaneous intervals by the law of the largest
    of the correlated t statistics, at ``family_level`` (``level`` if absent). Positive responses are compared as
    ratios. Where treatments change in slots, both of a pair are to share their instances. ``others``: the noise of
    comparisons of the same kind (``residual``), shared by this one where it is too small for a noise of each
    configuration.
    """
    groups = [(pair,) for pair in pairs]
    return mean_contrasts(plan, observations, response, groups, level=level, family_level=family_level, others=others)


def mean_contrasts(
    plan: Plan,
    observations: Sequence[Observation],
    response: str,
    groups: Sequence[Sequence[Pair]],
    *,
    level: float = 0.95,
    family_level: float | None = None,
    others: Sequence[Residual] = (),
) -> list[Change]:
    """As ``contrasts``, one change for each group of pairs: the mean of their changes, equally weighted, on the scale
    of the analysis (of positive responses the geometric mean of the ratios).
    """
    whole, cells_run = as_one_factor(plan, observations)
    named = _names(plan, whole)
    table = StudyTable.of(whole, cells_run, lambda _factor, value: str(value))
    sample, _ = sample_of(table, response)
    cells = {factor_level: number for number, factor_level in enumerate(_levels(table))}
    index = {treatment: cells[name] for treatment, name in named.items() if name in cells}
    single = [[_counts(cells_run, whole, named, pair) for pair in group] for group in groups]
    counts = [_summed(pairs) for pairs in single]
    missing = [
        next(
            (why for pair, count in zip(group, place, strict=True) if (why := _missing(sample, index, pair, count))), ""
        )
        for group, place in zip(groups, single, strict=True)
    ]
    if not groups or sample.size == 0 or all(missing):
        return [_nothing(count, why or "no trial gave a figure") for count, why in zip(counts, missing, strict=True)]
    kind = response_kind(response)
    scale = scale_of(kind, sample)
    model, fit, shares = _fitted(table, sample, scale)
    if shares:
        fit = pooled(fit, others)
    measured = [at for at, why in enumerate(missing) if not why]
    rows = [_mean_row(model, table, index, groups[at]) for at in measured]
    if isinstance(fit, InstancesFit):  # configurations of one step: the same knobs in each mode
        told = fit.estimable(np.array(rows))
        fit = replace(fit, family=np.array(rows)[told])
    family = Family.of(fit, rows, level if family_level is None else family_level)
    sign = 1.0 if kind.higher_is_better else -1.0
    changes = [_nothing(count, why) for count, why in zip(counts, missing, strict=True)]
    for at, place in zip(measured, family.place, strict=True):
        if place is None:
            changes[at] = _nothing(counts[at], LOST)
        else:
            base = _base(scale, sample, [index[other] for _, other in groups[at]])
            changes[at] = _change(counts[at], family, fit, place, base, sign, level, family_level or level)
    return changes


def _mean_row(model: Model, table: StudyTable, index: dict[Treatment, int], group: Sequence[Pair]) -> Floats:
    """Contrast (p) of the mean of a group's pairs."""
    rows = [model.cell(table.cells[index[first]]) - model.cell(table.cells[index[other]]) for first, other in group]
    return np.asarray(np.mean(rows, axis=0), dtype=np.float64)


def _summed(counts: Sequence[tuple[int, int, int]]) -> tuple[int, int, int]:
    trials, failed, against = (sum(column) for column in zip(*counts, strict=True))
    return trials, failed, against


def residual(plan: Plan, observations: Sequence[Observation], response: str) -> Residual | None:
    """The noise of such a plan, for others of the same kind; None where it has none to share: slots, figures that are
    not compared as ratios, or configurations with a noise of their own.
    """
    whole, placed = as_one_factor(plan, observations)
    table = StudyTable.of(whole, placed, lambda _factor, value: str(value))
    sample, _ = sample_of(table, response)
    if sample.size == 0:
        return None
    _, fit, shares = _fitted(table, sample, scale_of(response_kind(response), sample))
    return Residual(fit.df, fit.sigma**2) if shares else None


def _fitted(table: StudyTable, sample: Sample, scale: Scale) -> tuple[Model, Fit, bool]:
    """Whether the noise is one that plans of the same kind share."""
    model, fit, strata = fitted_with_strata(table, sample, scale.into(sample.values), timed=False)
    if sample.slotted:
        return model, between_instances(model, sample, scale, fit, strata).fit, False
    few = int(np.bincount(sample.cells).max()) < FEWEST
    return model, fit, scale.log and few and not strata.mixed and fit.df > 0 and fit.sigma > 0


def _names(plan: Plan, whole: Plan) -> dict[Treatment, str]:
    """The level that stands for each treatment in the plan of one factor."""
    factor = whole.factors[0].name
    named = {}
    for trial, other in zip(plan.trials, whole.trials, strict=True):
        named[trial.treatment] = str(other.treatment[factor])
        for before, after in zip(trial.slots, other.slots, strict=True):
            named[before.treatment] = str(after.treatment[factor])
    return named


def _levels(table: StudyTable) -> list[str]:
    factor = table.factors[0]
    return [str(factor.levels[cell[0]]) for cell in table.cells]


def _counts(
    observations: Sequence[Observation], whole: Plan, named: dict[Treatment, str], pair: Pair
) -> tuple[int, int, int]:
    """Trials and failed ones of the first, trials that count of the second."""
    factor = whole.factors[0].name
    trials: list[tuple[set[int], set[int]]] = []
    for treatment in pair:
        mine = [
            observation
            for observation in observations
            if str(observation.treatment.as_dict().get(factor)) == named.get(treatment)
        ]
        trials.append(
            (
                {observation.trial for observation in mine},
                {observation.trial for observation in mine if observation.failure is None},
            )
        )
    (every, good), (_, against) = trials
    return len(every), len(every - good), len(against)


def _missing(sample: Sample, index: dict[Treatment, int], pair: Pair, count: tuple[int, int, int]) -> str:
    """Why a pair cannot be compared, empty where it can."""
    trials, failed, _ = count
    if trials and failed == trials:
        return f"all {failed} trials failed" if failed > 1 else "its only trial failed"
    for treatment, whose in zip(pair, ("it", "what it is compared with"), strict=True):
        cell = index.get(treatment)
        if cell is None or not np.any(sample.cells == cell):
            return f"no trial of {whose} gave a figure"
    return ""


def _nothing(count: tuple[int, int, int], reason: str) -> Change:
    trials, failed, against = count
    verdict = Verdict.FAILED if trials and failed == trials else Verdict.UNDETERMINED
    return Change(verdict, trials, failed, against, reason=reason)


def _base(scale: Scale, sample: Sample, cells: Sequence[int]) -> Scale:
    """The scale with differences in percent of the treatments that are compared with."""
    if scale.log:
        return scale
    return Scale(False, float(np.mean([sample.values[sample.cells == cell].mean() for cell in cells])))


def _change(
    count: tuple[int, int, int],
    family: Family,
    fit: Fit,
    place: int,
    scale: Scale,
    sign: float,
    level: float,
    family_level: float,
) -> Change:
    trials, failed, against = count
    value, error = float(family.estimates[place]), float(family.errors[place])
    percent = scale.percent(value)
    if family.law is None:
        reason = NO_NOISE if fit.df <= 0 else EXACT
        return Change(Verdict.UNDETERMINED, trials, failed, against, percent, reason=reason)
    df = float(family.degrees[place])
    wide = float(family.critical[place]) * error
    interval = scale.interval(value, float(distributions.t.ppf((1 + level) / 2, df)) * error, level)
    simultaneous = scale.interval(value, wide, family_level)
    reason = "" if percent is not None and interval and simultaneous else TOO_NOISY
    verdict = Verdict.UNDETERMINED
    if abs(value) > wide:
        verdict = Verdict.BETTER if sign * value > 0 else Verdict.WORSE
    return Change(
        verdict,
        trials,
        failed,
        against,
        percent,
        None if reason else interval,
        None if reason else simultaneous,
        family.plain(place),
        family.adjusted(place),
        df,
        reason,
    )
