"""What leadline-load wrote second by second: rows, and responses of any window of whole seconds."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np
from hdrh.histogram import HdrHistogram

from leadline.model.errors import LeadlineError

ALL = "all"  # the row of every second that holds all transactions
_LOWEST, _HIGHEST, _DIGITS = 64, 3_600_000_000_000, 3  # nanoseconds; the driver's own histograms
_MS = 1e6  # nanoseconds
_SLACK = 1e-6  # seconds; times in the log have three decimals
_CURVE = (0.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 75.0, 80.0, 85.0, 90.0, 92.5, 95.0, 97.5, 98.0, 99.0)


@dataclass(frozen=True)
class SecondRow:
    """All transactions of one second, numbered from the start of the run. Times in ms; nan when none succeeded."""

    second: int
    phase: str
    ok_per_s: float
    failed_per_s: float
    response_mean_ms: float
    p50: float
    p99: float
    service_mean_ms: float
    in_flight: int


@dataclass(frozen=True)
class WindowResult:
    """Transactions that ended in a window. Throughput counts the successful ones a second; times in ms, nan when
    none succeeded; ``errors`` is the share of ok and failed ones that failed.
    """

    seconds: int
    count: int
    throughput: float
    mean: float
    p50: float
    p90: float
    p95: float
    p99: float
    p999: float
    max: float
    errors: float


def steady_series(directory: Path) -> list[SecondRow]:
    """One row a second over the whole run; ``phase`` tells the steady ones. A last, shorter second is left out."""
    rows = [row for row in _rows(directory) if row["transaction"] == ALL]
    found = [_second(row) for row in rows]
    return found[:-1] if found and found[-1].phase == "ramp_down" else found


def responses_between(directory: Path, from_s: float, until_s: float) -> WindowResult:
    """Responses of all transactions in the whole seconds inside [from_s, until_s), seconds since the start."""
    window = _Window.inside(from_s, until_s)
    merged = HdrHistogram(_LOWEST, _HIGHEST, _DIGITS)
    for histogram in _histograms(directory, window).values():
        merged.add(histogram)
    return window.result(merged, _failed(directory, window).get(ALL, 0))


def responses_over(directory: Path, windows: Sequence[tuple[float, float]]) -> WindowResult:
    """Responses of all transactions in the whole seconds of all windows together, which do not overlap. Raises
    LeadlineError where they hold none.
    """
    found = [_Window.inside(from_s, until_s) for from_s, until_s in windows]
    inside = {second for window in found for second in range(window.first, window.end)}
    merged = HdrHistogram(_LOWEST, _HIGHEST, _DIGITS)
    for start, _length, _tag, payload in _read_log(directory / "response.hlog"):
        if math.floor(start + 0.0015) in inside:
            merged.decode_and_add(payload)
    rows = (row for row in _rows(directory) if row["transaction"] == ALL and int(row["second"]) in inside)
    failed = sum(int(row["failed"]) for row in rows)
    return _Window(0, len(inside)).result(merged, failed)


def responses_in_windows(directory: Path, windows: Sequence[tuple[float, float]]) -> list[WindowResult | None]:
    """Responses of all transactions in each of many windows, given and rounded inwards as in ``responses_between``;
    None for a window without a whole second. The log is read once; windows may overlap.
    """
    found = [_Window.whole(from_s, until_s) for from_s, until_s in windows]
    merged, failed = _merged(directory, found)
    return [
        window.result(histogram, count) if window and histogram is not None else None
        for window, histogram, count in zip(found, merged, failed, strict=True)
    ]


def _merged(directory: Path, windows: Sequence[_Window | None]) -> tuple[list[HdrHistogram | None], list[int]]:
    """The histogram of each window and how many transactions failed in it."""
    holders: dict[int, list[int]] = {}
    for index, window in enumerate(windows):
        for second in range(window.first, window.end) if window else ():
            holders.setdefault(second, []).append(index)
    merged = [HdrHistogram(_LOWEST, _HIGHEST, _DIGITS) if window else None for window in windows]
    failed = [0] * len(windows)
    for start, _length, _tag, payload in _read_log(directory / "response.hlog"):
        for index in holders.get(math.floor(start + 0.0015), ()):
            histogram = merged[index]
            if histogram is not None:
                histogram.decode_and_add(payload)
    for row in _rows(directory):
        if row["transaction"] == ALL:
            for index in holders.get(int(row["second"]), ()):
                failed[index] += int(row["failed"])
    return merged, failed


def histograms_in_windows(
    directory: Path, windows: Sequence[tuple[float, float]]
) -> list[tuple[HdrHistogram, int] | None]:
    """Response times in ns of all transactions that ended in each window, and how many failed there; windows as in
    ``responses_in_windows``, None for one without a whole second.
    """
    found = [_Window.whole(from_s, until_s) for from_s, until_s in windows]
    merged, failed = _merged(directory, found)
    return [
        (histogram, count) if histogram is not None else None for histogram, count in zip(merged, failed, strict=True)
    ]


def last_second(directory: Path) -> int | None:
    """The last second that was written whole; None where there is none, also without a file."""
    try:
        rows = _rows(directory)
    except LeadlineError:
        return None
    return max((int(row["second"]) for row in rows), default=None)


def new_histogram() -> HdrHistogram:
    """An empty one as the driver's, in ns."""
    return HdrHistogram(_LOWEST, _HIGHEST, _DIGITS)


def latencies_of(histogram: HdrHistogram, percentiles: Sequence[float]) -> tuple[float, ...]:
    """These percentiles and the largest, in ms, of a histogram that is not empty; as ``get_value_at_percentile``, which
    walks over all counts for each.
    """
    sums = np.cumsum(np.ctypeslib.as_array(histogram.encoder.payload.counts))
    places = [int(np.searchsorted(sums, histogram.get_target_count_at_percentile(each))) for each in percentiles]
    values = [histogram.get_highest_equivalent_value(histogram.get_value_from_index(at)) for at in places]
    return (*(float(value) / _MS for value in values), float(histogram.get_max_value()) / _MS)


def started_unix_ns(directory: Path) -> int | None:
    """Unix nanoseconds at which the run under way (or ended) in ``directory`` began, by its first row; None while it
    has written none.
    """
    try:
        rows = _rows(directory)
    except LeadlineError:
        return None
    return int(rows[0]["time_ns"]) - int(rows[0]["second"]) * 1_000_000_000 if rows else None


def by_transaction(directory: Path, from_s: float, until_s: float) -> dict[str, WindowResult]:
    """The same for each transaction that ended there."""
    window = _Window.inside(from_s, until_s)
    failed = _failed(directory, window)
    failed.pop(ALL, None)
    histograms = _histograms(directory, window)
    names = [*histograms, *(name for name in failed if name not in histograms)]
    empty = HdrHistogram(_LOWEST, _HIGHEST, _DIGITS)
    return {name: window.result(histograms.get(name, empty), failed.get(name, 0)) for name in names}


def histograms_by_transaction(directory: Path, from_s: float, until_s: float) -> tuple[int, dict[str, HdrHistogram]]:
    """Whole seconds inside [from_s, until_s), and response times in ns of each transaction that ended there."""
    window = _Window.inside(from_s, until_s)
    return window.end - window.first, _histograms(directory, window)


def percentile_curve(
    directory: Path, transaction: str, from_s: float, until_s: float, log: str = "response"
) -> list[tuple[float, float]]:
    """(percentile, ms) from 0 to 100, dense towards the end as far as the count carries; ``all`` merges every
    transaction. ``log`` is ``response`` or ``service``. Empty when none succeeded.
    """
    window = _Window.inside(from_s, until_s)
    merged = HdrHistogram(_LOWEST, _HIGHEST, _DIGITS)
    for name, histogram in _histograms(directory, window, log).items():
        if transaction in (ALL, name):
            merged.add(histogram)
    count = merged.get_total_count()
    if count == 0:
        return []
    points = list(_CURVE)
    rest = 1.0
    while rest * count > 100:  # at least one value beyond the point
        points += [100 - rest * step for step in (0.5, 0.25, 0.1)]
        rest /= 10
    return [*((p, _value(merged, p)) for p in points), (100.0, merged.get_max_value() / _MS)]


@dataclass(frozen=True)
class _Window:
    first: int  # whole seconds: first <= second < end
    end: int

    @classmethod
    def inside(cls, from_s: float, until_s: float) -> _Window:
        window = cls.whole(from_s, until_s)
        if window is None:
            raise LeadlineError(f"no whole second lies between {from_s:g} s and {until_s:g} s of the run")
        return window

    @classmethod
    def whole(cls, from_s: float, until_s: float) -> _Window | None:
        first, end = math.ceil(from_s - _SLACK), math.floor(until_s + _SLACK)
        return cls(first, end) if end > first else None

    def holds(self, start: float, length: float) -> bool:
        return self.first - 0.0015 <= start and start + length <= self.end + 0.0015

    def result(self, histogram: HdrHistogram, failed: int) -> WindowResult:
        seconds, count = self.end - self.first, histogram.get_total_count()
        nan = math.nan
        p = {q: _value(histogram, q) if count else nan for q in (50.0, 90.0, 95.0, 99.0, 99.9)}
        return WindowResult(
            seconds=seconds,
            count=count,
            throughput=count / seconds,
            mean=histogram.get_mean_value() / _MS if count else nan,
            p50=p[50.0],
            p90=p[90.0],
            p95=p[95.0],
            p99=p[99.0],
            p999=p[99.9],
            max=histogram.get_max_value() / _MS if count else nan,
            errors=failed / (count + failed) if count + failed else 0.0,
        )


def _value(histogram: HdrHistogram, percentile: float) -> float:
    return float(histogram.get_value_at_percentile(percentile)) / _MS


def _histograms(directory: Path, window: _Window, log: str = "response") -> dict[str, HdrHistogram]:
    """Histograms by transaction, merged over the window."""
    found: dict[str, HdrHistogram] = {}
    for tag, payload in _intervals(directory / f"{log}.hlog", window):
        if tag not in found:
            found[tag] = HdrHistogram(_LOWEST, _HIGHEST, _DIGITS)
        found[tag].decode_and_add(payload)
    return found


def _intervals(path: Path, window: _Window) -> Iterator[tuple[str, str]]:
    """Tag and payload of each interval inside the window."""
    for start, length, tag, payload in _read_log(path):
        if window.holds(start, length):
            yield tag, payload


def _read_log(path: Path) -> Iterator[tuple[float, float, str, str]]:
    """Start and length in seconds, tag and payload of each interval (HdrHistogram interval log, version 1.3)."""
    with _open(path) as stream:
        for line in stream:
            if not line.startswith("Tag="):
                continue
            fields = line.rstrip("\n").split(",")
            if len(fields) != 5 or not line.endswith("\n"):
                continue  # cut off when the driver was killed
            yield float(fields[1]), float(fields[2]), fields[0].removeprefix("Tag="), fields[4]


def _failed(directory: Path, window: _Window) -> dict[str, int]:
    found: dict[str, int] = {}
    for row in _rows(directory):
        if window.first <= int(row["second"]) < window.end:
            found[row["transaction"]] = found.get(row["transaction"], 0) + int(row["failed"])
    return {name: count for name, count in found.items() if count or name == ALL}


def _rows(directory: Path) -> Sequence[Mapping[str, str]]:
    with _open(directory / "seconds.csv") as stream:
        rows = list(csv.DictReader(stream))
    if rows and not rows[-1].get("skipped"):
        rows.pop()  # cut off when the driver was killed
    return rows


def _open(path: Path) -> IO[str]:
    try:
        return path.open(encoding="ascii", newline="")
    except FileNotFoundError:
        raise LeadlineError(f"{path} is missing: the driver wrote nothing") from None


def _second(row: Mapping[str, str]) -> SecondRow:
    def number(key: str) -> float:
        return float(row[key]) if row[key] else math.nan

    return SecondRow(
        second=int(row["second"]),
        phase=row["phase"],
        ok_per_s=float(row["ok"]),
        failed_per_s=float(row["failed"]),
        response_mean_ms=number("response_mean_ms"),
        p50=number("response_p50_ms"),
        p99=number("response_p99_ms"),
        service_mean_ms=number("service_mean_ms"),
        in_flight=int(row["in_flight"]),
    )


@dataclass(frozen=True)
class SecondResponses:
    """Transactions of one whole second, all or of one kind: responses as values (ms) with counts; how many failed."""

    values_ms: tuple[float, ...]
    counts: tuple[int, ...]
    failed: int


def seconds_between(directory: Path, from_s: float, until_s: float, transaction: str = ALL) -> list[SecondResponses]:
    """One entry for each whole second inside [from_s, until_s)."""
    window = _Window.inside(from_s, until_s)
    merged: dict[int, HdrHistogram] = {}
    for start, length, tag, payload in _read_log(directory / "response.hlog"):
        if window.holds(start, length) and transaction in (ALL, tag):
            second = math.floor(start + 0.0015)
            merged.setdefault(second, HdrHistogram(_LOWEST, _HIGHEST, _DIGITS)).decode_and_add(payload)
    failed: dict[int, int] = {}
    for row in _rows(directory):
        if row["transaction"] == transaction:
            second = int(row["second"])
            failed[second] = failed.get(second, 0) + int(row["failed"])
    found = []
    for second in range(window.first, window.end):
        histogram = merged.get(second)
        # The iterator hands out one object over and over.
        items = histogram.get_recorded_iterator() if histogram else ()
        pairs = [(item.value_iterated_to / _MS, item.count_at_value_iterated_to) for item in items]
        values, counts = zip(*pairs, strict=True) if pairs else ((), ())
        found.append(SecondResponses(tuple(values), tuple(counts), failed.get(second, 0)))
    return found
