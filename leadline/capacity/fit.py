"""The parameters of a queueing model from what a study of load measured: a point of the network for each good trial.

CPU demands come from the utilisation law (CPU time of a process by its transactions), regressed over all trials so that
what a process uses without load is no demand. Think time is that of Little's law. What is left, a delay without
queueing and, where the data ask for it, a resource that is no CPU (a lock, a disk, a pool that is no factor), is chosen
so that throughput and response times of all cells are met best.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import scipy  # loads scipy.optimize at its first use

from leadline.capacity.network import (
    ROOM,
    Agents,
    Bounds,
    Delay,
    Floats,
    Node,
    Pool,
    Solution,
    Station,
    bounds,
    closed_at,
    demand_of,
    opened_at,
    pace,
    paced_at,
    rates,
    utilisations,
)
from leadline.model.errors import UsageError
from leadline.model.knob import Level
from leadline.model.naming import Describe, plain_level
from leadline.model.plan import Factor
from leadline.model.record import StudyRecord
from leadline.model.workload import RATE, USERS

POOLS = ("server.threads.max", "server.datasource.max_connections")
ROLES = ("server", "database", "web", "driver")  # processes whose CPU a transaction uses
REST = "rest"  # of the host's CPU: kernel threads, interrupts, processes that are nobody's
_THINK = "load.think"


@dataclass(frozen=True)
class Point:
    """One trial. ``load``: users, or arrivals a second; ``throughput`` a second and ``response`` in seconds; ``cpu``:
    seconds of CPU of one transaction by process; ``taken``: share of all CPUs that others used; ``cell``: its levels.
    """

    load: float
    throughput: float
    response: float
    cpu: Mapping[str, float]
    pool: int | None = None
    think_level: Level | None = None
    taken: float = 0.0
    cell: tuple[tuple[str, Level], ...] = ()
    more: Mapping[str, float] = field(default_factory=dict)  # responses that are evidence only

    @property
    def thinks(self) -> float:
        """Seconds between a user's transactions, by Little's law."""
        return max(0.0, self.load / self.throughput - self.response)


@dataclass(frozen=True)
class Measured:
    """A study's points under one setting of what is not load. ``factor``: of the load; ``held``: the other levels in
    words; ``pool``: the factor that sets how many transactions are inside; ``cpus``: of each station; ``agents``: of
    one unit of a load that is neither users nor arrivals.
    """

    points: tuple[Point, ...]
    factor: str
    cpus: Mapping[str, float]
    roles: Mapping[str, tuple[str, ...]]  # station -> processes that use it
    held: str = ""
    pool: str | None = None
    failed: int = 0
    notes: tuple[str, ...] = ()
    agents: tuple[Agents, ...] = ()

    @property
    def closed(self) -> bool:
        return self.factor == USERS

    @property
    def loads(self) -> list[float]:
        """Ascending, each once."""
        return sorted({point.load for point in self.points})


def measured(
    record: StudyRecord,
    at: Mapping[str, str] | None = None,
    cpus: float | None = None,
    describe: Describe = plain_level,
    agents: Mapping[str, Sequence[Agents]] | None = None,
) -> Measured:
    """The points of a study at the levels ``at`` of its other factors, as texts; the baseline's where it names none.

    ``cpus``: of the host, where the record does not tell; ``agents``: of one unit, by the factor that sets how many
    there are. Raises UsageError for a study that does not vary its load,
    has one load only, or whose trials failed, and for what ``at`` names that the study does not have.
    """
    factors = {factor.name: factor for factor in record.plan.factors}
    load_factors = [name for name in (USERS, RATE, *(agents or ())) if name in factors]
    name = record.study.study
    if not load_factors:
        arrivals = record.study.workload.arrivals
        knob = USERS if arrivals == "closed" else RATE
        varied = ", ".join(factors)
        if numbers := [factor for factor in factors if factor.startswith("load.") and factor != _THINK]:
            raise UsageError(
                f"{name} varies {numbers[0]}, a number of its scenario, and not how many users, arrivals or agents in "
                "cycles there are: no model can be fitted; leadline knee finds the largest one that keeps the limits"
            )
        raise UsageError(
            f"{name} does not vary its load (its factors: {varied}): no model can be fitted; "
            f"run it with --factor {knob}=5,10,20,40,80"
        )
    load = load_factors[0]
    pool = next((name for name in POOLS if name in factors), None)
    free = {load, _THINK, pool}
    wanted = held_levels(name, factors, free, at or {}, describe)
    points, failed = [], 0
    for trial in record.trials:
        levels = trial.planned.treatment.as_dict()
        if any(levels.get(name) != level for name, level in wanted.items()):
            continue
        if trial.failure is not None:
            failed += 1
        elif {"throughput", "mean"} <= trial.responses.keys():
            points.append(_point(trial.responses, levels, load, pool, trial.machine.taken if trial.machine else None))
    levels_text = ", ".join(f"{name} = {describe(name, level)}" for name, level in wanted.items())
    if not points:
        reason = f"{failed} failed" if failed else "none was run"
        raise UsageError(
            f"{name} has no finished trial{f' at {levels_text}' if levels_text else ''} ({reason}): nothing to fit"
        )
    loads = {point.load for point in points}
    if len(loads) < 3:
        some = ", ".join(f"{load:g}" for load in sorted(loads))
        also = f" ({failed} trials failed)" if failed else ""
        raise UsageError(
            f"{name} has good trials at {len(loads)} load{'s' if len(loads) > 1 else ''}, {some}{also}: a model needs "
            f"3 or more, from light load to beyond the knee; run it with --factor {load}=..."
        )
    known_roles = [role for role in ROLES if all(role in point.cpu for point in points)]
    if "server" not in known_roles:
        raise UsageError(f"{name} has no CPU by process (`observe: false`?): demands cannot be told")
    stations, roles = _stations(record, known_roles, cpus)
    if cpus is None and list(stations) == ["cpu"]:
        points = with_rest(points, stations["cpu"])
        roles = {"cpu": tuple(role for role in (*known_roles, REST) if all(role in point.cpu for point in points))}
    return Measured(
        tuple(points), load, stations, roles, levels_text, pool, failed, agents=tuple((agents or {}).get(load, ()))
    )


def with_rest(points: Sequence[Point], cpus: float) -> list[Point]:
    """Points with the CPU of the host that neither their processes nor other programs used; as they are where that of
    the host was not recorded in every trial.
    """
    if not all("host_cpu" in point.more for point in points):
        return list(points)
    points_ = []
    for point in points:
        busy = cpus * (point.more["host_cpu"] - point.taken) / point.throughput
        points_.append(replace(point, cpu={**point.cpu, REST: max(0.0, busy - sum(point.cpu.values()))}))
    return points_


def _point(
    responses: Mapping[str, float], levels: Mapping[str, Level], load: str, pool: str | None, taken: float | None
) -> Point:
    cpu = {
        role: responses[f"{role}_cpu_per_transaction"] / 1000
        for role in ROLES
        if f"{role}_cpu_per_transaction" in responses
    }
    more = {
        name: value
        for name, value in responses.items()
        if "context_switches" in name or name in ("gc_share", "host_cpu")
    }
    return Point(
        float(levels[load]),
        responses["throughput"],
        responses["mean"] / 1000,
        cpu,
        int(levels[pool]) if pool is not None else None,
        levels.get(_THINK),
        taken or 0.0,
        tuple(sorted(levels.items())),
        more,
    )


def held_levels(
    study: str,
    factors: Mapping[str, Factor],
    free: Collection[str | None],
    at: Mapping[str, str],
    describe: Describe = plain_level,
) -> dict[str, Level]:
    """Levels of all factors that are not ``free``: those of ``at``, else the baseline's. Raises UsageError."""
    levels = {factor.name: factor.baseline for factor in factors.values() if factor.name not in free}
    return {**levels, **{name: _level(study, factors, free, name, text, describe) for name, text in at.items()}}


def _level(
    name: str, factors: Mapping[str, Factor], free: Collection[str | None], each: str, text: str, describe: Describe
) -> Level:
    if each not in factors or each in free:
        others = [factor for factor in factors if factor not in free]
        others_text = f"its other factors: {', '.join(others)}" if others else "it has no other factor"
        raise UsageError(f"--at {each}: no factor of {name} beside its load; {others_text}")
    for level in factors[each].levels:
        if text in (str(level), describe(each, level)):
            return level
    levels_text = ", ".join(describe(each, level) for level in factors[each].levels)
    raise UsageError(f"--at {each}={text}: its levels are {levels_text}")


def _stations(
    record: StudyRecord, roles: list[str], cpus: float | None
) -> tuple[dict[str, float], dict[str, tuple[str, ...]]]:
    """CPUs by station, and who uses each: processes that share CPUs are at one station."""
    placement = record.study.placement
    lists = {role: getattr(placement, f"{role}_cpus") for role in roles}
    groups: dict[str | None, list[str]] = {}
    for role in roles:
        groups.setdefault(lists[role], []).append(role)
    whole = cpus or _usable(record)
    if len(groups) == 1 and None in groups:
        return {"cpu": whole}, {"cpu": tuple(roles)}
    stations = {
        f"{'+'.join(users)} cpu": (cpu_count(text) if text else whole, tuple(users)) for text, users in groups.items()
    }
    return {name: count for name, (count, _) in stations.items()}, {
        name: users for name, (_, users) in stations.items()
    }


def _usable(record: StudyRecord) -> float:
    for name in ("host.cpu.usable", "host.guest.cpus", "host.cpu.count"):
        text = record.environment.get(name, "")
        if text.isdigit() and int(text) > 0:
            return float(text)
    raise UsageError(f"{record.study.study} does not tell how many CPUs its host had: say --cpus N")


def cpu_count(text: str) -> int:
    """CPUs of a list such as ``0,2-3``. Raises ValueError for another text."""
    spans = [part.split("-") for part in text.split(",")]
    return sum(int(span[-1]) - int(span[0]) + 1 for span in spans)


OTHER = "other resource"  # that is no CPU
DELAY = "delay"
_RESPONSE_WEIGHT = 0.25  # of a squared error of the response time, against one of throughput: it is noisier
BUSY = 0.85  # utilisation of a CPU station that is taken to give out
_T = 2.0  # a regression's intercept counts from so many standard errors on
_BETTER = 6.0  # of the Bayesian information criterion: from there on evidence is strong (Kass and Raftery 1995)
_LEAST = 1e-7  # seconds
_IN_TIME = 0.95  # of the throughput that the cycles of agents ask for
_MOST_USERS = 20_000  # beyond, the exact solution takes too long


@dataclass(frozen=True)
class Model:
    """``demands``: seconds of CPU of one transaction by station, ``processes`` of them by process; ``servers``: CPUs
    that others leave, by station; ``delay`` and ``other`` in seconds; ``think``: by level of the factor that sets it;
    ``visits``: transactions of one arrival, or a second of one unit of agents; ``agents``: of one unit, with cycles
    that give these.
    """

    closed: bool
    demands: Mapping[str, float]
    processes: Mapping[str, float]
    servers: Mapping[str, float]
    think: Mapping[Level | None, float]
    delay: float = 0.0
    other: float = 0.0
    visits: float = 1.0
    pool: str | None = None
    agents: tuple[Agents, ...] = ()

    def users(self, load: float) -> int:
        """Users of a closed load; 0 of arrivals."""
        return max(1, round(load * self._unit)) if self._unit else 0

    def late(self, load: float, throughput: float) -> bool:
        """Whether agents fell behind their cycles. What they begin late counts from when it was due, so its response
        time grows with the length of the trial and is none of the model's.
        """
        return bool(self.agents) and throughput < _IN_TIME * load * self.visits

    @property
    def _unit(self) -> float:
        return sum(agent.users for agent in self.agents) if self.agents else float(self.closed)

    def nodes(self, pool: int | None = None) -> tuple[Node, ...]:
        """The network inside which a transaction is; ``pool``: the limit of those inside."""
        inside: list[Node] = [Station(name, demand, self.servers[name]) for name, demand in self.demands.items()]
        if self.other > 0:
            inside.append(Station(OTHER, self.other))
        inside.append(Delay(DELAY, self.delay))
        return (Pool(self.pool, pool, tuple(inside)),) if self.pool is not None and pool is not None else tuple(inside)

    def rates(self, most: int, pool: int | None) -> Floats:
        """Of the network; a delay outside any pool is left out: nothing waits for it, so it counts as think time."""
        nodes = self.nodes(pool)
        return rates([node for node in nodes if not isinstance(node, Delay)], most)

    def _outside(self, pool: int | None) -> float:
        """Seconds of that delay."""
        return sum(node.demand for node in self.nodes(pool) if isinstance(node, Delay))

    def at(self, load: float, pool: int | None = None, think: Level | None = None) -> Solution:
        """What it predicts for one load. Raises as ``curve``."""
        return self.curve([load], pool, think)[0]

    def _at(self, load: float, think: Level | None, rate: Floats, pool: int | None) -> Solution:
        if self.agents:
            there = [replace(agent, users=load * agent.users) for agent in self.agents]
            throughput, response = paced_at(rate[: self.users(load)], there, self._outside(pool))
        elif self.closed:
            pause = self.think.get(think, self.usual_think)
            throughput = closed_at(rate[: self.users(load)], pause + self._outside(pool))
            response = max(_LEAST, load / throughput - pause)
        else:
            throughput, response = opened_at(rate, load * self.visits)
            response += self._outside(pool)
        return Solution(throughput, response, utilisations(self.nodes(pool), throughput))

    def curve(self, loads: Sequence[float], pool: int | None = None, think: Level | None = None) -> list[Solution]:
        """What it predicts for several loads. Raises UsageError for more users than can be solved."""
        most = self.users(max(loads))
        if most > _MOST_USERS:
            raise UsageError(f"a load of {max(loads):g} has {most:,} users: at most {_MOST_USERS:,} are solved")
        rate = self.rates(most or ROOM, pool)
        return [self._at(load, think, rate, pool) for load in loads]

    def over(self, points: Sequence[Point]) -> list[Solution]:
        """The same for many; each pool is solved once."""
        most = self.users(max(point.load for point in points)) or ROOM
        solved = {pool: self.rates(most, pool) for pool in {point.pool for point in points}}
        return [self._at(point.load, point.think_level, solved[point.pool], point.pool) for point in points]

    @property
    def usual_think(self) -> float:
        return float(np.median(list(self.think.values()))) if self.think else 0.0

    def bounds(self, pool: int | None = None) -> Bounds:
        return bounds(self.nodes(pool))

    def knee(self, pool: int | None = None, think: Level | None = None) -> float:
        """The load at which the asymptotes cross: users, or arrivals a second at capacity."""
        most = self.bounds(pool).capacity
        if self.agents:
            return most / pace(self.agents, demand_of(self.nodes(pool)))
        if not self.closed:
            return most / self.visits
        return (demand_of(self.nodes(pool)) + self.think.get(think, self.usual_think)) * most


def fit(measured: Measured, points: Sequence[Point] | None = None, like: Model | None = None) -> Model:
    """Of these points, or all of them; with the resources of the model ``like`` where one is given. Raises UsageError
    for CPU that no transaction used.
    """
    points = list(measured.points if points is None else points)
    processes = {role: _demand(points, role) for roles in measured.roles.values() for role in roles}
    demands = {name: sum(processes[role] for role in roles) for name, roles in measured.roles.items()}
    if not all(demand > 0 for demand in demands.values()):
        raise UsageError("the study recorded no CPU of its services: demands cannot be told")
    spare = _left(points, processes, sum(measured.cpus.values()))
    think: dict[Level | None, float] = {}
    for level in {point.think_level for point in points} if measured.closed else ():
        think[level] = float(np.median([point.thinks for point in points if point.think_level == level]))
    visits = 1.0 if measured.closed else _unit_rate(points) if measured.agents else _visits(points)
    slower = pace(measured.agents, 0.0) / visits
    start = Model(
        measured.closed,
        demands,
        processes,
        {name: cpus * spare for name, cpus in measured.cpus.items()},
        think,
        visits=visits,
        pool=measured.pool,
        agents=tuple(replace(agent, cycle=agent.cycle * slower) for agent in measured.agents),
    )
    cells = _cells(points)
    if like is not None:
        return _fitted(start, cells, like.other > 0, [(like.delay, like.other)])[0]
    least = max(_LEAST, min(cell.response for cell in cells) - sum(demands.values()))
    top = max(cell.throughput for cell in cells)
    alone, error = _fitted(start, cells, False, [(least, 0.0)])
    both, less = _fitted(start, cells, True, [(least, 0.95 / top), (least / 10, 0.8 / top)])
    count = 2 * len(cells)
    gain = count * math.log(max(error, 1e-12) / max(less, 1e-12)) - math.log(count)
    busy = max(top * demand / start.servers[name] for name, demand in demands.items())
    # An error below one percent is none, however small the noise; and CPUs that are busy explain a limit themselves.
    return both if gain > _BETTER and error / count > 1e-4 and busy < BUSY else alone


def _fitted(
    start: Model, cells: Sequence[Point], limited: bool, starts: Sequence[tuple[float, float]]
) -> tuple[Model, float]:
    """``start`` with the delay, and where it is ``limited`` the other resource, of the least squares; and their sum."""
    unit = min(cell.response for cell in cells), 1.0 / max(cell.throughput for cell in cells)
    weights = [0.0 if start.late(cell.load, cell.throughput) else math.sqrt(_RESPONSE_WEIGHT) for cell in cells]
    targets = [(math.log(cell.throughput), math.log(max(_LEAST, cell.response))) for cell in cells]

    def model(values: Sequence[float]) -> Model:
        other = float(values[1]) * unit[1] if limited else 0.0
        return replace(start, delay=float(values[0]) * unit[0], other=other)

    def errors(values: Floats, /) -> list[float]:
        fitted = []
        for (throughput, response), weight, solution in zip(
            targets, weights, model([float(value) for value in values]).over(cells), strict=True
        ):
            fitted.append(math.log(solution.throughput) - throughput)
            fitted.append(weight * (math.log(solution.response) - response))
        return fitted

    most = [1e3, 2.0][: 1 + limited]
    done = []
    for delay, other in starts:
        first = [min(0.9 * most[0], delay / unit[0] + 1e-3), min(1.9, other / unit[1] + 1e-3)][: 1 + limited]
        done.append(scipy.optimize.least_squares(errors, first, bounds=([0.0] * len(most), most), max_nfev=40))
    best = min(done, key=lambda one: float(one.cost))
    return model([float(value) for value in best.x]), 2 * float(best.cost)


def _cells(points: Sequence[Point]) -> list[Point]:
    """A point for each cell: geometric means over its trials."""
    groups: dict[tuple[object, ...], list[Point]] = {}
    for point in points:
        groups.setdefault((point.load, point.pool, point.think_level), []).append(point)
    return [
        replace(
            group[0],
            throughput=float(np.exp(np.mean([math.log(point.throughput) for point in group]))),
            response=float(np.exp(np.mean([math.log(max(_LEAST, point.response)) for point in group]))),
        )
        for group in groups.values()
    ]


def _demand(points: Sequence[Point], role: str) -> float:
    """Seconds of a transaction: CPU by transaction against 1/throughput, whose slope is CPU used without load."""
    cost = np.array([point.cpu[role] for point in points])
    rate = np.array([1.0 / point.throughput for point in points])
    spread = rate - rate.mean()
    if len(points) > 3 and np.ptp(rate) > 0.5 * rate.min():
        slope = float(spread @ cost / (spread @ spread))
        rest = cost - cost.mean() - slope * spread
        error = math.sqrt(max(float(rest @ rest) / (len(points) - 2), 1e-30) / float(spread @ spread))
        if slope > _T * error and (demand := float(cost.mean()) - slope * float(rate.mean())) > 0:
            return demand
    return float(cost.mean())


def _left(points: Sequence[Point], processes: Mapping[str, float], cpus: float) -> float:
    """Share of the CPUs that others leave at heavy load, where they compete: at least what the processes got."""
    loads = sorted({point.load for point in points})
    heavy = [point for point in points if point.load >= loads[-min(2, len(loads))]]
    used = {load: [p.throughput for p in points if p.load == load] for load in loads}
    peak = max(float(np.mean(rate)) for rate in used.values()) * sum(processes.values()) / cpus
    return min(1.0, max(1.0 - float(np.mean([point.taken for point in heavy])), peak))


def _unit_rate(points: Sequence[Point]) -> float:
    """Transactions a second of one unit of agents, from the loads at which they were in time."""
    rates = [point.throughput / point.load for point in points]
    return float(np.median([rate for rate in rates if rate >= _IN_TIME * max(rates)]))


def _visits(points: Sequence[Point]) -> float:
    """Transactions of one arrival, from the half of the loads that are lighter: nothing is lost there."""
    ordered = sorted(points, key=lambda point: point.load)
    half = ordered[: max(1, len(ordered) // 2)]
    return float(np.median([point.throughput / point.load for point in half]))
