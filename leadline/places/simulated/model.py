"""The truth of a simulated system, as a truth file says it, and from the levels of its knobs to the noise-free
responses.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator, Field, field_validator, model_validator
from scipy.special import gammaincinv, logsumexp

from leadline.checks.subject import OVERHEAD
from leadline.model.bounds import DAY, RawLevel, Seed, Share, Strict, duration
from leadline.model.errors import FailureClass, UsageError, nearest, quoted
from leadline.model.knob import Knob, Level
from leadline.model.plan import Factor
from leadline.model.shapes import PRESETS
from leadline.model.units import parse_duration
from leadline.model.workload import RATE, USERS, Workload

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


PERCENTILES = (("p50", 0.5), ("p90", 0.9), ("p95", 0.95), ("p99", 0.99), ("p999", 0.999), ("max", 0.99999))


@dataclass(frozen=True)
class Station:
    """CPU ``demand`` and ``delay`` in seconds of one transaction, at most ``pool`` of them inside ``cores`` CPUs.

    Inside the pool a transaction alternates between processor sharing and the delay: a closed network with a
    load-dependent station, solved by its normalising constants (Buzen, CACM 16, 1973). The pool is then one station
    (Chandy, Herzog and Woo, IBM J. Res. Dev. 19, 1975) of a birth-death chain, which an arriving transaction sees with
    itself left out. Percentiles are those of a gamma distribution with the response time's mean and variance.
    """

    cores: int
    demand: float
    delay: float
    pool: int


@dataclass(frozen=True)
class Point:
    """``throughput`` a second; ``latencies`` in ms: the mean and the percentiles; ``lost``: share of arrivals turned
    away for want of room.
    """

    throughput: float
    latencies: dict[str, float]
    lost: float = 0.0


def rates(station: Station, most: int) -> Floats:
    """Completions a second with 1 .. ``most`` transactions present (beyond the pool, the pool's rate)."""
    inside = min(most, station.pool)
    count = np.arange(1, inside + 1)
    busy = np.cumsum(np.log(np.minimum(count, station.cores) / station.demand))
    cpu = np.concatenate([[0.0], -busy])  # log weight of n at the CPUs
    logs = cpu
    if station.delay > 0:
        off = np.concatenate([[0.0], np.cumsum(np.log(station.delay / count))])
        logs = np.array([logsumexp(cpu[: n + 1] + off[n::-1]) for n in range(inside + 1)])
    rate = np.exp(logs[:-1] - logs[1:])
    return np.concatenate([rate, np.full(most - inside, rate[-1])])


@lru_cache(maxsize=4096)
def closed(station: Station, users: int, think: float) -> Point:
    """``users`` who each think (exponential, mean ``think`` seconds) between their transactions."""
    rate = rates(station, users)
    if think <= 0:
        throughput = float(rate[-1])
        others_seen = np.zeros(users)
        others_seen[-1] = 1.0
    else:
        present = np.arange(users)
        throughput = float(np.dot(_chain(np.log((users - present) / think) - np.log(rate))[1:], rate))
        others = np.arange(users - 1)
        others_seen = _chain(np.log((users - 1 - others) / think) - np.log(rate[: users - 1]))
    mean = users / throughput - think
    return Point(throughput, _latencies(station, rate, others_seen, mean))


@lru_cache(maxsize=4096)
def opened(station: Station, rate_in: float, room: int) -> Point:
    """Poisson arrivals of ``rate_in`` a second; at most ``room`` are in the system, further ones are turned away."""
    rate = rates(station, room)
    state = _chain(np.log(rate_in) - np.log(rate))
    lost = float(state[-1])
    throughput = rate_in * (1 - lost)
    mean = float(np.dot(state, np.arange(room + 1))) / throughput
    return Point(throughput, _latencies(station, rate, state[:-1] / (1 - lost), mean), lost)


def _chain(steps: Floats) -> Floats:
    """Stationary probabilities of a birth-death chain from the logarithms of birth over next death rate."""
    logs = np.concatenate([[0.0], np.cumsum(steps)])
    weights = np.exp(logs - logs.max())
    return np.asarray(weights / weights.sum())


def _latencies(station: Station, rate: Floats, seen: Floats, mean: float) -> dict[str, float]:
    """Mean (exact, by Little's law) and percentiles in ms; ``seen[n]`` is the chance to find n others present."""
    others = np.arange(len(seen))
    inside = np.minimum(others + 1, station.pool)
    stages = others + 1 - inside  # that must leave before this one enters
    stay = inside / rate[inside - 1]
    pool_rate = rate[min(station.pool, len(rate)) - 1]
    wait = stages / pool_rate
    average = float(np.dot(seen, wait + stay))
    second = float(np.dot(seen, (wait + stay) ** 2 + stages / pool_rate**2 + stay**2))
    ratio = max((second - average**2) / average**2, 1e-6)
    return {"mean": 1000 * mean} | {
        name: 1000 * ratio * mean * float(gammaincinv(1 / ratio, share)) for name, share in PERCENTILES
    }


Floats = NDArray[np.float64]
_N = TypeVar("_N", int, float)
RESPONSES = ("throughput", *LATENCIES, *CPU)  # rows of every array of responses here
_ROW = {name: index for index, name in enumerate(RESPONSES)}
_STANDS_FOR = {"latency": LATENCIES, "cpu_per_transaction": CPU}
THINK = "load.think"
_LOAD = (USERS, RATE, THINK)
_MOST_CELLS = 4096  # combinations over which an effect is averaged


def bound(truth: Truth, factors: Sequence[Factor], knobs: Mapping[str, Knob], source: str = "truth") -> Truth:
    """The truth with every level that it names as the study holds it (``512m`` becomes bytes).

    ``knobs`` are all that could be named, ``factors`` those of the study. Raises UsageError for an unknown knob, a
    level that the knob does not take, and a pseudo-factor: that one changes nothing by its definition.
    """

    def level_of(name: str, raw: Level) -> Level:
        factor = next((factor for factor in factors if factor.name == name), None)
        if factor is not None and factor.pseudo:
            raise UsageError(f"{source}: {name} is a pseudo-factor, it changes nothing; name a knob")
        if factor is not None and any(_same(level, raw) for level in factor.levels):
            return next(level for level in factor.levels if _same(level, raw))
        if name in knobs:
            try:
                return knobs[name].parse(raw)
            except ValueError as error:
                raise UsageError(f"{source}: {name}: {error}") from None
        if factor is not None:
            return raw
        near = nearest(name, [*knobs, *(factor.name for factor in factors)])
        raise UsageError(f"{source}: unknown knob {name!r}{f'; did you mean {near}?' if near else ''}")

    def resolved(when: Mapping[str, Level]) -> dict[str, Level]:
        return {name: level_of(name, raw) for name, raw in when.items()}

    for name in truth.silent:
        if name not in knobs:
            near = nearest(name, list(knobs))
            raise UsageError(f"{source}: silent: unknown knob {name!r}{f'; did you mean {near}?' if near else ''}")
    effects = tuple(effect.model_copy(update={"when": resolved(effect.when)}) for effect in truth.effects)
    failures = tuple(failure.model_copy(update={"when": resolved(failure.when)}) for failure in truth.failures)
    neighbour = truth.neighbour
    if neighbour is not None:
        moved = tuple(move.model_copy(update={"when": resolved(move.when)}) for move in neighbour.moved)
        neighbour = neighbour.model_copy(update={"moved": moved})
    hosts = truth.hosts
    if hosts is not None:
        own_hosts = tuple(host.model_copy(update={"when": resolved(host.when)}) for host in hosts.own)
        hosts = hosts.model_copy(update={"own": own_hosts})
    parts = {"effects": effects, "failures": failures, "neighbour": neighbour, "hosts": hosts}
    return truth.model_copy(update=parts)


def _same(one: Level, other: Level) -> bool:
    return one == other and isinstance(one, bool) == isinstance(other, bool)


def holds(when: Mapping[str, Level], levels: Mapping[str, Level]) -> bool:
    """Whether every factor of ``when`` is at its level."""
    return all(name in levels and _same(levels[name], level) for name, level in when.items())


def move(logs: Floats, percent: Mapping[str, float]) -> None:
    """Adds changes by response to the logarithms of ``RESPONSES``."""
    for name, share in percent.items():
        for row in _STANDS_FOR.get(name, (name,)):
            if row in _ROW:
                logs[_ROW[row]] += math.log1p(share)


class Model:
    """Responses without noise under a workload. ``truth`` names levels as the plan does (see ``bound``).

    One arrival of an open workload is one transaction. The think time is the workload's variable ``think`` where it has
    one, else its preset's, else the truth's. The workload has ``users`` or ``rate``: ValueError without.
    """

    def __init__(self, truth: Truth, workload: Workload) -> None:
        self.truth = truth
        self.workload = workload
        preset = PRESETS[workload.preset].think if workload.preset else None
        think = workload.variables.get("think", preset)
        self._think = truth.server.think if think is None or isinstance(think, bool) else parse_duration(think)
        self.relevant = sorted({name for effect in truth.effects for name in effect.when})
        self._cache: dict[tuple[object, ...], tuple[Floats, float, float]] = {}

    def logs(self, levels: Mapping[str, Level]) -> Floats:
        """Logarithms of ``RESPONSES``, shape (len(RESPONSES),): throughput a second, latencies and CPU in ms."""
        return self._solved(levels)[0]

    def lost(self, levels: Mapping[str, Level]) -> float:
        """Share of open arrivals that are turned away because ``max_sessions`` are in flight."""
        return self._solved(levels)[1]

    def startup(self, levels: Mapping[str, Level]) -> float:
        """Seconds from the server's start to its first response."""
        return self._solved(levels)[2]

    def responses(self, levels: Mapping[str, Level]) -> dict[str, float]:
        """By name, ``cpu_per_transaction`` and ``startup`` among them."""
        by_name = {name: math.exp(value) for name, value in zip(RESPONSES, self.logs(levels), strict=True)}
        together = dict.fromkeys(("cpu_per_transaction", "steady_cpu_per_transaction"), sum(by_name[n] for n in CPU))
        return by_name | together | {"startup": self.startup(levels)}

    def effect(self, factors: Sequence[Factor], factor: str, level: Level, response: str, crossed: bool) -> float:
        """The true effect of a level against its baseline level, percent.

        At the baseline of all other factors; where ``crossed``, the ratio averaged (geometrically) over all
        combinations of their levels, which is what the analysis of a crossed design estimates. Raises ValueError for
        more than 4096 combinations.
        """
        subject = next(candidate for candidate in factors if candidate.name == factor)
        others = [candidate for candidate in factors if candidate.name != factor]
        choices = [other.levels if crossed and self._interacts(other.name) else (other.baseline,) for other in others]
        if math.prod(len(levels) for levels in choices) > _MOST_CELLS:
            raise ValueError(f"the other factors have more than {_MOST_CELLS} combinations")
        ratios = []
        for cell in itertools.product(*choices):
            rest = dict(zip([other.name for other in others], cell, strict=True))
            at, base = (self.responses(rest | {factor: value})[response] for value in (level, subject.baseline))
            ratios.append(math.log(at / base))
        return 100 * math.expm1(sum(ratios) / len(ratios))

    def _interacts(self, name: str) -> bool:
        return name in self.relevant or name in _LOAD

    def _solved(self, levels: Mapping[str, Level]) -> tuple[Floats, float, float]:
        key = tuple((type(levels.get(name)), levels.get(name)) for name in (*self.relevant, *_LOAD))
        if key not in self._cache:
            effects = [effect for effect in self.truth.effects if holds(effect.when, levels)]
            self._cache[key] = self._solve(effects, {name: levels[name] for name in _LOAD if name in levels})
        return self._cache[key]

    def _solve(self, effects: Sequence[KnobEffect], load: Mapping[str, Level]) -> tuple[Floats, float, float]:
        server = self.truth.server
        for effect in effects:
            server = server.model_copy(update=effect.set.model_dump(exclude_none=True))
        for effect in effects:
            server = _scaled(server, effect)
        station = Station(server.cores, server.demand + server.database_demand, server.delay, server.pool)
        point = self._point(station, load)
        logs = np.log(
            [
                point.throughput,
                *(point.latencies[name] for name in LATENCIES),
                1000 * server.demand,
                1000 * server.database_demand,
            ]
        )
        startup = server.startup
        for effect in effects:
            startup *= 1 + effect.percent.get("startup", 0.0)
            move(logs, effect.percent)
        return logs, point.lost, startup

    def _point(self, station: Station, load: Mapping[str, Level]) -> Point:
        workload = self.workload
        if workload.arrivals == "closed":
            users = int(load[USERS]) if USERS in load else self._load("users", workload.users)
            return closed(station, users, float(load.get(THINK, self._think)))
        rate = float(load[RATE]) if RATE in load else self._load("rate", workload.rate)
        return opened(station, rate, workload.max_sessions)

    def _load(self, name: str, value: _N | None) -> _N:
        if value is None:
            raise ValueError(f"{self.workload.arrivals} arrivals without `{name}` are not simulated")
        return value


def _scaled(server: Server, effect: KnobEffect) -> Server:
    ratios = effect.scale.model_dump(exclude_none=True)
    changed: dict[str, object] = {}
    for name, ratio in ratios.items():
        value = getattr(server, name) * ratio
        changed[name] = max(1, round(value)) if name in ("pool", "cores") else value
    return server.model_copy(update=changed)
