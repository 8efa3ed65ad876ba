"""The record of a soak, and its alarms as they happen.

The record is one file of intervals, bounded at any length, written whole at every checkpoint: a line of JSON for its
head, then one for each interval. What is older than ``FINE`` is merged by the hour: counts are summed, histograms
added, gauges joined by time.

An alarm is a command of the user's, or a request to an address that the user named. What fires: ``degrading`` (two
interim verdicts one after the other: a series degrades, once for each), ``errors`` (more transactions failed between
two checkpoints than the limit allows, once until it is kept again), ``disk`` (the lab's disk is nearly full, once),
``ended`` (the end, with the verdict). The load does not wait for them.
"""

from __future__ import annotations

import http.client
import itertools
import json
import math
import os
import queue
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from leadline.analysis.soak import CHANCE
from leadline.conclude.soak import SoakAnswer, conclude_soak
from leadline.host import here
from leadline.host.received import lines_of
from leadline.load.series import Outcomes, decoded, latencies_of, new_histogram
from leadline.model.errors import LeadlineError, UsageError, quoted
from leadline.model.received import from_json, reading
from leadline.model.result import AtLeast
from leadline.model.soak import FINE, HOUR, Gauge, Interval, SoakTimes
from leadline.model.units import format_size

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


LOOKS = 20  # interim verdicts of a soak, each at a 20th of the chance of a false alarm
FIRST_LOOK = 0.25  # of the run: what is judged before is mostly its warm-up
LITTLE = 1 << 30  # bytes free on the lab's disk
COMMAND_TIMEOUT, WEBHOOK_TIMEOUT = 60.0, 10.0  # seconds
_WAITING = 100  # alarms that may wait; more are dropped, and told
_AT_THE_END = 90.0  # seconds for those that still wait


@dataclass(frozen=True)
class Alarm:
    """``kind``: degrading, errors, disk, ended. ``at``: unix seconds."""

    kind: str
    at: float
    sentence: str
    details: Mapping[str, Any]

    def document(self, soak: str) -> dict[str, Any]:
        return {"soak": soak, "kind": self.kind, "at": self.at, "sentence": self.sentence, **self.details}


def check_webhook(url: str) -> None:
    """Raises UsageError for what is no address of a web server."""
    try:
        parts = urlsplit(url)
        right = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        right = False
    if not right:
        raise UsageError(f"--webhook {quoted(url)}: write an address as in https://example.org/path")


class Alarms:
    """Sends alarms from a thread of its own, in order. ``command``: run by sh -c with the alarm as JSON on its standard
    input; ``webhook``: the same JSON by POST, to this address only (a redirect is a failure). ``told`` hears what could
    not be sent, from that thread.
    """

    def __init__(
        self, soak: str, command: str | None, webhook: str | None, told: Callable[[str], None] = lambda _: None
    ) -> None:
        self._soak, self._command, self._webhook, self._told = soak, command, webhook, told
        self._queue: queue.Queue[Alarm | None] = queue.Queue(maxsize=_WAITING)
        self._thread = threading.Thread(target=self._work, name="soak-alarms", daemon=True)
        if command or webhook:
            self._thread.start()

    def fire(self, alarm: Alarm) -> None:
        if not self._thread.ident:
            return
        try:
            self._queue.put_nowait(alarm)
        except queue.Full:
            self._told(f"alarm dropped, {_WAITING} wait already: {alarm.sentence}")

    def close(self) -> None:
        """Send what still waits, for a bounded time."""
        if self._thread.ident:
            self._queue.put(None, timeout=_AT_THE_END)
            self._thread.join(_AT_THE_END)

    def _work(self) -> None:
        for alarm in iter(lambda: self._queue.get(timeout=None), None):
            text = json.dumps(alarm.document(self._soak)) + "\n"
            if self._command and (why := run_command(self._command, text)):
                self._told(f"--alarm failed: {why}")
            if self._webhook and (why := post(self._webhook, text)):
                self._told(f"--webhook failed: {why}")


def run_command(command: str, text: str) -> str:
    """Why it failed, empty if it did not."""
    try:
        done = here.run(["/bin/sh", "-c", command], text.encode(), timeout=COMMAND_TIMEOUT)
    except OSError as error:
        return str(error)
    return "" if done.returncode == 0 else f"exit code {done.returncode}: {done.stderr.strip()[-200:]}"


def post(url: str, text: str) -> str:
    """As ``run_command``, one POST without following a redirect."""
    parts = urlsplit(url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=WEBHOOK_TIMEOUT)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    try:
        connection.request("POST", path, text.encode(), {"Content-Type": "application/json"})
        status = connection.getresponse().status
    except (OSError, http.client.HTTPException) as error:
        return f"{type(error).__name__}: {error}"
    finally:
        connection.close()
    return "" if 200 <= status < 300 else f"answered by status {status}"


class Watch:
    """Looks at the record at each checkpoint. ``errors``: share of transactions that may fail."""

    def __init__(self, alarms: Alarms, errors: float, message: Callable[[str], None]) -> None:
        self._alarms, self._errors, self._message = alarms, errors, message

    def __call__(self, record: SoakRecord) -> None:
        for alarm in [*self._failures(record), *self._disk(record), *self._degrading(record)]:
            record.alarms.append({"kind": alarm.kind, "at": alarm.at, "sentence": alarm.sentence, **alarm.details})
            self._message(f"alarm: {alarm.sentence}")
            self._alarms.fire(alarm)

    def _failures(self, record: SoakRecord) -> list[Alarm]:
        fresh = [interval for interval in record.intervals if interval.begin >= record.checked]
        record.checked = record.intervals[-1].end if record.intervals else 0.0
        failed, ok = sum(interval.failed for interval in fresh), sum(interval.ok for interval in fresh)
        share = failed / (failed + ok) if failed else 0.0
        was, record.failing = record.failing, share > self._errors
        if not record.failing or was:
            return []
        sentence = f"{share:.2%} of the transactions failed since the last checkpoint; the limit is {self._errors:.2%}"
        return [Alarm("errors", time.time(), sentence, {"failed": failed, "ok": ok})]

    def _disk(self, record: SoakRecord) -> list[Alarm]:
        free = shutil.disk_usage(record.path.parent).free
        if free >= LITTLE or any(alarm["kind"] == "disk" for alarm in record.alarms):
            return []
        sentence = f"{format_size(free >> 20 << 20)} are free on the lab's disk"
        return [Alarm("disk", time.time(), sentence, {"free_bytes": free})]

    def _degrading(self, record: SoakRecord) -> list[Alarm]:
        due = int(LOOKS * record.measured / record.times.seconds)
        if due <= record.looks or record.measured < FIRST_LOOK * record.times.seconds:
            return []
        record.looks = due
        answer = conclude_soak(
            record.intervals, evened(record.intervals), record.times, record.ends, chance=CHANCE / LOOKS
        )
        before = set(record.degrading) - {alarm.get("series") for alarm in record.alarms}
        record.degrading = [drift.series.name for drift in answer.judged.degrading]
        return [
            Alarm(
                "degrading",
                time.time(),
                f"{drift.series.name} degrades by {drift.change}",
                {"series": drift.series.name, "per_day": drift.per_day, "unit": drift.series.unit},
            )
            for drift in answer.judged.degrading
            if drift.series.name in before
        ]


def at_the_end(answer: SoakAnswer) -> Alarm:
    return Alarm("ended", time.time(), answer.sentence, {"verdict": answer.judged.verdict, "failure": answer.failure})
