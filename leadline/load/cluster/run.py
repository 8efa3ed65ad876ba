"""One run of several drivers in step: all ready, one start, all followed, results merged, nothing left behind.

In a trial, or without a lab for ``leadline load --drivers``.
"""

from __future__ import annotations

import contextlib
import json
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from pydantic import TypeAdapter, ValidationError
from ruamel.yaml.comments import CommentedSeq

from leadline.host import here
from leadline.host.base import Process, ProcessSpec
from leadline.host.local import watched_starts
from leadline.host.paths import Scratch, temporary
from leadline.host.received import lines_of
from leadline.host.textfile import is_file, read_text
from leadline.load import result
from leadline.load.cluster import hosts
from leadline.load.command import OUT, judge
from leadline.load.driver import CLIENT, find_binary
from leadline.load.progress import ProgressLog, as_json, as_text, together
from leadline.load.result import read_summary
from leadline.load.scenario import find_scenario
from leadline.model.errors import FailureClass, LeadlineError, TrialFailure, UsageError, did_you_mean, quoted, wanted
from leadline.model.hosts import DriverHost, Drivers, shares
from leadline.model.record import LoadSecond
from leadline.model.yamltext import load_yaml

# The results of several drivers as one driver would have written them: ``leadline-load merge`` makes them.


@dataclass(frozen=True)
class DriverPart:
    """One driver's results, in a directory of its name. ``moved_ns``: how far its clock moved against this host's
    during the run.
    """

    driver: DriverHost
    directory: Path
    share: str
    cpus: int
    clock: hosts.Offset
    moved_ns: float


def check_results(directory: Path) -> None:
    """What a driver on another host wrote, before it is read together with others'. Raises LeadlineError."""
    read_summary(directory)
    for path in sorted(directory.iterdir()):
        for _ in lines_of(path):
            pass  # none is too long


def merge(parts: Sequence[DriverPart], out: Path, started_unix_ns: int) -> None:
    """Write summary.json, seconds.csv, outcomes.csv and the interval logs of all drivers together into ``out``.

    Seconds are numbered from the agreed start, which is ``started_unix_ns`` by this host's clock. Raises LeadlineError
    when a driver's results are missing or incomplete, or are not of the same scenario.
    """
    notes = [
        {
            "via": part.driver.via,
            "share": part.share,
            "cpus": part.cpus,
            "clock_offset_ms": part.clock.ns / 1e6,
            "clock_uncertainty_ms": part.clock.uncertainty_ns / 1e6,
            "clock_moved_ms": part.moved_ns / 1e6,
        }
        for part in parts
    ]
    options = ["--out", str(out), "--start", str(started_unix_ns), "--notes", json.dumps(notes)]
    done = here.run([str(find_binary()), "merge", *options, *(str(part.directory) for part in parts)])
    if done.returncode:
        raise LeadlineError(done.stderr.strip().removeprefix("leadline-load: ") or f"exit code {done.returncode}")


_SWITCH = 20  # seconds without a sign of life after which a driver ends itself
_BEAT = 2.0
_READY = 60.0  # seconds until every driver must be ready
_LEAD = 1.0  # seconds between the agreement and the start, besides the slowest answer
_SILENCE = 20.0  # seconds without a line of progress after which a host counts as lost
_CLOCK = 100e6  # nanoseconds that a clock may move against this one during a run: what a driver's start may be late
_AUTHORITY = re.compile(r"^(https?://)(\[[^\]]*\]|[^/:=?#]+)")
_DRIFT = 2e-4  # and the share of the run by which clocks that nobody sets run apart at most
_FILES = ("--replay", "--ca")  # options that name a file


@dataclass(frozen=True)
class DriverJob:
    """What all drivers do together. ``options``: of leadline-load, as name and value, with totals such as users or
    rate, an empty value for a name alone; ``urls``: the values of ``--url``.
    """

    scenario: Path
    urls: Sequence[str]
    options: Sequence[tuple[str, str]]


@dataclass
class _Member:
    driver: DriverHost
    share: str
    host: hosts.DriverPlace
    log: Path
    progress: ProgressLog
    process: Process | None = None
    report: hosts.HostReport | None = None
    heard: float = field(default_factory=time.monotonic)

    @property
    def connection(self) -> hosts.Connection:
        return self.host.connection


class Cluster:
    """Use as a context: whatever was started is ended. Results of each driver go to ``out``/drivers/NAME, the merged
    ones to ``out``; logs to ``logs``. Every failure of a host is a TrialFailure(infrastructure) that names it.
    """

    def __init__(self, drivers: Sequence[DriverHost], out: Path, logs: Path, start: hosts.Starter) -> None:
        self._out = out
        self._start = start
        self._clock = hosts.LabClock()
        # Of every host with ssh: a path to a socket must be short.
        self._sockets: list[Scratch] = []
        self._told = 0
        self._stop_beating = threading.Event()
        self._beats: threading.Thread | None = None
        self._stopped = False
        self.started_unix_ns: int | None = None
        self._members = []
        for driver, share in zip(drivers, shares(drivers), strict=True):
            connection = hosts.Connection(driver, self._socket_directory(driver))
            host: hosts.DriverPlace
            if connection.local:
                host = hosts.LocalHost(connection, out / "drivers" / driver.name)
            else:
                host = hosts.RemoteHost(connection, logs / f"keeper-{driver.name}.log", start)
            log = logs / f"driver-{driver.name}.log"
            self._members.append(_Member(driver, share, host, log, ProgressLog(log)))

    def __enter__(self) -> Cluster:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def open(self) -> Mapping[str, hosts.HostReport]:
        """Reach every host, measure its clock; by name. All hosts at once."""
        self._everywhere(self._open)
        reports = {member.driver.name: member.report for member in self._members if member.report is not None}
        versions = {report.version for report in reports.values()}
        if len(versions) > 1:
            raise TrialFailure(FailureClass.INFRASTRUCTURE, f"the drivers differ: {', '.join(sorted(versions))}")
        return reports

    def _open(self, member: _Member) -> None:
        member.host.open()
        member.report = hosts.look(member.host, self._clock)

    def _everywhere(self, work: Callable[[_Member], None]) -> None:
        """The first failure in the order of the drivers is raised once all have ended."""
        with ThreadPoolExecutor(len(self._members)) as pool:
            futures = [pool.submit(work, member) for member in self._members]
        for future in futures:
            future.result()

    def begin(self, job: DriverJob, ready: Callable[[], None] = lambda: None) -> int:
        """Start all drivers, agree on a start and tell it; its unix nanoseconds by this host's clock. ``ready`` is
        called before that, once every driver has taken scenario and options.

        Raises UsageError for what leadline-load finds wrong with scenario or options.
        """
        self._everywhere(lambda member: self._launch(member, job))
        self._beats = threading.Thread(target=self._beat, name="drivers-heartbeat", daemon=True)
        self._beats.start()
        deadline = time.monotonic() + _READY
        while not all(self._ready(member) for member in self._members):
            if time.monotonic() > deadline:
                late = next(member for member in self._members if not member.progress.ready)
                raise late.connection.failure(f"not ready within {_READY:.0f} s", late.progress.last_words())
            time.sleep(0.02)
        ready()
        reports = [member.report for member in self._members if member.report is not None]
        slowest = max(report.clock.uncertainty_ns for report in reports)
        start = round(self._clock.now_ns() + _LEAD * 1e9 + 4 * slowest)
        for member, report in zip(self._members, reports, strict=True):
            self._tell(member, f"start {round(start + report.clock.ns)}\n")
            member.heard = time.monotonic()
        self.started_unix_ns = start
        return start

    def _ready(self, member: _Member) -> bool:
        member.progress.read()
        if not member.progress.ready:
            self._check(member)
        return member.progress.ready

    def _launch(self, member: _Member, job: DriverJob) -> None:
        host = member.host
        sent, options, extra = hosts.scenario_files(job.scenario), [], {}
        for at, (name, value) in enumerate(job.options):
            if name in _FILES:
                extra[f"option-{at}-{Path(value).name}"] = Path(value)
                if not Path(value).is_file():
                    raise UsageError(f"{name} {value}: no such file")
                options += [name, f"option-{at}-{Path(value).name}"]
            else:
                options += [name, value] if value else [name]
        host.send({**sent, **extra})
        options = [host.input(word) if word in extra else word for word in options]
        argv = [host.binary, "run", host.input(job.scenario.name)]
        for url in job.urls:
            argv += ["--url", seen_from(url, member.driver)]
        argv += [*options, "--out", host.out(), "--share", member.share]
        argv += ["--start-at", "stdin", "--dead-man-switch", f"{_SWITCH}s", "--progress", "json", "--verdict", "file"]
        member.log.unlink(missing_ok=True)
        try:
            spec = ProcessSpec(
                f"driver-{member.driver.name}", host.argv(argv), member.log, input=True, unprivileged=False
            )
            member.process = self._start(spec)
        except OSError as error:
            raise member.connection.failure(f"{error.filename}: {error.strerror}") from None

    def _tell(self, member: _Member, line: str) -> None:
        if member.process is not None:
            member.process.write(line.encode())

    def _beat(self) -> None:
        while not self._stop_beating.wait(_BEAT):
            for member in self._members:
                with contextlib.suppress(OSError, ValueError):  # ended meanwhile
                    self._tell(member, "\n")

    def poll(self) -> list[LoadSecond]:
        """What all drivers together have done since the last call. Raises TrialFailure(infrastructure) as soon as one
        of them is lost.
        """
        now = time.monotonic()
        for member in self._members:
            alive = member.process is not None and member.process.alive()
            if member.progress.read():
                member.heard = now
            if not alive:
                self._check(member)
            elif now - member.heard > _SILENCE:
                words = member.progress.last_words()
                raise member.connection.failure(f"lost: not a word for {_SILENCE:.0f} s", words)
        seconds = together([member.progress for member in self._members], self._told)
        self._told += len(seconds)
        return seconds

    def _check(self, member: _Member) -> None:
        """Raises unless the driver runs or ended as it should."""
        code = member.process.exit_code() if member.process else None
        if code is None or code == 0 or (code == 130 and self._stopped):
            return
        member.progress.read()
        words = member.progress.last_words()
        if code == 2:
            raise UsageError("\n".join(line.removeprefix("leadline-load: ") for line in words.splitlines()))
        if code == 1 and words:
            raise member.connection.failure(f"lost: {words.splitlines()[-1].removeprefix('leadline-load: ')}", words)
        how = f"ended by signal {-code}" if code < 0 else f"ended with code {code}"
        if code > 128:
            how = f"ended by signal {code - 128}"
        if code == 255:
            how = "the connection was lost"
        raise member.connection.failure(f"lost: {how}", words)

    def running(self) -> bool:
        """Whether any driver works still."""
        return any(member.process is not None and member.process.alive() for member in self._members)

    def stop(self) -> None:
        """End all drivers early but in order: what was measured is written."""
        self._stopped = True
        for member in self._members:
            self._tell(member, "stop\n")

    def collect(self) -> None:
        """Once none runs: fetch the results, look at the clocks again, merge."""
        assert self.started_unix_ns is not None
        parts: dict[str, DriverPart] = {}
        self._everywhere(lambda member: parts.__setitem__(member.driver.name, self._fetch(member)))
        merge([parts[member.driver.name] for member in self._members], self._out, self.started_unix_ns)

    def _fetch(self, member: _Member) -> DriverPart:
        directory = self._out / "drivers" / member.driver.name
        member.host.fetch(directory)
        assert member.report is not None
        before, after = member.report.clock, hosts.look(member.host, self._clock).clock
        moved = after.ns - before.ns
        drift = _DRIFT * (self._clock.now_ns() - (self.started_unix_ns or 0))
        if abs(moved) > before.uncertainty_ns + after.uncertainty_ns + _CLOCK + drift:
            raise member.connection.failure(f"its clock was set by {moved / 1e6:+.1f} ms during the run")
        try:
            check_results(directory)
        except LeadlineError as error:
            raise member.connection.failure(str(error)) from None
        return DriverPart(member.driver, directory, member.share, member.report.cpus, before, moved)

    def close(self) -> None:
        """End what runs, on every host; remove what was made there."""
        self._stop_beating.set()
        if self._beats is not None:
            self._beats.join(_SWITCH)
        self._everywhere(self._end)
        for directory in self._sockets:
            directory.close()

    def _socket_directory(self, driver: DriverHost) -> Path:
        if driver.destination:
            self._sockets.append(Scratch())
            return self._sockets[-1].path
        return temporary()

    @staticmethod
    def _end(member: _Member) -> None:
        if member.process is not None:
            if member.process.alive():
                member.process.close_input()  # the end of its input, wherever it runs
                deadline = time.monotonic() + 3
                while member.process.alive() and time.monotonic() < deadline:
                    time.sleep(0.02)
            member.process.stop(grace=1.0)
            member.process = None
        member.host.close()


def seen_from(url: str, driver: DriverHost) -> str:
    """The URL as the driver reaches it."""
    if driver.server is None:
        return url
    address = f"[{driver.server}]" if ":" in driver.server and not driver.server.startswith("[") else driver.server
    return _AUTHORITY.sub(lambda found: f"{found[1]}{address}", url, count=1)


def told(reports: Mapping[str, hosts.HostReport]) -> Iterator[str]:
    """A sentence for each host."""
    for name, report in reports.items():
        clock = report.clock
        yield (
            f"driver {name}: host {report.name}, {report.cpus} CPUs, up to {report.open_files} open files, clock "
            f"{clock.ns / 1e6:+.3f} ms from this one's (at most {clock.uncertainty_ns / 1e6:.3f} ms off)"
        )


def read_drivers(text: str) -> list[DriverHost]:
    """A YAML file with a list (or with the key ``drivers``, such as a study file), or commands separated by commas.

    Raises UsageError with file and line.
    """
    path = Path(text)
    if is_file(path):
        return _from_file(path)
    if path.suffix in (".yaml", ".yml"):
        raise UsageError(f"--drivers {text}: no such file")
    words = [word.strip() for word in text.split(",")]
    return _checked(words, "--drivers")


def _from_file(path: Path) -> list[DriverHost]:
    tree = load_yaml(read_text(path), str(path))
    drivers = tree.get("drivers") if isinstance(tree, dict) else tree
    if not isinstance(drivers, CommentedSeq) or not drivers:
        raise UsageError(f"{path}:1: write a list of drivers, or the key drivers with one")

    def place(index: int) -> str:
        return f"{path}:{drivers.lc.item(index)[0] + 1}"

    return _checked(drivers, str(path), place)


def _checked(found: list[Any], source: str, place: Any = None) -> list[DriverHost]:
    adapter: TypeAdapter[list[DriverHost]] = TypeAdapter(Drivers)
    try:
        return adapter.validate_python(found)
    except ValidationError as error:
        problem = error.errors()[0]
        where = problem["loc"]
        here = place(where[0]) if place and where and isinstance(where[0], int) else source
        if problem["type"] == "extra_forbidden":
            key = str(where[-1])
            keys = list(DriverHost.model_fields)
            hint = did_you_mean(key, keys) or f"keys here: {', '.join(keys)}"
            raise UsageError(f"{here}: unknown key {key!r}; {hint}") from error
        name = f"{where[-1]}: " if len(where) > 1 else ""
        raise UsageError(f"{here}: {name}{wanted(problem)} (found {quoted(problem['input'])})") from error


_OURS = ("--share", "--start-at", "--dead-man-switch")
_BOUNDS = ("--limit-errors", "--limit-dropped", "--fail")
_DEAD_MAN = 5.0  # seconds
_POLL = 0.1


def check_drivers(drivers: Sequence[DriverHost]) -> list[str]:
    """A sentence about every host. Raises TrialFailure(infrastructure) for the first that cannot be used."""
    with Scratch() as place, watched_starts(_DEAD_MAN) as start, Cluster(drivers, place, place, start) as cluster:
        return list(told(cluster.open()))


def run_drivers(
    scenario: str, options: Sequence[str], drivers: Sequence[DriverHost], say: Callable[[str], None]
) -> bool | None:
    """Runs the drivers with the options of leadline-load; whether they passed, None when the user ended them before
    their plan.

    Results as of one driver go to ``--out`` (``leadline-load.out``), ``--replace`` and ``--progress`` as leadline-load
    has them: nothing is removed before every driver has taken its options. Raises UsageError,
    TrialFailure(infrastructure) when a host is lost.
    """
    pairs = option_pairs(options)
    last = dict(pairs)
    for option in _OURS:
        if option in last:
            raise UsageError(f"{option} cannot stand beside --drivers, which sets it for each")
    if CLIENT[0] in last:
        raise UsageError(f"{CLIENT[0]} cannot stand beside --drivers: its key does not leave this host")
    out = Path(last.get("--out", OUT))
    progress = last.get("--progress", "text" if sys.stdout.isatty() else "none")
    if progress not in ("json", "text", "none"):
        raise UsageError(f"--progress {progress}: not one of json, text, none")
    urls = [value for name, value in pairs if name == "--url"]
    rest = [(name, value) for name, value in pairs if name not in ("--out", "--progress", "--url")]
    job = DriverJob(find_scenario(scenario), urls, rest)
    if result.REPLACE not in last:
        result.refuse(out)

    def clear() -> None:
        result.remove(out, in_use=[out / "drivers" / driver.name for driver in drivers])

    with watched_starts(_DEAD_MAN) as start, Cluster(drivers, out, out / "logs", start) as cluster:
        for line in told(cluster.open()):
            if progress == "text":
                say(line)
        cluster.begin(job, clear if result.REPLACE in last else lambda: None)
        stopped = _follow(cluster, progress, say)
        cluster.collect()
    bounds = [word for option in pairs if option[0] in _BOUNDS for word in option]
    passed, text = judge(out, bounds)
    sys.stdout.write(text) if progress != "json" else sys.stderr.write(text)
    return None if stopped else passed


def _follow(cluster: Cluster, progress: str, say: Callable[[str], None]) -> bool:
    stopped = False
    while True:
        try:
            running = cluster.running()
            for second in cluster.poll():
                if progress != "none":
                    say(as_json(second) if progress == "json" else as_text(second))
            if not running:
                return stopped
            time.sleep(_POLL)
        except KeyboardInterrupt:
            stopped = True
            cluster.stop()


def option_pairs(options: Sequence[str]) -> list[tuple[str, str]]:
    """Options and values, ``--name value`` or ``--name=value``; an empty value for ``--name`` alone."""
    pairs = []
    at = 0
    while at < len(options):
        option = options[at]
        name, equals, value = option.partition("=")
        if not name.startswith("--"):
            raise UsageError(f"unexpected word {option!r}: options are written --name value")
        if not equals and at + 1 < len(options) and not options[at + 1].startswith("--"):
            value = options[at + 1]
            at += 1
        pairs.append((name, value))
        at += 1
    return pairs
