"""The parameters of a queueing model from what a study measured.

CPU demands come from the utilisation law (CPU time of a process by its transactions), regressed over all trials so that
what a process uses without load is no demand. Think time is that of Little's law. What is left, a delay without
queueing and, where the data ask for it, a resource that is no CPU (a lock, a disk, a pool that is no factor), is chosen
so that throughput and response times of all cells are met best.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy  # loads scipy.optimize at its first use

from leadline.capacity.cells import Measured, Point
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
