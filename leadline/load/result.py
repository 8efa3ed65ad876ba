"""What leadline-load wrote about a whole run: ``summary.json`` as values."""

from __future__ import annotations

import json
import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from leadline.host import received
from leadline.model.errors import LeadlineError, UsageError, quoted
from leadline.model.received import reading, typed

REPLACE = "--replace"
_LOGS = ("response", "service", "connect", "blocked", "first_byte", "first_event", "gap", "steady")
_TABLES = ("summary.json", "summary.json.part", "seconds.csv", "outcomes.csv", "driver.csv", "transactions.csv")
FILES = (*_TABLES, *(f"{name}.hlog" for name in _LOGS), "host.json")
RAW, STARTED = "raw", "started"  # a generator's own files; the mark of its start


def refuse(out: Path) -> None:
    """Raises UsageError where the results of a run are, whole or of one that was killed."""
    file = next(_files(out), None)
    if file is not None:
        raise UsageError(
            f"--out {out}: {file.relative_to(out)} of an earlier run is there: name another directory, or add "
            f"{REPLACE}, which removes that run's results"
        )


def remove(out: Path, in_use: Collection[Path] = ()) -> None:
    """All of them, so that no file of one run stands beside those of another; directories ``in_use`` stay, empty."""
    for file in list(_files(out)):
        if file.parent.name == RAW:
            shutil.rmtree(file.parent)
            continue
        file.unlink(missing_ok=True)
        if file.parent != out and file.parent not in in_use:
            with suppress(OSError):  # somebody else's files are in it
                file.parent.rmdir()


def _files(out: Path) -> Iterator[Path]:
    for directory in (out, *sorted(out.glob("drivers/*"))):
        yield from (path for name in FILES if (path := directory / name).is_file())
    if (mark := out / RAW / STARTED).is_file():
        yield mark


FORMAT = "leadline-load/1"
LONGEST = 5_000_000.0  # seconds of one load: two months
MOST = 10**15  # transactions of one load


@dataclass(frozen=True)
class Latency:
    """Milliseconds; None where nothing was recorded."""

    mean: float | None
    p50: float | None
    p90: float | None
    p95: float | None
    p99: float | None
    p999: float | None
    max: float | None


@dataclass(frozen=True)
class Counts:
    """Transactions of the whole run, ramps and drain included: what an audit compares with the database."""

    ok: int
    failed: int
    skipped: int
    errors: Mapping[str, int] = field(default_factory=dict)  # failed ones by kind
    statuses: Mapping[str, int] = field(default_factory=dict)  # answers by HTTP status


NOTHING = Latency(None, None, None, None, None, None, None)


@dataclass(frozen=True)
class TransactionResult:
    """One transaction, or all, of those due in the steady phase. Latencies are of the successful and the unanswered
    ones, but of other generators as ``GeneratorNote.missing`` says.
    """

    ok: int
    failed: int
    skipped: int
    per_second: float
    response_ms: Latency  # from the moment it was due
    service_ms: Latency  # from its first byte sent
    connect_ms: Latency = NOTHING  # making connections, in transactions that made any
    blocked_ms: Latency = NOTHING  # waiting for connections
    first_byte_ms: Latency = NOTHING  # of each request, from when it was due
    first_event_ms: Latency = NOTHING  # of each wait for events or messages
    gap_ms: Latency = NOTHING  # from one of those to the next
    unanswered: int = 0  # timed out, or under way at the end: in the response times, at least so long
    response_at_least: tuple[str, ...] = ()  # figures that are lower bounds for that reason
    times_at_least: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # the same of first bytes, events, gaps
    dropped: int = 0  # arrivals that were never started, where this is of all transactions


@dataclass(frozen=True)
class PhaseTimes:
    """Seconds since the start of the run: from, until."""

    ramp_up: tuple[float, float]
    steady: tuple[float, float]
    ramp_down: tuple[float, float]
    drained: float  # the end of the run


@dataclass(frozen=True)
class Arrivals:
    model: str
    users: int | None
    rate: float | None  # a second
    profile: str | None = None  # points of a rate or of users over time
    bursts: str | None = None
    replay: str | None = None  # file of recorded times
    windows: str | None = None  # load only in these
    grid_ns: int | None = None
    populations: Mapping[str, int] | None = None  # users of each, as the scenario states them


@dataclass(frozen=True)
class Requests:
    count: int  # that got a whole answer
    bytes_in: int
    bytes_out: int
    connects: int
    reconnects: int
    tls_handshakes: int = 0
    tls_resumed: int = 0
    http2_connections: int = 0
    shared_peak: int = 0  # connections that sessions share, at once
    shared_waited: int = 0  # requests that waited for one
    sent: int = 0  # the same one again included
    repeated: int = 0  # which the server had not looked at
    logins_again: int = 0  # of users who were logged out
    events: int = 0  # of streams, and messages of WebSockets
    messages_sent: int = 0
    unmade: int = 0  # connections for which this host had no port, open file or memory left


@dataclass(frozen=True)
class OwnUse:
    """What the driver used itself, and whether it was the limit."""

    cpu_user_s: float
    cpu_system_s: float
    cpu_share: float  # of its core, in the steady phase
    scheduling: str  # realtime, raised or normal: what it was permitted
    lag_ms: Latency  # how late transactions were taken up
    limit: bool
    evidence: tuple[str, ...]
    timer_ms: Latency = NOTHING  # how late the kernel woke the loop
    reading_ms: Latency = NOTHING  # how long answers, stamped by the kernel, lay there until they were read


@dataclass(frozen=True)
class LittlesLaw:
    """Transactions in flight in the steady phase: integrated, and throughput times time in the driver."""

    concurrency_observed: float
    concurrency_expected: float
    relative_error: float | None


@dataclass(frozen=True)
class LimitResult:
    """A limit that the scenario states for a transaction, over the steady phase. ``value`` and ``kept`` are None where
    nothing was measured.
    """

    transaction: str
    measure: str  # mean, p50, ..., max or errors
    unit: str  # ms or share
    bound: float
    value: float | None
    kept: bool | None
    at_least: bool = False  # the value is a lower bound: unanswered transactions are in it


@dataclass(frozen=True)
class GeneratorNote:
    """Another generator's run. ``sentence`` says what its latencies mean, ``missing`` what it does not tell."""

    name: str
    version: str
    measured_from: str  # "intended start" or "send"
    model: str  # open, closed or unknown
    sentence: str
    per_second: bool  # there are seconds.csv and histogram logs
    missing: str


@dataclass(frozen=True)
class ThresholdResult:
    """A condition of ``--fail``. ``value`` is None where nothing was measured, which does not keep it."""

    condition: str  # p99>200ms
    measure: str  # mean, p50, ..., max, errors, dropped or throughput
    unit: str  # ms, share or per_second
    bound: float
    value: float | None
    kept: bool
    at_least: bool = False  # the value is a lower bound: unanswered transactions are in it


@dataclass(frozen=True)
class Verdict:
    """Whether the run passed; ``problems`` has a sentence for each reason why not, the worst one first. ``losses`` are
    those that no limit of response times explains: transactions or time of the load were lost.
    """

    passed: bool
    problems: tuple[str, ...]
    limit_errors: float
    limit_dropped: float
    thresholds: tuple[ThresholdResult, ...] = ()
    losses: tuple[str, ...] = ()


@dataclass(frozen=True)
class DriverResult:
    """A run of leadline-load."""

    version: str
    completed: bool
    scenario: str
    scenario_sha256: str
    variables: Mapping[str, str]
    url: str
    seed: int
    arrivals: Arrivals
    started_unix_ns: int
    phases: PhaseTimes
    steady_s: float
    transactions: Mapping[str, TransactionResult]
    all: TransactionResult
    total: Mapping[str, Counts]
    requests: Requests
    errors: Mapping[str, int]
    error_samples: Mapping[str, Sequence[str]]
    blocked_ms: Latency
    arrivals_planned: int
    arrivals_actual: int
    dropped: int
    driver: OwnUse
    littles_law: LittlesLaw
    limits: tuple[LimitResult, ...] = ()
    generator: GeneratorNote | None = None  # None: leadline-load itself
    statuses: Mapping[str, int] = field(default_factory=dict)  # answers of the whole run by HTTP status
    verdict: Verdict | None = None  # None: nobody judged it


def read_document(directory: Path) -> dict[str, Any]:
    """``summary.json`` as it stands. Raises LeadlineError when it is absent or of another format."""
    path = directory / "summary.json"
    try:
        document = received.json_object_file(path)
    except FileNotFoundError:
        raise LeadlineError(f"{path} is missing: the driver did not end in order") from None
    if document.get("format") != FORMAT:
        raise LeadlineError(f"{path} has format {quoted(document.get('format'))}, expected {FORMAT!r}")
    return document


def write_document(directory: Path, document: Mapping[str, Any]) -> None:
    """A reader sees the whole summary or none. Raises ValueError for a figure that is not finite."""
    part = directory / "summary.json.part"
    part.write_text(json.dumps(document, indent=2, sort_keys=True, allow_nan=False) + "\n", encoding="utf-8")
    part.replace(directory / "summary.json")


def read_summary(directory: Path) -> DriverResult:
    """The result in ``directory``. Raises LeadlineError when it is absent (the driver was killed) or damaged."""
    document, what = read_document(directory), str(directory / "summary.json")
    with reading(what):
        result = typed(DriverResult, _fields(document), what)
        _check(result)
    return result


def _fields(document: dict[str, Any]) -> dict[str, Any]:
    """The document by the fields of a DriverResult; what earlier versions did not write was not measured."""
    steady, law = document["steady"], document["littles_law"]
    return {
        **document,
        "scenario": document["scenario"]["name"],
        "scenario_sha256": document["scenario"]["sha256"],
        "steady_s": steady["duration_s"],
        "transactions": steady["transactions"],
        "all": steady["all"],
        "littles_law": {**law, **{name: law[name] or 0.0 for name in law if name.startswith("concurrency")}},
        "generator": document.get("generator") or None,
        "verdict": document.get("verdict") or None,
    }


def _check(result: DriverResult) -> None:
    """Raises ValueError for figures that no load has."""
    phases = result.phases
    times = (0.0, *phases.ramp_up, *phases.steady, *phases.ramp_down)
    if list(times) != sorted(times) or not 0 <= max(phases.ramp_down[1], phases.drained) <= LONGEST:
        raise ValueError(f"phases are {quoted(asdict(phases), 200)}")
    if not 0 <= result.started_unix_ns < 2**62:
        raise ValueError(f"started_unix_ns is {result.started_unix_ns}")
    parts: list[tuple[str, TransactionResult | Counts]] = [("all", result.all)]
    for name, part in [*parts, *result.transactions.items(), *result.total.items()]:
        counts = (part.ok, part.failed, part.skipped, getattr(part, "unanswered", 0), getattr(part, "dropped", 0))
        if not all(0 <= count <= MOST for count in counts):
            raise ValueError(f"the counts of {quoted(name)} are {quoted(counts)}")
