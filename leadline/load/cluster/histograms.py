"""Histograms of several drivers added up, exactly: bucket by bucket, never percentile by percentile."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from hdrh.histogram import HdrHistogram
from numpy.typing import NDArray

from leadline.model.errors import LeadlineError

_LOWEST, _DIGITS = 64, 3  # the driver's own: nanoseconds
_SMALLEST = 1 << 27
_UNIT, _HALF_BITS = 6, 10  # what they make: the lowest buckets hold 64 ns, 2^10 buckets to every doubling
_HALF = 1 << _HALF_BITS
Counts = NDArray[np.int64]  # by index of bucket, without the zeros at the end
_MS = 1e6


@dataclass(frozen=True)
class Interval:
    """One line of an interval log: seconds since the start, and what it is about."""

    start: float
    length: float
    tag: str
    payload: str

    @property
    def second(self) -> int:
        return math.floor(self.start + 0.0015)  # times in a log have three decimals


def read(path: Path) -> Iterator[Interval]:
    """The intervals of a log that ended in order. Raises LeadlineError."""
    try:
        stream = path.open(encoding="ascii", newline="")
    except FileNotFoundError:
        raise LeadlineError(f"{path} is missing: the driver did not end in order") from None
    with stream:
        for number, line in enumerate(stream, 1):
            if not line.startswith("Tag="):
                continue
            fields = line.rstrip("\n").split(",")
            if len(fields) != 5 or not line.endswith("\n"):
                raise LeadlineError(f"{path}:{number}: this line is cut off: the driver did not end in order")
            yield Interval(float(fields[1]), float(fields[2]), fields[0].removeprefix("Tag="), fields[4])


def empty() -> Counts:
    return np.zeros(0, dtype=np.int64)


def _decoded(payload: str) -> Counts:
    histogram = HdrHistogram.decode(payload)
    if (histogram.unit_magnitude, histogram.sub_bucket_count) != (_UNIT, 2 * _HALF):
        raise LeadlineError("a histogram of another resolution than the driver's cannot be added")
    if not histogram.get_total_count():
        return empty()
    return np.trim_zeros(np.array(histogram.counts, dtype=np.int64), "b")


def added(payloads: Iterable[str]) -> Counts:
    """The sum of encoded histograms, which may have grown to different lengths."""
    return total(_decoded(payload) for payload in payloads)


def total(histograms: Iterable[Counts]) -> Counts:
    found = empty()
    for counts in histograms:
        if len(counts) > len(found):
            found, counts = counts.copy(), found
        found[: len(counts)] += counts
    return found


def _buckets(indices: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Lowest value and width of buckets, nanoseconds."""
    bucket = np.maximum((indices >> _HALF_BITS) - 1, 0)
    sub = (indices & (_HALF - 1)) + np.where(indices < _HALF, 0, _HALF)
    return sub << (bucket + _UNIT), np.left_shift(np.int64(1), bucket + _UNIT)


def latency(counts: Counts) -> dict[str, float | None]:
    """Mean and percentiles in ms by the driver's own rule: the upper end of the bucket that holds the value of rank
    ceil(q n), the mean from the middles of the buckets; None where nothing was recorded.
    """
    names = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p999": 0.999, "max": 1.0}
    indices = np.flatnonzero(counts)
    if not len(indices):
        return dict.fromkeys(["mean", *names])
    lowest, width = _buckets(indices)
    many = counts[indices]
    upto = np.cumsum(many)
    count = int(upto[-1])
    mean = float(np.dot(lowest + width // 2, many.astype(np.float64))) / count
    found: dict[str, float | None] = {"mean": mean / _MS}
    for name, q in names.items():
        at = int(np.searchsorted(upto, max(1, math.ceil(q * count))))
        value = int(lowest[at] + width[at] - 1)
        found[name] = (value if value >= _LOWEST else 0) / _MS
    return found


def encoded(counts: Counts) -> tuple[str, float]:
    """For an interval log: the payload and the maximum in ms."""
    lowest, width = _buckets(np.array([max(len(counts) - 1, 0)]))
    most = int(lowest[0] + width[0] - 1)
    histogram = HdrHistogram(_LOWEST, max(_SMALLEST, most), _DIGITS)
    for index in np.flatnonzero(counts):
        histogram.counts[int(index)] = int(counts[index])
    used = np.flatnonzero(counts)
    if len(used):
        histogram.set_internal_tacking_values(int(used[0]), int(used[-1]), int(counts.sum()))
    return histogram.encode().decode("ascii"), histogram.get_max_value() / _MS


def write(path: Path, like: Path, started_unix_ns: int, merged: Mapping[tuple[int, str], list[Interval]]) -> None:
    """An interval log whose intervals are the sums of ``merged`` (by second and tag); the comments of ``like``, the
    times of ``started_unix_ns``.
    """
    started = f"{started_unix_ns // 1_000_000_000}.{started_unix_ns // 1_000_000 % 1000:03d}"
    with like.open(encoding="ascii") as stream, path.open("w", encoding="ascii", newline="") as output:
        for line in stream:
            if line.startswith("Tag="):
                break
            for word in ("StartTime", "BaseTime"):
                if line.startswith(f"#[{word}: "):
                    line = f"#[{word}: {started} (seconds since epoch)]\n"
            output.write(line)
        for (_, tag), parts in merged.items():
            payload, most = encoded(added(part.payload for part in parts))
            length = max(part.length for part in parts)
            output.write(f"Tag={tag},{parts[0].start:.3f},{length:.3f},{most:.3f},{payload}\n")
