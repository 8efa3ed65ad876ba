"""Ranking of the settings across systems: by ranks and by a mixed model, with three verdicts, side by side.

Ranks: on each system the m settings get ranks 1 (worst) to m (best), ties the mean of theirs. A setting's mean rank
over the n systems is held against the middle, (m + 1) / 2; the margin is the one that the largest deviation of any
setting stays within in 95 of 100 tables whose ranks are shuffled on each system by itself. Friedman, The use of ranks
(1937); W: Kendall and Babington Smith (1939). The paper sorts settings by grouped ranks but does not say where it draws
the lines; this margin is our reading, chosen so that in a table without effects all settings are undetermined in 95 of
100 cases.

Model: log response (plain where a figure is not positive) = setting (fixed) + system (random) + setting x system
(random). For one mean per setting and system the contrasts between settings have the setting x system mean square as
their error, (n - 1)(m - 1) degrees of freedom when complete; Searle, Casella and McCulloch, Variance Components (1992).
Settings are held against their middle half; intervals are simultaneous over all settings (exact law of the largest
|t|). With one system there is no such mean square: the noise of its repeats is used and the verdicts are about this
system alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from leadline.analysis.linear import Fit, fit
from leadline.analysis.maxt import max_t
from leadline.analysis.table import Floats, Scale
from leadline.figures.table import ResultTable, SystemFit, chance, listed
from leadline.model import distributions
from leadline.model.result import Interval

# The model's side of the ranking: settings fixed, systems random, contrasts with simultaneous intervals. Settings are
# held against their middle half (the mean of the settings left when a quarter is dropped at either end): one setting
# that does great harm would pull the mean of all away from where most settings are, and make them look good.


@dataclass(frozen=True)
class ModelContrast:
    """Percent, with the interval that holds for all settings at once (None where there is no error to judge by)."""

    percent: float
    interval: Interval | None
    p_adjusted: float | None


Contrasts = list[ModelContrast | None]


def judged(
    table: ResultTable, fits: Sequence[SystemFit], chosen: Sequence[int], level: float
) -> tuple[Contrasts, Contrasts]:
    """Each of the ``chosen`` settings against their middle half, and against the baseline: two families."""
    places = [*chosen, len(table.settings)]  # the baseline last
    count = len(places)
    base = np.hstack([np.eye(count - 1), -np.ones((count - 1, 1))])
    if len(fits) == 1:
        fit = fits[0]
        mask = np.array([fit.known[place] for place in places])
        means = _Means(fit.means[places], fit.scatter[places], mask, fit.sigma, fit.df, Scale(False, fit.centre))
    else:
        means = _over_systems(fits, places)
    middle = np.eye(count)[:-1] - _middle_half(means.values[:-1], means.known[:-1], count)
    return means.contrasts(middle, level), means.contrasts(base, level)


def _middle_half(values: Floats, known: Floats, width: int) -> Floats:
    """Weights (width) of the mean of the middle half of the known values."""
    weights = np.zeros(width)
    order = [int(place) for place in np.argsort(values, kind="stable") if known[place]]
    drop = len(order) // 4
    middle = order[drop : len(order) - drop]
    if middle:
        weights[middle] = 1.0 / len(middle)
    return weights


@dataclass(frozen=True)
class _Means:
    """Means of settings with their covariance ``sigma``^2 scatter scatter', on ``scale``."""

    values: Floats
    scatter: Floats
    known: Floats
    sigma: float
    df: int
    scale: Scale

    def contrasts(self, rows: Floats, level: float) -> Contrasts:
        good = [not np.any(np.abs(row[~self.known.astype(bool)]) > 1e-12) for row in rows]
        chosen = rows[good]
        if not len(chosen):
            return [None] * len(rows)
        values = chosen @ np.where(self.known, self.values, 0.0)
        scatter = chosen @ self.scatter
        errors = self.sigma * np.linalg.norm(scatter, axis=1)
        law = max_t(scatter) if self.df > 0 and self.sigma > 0 and np.all(errors > 0) else None
        critical = law.quantile(level, self.df) if law else 0.0
        estimates: list[ModelContrast | None] = []
        for value, error in zip(values, errors, strict=True):
            percent = self.scale.percent(float(value))
            if percent is None:
                estimates.append(None)
                continue
            interval = self.scale.interval(float(value), critical * float(error), level) if law else None
            p_value = law.sf(abs(float(value) / float(error)), self.df) if law and interval else None
            estimates.append(ModelContrast(percent, interval, p_value))
        every = iter(estimates)
        return [next(every) if ok else None for ok in good]


def _over_systems(fits: Sequence[SystemFit], places: Sequence[int]) -> _Means:
    """The two-way table of means, settings x systems, fitted without interaction: what is left is the error."""
    cells = [(row, column) for row, fit in enumerate(fits) for column, place in enumerate(places) if fit.known[place]]
    figures = np.array([fits[row].means[places[column]] for row, column in cells])
    log = bool(np.all(figures > 0))
    design = np.zeros((len(cells), len(fits) + len(places)))
    for number, (row, column) in enumerate(cells):
        design[number, row] = 1.0
        design[number, len(fits) + column] = 1.0
    result: Fit = fit(design, np.log(figures) if log else figures)
    wanted = np.zeros((len(places), design.shape[1]))
    wanted[:, : len(fits)] = 1.0 / len(fits)
    wanted[:, len(fits) :] = np.eye(len(places))
    mask = np.array(result.estimable(wanted))
    base = float(np.mean([fit.centre for fit in fits]))
    return _Means(result.estimates(wanted), result.scatter(wanted), mask, result.sigma, result.df, Scale(log, base))


DRAWS = 10_000
SEED = 20_064


class Standing(StrEnum):
    """Where a setting stands among all settings."""

    POSITIVE = "possibly positive"
    UNDETERMINED = "undetermined"
    NEGATIVE = "negative"


@dataclass(frozen=True)
class RankedSetting:
    """One setting. ``interval`` of the mean rank is simultaneous.

    ``above``: systems on which it ranks above the middle. ``model``: percent against the middle half of the settings;
    ``baseline``: against the baseline. None where the data do not determine them.
    """

    setting: str
    systems: int
    mean_rank: float
    interval: Interval
    lowest_rank: float
    highest_rank: float
    above: int
    by_rank: Standing
    by_model: Standing
    model: ModelContrast | None
    baseline: ModelContrast | None
    failed_on: int

    @property
    def agree(self) -> bool:
        return self.by_rank is self.by_model


@dataclass(frozen=True)
class Ranking:
    """Figure 6 of study A, best mean rank first.

    ``friedman`` is the chi-squared statistic, ``p_value`` from shuffled ranks; None with fewer than two systems.
    ``agreement``: settings to which both methods give the same verdict. ``ranks`` (systems, settings of ``rows``).
    """

    rows: tuple[RankedSetting, ...]
    systems: tuple[str, ...]
    ranks: tuple[tuple[float, ...], ...]
    middle: float
    margin: float | None
    friedman: float | None
    p_value: float | None
    p_chi_squared: float | None
    kendall_w: float | None
    agreement: int
    left_out: tuple[str, ...]
    sentence: str


def ranking(table: ResultTable, fits: Sequence[SystemFit], level: float = 0.95) -> Ranking | None:
    """The ranking of the settings that every system has a figure, or a failure to blame, for.

    A setting that always failed on a system ranks last there; the model has no figure for it. None where fewer than two
    settings can be ranked.
    """
    settings = table.settings
    score = np.array([[_score(table, fit, number) for number in range(len(settings))] for fit in fits])
    complete = [number for number in range(len(settings)) if not np.isnan(score[:, number]).any()]
    if len(complete) < 2:
        return None
    score = score[:, complete]
    from scipy import stats  # half a second

    ranks = stats.rankdata(score, axis=1)
    systems, count = ranks.shape
    middle = (count + 1) / 2
    mean = ranks.mean(axis=0)
    law = _shuffled(ranks, level) if systems > 1 else None
    margin = law.margin if law else None
    against_middle, against_baseline = judged(table, fits, complete, level)
    rows = []
    for place, number in enumerate(complete):
        reach = margin if margin is not None else count  # one system: a rank alone settles nothing
        deviation = float(mean[place] - middle)
        rows.append(
            RankedSetting(
                setting=table.name(settings[number]),
                systems=systems,
                mean_rank=float(mean[place]),
                interval=Interval(max(1.0, mean[place] - reach), min(float(count), mean[place] + reach), level),
                lowest_rank=float(ranks[:, place].min()),
                highest_rank=float(ranks[:, place].max()),
                above=int(np.sum(ranks[:, place] > middle)),
                by_rank=_standing(deviation, abs(deviation) > reach + 1e-9),
                by_model=_of_model(against_middle[place], table.sign),
                model=against_middle[place],
                baseline=against_baseline[place],
                failed_on=int(np.sum(np.isneginf(score[:, place]))),
            )
        )
    order = sorted(range(len(rows)), key=lambda place: (-rows[place].mean_rank, place))
    ranked = tuple(rows[place] for place in order)
    friedman = _friedman(ranks) if systems > 1 else None
    return Ranking(
        rows=ranked,
        systems=tuple(fit.system for fit in fits),
        ranks=tuple(tuple(float(row[place]) for place in order) for row in ranks),
        middle=middle,
        margin=margin,
        friedman=friedman,
        p_value=law.p_value if law else None,
        p_chi_squared=float(distributions.chi2.sf(friedman, count - 1)) if friedman is not None else None,
        kendall_w=friedman / (systems * (count - 1)) if friedman is not None else None,
        agreement=sum(row.agree for row in ranked),
        left_out=tuple(table.name(settings[n]) for n in range(len(settings)) if n not in complete),
        sentence=_sentence(ranked, friedman, law.p_value if law else None, systems),
    )


def _score(table: ResultTable, fit: SystemFit, number: int) -> float:
    """Higher is better; minus infinity for a setting whose runs all failed of its own, NaN where nothing is known."""
    if fit.known[number]:
        return float(f"{table.sign * fit.means[number]:.10g}")  # equal means are ties, whatever their last digit
    runs = table.of(table.systems.index(fit.system), table.settings[number])
    return -np.inf if runs and all(run.value is None and run.blamed for run in runs) else np.nan


@dataclass(frozen=True)
class _Shuffled:
    margin: float
    p_value: float


def _shuffled(ranks: Floats, level: float) -> _Shuffled:
    """Margin of the largest deviation, and Friedman's p value, over ranks shuffled on each system."""
    systems, count = ranks.shape
    rng = np.random.default_rng(SEED)
    sums = np.zeros((DRAWS, count))
    for row in ranks:
        sums += rng.permuted(np.tile(row, (DRAWS, 1)), axis=1)
    deviations = sums / systems - (count + 1) / 2
    largest = np.abs(deviations).max(axis=1)
    statistic = float(np.sum((ranks.mean(axis=0) - (count + 1) / 2) ** 2))
    spread = np.sum(deviations**2, axis=1)
    p_value = (1 + float(np.sum(spread >= statistic - 1e-9))) / (1 + DRAWS)
    return _Shuffled(float(np.quantile(largest, level, method="higher")), p_value)


def _friedman(ranks: Floats) -> float | None:
    """Friedman's statistic with the correction for ties; None where every setting is tied on every system."""
    systems, count = ranks.shape
    spread = float(np.sum((ranks - (count + 1) / 2) ** 2)) / (systems * (count - 1))
    if spread == 0:
        return None
    return float(systems * np.sum((ranks.mean(axis=0) - (count + 1) / 2) ** 2) / spread)


def _standing(deviation: float, told: bool) -> Standing:
    if not told:
        return Standing.UNDETERMINED
    return Standing.POSITIVE if deviation > 0 else Standing.NEGATIVE


def _of_model(contrast: ModelContrast | None, sign: float) -> Standing:
    if contrast is None or contrast.interval is None or contrast.interval.contains(0.0):
        return Standing.UNDETERMINED
    return Standing.POSITIVE if sign * contrast.percent > 0 else Standing.NEGATIVE


def _sentence(rows: Sequence[RankedSetting], friedman: float | None, p_value: float | None, systems: int) -> str:
    parts = []
    for standing in (Standing.POSITIVE, Standing.NEGATIVE):
        both = [row.setting for row in rows if row.by_rank is standing and row.agree]
        rank = [row.setting for row in rows if row.by_rank is standing and not row.agree]
        model = [row.setting for row in rows if row.by_model is standing and not row.agree]
        for names, method in ((both, "both methods"), (rank, "ranks alone"), (model, "the model alone")):
            if names:
                parts.append(f"{standing.value} by {method}: {listed(names)}")
    if not parts:
        parts.append("no setting can be told from the middle by either method")
    same = sum(row.agree for row in rows)
    text = "; ".join(parts) + f"; the methods agree on {same} of {len(rows)} settings"
    if systems < 2:
        return _upper(text) + "; with one system ranks cannot be judged, and the model speaks of this system alone."
    if friedman is not None and p_value is not None:
        w = friedman / (systems * (len(rows) - 1))
        text += f"; Kendall's W = {w:.2f}, Friedman {chance(p_value)}"
    return _upper(text) + "."


def _upper(text: str) -> str:
    return text if "=" in text.split(" ")[0] else text[0].upper() + text[1:]
