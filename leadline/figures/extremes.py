"""Best gain and worst loss of any single setting on every system, held against what luck alone gives."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from leadline.analysis.maxt import max_t
from leadline.analysis.selection import best_of_null, gain_of_luck
from leadline.analysis.table import Floats
from leadline.figures.table import ResultTable, SystemFit, between, count
from leadline.model import distributions
from leadline.model.result import Interval, Luck

NO_BASELINE = "no baseline run has a figure, so there is nothing to gain against"
NO_REPEATS = "no run is repeated, so there is no interval and no luck to compare with"


@dataclass(frozen=True)
class Extremes:
    """One system. Percent of its baseline, positive where better; intervals hold for all its settings at once.

    ``luck``: what the best of as many settings gains by luck alone; the worst loses as much.
    """

    system: str
    best: float
    worst: float
    best_setting: str = ""
    worst_setting: str = ""
    best_interval: Interval | None = None
    worst_interval: Interval | None = None
    luck: Luck | None = None
    reason: str = ""

    @property
    def best_told(self) -> bool:
        """Whether the gain is more than nothing, all settings considered."""
        return self.best_interval is not None and self.best_interval.low > 0

    @property
    def worst_told(self) -> bool:
        return self.worst_interval is not None and self.worst_interval.high < 0


@dataclass(frozen=True)
class ExtremesTable:
    """Table 1 of study A. Intervals of the means are Student's t over the systems.

    ``luck_mean``: mean over systems of what luck alone gives; ``luck_mean_95``: what that mean stays below in about 95
    of 100 tables, the systems' own margins added as independent errors are (squares, then the root, over their number).
    ``luck_cv``: the coefficient of variation of one run, in percent, at which luck alone would give ``mean_best``, for
    ``settings`` of ``replicates`` each.
    """

    rows: tuple[Extremes, ...]
    mean_best: float
    mean_worst: float
    median_best: float
    median_worst: float
    best_interval: Interval | None
    worst_interval: Interval | None
    luck_mean: float | None
    luck_mean_95: float | None
    luck_cv: float | None
    settings: int | None
    replicates: int | None
    sentence: str


def extremes(table: ResultTable, fits: Sequence[SystemFit], level: float = 0.95) -> ExtremesTable | None:
    """The table of a table of results; None where no system has both a baseline and a setting with a figure."""
    rows = [row for fit in fits if (row := _system(table, fit, level)) is not None]
    if not rows:
        return None
    counts = [
        sum(run.value is not None for run in table.of(system, setting))
        for system in range(len(table.systems))
        for setting in table.settings
    ]
    repeats = round(float(np.mean([count for count in counts if count])))
    return extremes_table(rows, settings=len(table.settings), replicates=repeats)


def extremes_table(
    rows: Sequence[Extremes],
    *,
    settings: int | None = None,
    replicates: int | None = None,
    cv: float | None = None,
    level: float = 0.95,
) -> ExtremesTable:
    """The table with its mean row, from rows that may be published ones.

    With ``settings`` and ``replicates`` it tells at which noise luck alone gives the mean gain; with ``cv`` (percent,
    of one run) too, rows without a luck of their own get it from these, the baseline taken as known without error.
    Raises ValueError without a row.
    """
    if not rows:
        raise ValueError("a table of gains needs a row")
    if settings and replicates and cv:
        luck = Luck(settings, *gain_of_luck(settings, cv, replicates))
        rows = [row if row.luck else _with_luck(row, luck) for row in rows]
    best = np.array([row.best for row in rows])
    worst = np.array([row.worst for row in rows])
    lucks = [row.luck.expected_gain for row in rows if row.luck]
    needed = None
    if settings and settings > 1 and replicates and best.mean() > 0:
        needed = float(best.mean()) / gain_of_luck(settings, 1.0, replicates)[0]
    result = ExtremesTable(
        rows=tuple(rows),
        mean_best=float(best.mean()),
        mean_worst=float(worst.mean()),
        median_best=float(np.median(best)),
        median_worst=float(np.median(worst)),
        best_interval=_mean_interval(best, level),
        worst_interval=_mean_interval(worst, level),
        luck_mean=float(np.mean(lucks)) if len(lucks) == len(rows) else None,
        luck_mean_95=_luck_of_mean([row.luck for row in rows]),
        luck_cv=needed,
        settings=settings,
        replicates=replicates,
        sentence="",
    )
    return replace(result, sentence=_sentence(result))


def _luck_of_mean(lucks: Sequence[Luck | None]) -> float | None:
    values = [luck for luck in lucks if luck is not None]
    if len(values) < len(lucks):
        return None
    mean = float(np.mean([luck.expected_gain for luck in values]))
    margin = math.sqrt(sum((luck.gain_95 - luck.expected_gain) ** 2 for luck in values)) / len(values)
    return mean + margin


def _with_luck(row: Extremes, luck: Luck) -> Extremes:
    return replace(row, luck=luck)


def _system(table: ResultTable, fit: SystemFit, level: float) -> Extremes | None:
    base = fit.baseline
    places = [number for number in range(len(table.settings)) if fit.known[number]]
    if base is None or base <= 0 or not places:
        return None
    sign = table.sign
    gains = sign * 100 * (fit.means[places] / base - 1)
    order = np.argsort(gains, kind="stable")
    first, last = int(order[-1]), int(order[0])
    names = [table.name(table.settings[number]) for number in places]
    scatter = fit.scatter[places] - fit.scatter[-1]
    if fit.df == 0 or fit.sigma == 0:
        reason = NO_REPEATS if fit.df == 0 else "repeated runs gave exactly the same figures"
        return Extremes(fit.system, float(gains[first]), float(gains[last]), names[first], names[last], reason=reason)
    critical = max_t(scatter).quantile(level, fit.df)

    def interval(number: int) -> Interval:
        gain = float(gains[number])
        ratio = fit.means[places[number]] / base
        reach = critical * 100 * fit.sigma / base * float(np.linalg.norm(_row(fit, places[number], ratio)))
        return Interval(gain - reach, gain + reach, level)

    luck = Luck(len(places), *best_of_null(scatter, 100 * fit.sigma / base, fit.df))
    return Extremes(
        *(fit.system, float(gains[first]), float(gains[last]), names[first], names[last]),
        best_interval=interval(first),
        worst_interval=interval(last),
        luck=luck,
    )


def _row(fit: SystemFit, number: int, ratio: float) -> Floats:
    """Scatter of the ratio's linear form, setting - ratio x baseline (Fieller's)."""
    return np.asarray(fit.scatter[number] - ratio * fit.scatter[-1], dtype=np.float64)


def _mean_interval(values: Floats, level: float) -> Interval | None:
    if len(values) < 2:
        return None
    reach = float(distributions.t.ppf((1 + level) / 2, len(values) - 1) * values.std(ddof=1) / math.sqrt(len(values)))
    return Interval(float(values.mean()) - reach, float(values.mean()) + reach, level)


def _sentence(table: ExtremesTable) -> str:
    many = len(table.rows) > 1
    best = f"gains {table.mean_best:.2f} %{between(table.best_interval)}"
    if table.mean_best < 0:
        best = f"still loses {-table.mean_best:.2f} %{between(_negative(table.best_interval))}"
    worst = f"loses {-table.mean_worst:.2f} %{between(_negative(table.worst_interval))}"
    if table.mean_worst > 0:
        worst = f"still gains {table.mean_worst:.2f} %{between(table.worst_interval)}"
    text = f"{f'Over {len(table.rows)} systems the' if many else 'The'} best setting {best} and the worst {worst}"
    text += " on average" if many else ""
    if table.luck_mean is not None:
        text += f"; luck alone would give {table.luck_mean:.2f} %"
        text += f" (below {table.luck_mean_95:.2f} % in 95 of 100 tables)" if table.luck_mean_95 is not None else ""
    if any(row.best_interval for row in table.rows):
        gains = sum(row.best_told for row in table.rows)
        losses = sum(row.worst_told for row in table.rows)
        if many:
            text += f"; the gain can be told from nothing on {gains} of {len(table.rows)} and the loss on {losses}"
        else:
            gain, loss = ("can" if some else "cannot" for some in (gains, losses))
            text += f"; the gain {gain} be told from nothing, the loss {loss}"
    elif table.luck_cv is not None:
        text += (
            f"; the best of {table.settings} settings with {count(table.replicates or 0, 'run')} each gains as "
            f"much by luck alone when single runs differ by {table.luck_cv:.2f} % (coefficient of variation)"
        )
    return text + "."


def _negative(interval: Interval | None) -> Interval | None:
    return None if interval is None else Interval(-interval.high, -interval.low, interval.level)
