"""The conclusion of a long run: which of its figures degrade, since when, by how much, and what is suspected."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from leadline.analysis.soak import CHANCE, Drift, Series, Soak, duration_text, judge
from leadline.model.judgement import NO_ANSWER_CODE
from leadline.model.result import AtLeast
from leadline.model.soak import Gap, Interval, SoakTimes, gaps

MIB = float(1 << 20)
HORIZON = 90.0  # days: what a disk has room for so long is no degradation
NOT_OF_THE_STACK = ("driver", "leadline", "processes")  # subjects of processes
_LEAST, _MEAN = 0, 1  # of an interval's samples


@dataclass(frozen=True)
class Figure:
    """A metric of observers as a series of a soak. ``kinds`` give the rank of a suspect: the more special the lower."""

    metric: str
    kind: str
    name: str  # {} is the subject
    unit: str
    scale: float = 1.0
    pick: int = _MEAN
    resource: bool = True


# Kinds from the special to the general: a leaked connection is an open socket, a thread has a stack, all take memory.
KINDS = ("connections", "threads", "handles", "heap", "native", "memory", "log", "disk", "")
FIGURES = (
    Figure("pool.in_use", "connections", "connections in use of {}", "connections", pick=_LEAST),
    Figure("numbackends", "connections", "sessions of the {}", "sessions"),
    Figure("Threads_connected", "connections", "sessions of the {}", "sessions"),
    Figure("sockets", "connections", "sockets of the {}", "sockets"),
    Figure("threads", "threads", "threads of the {}", "threads"),
    Figure("handles", "handles", "open files of the {}", "files"),
    Figure("rss.anon", "memory", "memory of the {}", "MiB", 1 / MIB),
    Figure("written", "log", "log {}", "MiB", 1 / MIB),
    Figure("disk", "disk", "disk use of {}", "MiB", 1 / MIB),
    Figure("pool.waiting", "", "requests that wait for {}", "requests", resource=False),
    Figure("threads.queue", "", "tasks that wait in {}", "tasks", resource=False),
)
# What comes of others or limits them; kept with each interval.
OTHERS = ("heap.used", "heap.committed", "free", "cpu", "memory.available", "gc.time_ms")
METRICS = frozenset([*(figure.metric for figure in FIGURES), *OTHERS])


@dataclass(frozen=True)
class SoakAnswer:
    """What a soak found so far. Times in unix seconds, ``measured`` and ``wanted`` in seconds of load; ``stretches``:
    first and last moment of each start of the stack. ``failure``: what ended it before its time, empty for nothing;
    ``notes``: what limits the figures.
    """

    judged: Soak
    gaps: tuple[Gap, ...]
    stretches: tuple[tuple[float, float], ...]
    measured: float
    wanted: float
    ok: int
    failed: int
    failure: str = ""
    notes: tuple[str, ...] = ()

    @property
    def begin(self) -> float:
        return self.stretches[0][0] if self.stretches else 0.0

    @property
    def complete(self) -> bool:
        return self.measured >= self.wanted - 1

    @property
    def passed(self) -> bool:
        """Stable, and nothing ended it."""
        return self.judged.verdict == "stable" and not self.failure

    @property
    def exit_code(self) -> int:
        """Of a command that ran or judges it: 0 stable, 1 degrading or failed, 4 too short to tell."""
        if self.passed:
            return 0
        return 1 if self.failure or self.judged.verdict == "degrading" else NO_ANSWER_CODE

    @property
    def sentence(self) -> str:
        """The verdict, after what limits it."""
        sentences = [self.judged.sentence]
        if self.failure:
            sentences.append(f"It failed after {duration_text(self.measured)} of load: {self.failure}.")
        elif not self.complete:
            sentences.append(f"Measured so far: {duration_text(self.measured)} of {duration_text(self.wanted)}.")
        if self.gaps:
            sentences.append(
                f"{len(self.gaps)} gap{'' if len(self.gaps) == 1 else 's'}, "
                f"{duration_text(math.fsum(gap.end - gap.begin for gap in self.gaps))} in all."
            )
        return " ".join(sentences)

    def lines(self) -> list[str]:
        """What was measured, the gaps, and each series with its trend."""
        seconds = max(self.measured, 1e-9)
        lines = [
            f"{duration_text(self.measured)} of load in {len(self.stretches)} "
            f"start{'' if len(self.stretches) == 1 else 's'}: {self.ok} transactions ({self.ok / seconds:.1f}/s), "
            f"{self.failed} failed"
        ]
        lines += [
            f"gap of {duration_text(gap.end - gap.begin)} after {duration_text(gap.begin - self.begin)}: {gap.why}"
            for gap in self.gaps
        ]
        width = max((len(drift.series.name) for drift in self.judged.drifts), default=0)
        lines += self.notes
        return lines + [f"  {drift.series.name:<{width}}  {trend_text(drift)}" for drift in self.judged.drifts]

    def document(self) -> dict[str, Any]:
        """As JSON types."""
        suspect = self.judged.suspect
        return {
            "verdict": self.judged.verdict,
            "passed": self.passed,
            "answer": self.sentence,
            "measured_s": self.measured,
            "wanted_s": self.wanted,
            "transactions": {"ok": self.ok, "failed": self.failed},
            "failure": self.failure,
            "notes": list(self.notes),
            "since_s": self.judged.since,
            "suspect": suspect.series.name if suspect else None,
            "stretches": [{"begin": begin, "end": end} for begin, end in self.stretches],
            "gaps": [{"begin": gap.begin, "end": gap.end, "why": gap.why} for gap in self.gaps],
            "series": [_document(drift) for drift in self.judged.drifts],
        }


def trend_text(drift: Drift) -> str:
    """The verdict on a series in words, with its change and the interval."""
    if drift.verdict == "undetermined":
        return f"undetermined: {drift.reason}"
    since = f", since {duration_text(drift.since)} after the start" if drift.since is not None else ""
    return f"{drift.verdict}{since}: {drift.change}{f'; {drift.reason}' if drift.reason else ''}"


def conclude_soak(
    intervals: Sequence[Interval],
    evened: Sequence[Interval],
    times: SoakTimes,
    ends: Mapping[int, str],
    failure: str = "",
    notes: Sequence[str] = (),
    chance: float = CHANCE,
) -> SoakAnswer:
    """The verdict on all intervals. Each start of the stack is judged by itself, as memory and handles begin anew with
    it; the correction is for the series of all of them together. ``evened``: the same as intervals of one length.
    """
    stretches = [(stretch[0].begin, stretch[-1].end) for stretch in by_stretch(intervals)]
    return SoakAnswer(
        judge(series_of(evened, intervals[0].begin if intervals else 0.0), chance),
        tuple(gaps(intervals, ends)),
        tuple(stretches),
        math.fsum(interval.seconds for interval in intervals),
        times.seconds,
        sum(interval.ok for interval in intervals),
        sum(interval.failed for interval in intervals),
        failure,
        tuple(dict.fromkeys((*notes, *_bounds(intervals)))),
    )


def _bounds(intervals: Sequence[Interval]) -> list[str]:
    """A sentence where percentiles are lower bounds."""
    bounds = [interval.p99 for interval in intervals if isinstance(interval.p99, AtLeast)]
    if not bounds:
        return []
    counted = f"the p99 of {len(bounds)} of {len(intervals)} intervals is a lower bound ({max(bounds):,.0f} ms)"
    return [f"{counted}, as transactions got no answer in time"]


def by_stretch(intervals: Sequence[Interval]) -> list[list[Interval]]:
    """Intervals of each start of the stack."""
    stretches: dict[int, list[Interval]] = {}
    for interval in intervals:
        stretches.setdefault(interval.stretch, []).append(interval)
    return list(stretches.values())


def series_of(intervals: Sequence[Interval], zero: float) -> list[Series]:
    """All series that are tested, of each stretch; times in seconds from ``zero``."""
    stretches = by_stretch(intervals)
    series = []
    for number, stretch in enumerate(stretches):
        suffix = f" (start {number + 1})" if len(stretches) > 1 else ""
        series += list(_series(stretch, zero, suffix))
    return series


def _series(stretch: Sequence[Interval], zero: float, suffix: str) -> Iterator[Series]:
    origin = stretch[0].begin - zero
    times = [interval.begin + interval.seconds / 2 - zero for interval in stretch]

    def made(name: str, unit: str, values: Sequence[float], **more: Any) -> Series:
        points = [(at, value) for at, value in zip(times, values, strict=True) if math.isfinite(value)]
        at, values_ = zip(*points, strict=True) if points else ((), ())
        return Series(name + suffix, unit, at, values_, origin=origin, rank=KINDS.index(more.pop("kind", "")), **more)

    rates = [interval.ok / interval.seconds for interval in stretch]
    yield made("throughput", "transactions/s", rates, worse="falling")
    yield made("p99", "ms", [interval.p99 for interval in stretch])
    ended = [interval.ok + interval.failed for interval in stretch]
    shares = [
        100 * interval.failed / count if count else math.nan for interval, count in zip(stretch, ended, strict=True)
    ]
    yield made("failed transactions", "%", shares)
    names = sorted({name for interval in stretch for name in interval.gauges})
    heap = [_summed(interval, "heap.committed", _MEAN) / MIB for interval in stretch]
    if any(map(math.isfinite, heap)):
        live = [_summed(interval, "heap.used", _LEAST) / MIB for interval in stretch]
        yield made("heap of the server", "MiB", live, kind="heap", resource=True)
    for figure in FIGURES:
        for name in names:
            metric, _, subject = name.partition("/")
            if metric != figure.metric or subject in NOT_OF_THE_STACK:
                continue
            values = [figure.scale * _picked(interval, name, figure.pick) for interval in stretch]
            called, kind = figure.name.format(subject or "the pool"), figure.kind
            if metric == "rss.anon" and subject == "server" and any(map(math.isfinite, heap)):
                called, kind = "memory of the server outside its heap", "native"
                values = [value - committed for value, committed in zip(values, heap, strict=True)]
            tolerated = _room(stretch) / MIB / HORIZON if kind in ("disk", "log") else 0.0
            yield made(called, figure.unit, values, kind=kind, resource=figure.resource, tolerated=tolerated)


def _summed(interval: Interval, metric: str, pick: int) -> float:
    """Over all subjects: the parts of a heap."""
    parts = [gauge[pick] for name, gauge in interval.gauges.items() if name.partition("/")[0] == metric]
    return math.fsum(parts) if parts else math.nan


def _picked(interval: Interval, name: str, pick: int) -> float:
    gauge = interval.gauges.get(name)
    return math.nan if gauge is None else gauge[pick]


def _room(stretch: Sequence[Interval]) -> float:
    """Bytes that were free on the stack's disk at the end; none where that is not known."""
    return next((interval.gauges["free"][_LEAST] for interval in reversed(stretch) if "free" in interval.gauges), 0.0)


def _document(drift: Drift) -> dict[str, Any]:
    return {
        "name": drift.series.name,
        "unit": drift.series.unit,
        "verdict": drift.verdict,
        "reason": drift.reason,
        "per_day": drift.per_day,
        "low": drift.low,
        "high": drift.high,
        "percent": drift.percent,
        "p_value": drift.adjusted,
        "season_s": drift.period,
        "since_s": drift.since,
        "since_between_s": None if drift.since is None else [drift.earliest, drift.latest],
    }
