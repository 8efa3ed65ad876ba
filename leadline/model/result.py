"""Results: what a trial yielded and what an analysis concludes. Percentages are of the baseline."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from leadline.model.errors import FailureClass
from leadline.model.judgement import Judgement
from leadline.model.knob import Level
from leadline.model.plan import Role, Treatment

if TYPE_CHECKING:
    from leadline.model.frames import StudyProfile, StudyWaits


class AtLeast(float):
    """A value of which only a lower bound is known, this one: transactions without an answer are in it. Arithmetic
    gives plain numbers; formatted, it is a bound wherever it is printed: ``>= 10,000``.
    """

    def __format__(self, spec: str) -> str:
        return f">= {float(self):{spec}}"


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
        ResponseKind("cpu_per_transaction", "ms", False, "CPU of server, database and web server for one transaction"),
        ResponseKind("user_cpu_per_transaction", "ms", False, "the same CPU in user mode"),
        ResponseKind("system_cpu_per_transaction", "ms", False, "the same CPU in the kernel"),
        ResponseKind("steady_cpu_per_transaction", "ms", False, "the same CPU without the JIT compiler's"),
        ResponseKind("server_cpu_per_transaction", "ms", False, "CPU of the server for one transaction"),
        ResponseKind("application_cpu_per_transaction", "ms", False, "of the server's CPU that of application threads"),
        ResponseKind("collector_cpu_per_transaction", "ms", False, "of the server's CPU that of the garbage collector"),
        ResponseKind("compiler_cpu_per_transaction", "ms", False, "of the server's CPU that of the JIT compiler"),
        ResponseKind("jvm_cpu_per_transaction", "ms", False, "of the server's CPU that of the JVM's other threads"),
        ResponseKind("database_cpu_per_transaction", "ms", False, "CPU of the database for one transaction"),
        ResponseKind("web_cpu_per_transaction", "ms", False, "CPU of the web server for one transaction"),
        ResponseKind("driver_cpu_per_transaction", "ms", False, "CPU of the load driver for one transaction"),
        ResponseKind("context_switches", "switches/s", False, "context switches a second of the whole host"),
        *(
            ResponseKind(
                f"{of}context_switches_per_transaction",
                "switches",
                False,
                f"context switches of the {whose} for one transaction",
            )
            for of, whose in (
                ("", "whole host"),
                ("server_", "server"),
                ("database_", "database"),
                ("web_", "web server"),
                ("driver_", "load driver"),
            )
        ),
        ResponseKind(
            "database_commits_per_transaction", "", False, "commits of the database for one transaction of the load"
        ),
        ResponseKind(
            "database_rows_per_transaction", "rows", False, "rows that PostgreSQL's scans read for one transaction"
        ),
        ResponseKind("host_cpu", "share", False, "share of the host's CPUs that was not idle, with whatever ran"),
        ResponseKind("memory", "MiB", False, "memory of server, database and web server"),
        ResponseKind("swap", "MiB", False, "of server, database and web server, what is in swap"),
        ResponseKind("gc_share", "share", False, "share of the steady state spent in collection pauses"),
        ResponseKind(
            "driver_wait", "ms", False, "mean time from the moment a transaction was due to its first request"
        ),
        ResponseKind("thread_wait", "ms", False, "mean time that a transaction waits for a thread of the server"),
        ResponseKind("connection_wait", "ms", False, "mean time that a transaction waits for a connection of a pool"),
        ResponseKind("statement_time", "ms", False, "mean time that PostgreSQL executes statements of a transaction"),
        ResponseKind("run_delay", "ms", False, "mean time that its thread in the server is runnable without a CPU"),
        ResponseKind("pause_wait", "ms", False, "mean time that a transaction waits for the end of pauses of the JVM"),
        ResponseKind("completion_mean", "ms", False, "mean time from an order's acceptance by the queue to its effect"),
        ResponseKind("completion_p50", "ms", False, "median time from an order's acceptance to its effect"),
        ResponseKind("completion_p90", "ms", False, "90th percentile of the time from acceptance to effect"),
        ResponseKind("completion_p99", "ms", False, "99th percentile of the time from acceptance to effect"),
        ResponseKind("startup", "s", False, "time from the server's start to its first correct response"),
        ResponseKind(
            "within_limits",
            "transactions/s",
            True,
            "successful transactions a second within the shortest limit of their type in the scenario",
        ),
        ResponseKind(
            "limit_use", "ratio", False, "the worst response-time percentile of a type over its limit in the scenario"
        ),
        ResponseKind("errors", "share", False, "share of transactions that failed"),
        ResponseKind("wall", "s", False, "time from the start of the program to its end"),
        ResponseKind("cpu", "s", False, "CPU time of the program and of those it waited for"),
        ResponseKind("user", "s", False, "CPU time outside the kernel"),
        ResponseKind("system", "s", False, "CPU time in the kernel"),
        ResponseKind("minor_faults", "", False, "page faults without input from disk"),
        ResponseKind("major_faults", "", False, "page faults with input from disk"),
        ResponseKind("switches", "", False, "context switches, voluntary and involuntary ones"),
        ResponseKind("peak_memory", "MiB", False, "largest resident set of one process"),
        ResponseKind("read", "MiB", False, "read from disk"),
        ResponseKind("written", "MiB", False, "written towards disk"),
        ResponseKind("instructions", "", False, "instructions outside the kernel, where the CPU counts them"),
    )
}
# Of a program that is timed as a whole process.
OF_LIMITS = ("within_limits", "limit_use")  # of whole trials of scenarios that limit response times
PROCESS_RESPONSES = tuple(RESPONSES)[list(RESPONSES).index("wall") :]


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
    machine: Mapping[str, float] = field(default_factory=dict)  # ``FIGURES`` of it
    host: str = ""  # empty where the study ran on one host


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
    EQUIVALENT = "equivalent"  # the whole interval lies inside the margin: it makes no difference that matters
    IDENTICAL = "identical"  # of forks: the baseline's figure, to the last digit, in every world
    UNDETERMINED = "undetermined"
    FAILED = "failed"  # every trial of the level failed


class Scope(StrEnum):
    """What a verdict holds for."""

    GENERAL = "general"
    THIS_INSTANCE = "this instance"  # one start of the server was measured: nothing is said of another
    THIS_WORLD = "this world"  # all forks are of one world: nothing is said of another
    THESE_HOSTS = "these hosts"  # too few hosts to speak of others


@dataclass(frozen=True)
class Robust:
    """A level against its baseline level without the assumption of normal noise, percent.

    ``percent`` is the Hodges-Lehmann estimate. ``interval`` is at 95 %, ``simultaneous`` at the level to which the
    comparison is held among all others; both come from the permutation law of ranks of this level's own trials and the
    baseline's, so they hold exactly whatever the noise, and are None where there are too few trials for such a level.
    """

    percent: float
    interval: Interval | None = None
    simultaneous: Interval | None = None


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
    q_value: float | None = None  # false discovery rate (Benjamini-Hochberg) among this response's comparisons
    equivalence_p: float | None = None  # two one-sided tests against the margin, for this comparison alone
    shrunken: float | None = None  # percent, drawn towards no effect as far as luck explains the spread
    df: float | None = None  # degrees of freedom of the intervals
    robust: Robust | None = None
    scope: Scope = Scope.GENERAL


@dataclass(frozen=True)
class Interaction(Effect):
    """How far two levels together differ from what each alone would give, percent.

    ``factor`` and ``level`` name both, for people; ``factors``, ``levels`` and ``baselines`` are the two themselves.
    ``sentence`` says in words which level helps with which.
    """

    factors: tuple[str, str] = ("", "")
    levels: tuple[Level, Level] = (0, 0)
    baselines: tuple[Level, Level] = (0, 0)
    sentence: str = ""


@dataclass(frozen=True)
class HostEffect(Effect):
    """An effect on one host, by its trials alone. ``simultaneous`` is adjusted for all hosts and all comparisons of the
    response, so that of all verdicts on hosts together at most 5 in 100 studies have a false one.
    """

    host: str = ""


@dataclass(frozen=True)
class HostSpread:
    """How far a level's effect differs from host to host (treatment x host).

    ``percent`` is its standard deviation between hosts, without the noise of the trials; None where it is not known.
    ``p_value`` tests that there is none, for this level alone; None where hosts have too few blocks.
    """

    factor: str
    level: Level
    percent: float | None
    p_value: float | None


@dataclass(frozen=True)
class AcrossHosts:
    """A study's hosts, for one response: what effects do on each of them.

    ``random``: intervals of effects are for hosts like these, and carry what effects differ by; else for these alone.
    ``effects``: host by host, as ranked there. ``p_value`` tests all levels together, None where nothing can be tested.
    ``holds`` says for which hosts effects hold, ``sentence`` whether they differ.
    """

    hosts: tuple[str, ...]
    random: bool
    effects: tuple[HostEffect, ...]
    spreads: tuple[HostSpread, ...]
    p_value: float | None
    differ: bool
    holds: str
    sentence: str

    def of(self, factor: str, level: Level) -> tuple[HostEffect, ...]:
        """One level's effects, in the order of the hosts."""
        return tuple(effect for effect in self.effects if (effect.factor, effect.level) == (factor, level))


@dataclass(frozen=True)
class CellMean:
    """Mean of the trials that had two levels together, in the response's unit, with the interval of that mean alone."""

    factors: tuple[str, str]
    levels: tuple[Level, Level]
    mean: float
    interval: Interval | None
    trials: int


@dataclass(frozen=True)
class FailureRate:
    """How often a level fails against its factor's baseline level; ``interval`` is exact (Clopper-Pearson), as shares.

    Only failures that a treatment can be blamed for count; ``classes`` holds all. ``p_adjusted`` is Fisher's exact
    test, one-sided, adjusted by Holm over the levels; None where there is nothing to test.
    """

    factor: str
    level: Level
    baseline: Level
    failed: int
    trials: int
    share: float
    interval: Interval
    baseline_failed: int
    baseline_trials: int
    p_adjusted: float | None
    worse: bool
    classes: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Component:
    """One source of noise: its standard deviation in percent of the baseline, and the degrees of freedom behind it.

    ``variance`` is on the scale of the model (log for positive responses). A negative one, which may come out where a
    source has little part in the noise, has no ``percent``.
    """

    name: str
    variance: float
    percent: float | None
    df: float
    interval: Interval | None = None  # percent


@dataclass(frozen=True)
class Confirmation:
    """Fresh trials of a chosen setting against fresh trials of the baseline: no selection, so no luck in it."""

    response: str
    verdict: Verdict
    percent: float | None
    interval: Interval | None
    p_value: float | None
    trials: int
    baseline_trials: int
    sentence: str
    setting: str = ""
    first: float | None = None  # percent when it was chosen, luck included
    first_interval: Interval | None = None
    first_shrunken: float | None = None


@dataclass(frozen=True)
class Covariate:
    """A figure of the machine that the plan named for the model.

    ``moved_p`` tests whether levels move it (then it is not used). ``percent``: change of the response for 0.1 of a
    share, or a tenth of its mean. ``variance_removed`` and ``narrower`` are shares, of all covariates together: of the
    variance of the effects and of the width of their intervals.
    """

    name: str
    used: bool
    moved_p: float | None
    sentence: str
    percent: float | None = None
    variance_removed: float | None = None
    narrower: float | None = None


class DriftVerdict(StrEnum):
    """What the test on the baseline trials says of a drift."""

    DETECTED = "detected"
    NONE_DETECTED = "none detected"
    INCONCLUSIVE = "inconclusive"  # the interval leaves a drift open that would hide the effects
    NOT_ESTIMATED = "not estimated"


HIDDEN_DRIFT = 50.0  # percent of drift that an interval may not leave open where none is detected


@dataclass(frozen=True)
class Drift:
    """Change of the baseline and sentinel trials along a straight line from the first to the last, percent.

    ``hours`` is the time between these two. ``p_adjusted``: of no drift, adjusted by Holm over the study's responses;
    ``detected`` where it is below 5 %, so that at most 5 in 100 studies without a drift detect one.
    """

    percent: float | None
    hours: float | None
    interval: Interval | None
    p_value: float | None
    detected: bool
    sentence: str
    p_adjusted: float | None = None
    remedy: str = ""  # a sentence

    @property
    def verdict(self) -> DriftVerdict:
        """The one decision that text and report print."""
        if self.detected:
            return DriftVerdict.DETECTED
        if self.interval is None:
            return DriftVerdict.NOT_ESTIMATED
        hidden = self.interval.high > HIDDEN_DRIFT or self.interval.low < -HIDDEN_DRIFT
        return DriftVerdict.INCONCLUSIVE if hidden else DriftVerdict.NONE_DETECTED


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
    groups: tuple[tuple[str, ...], ...]  # treatments (as "factor=level", "baseline") that are not distinguishable
    residual_cv: float | None  # percent
    detectable: float | None  # smallest effect in percent that this design would find with 80 % power
    reason: str = ""  # why nothing could be estimated, else empty
    model: str = ""  # one sentence: which model was used
    components: tuple[Component, ...] = ()  # sources of noise, the innermost first; of mixed models
    correlation: float | None = None  # of neighbouring slots
    notes: tuple[str, ...] = ()  # aliases, carry-over, methods where they differ: a sentence each
    margin: float | None = None  # percent within which a difference does not matter
    baseline_blocks: int = 0  # blocks that hold the baseline's trials: its interval has one degree of freedom less
    interactions: tuple[Interaction, ...] = ()  # the largest first; a family of their own
    cells: tuple[CellMean, ...] = ()  # of the pairs of factors that have interactions
    covariates: tuple[Covariate, ...] = ()  # those that the plan names
    counted: str = "trial"  # what numbers of trials count here: "trial", or "slot" where trials have slots
    across_hosts: AcrossHosts | None = None  # None on one host


COMPILES, STARVES = "still compiling", "the compiler starves"  # in the sentence of a plateau


@dataclass(frozen=True)
class SteadyState:
    """Verdict on one trial's per-second series: where the warm-up ends and whether it holds after.

    ``verdict``: steady, still-warming, slowing-down, never-steady, too-short. ``cut`` in seconds from the
    start of the series; None unless steady.
    """

    verdict: str
    cut: float | None
    sentence: str

    @property
    def cold(self) -> bool:
        """Whether it still got faster, or its plateau is one in which the compiler works or starves."""
        return self.verdict == "still-warming" or any(words in self.sentence for words in (COMPILES, STARVES))


SLIGHT, SHARED = 1.25, 0.25  # of a disturbance: times as wide; share of all CPUs


@dataclass(frozen=True)
class Disturbance:
    """CPU that programs other than the study's used in the steady states, as shares 0..1 of all CPUs.

    ``shares``: by trial, as far as it was recorded; ``trials``: those above the bound or far above the others.
    """

    shares: Mapping[int, float]
    trials: tuple[int, ...]
    sentence: str
    programs: tuple[str, ...] = ()  # those that used most, where an observer has seen them
    used: Mapping[str, float] = field(default_factory=dict)  # by these programs, mean share in the disturbed trials
    when: tuple[float, float] | None = None  # unix seconds: from the first disturbed trial to the end of the last
    wider: float | None = None  # width of the first response's intervals over that without others, estimated
    asked: bool = False  # the plan names their CPU as a covariate
    taken_out: bool = False  # and it was used, so what they did is taken out
    repeats: int = 0  # trials, or blocks of a rotation, measured again by the study's rule
    waited: float = 0.0  # seconds waited for a quiet machine
    not_quiet: int = 0  # waits that ended without one

    @property
    def found(self) -> bool:
        return bool(self.trials)

    @property
    def slight(self) -> bool:
        """Whether intervals are known to be little wider for it, and no trial had to share many of the CPUs."""
        most = max((self.shares[trial] for trial in self.trials), default=0.0)
        return self.wider is not None and self.wider < SLIGHT and most < SHARED


@dataclass(frozen=True)
class StudyAnalysis:
    """The whole study: one analysis per response, failures by class and level, and the answer over all responses.

    ``answer`` is empty until ``leadline.conclude`` has made it.
    """

    responses: tuple[ResponseAnalysis, ...]
    trials: int
    failures: Mapping[str, int]  # failure class -> trials
    answer: str = ""
    headline: str = ""  # the answer's beginning, up to the sentence that answers the question in plain words
    caveats: tuple[str, ...] = ()  # sentences of the answer that limit it, without their stops
    warnings: tuple[str, ...] = ()
    confirmations: tuple[Confirmation, ...] = ()  # of a study that confirms another
    failing: tuple[FailureRate, ...] = ()  # levels with failures of their own making, the most frequent first
    simulated: bool = False
    disturbance: Disturbance | None = None  # None where no observer recorded the host
    judgement: Judgement = field(default_factory=Judgement)  # made by ``leadline.conclude``
    profile: StudyProfile | None = None  # where the change of CPU lies; None where none was taken
    waits: StudyWaits | None = None  # what response times consist of; None where nothing of it was recorded
    quantiles: tuple[Effect, ...] = ()  # on p50 to p999, judged together over all of them
