"""The truth of a simulated system: what a truth file says, as values."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, field_validator, model_validator

from leadline.checks.subject import OVERHEAD
from leadline.model.bounds import DAY, RawLevel, Seed, Share, Strict, duration
from leadline.model.errors import FailureClass, nearest, quoted

Seconds = Annotated[float, duration(0, DAY)]

LATENCIES = ("mean", "p50", "p90", "p95", "p99", "p999", "max")
CPU = ("server_cpu_per_transaction", "database_cpu_per_transaction")
PLANTED = ("throughput", "latency", *LATENCIES, *CPU, "cpu_per_transaction", "startup")


def parse_change(raw: object) -> float:
    """A signed share: ``-5%`` and -0.05 are the same. Raises ValueError."""
    if isinstance(raw, bool) or not isinstance(raw, (int, float, str)):
        raise ValueError(f"{quoted(raw)} is not a change such as 5%, -2.5% or 0.05")
    text = quoted(raw).strip("' ")
    try:
        change = float(text[:-1]) / 100 if text.endswith("%") else float(text)
    except (ValueError, OverflowError):
        raise ValueError(f"{quoted(raw)} is not a change such as 5%, -2.5% or 0.05") from None
    if not -1 < change < 100:
        raise ValueError(f"a change of {change:.0%} is not between -100% and 10000%")
    return change


Change = Annotated[float, BeforeValidator(parse_change)]


class Server(Strict):
    """One host of ``cores`` CPUs behind a pool; a transaction holds its place in the pool until it is answered."""

    cores: int = Field(default=2, ge=1, le=256)
    demand: Seconds = Field(default=0.003, gt=0, description="CPU of the server for one transaction")
    database_demand: Seconds = Field(default=0.001, gt=0, description="CPU of the database for one transaction")
    delay: Seconds = Field(default=0.002, ge=0, description="time of a transaction off the CPU, its place held")
    pool: int = Field(default=50, ge=1, le=100_000, description="transactions inside at a time; the rest wait")
    think: Seconds = Field(default=0.1, ge=0, description="between a user's transactions, closed arrivals only")
    startup: Seconds = Field(default=5.0, gt=0, description="from the server's start to its first response")


class Mechanism(Strict):
    """Multiplies parameters of the server by a ratio, or replaces the integer ones."""

    demand: float | None = Field(default=None, gt=0, le=1e6)
    database_demand: float | None = Field(default=None, gt=0, le=1e6)
    delay: float | None = Field(default=None, gt=0, le=1e6)
    pool: float | None = Field(default=None, gt=0, le=1e6)
    cores: float | None = Field(default=None, gt=0, le=1e6)


class Values(Strict):
    """New values of the server's integer parameters."""

    pool: int | None = Field(default=None, ge=1, le=100_000)
    cores: int | None = Field(default=None, ge=1, le=256)


def of_responses(percent: dict[str, float]) -> dict[str, float]:
    """Changes by response. Raises ValueError for a name that is none."""
    for name in percent:
        if name not in PLANTED:
            near = nearest(name, list(PLANTED))
            hint = f"; did you mean {near}?" if near else f": {', '.join(PLANTED)}"
            raise ValueError(f"{name} is no response a truth can change{hint}")
    return percent


class KnobEffect(Strict):
    """What holds when every named factor is at the named level: one factor is a main effect, more an interaction.

    ``set`` and ``scale`` change the server, and the queueing law turns that into responses; ``percent`` changes
    responses after the law, by exactly so much. ``latency`` stands for the mean and all percentiles.
    """

    when: dict[str, RawLevel] = Field(min_length=1)
    set: Values = Values()
    scale: Mechanism = Mechanism()
    percent: dict[str, Change] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _known(self) -> KnobEffect:
        of_responses(self.percent)
        return self


class NoiseLevels(Strict):
    """Coefficients of variation of lognormal noise, as shares. Latencies and CPU have noise of their own on top."""

    trials: Share = Field(default=0.03, description="between trials")
    blocks: Share = 0.0
    plots: Share = Field(default=0.0, description="between whole plots: kernels, mounts")
    worlds: Share = Field(default=0.002, description="of forks: how an effect differs from world to world")
    seconds: Share = Field(default=0.05, description="between the seconds of one trial")
    autocorrelation: float = Field(default=0.3, ge=0, lt=1, description="AR(1), from one second to the next")
    latency_trials: Share = 0.02
    latency_seconds: Share = 0.05
    cpu_trials: Share = 0.01
    startup: Share = 0.0


class Outliers(Strict):
    """Seconds, or whole trials, that lose a share ``depth`` of their throughput."""

    seconds: Share = 0.0
    second_depth: Share = 0.5
    trials: Share = 0.0
    trial_depth: Share = 0.3


class WarmUp(Strict):
    """How throughput comes to its level, from the start of the load, ramp-up included.

    ``exponential``: from 1 - depth, with time constant ``seconds``; ``step``: 1 - depth until ``seconds``;
    ``never-steady``: a wave of that depth, peak to trough, and period ``seconds``; ``slowing-down``: falls by depth
    along a straight line until the end of the load.
    """

    shape: Literal["none", "exponential", "step", "never-steady", "slowing-down"] = "none"
    depth: Share = 0.5
    seconds: Seconds = Field(default=10.0, gt=0)


class Failure(Strict):
    """A trial fails with ``class`` at ``step`` with this probability when all named factors are at their levels."""

    failure_class: FailureClass = Field(alias="class")
    probability: Share
    when: dict[str, RawLevel] = Field(default_factory=dict)
    step: Literal["reset", "start-server", "load", "audit"] | None = Field(
        default=None, description="audit: the workload's figures and the database disagree"
    )
    message: str = ""

    @model_validator(mode="after")
    def _possible(self) -> Failure:
        if self.step == "audit" and self.failure_class is not FailureClass.WORKLOAD:
            raise ValueError("an audit fails as class workload")
        if self.failure_class is FailureClass.BOTTLENECK and self.step not in (None, "load"):
            raise ValueError("a bottleneck is of step load")
        return self

    @property
    def at(self) -> str:
        """The step: as given, else where such failures are seen first."""
        usual = {FailureClass.CONFIGURATION: "start-server", FailureClass.INFRASTRUCTURE: "reset"}
        return self.step or usual.get(self.failure_class, "load")


class Driver(Strict):
    """``capacity``: transactions a second that the load driver can do; above it the driver is the limit."""

    capacity: float | None = Field(default=None, gt=0)


class Moved(Strict):
    """At these levels the neighbour takes ``scale`` times its share: a setting that moves what others use."""

    when: dict[str, RawLevel] = Field(min_length=1)
    scale: float = Field(ge=0, le=100)


class Neighbour(Strict):
    """Another program on the machine: it computes and rests in turns of exponential length, whoever is measured."""

    name: str = Field(default="neighbour", min_length=1, max_length=100)
    share: Share = Field(default=0.5, description="of all CPUs, taken while it computes")
    busy: Seconds = Field(default=8.0, gt=0, description="mean length of a turn of computing")
    idle: Seconds = Field(default=8.0, gt=0, description="mean length of a turn of rest")
    harm: Share = Field(default=1.0, description="throughput lost for the CPUs taken, as a share of them")
    cpu: Change = Field(default=0.2, description="growth of CPU per transaction if all CPUs were taken")
    moved: tuple[Moved, ...] = ()


class OnHost(Strict):
    """What is so on one host alone (``host`` from 1): of these levels, without any of all trials there."""

    host: int = Field(ge=1, le=1000)
    when: dict[str, RawLevel] = Field(default_factory=dict)
    percent: dict[str, Change] = Field(min_length=1)

    @field_validator("percent")
    @classmethod
    def _known(cls, percent: dict[str, float]) -> dict[str, float]:
        return of_responses(percent)


class Hosts(Strict):
    """Hosts that run blocks in turn. Shares are coefficients of variation of what is drawn for each host."""

    count: int = Field(ge=1, le=1000)
    spread: Share = Field(default=0.0, description="how hosts differ, whatever the levels")
    effects: Share = Field(default=0.0, description="how the effect of a level differs from host to host")
    own: tuple[OnHost, ...] = ()

    @model_validator(mode="after")
    def _there(self) -> Hosts:
        for host in self.own:
            if host.host > self.count:
                raise ValueError(f"host {host.host} is not there: count is {self.count}")
        return self

    def of_block(self, block: int) -> int:
        """Which host runs a block, both from 0."""
        return block % self.count


class Truth(Strict):
    """Everything about a simulated system. Same truth, seed, plan and workload: the same figures."""

    seed: Seed = 1
    server: Server = Server()
    effects: tuple[KnobEffect, ...] = ()
    noise: NoiseLevels = NoiseLevels()
    drift: Change = Field(default=0.0, description="growth of throughput in an hour")
    outliers: Outliers = Outliers()
    warm_up: WarmUp = WarmUp()
    carry_over: Seconds = Field(default=0.0, ge=0, description="time constant with which a live change takes effect")
    failures: tuple[Failure, ...] = ()
    neighbour: Neighbour | None = Field(default=None, description="another program on the machine")
    hosts: Hosts | None = Field(default=None, description="hosts that run blocks in turn; one if absent")
    driver: Driver = Driver()
    silent: tuple[str, ...] = Field(default=(), description="knobs that take a level and do not keep it")
    overhead: Seconds = Field(
        default=OVERHEAD, gt=0, description="of a trial beside its load, the server's start in it"
    )
