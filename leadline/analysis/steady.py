"""Steady state of one trial's per-second series.

Change points (PELT: Killick, Fearnhead, Eckley 2012) are sought in the series without its outliers, with a penalty
that allows for autocorrelation; segments at the end whose means are equivalent are one steady region; what is left
is classified after Barrett et al., Virtual Machine Warmup Blows Hot and Cold (OOPSLA 2017). The thresholds were
chosen on the series of tests/statistics/simulated_series.py; docs/concepts/statistics.md gives the rates of
right decisions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from leadline.analysis.table import Floats
from leadline.model.result import SteadyState
from leadline.model.units import format_duration

FEWEST = 10  # samples
LONGEST = 2000  # samples; longer series are averaged down
TOLERANCE = 0.02  # of the level: smaller differences do not matter
SHARE = 0.3  # of the series that the steady region must cover
SIGNIFICANT = 3.0  # standard errors
BLIND = 0.5  # of the level: a series that could hide a change so large cannot be judged
BLIND_BURSTS = 0.1  # the same for a series with recurring bursts
COARSE = 60  # means that a series with recurring bursts is judged by
_PENALTY = 4.0
_SPACINGS = (1, 2, 4, 8)
_CORRELATIONS = np.linspace(0.0, 0.99, 100)
_WALK = 0.98  # correlation from which a series wanders rather than returns: no noise explains that
_END_SIGNIFICANT = 3.5  # standard errors
_ENDS = (0.05, 0.1, 0.2)  # of the series: stretches at its end that are held against what comes before


@dataclass(frozen=True)
class _Noise:
    """AR(1) noise: variance of one sample, correlation of neighbours."""

    single: float
    correlation: float

    @property
    def variance(self) -> float:
        """Long-run variance: that of a mean of m samples is this over m."""
        return self.single * (1 + self.correlation) / (1 - self.correlation)

    def spectrum(self, frequency: Floats) -> Floats:
        """Expected periodogram at frequencies in radians a sample."""
        r = self.correlation
        return np.asarray(self.single * (1 - r * r) / (1 - 2 * r * np.cos(frequency) + r * r), dtype=np.float64)


@dataclass(frozen=True)
class _Segment:
    start: int
    end: int
    mean: float

    @property
    def size(self) -> int:
        return self.end - self.start


@dataclass(frozen=True)
class Limits:
    """What counts as steady: differences up to ``tolerance`` of the level do not matter, and the steady region covers
    at least ``share`` of the series.
    """

    tolerance: float = TOLERANCE
    share: float = SHARE


USUAL = Limits()


def steady_state(
    values: Sequence[float], interval: float = 1.0, higher_is_better: bool = True, limits: Limits = USUAL
) -> SteadyState:
    """Where the warm-up of a series ends and whether it holds after.

    ``values`` are equally spaced, ``interval`` seconds apart: throughput, or with ``higher_is_better=False`` a latency.
    The verdict is ``steady`` with a cut; ``still-warming`` or ``slowing-down`` when the end still gets better or worse;
    ``never-steady`` when it moves both ways; ``too-short`` when there are too few samples, or so noisy ones that half
    the level could come or go unseen.
    """
    series = np.asarray(values, dtype=np.float64)
    missing = int(np.sum(~np.isfinite(series)))
    if len(series) - missing < FEWEST or missing > len(series) / 5:
        what = f"{len(series)} samples, {missing} of them missing" if missing else f"{len(series)} samples"
        return SteadyState("too-short", None, f"Too short to judge: {what}; at least {FEWEST} are needed.")
    if missing:
        good = np.flatnonzero(np.isfinite(series))
        series = np.interp(np.arange(len(series)), good, series[good])
    step = math.ceil(len(series) / LONGEST)
    series = series[: len(series) // step * step].reshape(-1, step).mean(axis=1)
    state = _judge(without_outliers(series), interval * step, higher_is_better, limits, BLIND)
    if state.cut is not None:
        state = _ended(series, state, interval * step, higher_is_better, limits.tolerance)
    wide = len(series) // COARSE
    if state.verdict != "never-steady" or wide < 3:
        return state
    # recurring bursts are many small segments, but the same mixture of levels from a certain point on
    blocks = series[len(series) % wide :].reshape(-1, wide).mean(axis=1)
    again = _judge(blocks, interval * step * wide, higher_is_better, limits, BLIND_BURSTS)
    if again.cut is None:
        return state
    cut = again.cut + (interval * step * (len(series) % wide) if again.cut else 0.0)
    return replace(again, cut=cut, sentence=f"In means of {format_duration(interval * step * wide)}: {again.sentence}")


def _judge(series: Floats, interval: float, higher_is_better: bool, limits: Limits, blind: float) -> SteadyState:
    total = format_duration(len(series) * interval)
    noise = _noise(series)
    segments = _segments(series, noise)
    level = abs(segments[-1].mean)
    if level <= 1e-12 * max(1.0, float(np.abs(series).max())):
        return SteadyState("never-steady", None, f"The series ends at zero after {total}: there is no work to measure.")
    start = _steady_from(segments, noise, limits.tolerance)
    needed = max(FEWEST - 2, math.ceil(limits.share * len(series)))
    trend = 0
    while len(series) - start >= needed:
        region = series[start:]
        trend = _trend(region, noise, limits.tolerance)
        if trend == 0 and start:
            trend = _continued(series, start, noise, limits.tolerance)
        if trend == 0:
            periods = _cycle(region, noise, limits.tolerance)
            if not periods:
                return _steady(series, start, noise, interval, limits.tolerance, blind)
            text = f"Never steady in {total}: the level goes up and down about {periods} times."
            return SteadyState("never-steady", None, text)
        start += max(1, len(series) // 20)
    return _unsteady(segments, noise, trend, total, higher_is_better, limits.tolerance)


def _ended(
    series: Floats, found: SteadyState, interval: float, higher_is_better: bool, tolerance: float
) -> SteadyState:
    """The verdict, unless the level is another in a stretch at the end, too short to be a segment or an outlier."""
    assert found.cut is not None
    start, noise = round(found.cut / interval), _noise(without_outliers(series))
    for share in _ENDS:
        size = max(4, round(share * len(series)))
        if len(series) - start < 3 * size:
            continue
        before, last = float(np.median(series[start:-size])), float(np.median(series[-size:]))
        error = 1.25 * math.sqrt(noise.variance * (1 / size + 1 / (len(series) - start - size)))
        if abs(last - before) > max(1.5 * tolerance * abs(before), _END_SIGNIFICANT * error):
            better = (last > before) == higher_is_better
            word = "above" if last > before else "below"
            text = (
                f"the last {format_duration(size * interval)} lie {abs(last / before - 1):.0%} {word} what came before."
            )
            verdict, head = ("still-warming", "Still warming") if better else ("slowing-down", "Slowing down")
            return SteadyState(verdict, None, f"{head} after {format_duration(len(series) * interval)}: {text}")
    return found


def without_outliers(series: Floats) -> Floats:
    """Samples far from the median of their neighbours, such as seconds with a long collection, take that median.

    Hampel's filter; the threshold is four robust standard deviations, of the neighbourhood or of the whole series,
    whichever is larger.
    """
    reach = int(np.clip(len(series) // 6, 2, 7))
    padded = np.pad(series, reach, mode="reflect")
    windows = np.lib.stride_tricks.sliding_window_view(padded, 2 * reach + 1)
    middle = np.median(windows, axis=1)
    distance = np.abs(series - middle)
    near = 1.4826 * np.median(np.abs(windows - middle[:, None]), axis=1)
    overall = 1.4826 * float(np.median(distance))
    return np.asarray(np.where(distance > 4 * np.maximum(near, overall), middle, series), dtype=np.float64)


def _noise(series: Floats) -> _Noise:
    """From second differences at spacings of 1, 2, 4 and 8, which steps, slopes and slow waves hardly touch.

    For AR(1) with correlation r their variances are s^2 (6 - 8 r^m + 2 r^2m) at spacing m: r fits their logarithms
    best. Neighbours alone would not tell 0.8 from 0.95. Short series are drawn towards no correlation.
    """
    count = len(series)
    spacings = [m for m in _SPACINGS if m <= 2 or 24 * m <= count]
    spreads = np.array([_spread(series[2 * m :] - 2 * series[m:-m] + series[: -2 * m]) ** 2 for m in spacings])
    if spreads.min() <= 0:
        return _Noise(0.0, 0.0)
    powers = _CORRELATIONS[:, None] ** np.array(spacings)
    apart = np.log(spreads) - np.log(6 - 8 * powers + 2 * powers**2)
    fitting = float(_CORRELATIONS[int(np.argmin(apart.var(axis=1)))])
    shrinkage = count / (count + (20 if len(spacings) == 2 else 6))
    correlation = (0.8 if fitting >= _WALK else min(fitting, 0.93)) * shrinkage
    variance = float(spreads[0]) / (6 - 8 * correlation + 2 * correlation**2)
    return _Noise(variance, correlation)


def _spread(values: Floats) -> float:
    """Robust standard deviation around zero; the plain one where most values are the same."""
    robust = 1.4826 * float(np.median(np.abs(values)))
    return robust if robust > 0 else float(np.sqrt(np.mean(values**2)))


def _segments(series: Floats, noise: _Noise) -> list[_Segment]:
    penalty = _PENALTY * noise.variance * math.log(len(series))
    shortest = 5 if len(series) >= 60 else 3
    if noise.variance <= 0:
        return [_Segment(0, len(series), float(series.mean()))]
    import ruptures  # half a second, of which most is scipy.signal

    search = ruptures.KernelCPD(kernel="linear", min_size=shortest).fit(series.reshape(-1, 1))
    ends = [0, *(int(end) for end in search.predict(pen=penalty))]
    return [_Segment(start, end, float(series[start:end].mean())) for start, end in pairwise(ends)]


def _equivalent(one: _Segment, other: _Segment, noise: _Noise, tolerance: float) -> bool:
    apart = abs(one.mean - other.mean)
    error = math.sqrt(noise.variance * (1 / one.size + 1 / other.size))
    return apart <= max(tolerance * abs(other.mean), 2 * error)


def _merged(one: _Segment, other: _Segment) -> _Segment:
    mean = (one.mean * one.size + other.mean * other.size) / (one.size + other.size)
    return _Segment(min(one.start, other.start), max(one.end, other.end), mean)


def _steady_from(segments: Sequence[_Segment], noise: _Noise, tolerance: float) -> int:
    """Start of the region of equivalent segments at the end. A short excursion between equivalents is part of it."""
    length = segments[-1].end
    region = segments[-1]
    index = len(segments) - 2
    while index >= 0:
        segment = segments[index]
        if _equivalent(segment, region, noise, tolerance):
            region = _merged(segment, region)
        elif (
            segment.size <= max(3, 0.03 * length)
            and index > 0
            and segments[index - 1].size > segment.size
            and _equivalent(segments[index - 1], region, noise, tolerance)
        ):
            region = _merged(segments[index - 1], region)
            index -= 1
        else:
            break
        index -= 1
    return region.start


def _slope(series: Floats, noise: _Noise) -> tuple[float, float]:
    """Change of a straight line from end to end, and its standard error."""
    place = np.linspace(-0.5, 0.5, len(series))
    weight = float(np.sum(place**2))
    return float(np.sum(place * series)) / weight, math.sqrt(noise.variance / weight)


def _trend(series: Floats, noise: _Noise, tolerance: float) -> int:
    """+1 or -1 where the series still rises or falls by more than matters, else 0."""
    change, error = _slope(series, noise)
    if abs(change) <= max(1.5 * tolerance * abs(float(series.mean())), SIGNIFICANT * error):
        return 0
    return 1 if change > 0 else -1


def _continued(series: Floats, start: int, noise: _Noise, tolerance: float) -> int:
    """Whether the region from ``start`` on may just as well go on with the slope of the whole series: then what looked
    like steps is a drift. +1 or -1, else 0.
    """
    region = series[start:]
    whole, whole_error = _slope(series, noise)
    expected = whole * (len(region) - 1) / (len(series) - 1)
    change, error = _slope(region, noise)
    matters = abs(expected) > 1.5 * tolerance * abs(float(region.mean())) and abs(whole) > SIGNIFICANT * whole_error
    if not matters or abs(change - expected) > 2 * error:
        return 0
    return 1 if whole > 0 else -1


def _cycle(region: Floats, noise: _Noise, tolerance: float) -> int:
    """Number of periods of a slow wave in the region, 0 when there is none: two to eight, larger than matters, and
    more than AR(1) noise gives once in a thousand series (periodogram against its exponential law).
    """
    count = len(region)
    place = np.linspace(-0.5, 0.5, count)
    change, _ = _slope(region, noise)
    periods = np.arange(2, min(8, count // 8) + 1)
    if not len(periods) or noise.single <= 0:
        return 0
    power = np.abs(np.fft.rfft(region - region.mean() - change * place)[periods]) ** 2 / count
    amplitude = 2 * np.sqrt(power / count)
    beyond = power / noise.spectrum(2 * np.pi * periods / count) > math.log(1000 * len(periods))
    strong = beyond & (amplitude > 1.5 * tolerance * abs(float(region.mean())))
    return int(periods[np.argmax(np.where(strong, power, 0.0))]) if strong.any() else 0


def _steady(series: Floats, start: int, noise: _Noise, interval: float, tolerance: float, blind: float) -> SteadyState:
    region = series[start:]
    level = float(region.mean())
    visible = (SIGNIFICANT + 0.84) * _slope(region, noise)[1] / abs(level)
    length = format_duration(len(region) * interval)
    if visible > blind:
        text = f"Too short to judge: in {length} of such noise a change of {visible:.0%} could go unseen."
        return SteadyState("too-short", None, text)
    cut = start * interval
    text = f"Steady from {format_duration(cut)} on, for {length}" if start else f"Steady throughout its {length}"
    blind_text = f"a change of less than {max(visible, 1.5 * tolerance):.0%} would not have been seen"
    before = float(np.median(series[:start])) if start else level
    moved = (level - before) / abs(before) if before else 0.0
    settled = f", {abs(moved):.0%} {'above' if moved > 0 else 'below'} what came before" if abs(moved) > 0.05 else ""
    return SteadyState("steady", cut, f"{text}{settled}; {blind_text}.")


def _unsteady(
    segments: Sequence[_Segment], noise: _Noise, trend: int, total: str, higher_is_better: bool, tolerance: float
) -> SteadyState:
    half = segments[-1].end / 2
    steps = [
        other.mean - segment.mean
        for segment, other in pairwise(segments)
        if other.end > half and not _equivalent(segment, other, noise, tolerance)
    ]
    directions = {math.copysign(1.0, step) for step in steps} or {float(trend)}
    if len(directions) > 1:
        text = f"Never steady in {total}: the level moves up and down in {len(segments)} segments."
        return SteadyState("never-steady", None, text)
    rising = directions.pop() > 0
    change = (segments[-1].mean - segments[0].mean) / abs(segments[0].mean) if segments[0].mean else 0.0
    size = f" by {abs(change):.0%}" if change and (change > 0) == rising else ""
    word = "rises" if rising else "falls"
    if rising == higher_is_better:
        return SteadyState("still-warming", None, f"Still warming after {total}: the level {word}{size} to the end.")
    return SteadyState("slowing-down", None, f"Slowing down after {total}: the level {word}{size} to the end.")


# the worse one is the trial's; a tail that is too noisy to judge does not spoil a throughput that is steady
_RANK = {"steady": 0, "too-short": 1, "still-warming": 2, "slowing-down": 3, "never-steady": 4}


def steady_verdict(throughput: Sequence[float], tail: Sequence[float], interval: float = 1.0) -> SteadyState:
    """Steady state of throughput and of a tail latency (such as p99 of each second), ``interval`` seconds apart.

    Both must be steady: the cut is the later of the two. Where one is not, its verdict is the trial's, the worse one
    if neither is. A percentile of one second is noisy: where it cannot be judged (too short), the throughput's verdict
    stands, and the sentence says so.
    """
    rate = steady_state(throughput, interval, higher_is_better=True)
    late = steady_state(tail, interval, higher_is_better=False)
    if late.verdict == "too-short":
        return replace(rate, sentence=f"Throughput: {rate.sentence} Tail latency: {late.sentence}")
    if rate.verdict == late.verdict == "steady":
        cut = max(rate.cut or 0.0, late.cut or 0.0)
        return SteadyState("steady", cut, f"Throughput: {rate.sentence} Tail latency: {late.sentence}")
    worse, what, other, name = (
        (rate, "Throughput", late, "Tail latency")
        if _RANK[rate.verdict] >= _RANK[late.verdict]
        else (late, "Tail latency", rate, "Throughput")
    )
    return SteadyState(worse.verdict, None, f"{what}: {worse.sentence} {name}: {other.sentence}")
