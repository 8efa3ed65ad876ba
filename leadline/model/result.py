"""Results: what a trial yielded and what an analysis concludes. Percentages are of the baseline."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from leadline.model.errors import FailureClass
from leadline.model.knob import Level
from leadline.model.plan import Role, Treatment


@dataclass(frozen=True)
class ResponseKind:
    """A response: its unit and whether more of it is better."""

    name: str
    unit: str
    higher_is_better: bool
    summary: str


RESPONSES: Mapping[str, ResponseKind] = {
    kind.name: kind
    for kind in (
        ResponseKind("throughput", "transactions/s", True, "successful transactions a second in the steady state"),
        ResponseKind("mean", "ms", False, "mean response time from the moment a transaction was due"),
        ResponseKind("p50", "ms", False, "median response time"),
        ResponseKind("p90", "ms", False, "90th percentile of the response time"),
        ResponseKind("p95", "ms", False, "95th percentile of the response time"),
        ResponseKind("p99", "ms", False, "99th percentile of the response time"),
        ResponseKind("p999", "ms", False, "99.9th percentile of the response time"),
        ResponseKind("max", "ms", False, "largest response time"),
        ResponseKind("cpu_per_transaction", "ms", False, "CPU of server and database for one transaction"),
        ResponseKind("server_cpu_per_transaction", "ms", False, "CPU of the server for one transaction"),
        ResponseKind("database_cpu_per_transaction", "ms", False, "CPU of the database for one transaction"),
        ResponseKind("gc_share", "share", False, "share of the steady state spent in collection pauses"),
        ResponseKind("startup", "s", False, "time from the server's start to its first right answer"),
        ResponseKind("errors", "share", False, "share of transactions that failed"),
    )
}


@dataclass(frozen=True)
class Observation:
    """One finished trial, or one slot of it, as the analysis sees it: responses, or a failure class and none.

    ``plot`` is the trial's whole plot. For a slot, ``slot`` is its index, ``treatment`` its own, ``started`` the moment
    its level was in force and ``seconds`` the length that was measured, wash-out left out.
    """

    trial: int
    position: int
    block: int
    replicate: int
    role: Role
    treatment: Treatment
    started: float  # unix seconds
    responses: Mapping[str, float] = field(default_factory=dict)
    failure: FailureClass | None = None
    plot: int | None = None
    slot: int | None = None
    seconds: float | None = None


@dataclass(frozen=True)
class Interval:
    low: float
    high: float
    level: float = 0.95

    def contains(self, value: float) -> bool:
        return self.low <= value <= self.high


class Verdict(StrEnum):
    """What the simultaneous interval says."""

    BETTER = "better"
    WORSE = "worse"
    UNDETERMINED = "undetermined"
    FAILED = "failed"  # every trial of the level failed


@dataclass(frozen=True)
class Effect:
    """A factor's level against its baseline level, for one response.

    ``percent`` is positive where the response grows (not where it gets better). ``interval`` is the plain
    95 % interval, ``simultaneous`` the one adjusted for all comparisons of this response. All three are None
    where nothing could be estimated, with ``reason``.
    """

    factor: str
    level: Level
    baseline: Level
    response: str
    verdict: Verdict
    trials: int
    failures: int
    percent: float | None = None
    interval: Interval | None = None
    simultaneous: Interval | None = None
    p_value: float | None = None
    p_adjusted: float | None = None
    reason: str = ""


@dataclass(frozen=True)
class Drift:
    """Change of the baseline and sentinel trials along a straight line from the first to the last, percent.

    ``hours`` is the time between these two.
    """

    percent: float | None
    hours: float | None
    interval: Interval | None
    p_value: float | None
    detected: bool
    sentence: str


@dataclass(frozen=True)
class Luck:
    """What the best of ``comparisons`` would gain by luck alone (percent): mean and 95th percentile."""

    comparisons: int
    expected_gain: float
    gain_95: float


@dataclass(frozen=True)
class ResponseAnalysis:
    """Everything concluded about one response. Effects are ranked, best first."""

    response: str
    baseline_mean: float | None
    baseline_interval: Interval | None
    baseline_trials: int
    effects: tuple[Effect, ...]
    luck: Luck | None
    drift: Drift
    groups: tuple[tuple[str, ...], ...]  # treatments (as "factor=level", "baseline") that cannot be told apart
    residual_cv: float | None  # percent
    detectable: float | None  # smallest effect in percent that this design would find with 80 % power
    reason: str = ""  # why nothing could be estimated, else empty


@dataclass(frozen=True)
class SteadyState:
    """Verdict on one trial's per-second series: where the warm-up ends and whether it holds after.

    ``verdict``: steady, still-warming, slowing-down, never-steady, too-short. ``cut`` in seconds from the
    start of the series; None unless steady.
    """

    verdict: str
    cut: float | None
    sentence: str


@dataclass(frozen=True)
class StudyAnalysis:
    """The whole study: one analysis per response, failures by class and level, and the answer in a sentence."""

    responses: tuple[ResponseAnalysis, ...]
    trials: int
    failures: Mapping[str, int]  # failure class -> trials
    answer: str
    warnings: tuple[str, ...] = ()
