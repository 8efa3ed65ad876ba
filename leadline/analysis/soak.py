"""Whether a long run degrades: a trend test for each of its series, corrected for their number, and one verdict."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from leadline.analysis.changepoints import contrast
from leadline.analysis.selection import holm
from leadline.gcanalysis.trend import Array, Estimate, rhythm, season, thinned
from leadline.model.distributions import t as student
from leadline.model.units import rounded, signed

DAY = 86400.0
# What is not looked at, while caches fill and classes are loaded: this share of the run, and half an hour, but never
# more than a quarter.
WARM_UP, WARM_UP_SECONDS, WARM_UP_MOST = 0.1, 1800.0, 0.25
FEWEST = 20  # points behind the warm-up
CHANCE = 0.05  # that any series of a run without a trend is called degrading (Holm 1979)
LEVEL = 0.95  # of the intervals
SMALLEST = 0.01  # of the median: a change over the whole run that is smaller is none
KEEPS = 0.5  # of the pace of the earlier half: what the later half must keep, else it levels off
_SURE = 0.95  # one-sided, that it slows down or goes on
_ROUNDING = 1e-9  # of a line through values that are all the same
_LEAN = -1.0  # of the prior of noises: a process keeps what it has
_KNOTS = 60  # moments at which a trend may begin

Verdict = Literal["degrading", "levels off", "stable", "undetermined"]


@dataclass(frozen=True)
class Series:
    """One figure of a run. ``times``: seconds, ascending, with a gap where the run was down. ``worse``: rising or
    falling is what hurts. ``resource``: what a leak uses up, so that it may be the cause of what users see.

    ``origin``: the second at which what it is of was started. ``rank``: of causes that may have begun together the one
    of the lowest rank is the suspect (a leaked thread takes memory, too). ``tolerated``: a rise a day that is no
    degradation, in its unit.
    """

    name: str
    unit: str
    times: Sequence[float]
    values: Sequence[float]
    worse: Literal["rising", "falling"] = "rising"
    resource: bool = False
    origin: float = 0.0
    rank: int = 0
    tolerated: float = 0.0


@dataclass(frozen=True)
class Drift:
    """What one series does. ``per_day`` with ``low`` and ``high`` in its unit, since a degradation began, simultaneous
    over all series of the run (Bonferroni); ``percent``: the change over the run, of the median. ``adjusted``: the
    p-value by Holm. ``since``: seconds of the run at which a degradation begins, between ``earliest`` and ``latest``;
    None for another verdict.
    """

    series: Series
    verdict: Verdict
    reason: str = ""
    per_day: float = 0.0
    low: float = 0.0
    high: float = 0.0
    percent: float = 0.0
    adjusted: float = 1.0
    period: float | None = None  # seconds, of a season
    since: float | None = None
    earliest: float | None = None
    latest: float | None = None

    @property
    def change(self) -> str:
        """A day with its interval; an hour where the series is shorter than a day."""
        times = self.series.times
        rate, word = (1.0, "a day") if len(times) and times[-1] - times[0] >= DAY else (24.0, "an hour")
        exact = (value / rate for value in (self.per_day, self.low, self.high))
        estimate, low, high = (0.0 if abs(value) < _ROUNDING else value for value in exact)
        unit = f" {self.series.unit}" if self.series.unit else ""
        return f"{signed(estimate, 3)}{unit} {word} [{signed(low, 3)}, {signed(high, 3)}]"


@dataclass(frozen=True)
class Soak:
    """``suspect``: the resource whose degradation began first; without one the series that did."""

    verdict: Verdict
    drifts: tuple[Drift, ...]
    since: float | None = None
    suspect: Drift | None = None

    @property
    def degrading(self) -> tuple[Drift, ...]:
        return tuple(drift for drift in self.drifts if drift.verdict == "degrading")

    @property
    def sentence(self) -> str:
        """The verdict with figures."""
        if self.suspect is None:
            tested = sum(drift.verdict != "undetermined" for drift in self.drifts)
            if not tested:
                return "Not known: whether anything degrades, as no series is long enough."
            return f"Stable: none of {tested} series degrades, at {CHANCE:.0%} for all of them together."
        names = ", ".join(f"{drift.series.name} by {drift.change}" for drift in self.degrading)
        since = duration_text(self.since or 0.0)
        return f"Degrading since {since} after the start: {names}; suspect: {self.suspect.series.name}."


@dataclass(frozen=True)
class _Tested:
    times: Array
    values: Array
    rise: Estimate
    keeps: Estimate
    period: float | None
    p_value: float


def judge(series: Sequence[Series], chance: float = CHANCE) -> Soak:
    """The verdict on all series of a run; ``chance``: that it calls any degrading where none is."""
    tested = [_tested(series_drift) for series_drift in series]
    adjusted = holm([drift.p_value if drift else None for drift in tested])
    several = sum(drift is not None for drift in tested)
    drifts = tuple(
        _drift(one, found, _Chances(1.0 if p_value is None else p_value, several, chance))
        for one, found, p_value in zip(series, tested, adjusted, strict=True)
    )
    worse = [drift for drift in drifts if drift.verdict == "degrading"]
    if not worse:
        decided = any(drift.verdict != "undetermined" for drift in drifts)
        return Soak("stable" if decided else "undetermined", drifts)
    causes = [drift for drift in worse if drift.series.resource] or worse
    first = min(drift.latest or 0.0 for drift in causes)
    together = [drift for drift in causes if (drift.earliest or 0.0) <= first]
    suspect = min(together, key=lambda drift: (drift.series.rank, drift.since or 0.0, drift.adjusted))
    return Soak("degrading", drifts, min(drift.since or 0.0 for drift in worse), suspect)


@dataclass(frozen=True)
class _Chances:
    """The adjusted p-value of a series, how many are tested, and the chance that is allowed for all."""

    adjusted: float
    several: int
    allowed: float


def _tested(one: Series) -> _Tested | None:
    """None where there are too few points."""
    times, values = np.asarray(one.times, float), np.asarray(one.values, float)
    finite = np.isfinite(values)
    times, values = times[finite], values[finite]
    if len(times):
        span = float(times[-1] - times[0])
        behind = times >= times[0] + max(WARM_UP * span, min(WARM_UP_SECONDS, WARM_UP_MOST * span))
        times, values = times[behind], values[behind]
    if len(times) < FEWEST:
        return None
    times, values = thinned(times, values if one.worse == "rising" else -values)
    rise, keeps, period = _rises(times, values)
    return _Tested(times, values, rise, keeps, period, _p_value(rise))


def _rises(times: Array, values: Array) -> tuple[Estimate, Estimate, float | None]:
    """The rise over the series; what the later half's pace has beyond KEEPS of the earlier's; a rhythm's seconds."""
    span = float(times[-1] - times[0])
    at, scale = (times - times[0]) / span, float(np.abs(values).max()) or 1.0
    values = values / scale
    cycles = rhythm(at, values)
    bend = np.maximum(at - 0.5, 0.0)[:, None]
    line = np.column_stack([np.ones_like(at), at, *season(at, cycles, len(at))])
    bent = np.column_stack([line, bend])
    slope, keep = np.zeros((2, bent.shape[1]))
    slope[1], keep[[1, -1]] = 1, (1 - KEEPS, 1)
    rise, keeps = (
        Estimate(value * scale, error * scale, freedom)
        for value, error, freedom in (
            contrast(times, line, values, slope[:-1], _LEAN, bend),
            contrast(times, bent, values, keep, _LEAN, bend[:, :0]),
        )
    )
    return rise, keeps, None if cycles is None else span / cycles


def _p_value(rise: Estimate) -> float:
    """One-sided, of no rise, by Student's t."""
    if rise.error <= 0:
        return 0.0 if rise.value > 0 else 1.0
    return float(student.sf(rise.value / rise.error, rise.freedom))


def _drift(one: Series, found: _Tested | None, chances: _Chances) -> Drift:
    adjusted = chances.adjusted
    if found is None:
        return Drift(one, "undetermined", f"fewer than {FEWEST} points behind the warm-up")
    span = float(found.times[-1] - found.times[0])
    rise = found.rise
    middle = abs(float(np.median(found.values)))
    per_day = DAY / span
    verdict: Verdict = "stable"
    reason = ""
    if adjusted < chances.allowed and found.rise.value > SMALLEST * middle:
        # what fills up shows a trend, too, but surely slows down
        verdict = "levels off" if found.keeps.bound(_SURE) < 0 and not _late(found) else "degrading"
        if verdict == "degrading" and found.rise.value * per_day <= one.tolerated:
            verdict, reason = "stable", f"it rises, by less than {rounded(one.tolerated, 3)} {one.unit} a day".rstrip()
    since, earliest, latest = _begins(found, one.origin) if verdict == "degrading" else (None, None, None)
    if since is not None and since > one.origin:  # at its pace since then, not at that of the whole run
        behind = found.times >= since
        if behind.sum() >= FEWEST:
            rise, _, _ = _rises(found.times[behind], found.values[behind])
            per_day = DAY / float(found.times[-1] - found.times[behind][0])
    reach = float(student.isf((1 - LEVEL) / (2 * chances.several), rise.freedom)) * rise.error
    sign = 1 if one.worse == "rising" else -1
    low, high = sorted(sign * per_day * bound for bound in (rise.value - reach, rise.value + reach))
    return Drift(
        one,
        verdict,
        reason,
        sign * rise.value * per_day,
        low,
        high,
        100 * sign * found.rise.value / middle if middle else 0.0,
        adjusted,
        found.period,
        since,
        earliest,
        latest,
    )


def _late(found: _Tested) -> bool:
    """Whether the second half alone rises surely: a trend that began in it."""
    half = len(found.times) // 2
    if half < FEWEST:
        return False
    rise, _, _ = _rises(found.times[half:], found.values[half:])
    return rise.bound(1 - _SURE) > 0 and rise.value > 0.5 * found.rise.value


def _begins(found: _Tested, origin: float) -> tuple[float, float, float]:
    """The moment before which the level is constant and after which it is a line, by least squares, and the range of
    moments that fit nearly as well (likelihood ratio, with fewer effective points where neighbours hang together).
    """
    times, values = found.times, found.values
    season = []
    if found.period is not None:
        turns = 2 * math.pi * times / found.period
        season = [np.sin(turns), np.cos(turns), np.sin(2 * turns), np.cos(2 * turns)]
    knots = np.linspace(times[0], times[0] + 0.9 * (times[-1] - times[0]), _KNOTS)
    rests, least, remaining = [], math.inf, values
    for knot in knots:
        design = np.column_stack([np.ones_like(times), np.maximum(times - knot, 0.0), *season])
        rest = values - design @ np.linalg.lstsq(design, values, rcond=None)[0]
        rests.append(float(rest @ rest))
        if rests[-1] < least:
            least, remaining = rests[-1], rest
    power = float(remaining @ remaining)
    together = min(0.95, max(0.0, float(remaining[1:] @ remaining[:-1]) / power)) if power > 0 else 0.0
    effective = len(times) * (1 - together) / (1 + together)
    near = [
        at
        for at, rest in zip(knots, rests, strict=True)
        if effective * math.log((rest or 1e-300) / (least or 1e-300)) < 3.84
    ]
    best = float(knots[int(np.argmin(rests))])
    # a trend that may have been there from the first point is one from the start
    if near[0] == knots[0]:
        return origin, origin, float(near[-1])
    return best, float(near[0]), float(near[-1])


def duration_text(seconds: float) -> str:
    """In the unit that people would say."""
    for size, word in ((DAY, "days"), (3600.0, "h"), (60.0, "min")):
        if seconds >= 2 * size:
            return f"{rounded(seconds / size, 3)} {word}"
    return f"{rounded(seconds, 3)} s"
