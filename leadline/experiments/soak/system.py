"""The real system under a soak: load in segments without a pause, each condensed while the next one runs."""

from __future__ import annotations

import math
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import polars as pl

from leadline.conclude.soak import METRICS
from leadline.experiments.soak.record import SoakRecord, interval_of
from leadline.host.base import Host, Process
from leadline.load.driver import DriverRun
from leadline.load.progress import ProgressLog
from leadline.load.result import DriverResult, read_summary
from leadline.load.scenario import sent_variables
from leadline.load.series import ALL, last_second, outcomes_in, started_unix_ns, whole_seconds
from leadline.model.disturbance import MachineUse
from leadline.model.errors import FailureClass, LeadlineError, TrialFailure
from leadline.model.record import AuditRecord, Phases
from leadline.model.result import SteadyState
from leadline.model.soak import Gauge, Interval
from leadline.model.study import Study
from leadline.model.workload import Workload
from leadline.observe.base import Observer, ObserverContext, ObserverSet
from leadline.observe.counters import CounterObserver
from leadline.observe.gc import GcObserver
from leadline.observe.holdings import BoundedLogs, Holdings
from leadline.observe.host import HostObserver
from leadline.observe.processes import ProcessObserver
from leadline.observe.table import read_series
from leadline.places.real import RealSystem, checks_of
from leadline.stack.assembly import Stack
from leadline.trial.lifecycle import MINIMUM_FREE
from leadline.trial.measure import DriverRecording
from leadline.trial.system import LoadOutcome, Measured, OnLoad, observers_of

HOLDINGS = "holdings"  # name of the counters of leadline.observe.holdings


@dataclass(frozen=True)
class Segment:
    """``directory`` holds driver, raw, series and logs as a trial's does."""

    directory: Path
    stretch: int
    number: int

    @property
    def driver(self) -> Path:
        return self.directory / "driver"


def segment_of(attempt: Path, stretch: int, number: int) -> Segment:
    return Segment(attempt / "segments" / f"{number:06d}", stretch, number)


def left_of(attempt: Path, stretch: int) -> list[Segment]:
    """Segments of an attempt whose raw files are still there, in order."""
    folder = attempt / "segments"
    numbers = sorted(int(path.name) for path in folder.iterdir() if path.name.isdigit()) if folder.is_dir() else []
    return [segment_of(attempt, stretch, number) for number in numbers]


def condensed(segment: Segment, interval: float, observers: Sequence[Observer], whole: float | None) -> list[Interval]:
    """The whole intervals of a segment. ``whole``: its seconds, where its driver came to its end."""
    started, last = started_unix_ns(segment.driver), last_second(segment.driver)
    if started is None or last is None:
        return []
    ObserverSet(observers).collect_from(segment.directory)
    count = math.floor((whole if whole is not None else last + 1) / interval + 1e-6)
    windows = [whole_seconds(at * interval, (at + 1) * interval) for at in range(count)]
    begin = started / 1e9
    gauges = _gauges(segment.directory / "series", begin, interval, count)
    return [
        interval_of(begin + at * interval, interval, segment.stretch, named[ALL], gauges.get(at, {}))
        for at, named in enumerate(outcomes_in(segment.driver, windows))
        if windows[at]
    ]


def _gauges(series: Path, begin: float, interval: float, count: int) -> dict[int, dict[str, Gauge]]:
    """By number of the interval and "metric/subject": least, mean and most."""
    gauges: dict[int, dict[str, Gauge]] = {}
    for path in sorted(series.glob("*.parquet")):
        for at, name, low, mean, high in _rows(path, begin, interval):
            if 0 <= at < count:
                gauges.setdefault(at, {})[name] = (low, mean, high)
    return gauges


def _rows(path: Path, begin: float, interval: float) -> Iterator[tuple[int, str, float, float, float]]:
    holdings = path.stem == HOLDINGS
    at = ((pl.col("time_ns") / 1e9 - begin) / interval).floor().cast(pl.Int64).alias("at")
    metric = pl.col("metric").str.split("/").list.first() if holdings else pl.col("metric")
    value = pl.col("value")
    rows = (
        read_series(path)
        .filter(metric.is_in(list(METRICS)) & ~pl.col("metric").str.ends_with(".per_s") & value.is_finite())
        .group_by(at, "metric", "subject")
        .agg(value.min().alias("low"), value.mean().alias("mean"), value.max().alias("high"))
    )
    for number, name, subject, low, mean, high in rows.iter_rows():
        yield number, name if holdings else f"{name}/{subject}", low, mean, high


_POLL = 0.2  # seconds
_AHEAD = 4.0  # seconds before the end of a segment at which the next one's driver is started
_LEAD = 0.5  # seconds from when it is told its start, at least
_LATES = 20  # drivers of a stretch that may start too late
_READY = 30.0  # seconds until it must wait for its start
_OVERTIME = 60.0  # seconds that a driver may need beyond its plan, with the longest response
_MISSED = 0.05  # share of segments whose driver's figures may not hold

OnCheckpoint = Callable[[SoakRecord], None]


@dataclass
class _Running:
    """A segment whose driver was started; ``begins``: unix ns, ``seconds``: of load."""

    segment: Segment
    process: Process
    progress: ProgressLog
    seconds: float
    begins: int = 0
    observers: ObserverSet | None = None

    @property
    def ends(self) -> float:
        return self.begins / 1e9 + self.seconds


@dataclass
class _Totals:
    """What the drivers of a stretch told together."""

    counts: dict[str, dict[str, int]] = field(default_factory=dict)
    segments: int = 0
    limits: int = 0
    planned: int = 0
    actual: int = 0
    dropped: int = 0
    unlawful: list[str] = field(default_factory=list)  # Little's law did not hold

    def add(self, result: DriverResult) -> None:
        self.segments += 1
        self.limits += result.driver.limit
        self.planned += result.arrivals_planned or 0
        self.actual += result.arrivals_actual
        self.dropped += result.dropped
        self.unlawful += [one.detail for one in checks_of(result) if one.name == "littles-law" and not one.passed]
        for name, total in result.total.items():
            sums = self.counts.setdefault(name, {"ok": 0, "failed": 0, "skipped": 0})
            for key in sums:
                sums[key] += getattr(total, key)

    def outcome(self) -> LoadOutcome:
        allowed = max(0.01 * self.planned, 4 * self.planned**0.5)
        few = max(1, int(_MISSED * self.segments))
        checks = [
            AuditRecord(
                "littles-law",
                len(self.unlawful) <= few,
                f"it does not hold in {len(self.unlawful)} of {self.segments} segments: {'; '.join(self.unlawful[:1])}",
            ),
            AuditRecord("no-drops", self.dropped == 0, f"{self.dropped} arrivals dropped at the cap on sessions"),
        ]
        if self.planned:
            sentence = f"{self.actual} of {self.planned} planned arrivals took place"
            checks.append(AuditRecord("arrivals", abs(self.actual - self.planned) <= allowed, sentence))
        return LoadOutcome(self.counts, False, "", checks)

    def notes(self) -> list[str]:
        """What a reader of the latencies must know."""
        if not self.limits:
            return []
        return [
            f"the driver was the limit in {self.limits} of {self.segments} segments: latencies are not the server's"
        ]


class SoakRecording(DriverRecording):
    """Of a soak, whose record has all; ``stretch``: its last."""

    def __init__(self, record: SoakRecord, stretch: int) -> None:
        super().__init__()
        self._record, self._stretch = record, stretch

    def measure(self, directory: Path, startup: float) -> Measured:  # noqa: ARG002 - the record has all
        own = [interval for interval in self._record.intervals if interval.stretch == self._stretch]
        if not own:
            raise TrialFailure(FailureClass.WORKLOAD, "nothing was measured")
        seconds, ok = sum(one.seconds for one in own), sum(one.ok for one in own)
        failed = sum(one.failed for one in own)
        if not ok:
            raise TrialFailure(FailureClass.WORKLOAD, "no transaction succeeded")
        responses = {"throughput": ok / seconds, "errors": failed / (ok + failed), "startup": startup}
        begin, end = own[0].begin, own[-1].end
        return Measured(responses, SteadyState("steady", 0.0, "a soak"), Phases(begin, begin, end, end))

    def machine_use(
        self,
        directory: Path,  # noqa: ARG002
        stretches: Sequence[Sequence[tuple[float, float]]],
        beside: Sequence[Path] = (),  # noqa: ARG002
    ) -> Sequence[MachineUse | None]:
        return [None for _ in stretches]


class SoakSystem(RealSystem):
    """A ``RealSystem`` whose load lasts until ``record`` is full. ``on_checkpoint`` is called with it after each
    segment that was added.
    """

    record: SoakRecord

    def __init__(self, study: Study, host: Host, lab: Path, on_checkpoint: OnCheckpoint) -> None:
        super().__init__(study, host, lab)
        self._on_checkpoint = on_checkpoint
        self._running: list[_Running] = []
        self._stretch = self._lates = 0
        self._bounded = BoundedLogs({})
        self._raw: list[Observer] = []

    @property
    def recording(self) -> SoakRecording:
        return SoakRecording(self.record, self._stretch)

    # what it observes ----------------------------------------------------------------------------------------

    def start_observers(self, directory: Path) -> None:
        """They are started with each segment."""
        self._roles = dict(self._stack.processes())
        self._bounded = BoundedLogs({"logs": directory / "logs", "raw": directory / "raw"})

    def stop_observers(self) -> Sequence[str]:
        return ()

    def _observers_of_segment(self) -> list[Observer]:
        """Those of a trial that tell what can leak, and the counters of holdings."""
        left_out = (HostObserver, GcObserver, ProcessObserver)
        assert isinstance(self._stack, Stack)  # a soak runs on this host
        observers = [
            observer for observer in observers_of(True, self._host, self._stack) if not isinstance(observer, left_out)
        ]
        homes = {path.name: path for path in self._stack.homes()}
        holdings = Holdings(self._host.files, self._stack.processes(), homes, self._bounded)
        # every sample with its status: what is anonymous memory
        processes = ProcessObserver(self._host.files, threads_every=1, members_every=1)
        return [processes, *observers, CounterObserver(HOLDINGS, "", holdings, (), self.record.times.sampled)]

    # its load ------------------------------------------------------------------------------------------------

    def load(self, directory: Path, seed: int, on_load: OnLoad) -> LoadOutcome:
        totals = _Totals()
        self._stretch = self.record.begin_stretch()
        try:
            self._drive(directory, seed, on_load, totals)
        except TrialFailure as failure:
            self.record.ends[self._stretch] = failure.message
            raise
        finally:
            self._end_driver()
            for running in self._running:
                self._condense(running, whole=False)
            self._running.clear()
            self.record.notes += totals.notes()
            self.record.save()
        return totals.outcome()

    def _drive(self, directory: Path, seed: int, on_load: OnLoad, totals: _Totals) -> None:
        seconds_left, number, self._lates = self.record.left, 0, 0
        if seconds_left < self.record.times.interval:
            return
        self._start(directory, number, seed, seconds_left)
        self._begin(self._running[0], time.time_ns() + round(1e9))
        while self._running:
            self._follow_all(on_load)
            last = self._running[-1]
            seconds_left = self.record.left - sum(running.seconds for running in self._running)
            if seconds_left >= self.record.times.interval and time.time() >= last.ends - _AHEAD:
                number += 1
                self._start(directory, number, seed + number, seconds_left)
                self._begin(self._running[-1], round(last.ends * 1e9))
            if not last.process.alive() and _late(last):
                self._again(directory, self._running.pop(), seed)
            elif not self._running[0].process.alive():
                totals.add(self._ended(self._running[0]))
                self._condense(self._running.pop(0), whole=True)
            time.sleep(_POLL)

    def _again(self, directory: Path, one: _Running, seed: int) -> None:
        """A driver that was not given a CPU in time for its start sent nothing: another one takes its place."""
        self._lates += 1
        if self._lates > _LATES:
            raise TrialFailure(FailureClass.INFRASTRUCTURE, f"{_LATES} drivers started late", one.progress.last_words())
        number = one.segment.number
        shutil.rmtree(one.segment.directory, ignore_errors=True)
        seconds_left = self.record.left - sum(running.seconds for running in self._running)
        self._start(directory, number, seed + number, seconds_left)
        self._begin(self._running[-1], 0)

    def _start(self, directory: Path, number: int, seed: int, left: float) -> None:
        """A driver that waits for its start."""
        times = self.record.times
        segment = segment_of(directory, self._stretch, number)
        seconds = min(times.segment, max(times.interval, times.interval * round(left / times.interval)))
        ramp_up = min(self._study.workload.ramp_up, seconds / 2) if number == 0 else 0.0
        own = {"ramp_up": ramp_up, "steady": seconds - ramp_up, "ramp_down": 0.0, "warm_up": None}
        workload: Workload = self._load_owner.at(self._study.workload).model_copy(update=own)
        for part in ("raw", "series", "logs"):
            (segment.directory / part).mkdir(parents=True, exist_ok=True)
        run = DriverRun(
            workload,
            self._stack.url(),
            seed,
            segment.driver,
            sent_variables(workload),
            self._cpus,
            *self._trusted(directory),
            told=True,
        )
        log = segment.directory / "logs" / "driver.log"
        spec = replace(run.spec(log), name=f"driver-{number % 2}")
        running = _Running(segment, self._host.start(spec), ProgressLog(log), seconds)
        self._running.append(running)
        deadline = time.monotonic() + _READY
        while not running.progress.ready and running.process.alive():
            running.progress.read()
            if time.monotonic() > deadline:
                raise TrialFailure(FailureClass.INFRASTRUCTURE, f"the driver was not ready within {_READY:.0f} s")
            time.sleep(0.02)

    def _begin(self, one: _Running, begins: int) -> None:
        """Tell it its start: the end of the one before, or at once where that has passed."""
        one.begins = max(begins, time.time_ns() + round(_LEAD * 1e9))
        one.process.write(f"start {one.begins}\n".encode())

    def _follow_all(self, on_load: OnLoad) -> None:
        self._stack.check_alive()
        for running in self._running:
            if running.observers is None and time.time_ns() >= running.begins:
                self._observe(running)
            before = self.record.measured + sum(
                each.seconds for each in self._running if each.segment.number < running.segment.number
            )
            for second in running.progress.take():
                on_load(replace(second, second=second.second + before, phase="soak"))
            if running.process.alive() and time.time() > running.ends + self._study.workload.timeout + _OVERTIME:
                raise TrialFailure(FailureClass.INFRASTRUCTURE, "the driver did not end in time")

    def _observe(self, one: _Running) -> None:
        """Observers of the segment before end here."""
        for running in self._running:
            if running is not one and running.observers is not None:
                running.observers.stop()
        one.observers = ObserverSet(self._observers_of_segment())
        java = Path(self._study.stack.java) if self._study.stack.java else None
        roles = dict(self._stack.processes())
        sampled = self.record.times.sampled
        one.observers.start(
            ObserverContext(one.segment.directory, roles, java, sampled, side_by_side=self._side_by_side)
        )

    def _ended(self, one: _Running) -> DriverResult:
        code = one.process.exit_code()
        if code != 0:
            one.progress.read()
            sentence = f"the driver ended with code {code}"
            raise TrialFailure(FailureClass.INFRASTRUCTURE, sentence, one.progress.last_words())
        result = read_summary(one.segment.driver)
        if not result.completed:
            raise TrialFailure(FailureClass.INFRASTRUCTURE, "the driver was ended before its plan was")
        return result

    # what is kept --------------------------------------------------------------------------------------------

    def _condense(self, one: _Running, whole: bool) -> None:
        """Its intervals to the record, which is written; its raw files go. Its driver has ended."""
        one.process.stop(grace=1.0)  # no more in the host's journal
        if one.observers is not None:
            one.observers.stop()
        seconds = one.seconds if whole else None
        self._keep(one.segment, seconds)
        self._bounded.bound()
        if whole:
            self._on_checkpoint(self.record)
            free = shutil.disk_usage(self.record.path.parent).free
            if free < MINIMUM_FREE:
                sentence = (
                    f"{free // 2**20} MiB are free on the lab's disk: a soak ends below {MINIMUM_FREE // 2**20} MiB"
                )
                raise TrialFailure(FailureClass.INFRASTRUCTURE, sentence)

    def _keep(self, segment: Segment, seconds: float | None) -> None:
        readers = [ProcessObserver(self._host.files), *self._observers_of_segment()[1:]]
        try:
            self.record.add(condensed(segment, self.record.times.interval, readers, seconds))
        except (LeadlineError, OSError, ValueError):
            if seconds is not None:
                raise
            return  # cut off: its files stay for whoever looks
        self.record.save()
        shutil.rmtree(segment.directory, ignore_errors=True)

    def recover(self, attempt: Path, stretch: int) -> int:
        """Intervals that a stretch left behind which was cut off; how many."""
        before = len(self.record.intervals)
        for segment in left_of(attempt, stretch):
            self._keep(segment, None)
        return len(self.record.intervals) - before

    def stop(self) -> Sequence[str]:
        self._end_driver()
        return super().stop()

    def _end_driver(self) -> None:
        for running in self._running:
            if running.observers is not None:
                running.observers.stop()
            with suppress(OSError):
                running.process.stop(grace=5.0)


def _late(one: _Running) -> bool:
    """Whether it ended because it could not begin at the moment it was told."""
    one.progress.read()
    return one.process.exit_code() != 0 and "started" in (words := one.progress.last_words()) and " late " in words
