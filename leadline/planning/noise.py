"""The noise a study will meet: measured in earlier trials, or assumed; also where some factors change between trials
and others in slots inside them.

Variance components of earlier trials (seconds, trials, blocks) have an interval each. Blocks and trials by Henderson's
method III (1953): the reduction of the sum of squares by blocks beyond the treatments, and the residual. Interval of
the block component: the modified large sample method, Burdick and Graybill, Confidence Intervals on Variance Components
(1992), section 3.3. All variances are of logarithms, that is, relative.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from leadline.analysis.columns import fitted_with_strata
from leadline.analysis.linear import fit, innermost
from leadline.analysis.table import Floats, StudyTable, as_one_factor, response_kind, sample_of, scale_of
from leadline.analysis.within import within
from leadline.design.order import is_live
from leadline.layouts import Layout, Words, layout_of
from leadline.model import distributions
from leadline.model.naming import plain_level
from leadline.model.plan import Plan, Treatment
from leadline.model.result import Drift, Interval, Observation
from leadline.planning.power import log_effect, percent, precision_of

# Of a plain trial's variance where no pilot tells them apart: shares, and its seconds.
OF_SECONDS, OF_START, OF_MACHINE = 0.25, 0.25, 0.5
OF_TRIAL = 30.0


@dataclass(frozen=True)
class Component:
    """A variance with its interval, both never negative, and the degrees of freedom behind it."""

    variance: float
    interval: Interval
    df: int

    @property
    def cv(self) -> float:
        """Coefficient of variation in percent, of a lognormal figure with this variance of its logarithm."""
        return cv_of(self.variance)

    @property
    def cv_interval(self) -> Interval:
        return Interval(cv_of(self.interval.low), cv_of(self.interval.high), self.interval.level)


def cv_of(variance: float) -> float:
    """Percent, from a variance of logarithms."""
    return 100.0 * math.sqrt(math.expm1(min(max(variance, 0.0), 50.0)))


def variance_of(cv: float) -> float:
    """The variance of logarithms that a coefficient of variation in percent means."""
    return math.log1p((cv / 100.0) ** 2)


@dataclass(frozen=True)
class Strata:
    """Sums of squares of one study: within blocks, and between blocks beyond the treatments.

    ``size``: what the between mean square holds of the block variance (the mean number of trials in a block, where
    blocks are alike).
    """

    within: float
    within_df: int
    between: float
    between_df: int
    size: float


def strata_of(plan: Plan, observations: Sequence[Observation], response: str) -> Strata | None:
    """The sums of squares of a study, None where its trials leave nothing to estimate noise from.

    Of observations of slots: within trials, and between them.
    """
    plan, observations = as_one_factor(plan, observations)
    table = StudyTable.of(plan, observations, plain_level)
    sample, _ = sample_of(table, response)
    if sample.size < 2:
        return None
    scale = scale_of(response_kind(response), sample)
    values = scale.into(sample.values)
    model, _, _ = fitted_with_strata(table, sample, np.zeros(sample.size), False)
    inside = within(model, sample, values)
    if inside.df <= 0:
        return None
    order, starts = innermost(sample)
    design = np.column_stack([np.ones(sample.size), model.rows(sample)[:, model.leading :]])[order]
    whole = fit(design, values[order])
    df = whole.df - inside.df
    # what the groups' indicators have beyond the treatments: their squared lengths less those of their shadows
    shadows = np.add.reduceat(design @ whole.half, starts, axis=0)
    size = (sample.size - float(np.sum(shadows**2))) / df if df > 0 else 0.0
    squares = whole.sigma**2 * whole.df, inside.sigma**2 * inside.df
    relative = 1.0 if scale.log else 1.0 / scale.base**2 if scale.base > 0 else 0.0
    return Strata(squares[1] * relative, inside.df, max(0.0, squares[0] - squares[1]) * relative, max(df, 0), size)


def pooled(strata: Sequence[Strata]) -> Strata:
    """Several studies taken together, as if they were blocks of one."""
    between_df = sum(stratum.between_df for stratum in strata)
    weighted = sum(stratum.size * stratum.between_df for stratum in strata)
    return Strata(
        sum(stratum.within for stratum in strata),
        sum(stratum.within_df for stratum in strata),
        sum(stratum.between for stratum in strata),
        between_df,
        weighted / between_df if between_df else 0.0,
    )


def within_component(strata: Strata, level: float = 0.95) -> Component:
    """Between trials of one block: residual mean square with its chi-square interval."""
    df = strata.within_df
    low, high = (
        float(strata.within / distributions.chi2.ppf((1 + level) / 2, df)),
        float(strata.within / distributions.chi2.ppf((1 - level) / 2, df)),
    )
    return Component(strata.within / df, Interval(low, high, level), df)


def between_component(strata: Strata, level: float = 0.95) -> Component | None:
    """Between blocks; None with fewer than two blocks."""
    if strata.between_df <= 0 or strata.size <= 0:
        return None
    between, two = strata.between / strata.between_df, strata.within / strata.within_df
    value = (between - two) / strata.size
    low, high = difference_interval(between, strata.between_df, two, strata.within_df, level)
    bounds = Interval(max(0.0, low / strata.size), max(0.0, high / strata.size), level)
    return Component(max(0.0, value), bounds, strata.between_df)


def difference_interval(one: float, n1: int, two: float, n2: int, level: float) -> tuple[float, float]:
    """Interval of the difference of two expected mean squares (modified large sample; may be negative)."""
    alpha = (1 - level) / 2
    value = one - two
    f = float(distributions.f.isf(alpha, n1, n2))
    g1, h2 = 1 - n1 / float(distributions.chi2.isf(alpha, n1)), n2 / float(distributions.chi2.isf(1 - alpha, n2)) - 1
    g12 = ((f - 1) ** 2 - (g1 * f) ** 2 - h2**2) / f
    below = (g1 * one) ** 2 + (h2 * two) ** 2 + g12 * one * two
    f = float(distributions.f.isf(1 - alpha, n1, n2))
    h1, g2 = n1 / float(distributions.chi2.isf(1 - alpha, n1)) - 1, 1 - n2 / float(distributions.chi2.isf(alpha, n2))
    h12 = ((1 - f) ** 2 - (h1 * f) ** 2 - g2**2) / f
    above = (h1 * one) ** 2 + (g2 * two) ** 2 + h12 * one * two
    return value - math.sqrt(max(0.0, below)), value + math.sqrt(max(0.0, above))


# How much one second says when seconds resemble their neighbours: the integrated autocorrelation time. tau = 1 + 2 sum
# of the autocorrelations: the mean of n seconds is as good as that of n / tau independent ones. Automatic window and
# error formula: Sokal, Monte Carlo Methods in Statistical Mechanics (1989), section 3; bias of the mean's removal:
# Wolff, Monte Carlo errors with less errors (2004). Several series (trials) share one estimate.


WINDOW = 5.0  # the sum ends at the first lag that is this many autocorrelation times
SHORTEST = 8  # samples of a series that can be used


@dataclass(frozen=True)
class Autocorrelation:
    """``time`` in samples with its interval, ``window`` the last lag used, ``samples`` in all series together.

    ``variance`` is that of one sample about its series' mean, so that ``variance * time / n`` is the variance of the
    mean of n samples.
    """

    time: float
    interval: Interval
    window: int
    samples: int
    variance: float


def integrated_time(series: Sequence[Floats], level: float = 0.95) -> Autocorrelation | None:
    """The integrated autocorrelation time of equally spaced samples, pooled over series of any lengths.

    None where no series has ``SHORTEST`` finite samples or none varies.
    """
    usable = [np.asarray(series_, dtype=np.float64) for series_ in series]
    usable = [values for values in usable if len(values) >= SHORTEST and bool(np.all(np.isfinite(values)))]
    if not usable or all(float(np.ptp(values)) == 0 for values in usable):
        return None
    longest = max(len(values) for values in usable)
    sums, counts = np.zeros(longest), np.zeros(longest)
    for values in usable:
        sums[: len(values)] += _products(values - values.mean())
        counts[: len(values)] += len(values) - np.arange(len(values))
    covariance = sums / np.maximum(counts, 1)
    total = sum(len(values) for values in usable)
    mean_length = total / len(usable)
    running = covariance[0]
    window = 0
    for lag in range(1, max(2, int(mean_length) // 3)):
        running += 2 * covariance[lag]
        window = lag
        if lag >= WINDOW * max(running / covariance[0], 0.0):
            break
    # Every covariance is low by the variance of its series' mean.
    share = min(0.5, (2 * window + 1) / mean_length)
    long_run = max(running, 1e-3 * covariance[0]) / (1 - share)
    variance = float(covariance[0] + long_run / mean_length)
    time = float(long_run / variance)
    spread = math.sqrt(2 * (2 * window + 1) / total)
    reach = math.exp(float(distributions.norm.ppf((1 + level) / 2)) * spread)
    return Autocorrelation(time, Interval(time / reach, time * reach, level), window, total, variance)


def _products(centred: Floats) -> Floats:
    """Sums of products at every lag, by FFT."""
    size = 1 << (2 * len(centred) - 1).bit_length()
    power = np.abs(np.fft.rfft(centred, size)) ** 2
    return np.asarray(np.fft.irfft(power, size)[: len(centred)], dtype=np.float64)


PUBLISHED_CV = 4.3  # percent between trials: study of kernels, docs/concepts/statistics.md
TIMES_NOISIER = {
    "p99": 1.8,
    "cpu_per_transaction": 1.9,
}  # than throughput, by their intervals: docs/evidence/study-b.md
WORLDS_CV = 0.5  # percent by which effects differ between worlds: docs/guides/virtual-time.md


def published(response: str) -> tuple[float, str]:
    """Noise in percent to assume of a response, and where it is from."""
    if response == "throughput":
        return PUBLISHED_CV, "that of the published study"
    times = TIMES_NOISIER.get(response, 1.0)
    more = f", {times:g} times as in study B" if times > 1 else ""
    return times * PUBLISHED_CV, f"that of throughput in the published study{more}"


@dataclass(frozen=True)
class Past:
    """An earlier study: its plan, its whole trials, and per-second series (trial id -> values of the steady state)."""

    name: str
    plan: Plan
    observations: Sequence[Observation]
    series: Mapping[int, Floats]
    drift: Drift | None = None
    overhead: float = 0.0  # seconds of a trial that are not steady state, 0 where none was timed
    slots: Sequence[Observation] = ()  # of trials that had slots


@dataclass(frozen=True)
class Noise:
    """What earlier trials say about one response. ``trial``: between trials of a block, their seconds' noise included.

    ``second``: variance of a one-second mean in the long run, relative (autocorrelation included), None without series.
    ``beyond``: the part of ``trial`` that longer trials would not take away. ``slot(seconds)`` needs the series.
    """

    response: str
    source: str
    assumed: bool
    trials: int
    trial: Component | None
    sigma2: float
    block: Component | None = None
    autocorrelation: Autocorrelation | None = None
    second: float | None = None
    steady: float | None = None  # mean length of the steady states behind it, seconds
    drifts: tuple[Drift, ...] = ()
    overhead: float | None = None
    windows: Sequence[Floats] = ()
    between_slots: float | None = None  # variance of a slot's figure about its trial, as given or as measured
    words: Words = Layout.words  # of the layout: what ``trial`` and ``block`` are between
    slot_seconds: float | None = None  # that each such slot was measured; None where the length does not matter

    @property
    def beyond(self) -> float | None:
        """Variance from start to start that more seconds would not lower."""
        if self.second is None or not self.steady:
            return None
        return max(0.0, self.sigma2 - self.second / self.steady)

    def slot(self, seconds: float, wash_out: float) -> float | None:
        """Variance of a slot's figure about its trial: of earlier slots if there were any (in proportion to the seconds
        measured), else from windows of earlier trials as far apart as slots are: half the mean square of differences
        between neighbours, which is what a comparison of neighbouring slots sees.
        """
        length, kept_seconds = max(1, round(seconds)), max(1, round(seconds - wash_out))
        squares: list[float] = []
        for series in self.windows:
            count = len(series) // length
            if count < 2:
                continue
            means = series[: count * length].reshape(count, length)[:, length - kept_seconds :].mean(axis=1)
            squares += list(np.diff(means) ** 2 / 2)
        if self.between_slots is not None:
            return self.between_slots * (self.slot_seconds / kept_seconds if self.slot_seconds else 1.0)
        return float(np.mean(squares)) if len(squares) >= 4 else None


def assumed(response: str, cv: float, why: str, slots: bool = False, words: Words = Layout.words) -> Noise:
    """Noise that was told rather than measured: between ``slots``, else between trials as ``words`` of a layout say."""
    variance = variance_of(cv)
    return Noise(response, why, True, 0, None, variance, between_slots=variance if slots else None, words=words)


def measured(response: str, past: Sequence[Past], level: float = 0.95) -> Noise | None:
    """Noise of earlier studies taken together; None where they have no repeated trials with figures."""
    with_strata = [(study, strata_of(study.plan, study.observations, response)) for study in past]
    usable = [(study, strata) for study, strata in with_strata if strata is not None]
    if not usable:
        return _of_slots(response, past, level)
    together = pooled([strata for _, strata in usable])
    trial = within_component(together, level)
    if trial.variance <= 0:
        return None
    windows = [
        series / series.mean()
        for study, _ in usable
        for series in study.series.values()
        if len(series) and series.mean() > 0
    ]
    auto = integrated_time(windows, level)
    second = auto.variance * auto.time if auto else None
    overheads = [study.overhead for study, _ in usable if study.overhead > 0]
    return Noise(
        response=response,
        source=", ".join(study.name for study, _ in usable),
        assumed=False,
        trials=sum(1 for study, _ in usable for observation in study.observations if observation.failure is None),
        trial=trial,
        sigma2=trial.variance,
        block=between_component(together, level),
        autocorrelation=auto,
        second=second,
        steady=float(np.mean([len(series) for series in windows])) if windows else None,
        drifts=tuple(study.drift for study, _ in usable if study.drift is not None and study.drift.percent is not None),
        overhead=float(np.mean(overheads)) if overheads else None,
        windows=tuple(windows),
        words=layout_of(usable[0][0].plan).words,
    )


def _of_slots(response: str, past: Sequence[Past], level: float) -> Noise | None:
    """Where the earlier trials all had slots: noise between slots of a trial, and between trials."""
    with_strata = [(study, strata_of(study.plan, study.slots, response)) for study in past if study.slots]
    usable = [(study, strata) for study, strata in with_strata if strata is not None]
    if not usable:
        return None
    together = pooled([strata for _, strata in usable])
    within, between = within_component(together, level), between_component(together, level)
    lengths = [slot.seconds for study, _ in usable for slot in study.slots if slot.seconds]
    overheads = [study.overhead for study, _ in usable if study.overhead > 0]
    return Noise(
        response=response,
        source=", ".join(study.name for study, _ in usable),
        assumed=False,
        trials=len({(study.name, slot.trial) for study, _ in usable for slot in study.slots}),
        trial=None,
        sigma2=between.variance if between is not None else within.variance,
        block=between,
        overhead=float(np.mean(overheads)) if overheads else None,
        between_slots=within.variance,
        slot_seconds=float(np.mean(lengths)) if lengths else None,
    )


@dataclass(frozen=True)
class Between:
    """What the plan finds of ``factors``. ``smallest``: power -> percent; None, with ``reason``, where not known."""

    factors: tuple[str, ...]
    df: int | None
    cv: float | None
    smallest: Mapping[float, float | None]
    chance: float | None = None
    reason: str = ""


def between_trials(
    plan: Plan,
    noise: Noise,
    slot_variance: float,
    level: float,
    powers: Sequence[float],
    effect: float | None = None,
) -> Between | None:
    """Means of whole trials compared inside blocks; None where no factor changes between trials with slots.

    The family shares its error rate in proportion to the number of comparisons (Bonferroni), a little stricter than
    the analysis, which judges all together. ``slot_variance``: of one slot about its trial, of logarithms.
    """
    others = tuple(factor for factor in plan.factors if not is_live(factor))
    if not others or not any(trial.slots for trial in plan.trials):
        return None
    names = tuple(factor.name for factor in others)
    nothing = Between(names, None, None, dict.fromkeys(powers))
    instances = _between_instances(noise)
    if instances is None:
        why = "the noise between trials is not known: it is read from earlier studies, and --cv gave that of slots"
        return replace(nothing, reason=why)
    whole = whole_trials(plan, names)
    precision = precision_of(whole, 1 - (1 - level) * len(whole.comparisons) / len(plan.comparisons))
    if isinstance(precision, str):
        return replace(nothing, reason=precision)
    slots = sum(len(trial.slots) for trial in plan.trials) / len(plan.trials)
    sigma = math.sqrt(instances + slot_variance / slots)
    sizes = {power: precision.smallest(sigma, power) for power in powers}
    return Between(
        names,
        precision.df,
        cv_of(sigma**2),
        {power: None if size is None else percent(size) for power, size in sizes.items()},
        None if effect is None else precision.power(log_effect(effect), sigma),
    )


def _between_instances(noise: Noise) -> float | None:
    """Variance of what a trial has of its own, beyond its seconds."""
    if noise.beyond is not None:
        return noise.beyond
    if noise.between_slots is None:
        return noise.sigma2
    return None if noise.block is None else noise.block.variance


def whole_trials(plan: Plan, names: Sequence[str]) -> Plan:
    """The plan as one of whole trials, with the factors of these names alone."""
    return replace(
        plan,
        factors=tuple(factor for factor in plan.factors if factor.name in names),
        trials=tuple(
            replace(trial, slots=(), treatment=Treatment.of({name: trial.treatment[name] for name in names}))
            for trial in plan.trials
        ),
    )
