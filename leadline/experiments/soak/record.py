"""The record of a soak: one file of intervals, bounded at any length, written whole at every checkpoint.

A line of JSON for its head, then one for each interval. What is older than ``FINE`` is merged by the hour: counts are
summed, histograms added, gauges joined by time.
"""

from __future__ import annotations

import itertools
import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from leadline.host.received import lines_of
from leadline.load.series import Outcomes, decoded, latencies_of, new_histogram
from leadline.model.errors import LeadlineError
from leadline.model.received import from_json, reading
from leadline.model.result import AtLeast
from leadline.model.soak import FINE, HOUR, Gauge, Interval, SoakTimes

FORMAT = "leadline-soak/1"
FILE = "soak.jsonl"


@dataclass
class SoakRecord:
    """``begun``: stretches so far, one for each start of the stack. ``ends``: how each ended, by its number; one that
    was cut off or came to its end is not there. ``alarms``: what fired; ``looks``: interim verdicts so far, by the
    last of which these series are ``degrading``; ``checked``: up to which second errors were counted, and whether they
    were ``failing`` the limit; ``notes``: what a reader must know.
    """

    path: Path
    times: SoakTimes
    intervals: list[Interval] = field(default_factory=list)
    begun: int = 0
    ends: dict[int, str] = field(default_factory=dict)
    alarms: list[dict[str, Any]] = field(default_factory=list)
    looks: int = 0
    degrading: list[str] = field(default_factory=list)
    checked: float = 0.0
    failing: bool = False
    notes: list[str] = field(default_factory=list)

    @property
    def measured(self) -> float:
        """Seconds of load that are in it."""
        return math.fsum(interval.seconds for interval in self.intervals)

    @property
    def left(self) -> float:
        return max(0.0, self.times.seconds - self.measured)

    def begin_stretch(self) -> int:
        """Number of the stretch that begins now; on the disk before it does."""
        self.begun += 1
        self.save()
        return self.begun - 1

    def add(self, intervals: Iterable[Interval]) -> None:
        """Later ones than there are; a second telling of the same interval is left out."""
        last = self.intervals[-1].end if self.intervals else -math.inf
        self.intervals += [interval for interval in intervals if interval.begin > last - 0.5 * interval.seconds]

    def save(self) -> None:
        """Thin it and write it to the disk, whole or not at all. Raises OSError."""
        self.intervals = thinned(self.intervals)
        head = {
            "format": FORMAT,
            "times": asdict(self.times),
            "begun": self.begun,
            "ends": self.ends,
            "alarms": self.alarms,
            "looks": self.looks,
            "degrading": self.degrading,
            "checked": self.checked,
            "failing": self.failing,
            "notes": self.notes,
        }
        self.path.parent.mkdir(parents=True, exist_ok=True)
        partial = self.path.with_name(self.path.name + ".partial")
        with partial.open("w", encoding="utf-8") as stream:
            for line in (head, *map(_written, self.intervals)):
                stream.write(json.dumps(line, separators=(",", ":")) + "\n")
            stream.flush()
            os.fsync(stream.fileno())
        partial.replace(self.path)
        folder = os.open(self.path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def read_record(path: Path) -> SoakRecord:
    """Raises FileNotFoundError, LeadlineError for a damaged file."""
    with reading(str(path)):
        lines = lines_of(path)
        head = from_json(next(lines, ""), finite=False)
        if head["format"] != FORMAT:
            raise LeadlineError(f"{path}: {head['format']} is not {FORMAT}: read it with the leadline that wrote it")
        intervals = [_read(from_json(line, finite=False)) for line in lines]
        ends = {int(stretch): str(why) for stretch, why in head["ends"].items()}
        soak_record = SoakRecord(path, SoakTimes(**head["times"]), intervals, int(head["begun"]), ends)
        soak_record.alarms, soak_record.looks = list(head["alarms"]), int(head["looks"])
        soak_record.degrading = [str(name) for name in head.get("degrading", [])]
        soak_record.checked, soak_record.failing = float(head.get("checked", 0.0)), bool(head.get("failing", False))
        soak_record.notes = list(head.get("notes", []))
        return soak_record


def thinned(intervals: Sequence[Interval], fine: float = FINE) -> list[Interval]:
    """Those older than ``fine`` seconds before the end merged by the hour of their stretch."""
    if not intervals:
        return []
    newest = intervals[-1].end
    firsts: dict[int, float] = {}
    for interval in intervals:
        firsts.setdefault(interval.stretch, interval.begin)

    def key(interval: Interval) -> tuple[int, int, float]:
        hour = math.floor((interval.begin - firsts[interval.stretch]) / HOUR + 1e-6)
        ends = firsts[interval.stretch] + (hour + 1) * HOUR
        return interval.stretch, hour, -1.0 if ends <= newest - fine else interval.begin

    return [merged(list(group)) for _, group in itertools.groupby(intervals, key)]


def evened(intervals: Sequence[Interval]) -> list[Interval]:
    """All of one length, so that they can be compared: the worst of an hour is worse than the worst of its minutes.
    Where some are merged by the hour the others are, too; what is less than most of an hour is left out.
    """
    if max((interval.seconds for interval in intervals), default=0.0) < 0.9 * HOUR:
        return list(intervals)
    return [one for one in thinned(intervals, fine=-2 * HOUR) if one.seconds > 0.9 * HOUR]


def merged(intervals: Sequence[Interval]) -> Interval:
    """One interval of those that follow each other; ``seconds`` are those that were measured."""
    if len(intervals) == 1:
        return intervals[0]
    outcomes = Outcomes(new_histogram())
    for interval in intervals:
        if interval.histogram:
            outcomes.histogram.add(decoded(interval.histogram, "the record of a soak"))
        outcomes.ok += interval.ok
        outcomes.failed += interval.failed
        outcomes.unanswered += interval.unanswered
        outcomes.unanswered_from = min(outcomes.unanswered_from, interval.unanswered_from)
    gauges: dict[str, Gauge] = {}
    for name in dict.fromkeys(name for interval in intervals for name in interval.gauges):
        there = [(interval.gauges[name], interval.seconds) for interval in intervals if name in interval.gauges]
        seconds = math.fsum(weight for _, weight in there)
        mean = math.fsum(gauge[1] * weight for gauge, weight in there) / seconds
        gauges[name] = (min(gauge[0] for gauge, _ in there), mean, max(gauge[2] for gauge, _ in there))
    first = intervals[0]
    seconds = math.fsum(interval.seconds for interval in intervals)
    return interval_of(first.begin, seconds, first.stretch, outcomes, gauges)


def interval_of(
    begin: float, seconds: float, stretch: int, outcomes: Outcomes, gauges: Mapping[str, Gauge]
) -> Interval:
    """An interval with its latencies; dropped arrivals are among its failures."""
    histogram, failed = outcomes.histogram, outcomes.failed + outcomes.dropped
    some = histogram.get_total_count() > 0
    p50, p99, worst = map(outcomes.known, latencies_of(histogram, (50.0, 99.0))) if some else (math.nan,) * 3
    text = histogram.encode().decode("ascii") if some else ""
    unanswered = outcomes.unanswered, outcomes.unanswered_from
    return Interval(begin, seconds, stretch, outcomes.ok, failed, p50, p99, worst, text, gauges, *unanswered)


def _written(interval: Interval) -> dict[str, Any]:
    """NaN and infinity have no place in JSON."""
    document: dict[str, Any] = {field_.name: getattr(interval, field_.name) for field_ in fields(interval)}
    document["gauges"] = {name: [_rounded(value) for value in gauge] for name, gauge in interval.gauges.items()}
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in document.items()
    }


def _rounded(value: float) -> float:
    """To digits that a trend can be seen in: seven."""
    return float(f"{value:.7g}")


def _read(found: dict[str, Any]) -> Interval:
    gauges = {
        str(name): (float(low), float(mean), float(high)) for name, (low, mean, high) in found.pop("gauges").items()
    }
    unknown = {"p50": math.nan, "p99": math.nan, "worst": math.nan, "unanswered_from": math.inf}
    least = found.get("unanswered_from") or math.inf  # soaks of before have none
    times = {name: none if found.get(name) is None else float(found[name]) for name, none in unknown.items()}
    times |= {name: AtLeast(value) for name, value in times.items() if name != "unanswered_from" and value >= least}
    return Interval(**{**found, **times, "gauges": gauges})
