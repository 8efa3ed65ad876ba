"""What is known of one trial's steady state: the figures that rules read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from leadline.model.knob import Level


@dataclass(frozen=True)
class Pool:
    """A connection pool. Shares of samples, counts, milliseconds, events a second."""

    subject: str
    limit: float | None
    in_use_mean: float
    in_use_max: float
    full_share: float | None = None  # samples with every connection in use
    waiting_mean: float | None = None
    waiting_max: float | None = None
    wait_ms: float | None = None  # mean wait of a request for a connection
    created_per_s: float | None = None
    requests_per_s: float | None = None


@dataclass(frozen=True)
class Threads:
    """Threads that serve requests. ``limit`` None: the server sets none or tells none."""

    subject: str
    active_mean: float
    active_max: float
    size_mean: float | None = None
    limit: float | None = None
    busy_share: float | None = None  # samples with all of ``limit``, else of ``size``, active
    queue_mean: float | None = None


@dataclass(frozen=True)
class Statements:
    """A cache of prepared statements over all connections of a pool, per second."""

    subject: str
    uses_per_s: float | None = None
    prepared_per_s: float | None = None
    discarded_per_s: float | None = None
    kept: float | None = None  # statements at the end


@dataclass(frozen=True)
class Collection:
    """The garbage collector in the steady state. Bytes, seconds, milliseconds, shares of the time."""

    collector: str
    span_s: float
    share: float | None
    pauses: int
    mean_ms: float
    max_ms: float
    interval_s: float | None = None
    full: int = 0
    degenerated: int = 0
    stall_share: float = 0.0  # thread-seconds of waiting for memory, by the length of the steady state
    heap_max: int | None = None
    live: int | None = None
    leak: str = "undetermined"
    leak_sentence: str = ""
    p99_with_ms: float | None = None  # of the response time in the median second with a pause, and without
    p99_without_ms: float | None = None


@dataclass(frozen=True)
class HostUse:
    """Shares of all CPUs, rates a second, bytes."""

    idle: float | None = None
    iowait: float | None = None
    steal: float | None = None
    swapped_per_s: float | None = None  # pages in and out
    direct_reclaims_per_s: float | None = None
    listen_overflows_per_s: float | None = None
    io_stalled: float | None = None  # PSI: share of the time that some task waited
    memory_available: float | None = None  # the least
    memory_total: float | None = None
    others: float | None = None  # CPU of programs that are none of the study's


@dataclass(frozen=True)
class Load:
    """What the driver did and saw."""

    in_flight_mean: float | None = None
    per_s: float | None = None  # successful transactions
    requests_per_s: float | None = None
    connects: float | None = None  # connections opened for a request, of all requests
    errors: float | None = None  # share
    p90_s: float | None = None
    p99_s: float | None = None
    limit: bool | None = None  # the driver was the limit
    evidence: str = ""
    cpu_share: float | None = None
    dropped: int | None = None


@dataclass(frozen=True)
class StudyLimits:
    """What the study asks of the steady state: share of errors, seconds."""

    errors: float | None = None
    p90: float | None = None
    p99: float | None = None


@dataclass(frozen=True)
class TrialFacts:
    """One trial. ``levels`` holds every knob whose level is known: treatment, settings, read back, defaults."""

    trial: int
    treatment: str
    samples: int  # of the servers' pools in the steady state
    levels: Mapping[str, Level] = field(default_factory=dict)
    pools: tuple[Pool, ...] = ()
    threads: tuple[Threads, ...] = ()
    statements: tuple[Statements, ...] = ()
    collection: Collection | None = None
    host: HostUse = HostUse()
    load: Load = Load()
    database: Mapping[str, float] = field(default_factory=dict)  # counters a second, gauges as their mean
    limits: StudyLimits = StudyLimits()
    disturbed: bool = False  # by other programs: what it shows may be theirs
