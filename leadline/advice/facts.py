"""What is known of one trial's steady state, and what a rule says of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from leadline.model.knob import Level
from leadline.model.units import MINUS

FULL = 0.5  # share of samples with all in use, and callers waiting on average, from which a pool is starved


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

    @property
    def starved(self) -> bool:
        """Every connection in use and a caller waiting, in half of the samples or more."""
        return (self.full_share or 0.0) >= FULL and (self.waiting_mean or 0.0) >= FULL


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


@dataclass(frozen=True)
class Sign:
    """A rule found something in one trial. ``figures``: name to (value, unit). ``size`` orders signs of one rule.

    ``then`` is the level to try; where there is no knob for it, ``remedy`` says in words what to do. ``start`` stands
    in for the present level where none is set (a server's own choice).
    """

    says: str
    figures: dict[str, tuple[float, str]]
    size: float
    then: Level | None = None
    reason: str = ""
    remedy: str = ""
    start: Level | None = None


@dataclass(frozen=True)
class Look:
    """A rule looked at one subject of one trial. ``sign`` None: nothing found there."""

    rule: str
    subject: str
    knob: str | None = None
    now: Level | None = None
    sign: Sign | None = None


@dataclass(frozen=True)
class Rule:
    """``judge`` gives a look for each subject it has the figures for, and none where they were not recorded.

    ``responses``: what the change should better.
    """

    name: str
    layer: str
    title: str
    judge: Callable[[TrialFacts], list[Look]]
    responses: tuple[str, ...] = field(default=("throughput", "p50", "p90", "p99"))
    majority: bool = True  # told when more than half of the trials show it; else when one does
    counted: bool = False  # its figures count work for each transaction, whatever else uses the CPUs


_STEPS = (1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0)


def round_up(value: float) -> int:
    """The next whole number that people would write: 43 gives 50, 11 gives 12."""
    if value <= 10:
        return max(1, math.ceil(value))
    power = float(10 ** math.floor(math.log10(value)))
    return next(math.ceil(step * power) for step in _STEPS if step * power >= value - 1e-9)


def number(value: float) -> str:
    """Three significant digits, thousands separated."""
    if value == int(value) and abs(value) < 1e6:
        return f"{value:,.0f}".replace("-", MINUS)
    decimals = max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:,.{min(decimals, 6)}f}".replace("-", MINUS)


def percent(share: float) -> str:
    return f"{number(round(100 * share, 2))} %"


def whole(levels: TrialFacts, knob: str) -> int | None:
    """A knob's level where it is a whole number."""
    level = levels.levels.get(knob)
    return level if isinstance(level, int) and not isinstance(level, bool) else None


def busy_note(trial: TrialFacts) -> str:
    """A warning where the host has no CPU left for what a larger pool would let in."""
    idle = trial.host.idle
    if idle is None or idle >= 0.1:
        return ""
    return f"; only {percent(idle)} of the CPUs were idle, so the queue may only move"
