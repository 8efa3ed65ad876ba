"""Queueing networks, solved exactly: stations, delays and pools inside pools, closed with think time or open.

A station serves one class of transactions; its rate may depend on how many are there (several CPUs). A network of such
stations has product form (Gordon and Newell, Operations Research 15, 1967) and is solved by its normalising constants
(Buzen, CACM 16, 1973), in logarithms, so that hundreds of users neither over- nor underflow; the results are those of
exact load-dependent mean value analysis (Reiser and Lavenberg, JACM 27, 1980), which loses digits near saturation. A
pool admits so many transactions to what is inside it; it is one station whose rates are those of its inside
(flow-equivalent aggregation: Chandy, Herzog and Woo, IBM J. Res. Dev. 19, 1975): exact for what is inside alone, an
approximation for what surrounds it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import scipy  # loads scipy.optimize at its first use
from numpy.typing import NDArray

Floats = NDArray[np.float64]
ROOM = 1000  # transactions inside at once, of open arrivals


@dataclass(frozen=True)
class Station:
    """``demand``: seconds of service of one transaction, all its visits together. ``servers``: CPUs, or disks; a share
    of one where others use the rest.
    """

    name: str
    demand: float
    servers: float = 1.0

    @property
    def capacity(self) -> float:
        """Transactions a second at most."""
        return self.servers / self.demand if self.demand > 0 else np.inf


@dataclass(frozen=True)
class Delay:
    """Seconds that a transaction spends without queueing for anything."""

    name: str
    demand: float


@dataclass(frozen=True)
class Pool:
    """At most ``limit`` transactions are inside at a time: threads, connections."""

    name: str
    limit: int
    inside: tuple[Node, ...]


Node = Station | Delay | Pool


@dataclass(frozen=True)
class Agents:
    """Users whose next transaction is due a ``cycle`` (seconds, on average) after the last one was, and begins once
    that one has ended. ``users``: their number.
    """

    users: float
    cycle: float


@dataclass(frozen=True)
class Solution:
    """``throughput`` a second; ``response`` in seconds, think time left out; ``utilisation`` 0..1 by station; ``lost``:
    share of open arrivals that found no room.
    """

    throughput: float
    response: float
    utilisation: dict[str, float]
    lost: float = 0.0


def rates(nodes: Sequence[Node], most: int) -> Floats:
    """Completions a second of these nodes in a closed loop with 1 .. ``most`` transactions; shape (most,).

    Raises ValueError for ``most`` below 1, and for nodes without any demand.
    """
    if most < 1:
        raise ValueError(f"{most} transactions: 1 or more are solved")
    weights: Floats | None = None
    for node in nodes:
        own = _weights(node, most)
        if own is not None:
            weights = own if weights is None else _convolved(weights, own)
    if weights is None:
        raise ValueError("no node has any demand")
    return np.asarray(np.exp(weights[:-1] - weights[1:]))


def closed(nodes: Sequence[Node], users: int, think: float = 0.0) -> Solution:
    """``users`` who think for ``think`` seconds on average between their transactions. Raises ValueError."""
    throughput = closed_at(rates(nodes, users), think)
    return Solution(throughput, max(0.0, users / throughput - max(think, 0.0)), utilisations(nodes, throughput))


def closed_at(rate: Floats, think: float) -> float:
    """Throughput of as many users as ``rate`` (of :func:`rates`) has entries."""
    if think <= 0:
        return float(rate[-1])
    present = np.arange(len(rate))
    state = _chain(np.log((len(rate) - present) / think) - np.log(rate))
    return float(np.dot(state[1:], rate))


def pace(agents: Sequence[Agents], response: float) -> float:
    """Transactions a second that agents begin where each takes ``response`` seconds: all that are due, as who is late
    catches up, but for agents whose transactions take longer than their cycles.
    """
    return sum(agent.users / max(response, agent.cycle) for agent in agents)


def paced_at(rate: Floats, agents: Sequence[Agents], delay: float = 0.0) -> tuple[float, float]:
    """Throughput and response of agents in cycles, ``rate`` (of :func:`rates`) with as many entries as there are.

    As users who think for what a cycle leaves: the response at which the network and the cycles have one throughput.
    It counts from a transaction's begin, not from when it was due. ``delay``: seconds of it without queueing. An
    approximation, as the pause depends on what was before it; held against a simulation in
    tests/unit/capacity/test_capacity_network.py.
    """
    users = len(rate)

    def thinks(response: float) -> float:
        return max(0.0, users / pace(agents, response) - response)

    def excess(response: float) -> float:
        return closed_at(rate, thinks(response) + delay) - pace(agents, response)

    low, high = 0.0, 2 * users / float(rate[-1]) + delay
    while excess(high) < 0:
        low, high = high, 2 * high
    response = float(scipy.optimize.brentq(excess, low, high, xtol=1e-9, rtol=1e-7))
    return pace(agents, response), response


def opened(nodes: Sequence[Node], rate_in: float, room: int = ROOM) -> Solution:
    """Poisson arrivals, ``rate_in`` transactions a second; at most ``room`` are inside, others are lost."""
    throughput, response = opened_at(rates(nodes, room), rate_in)
    return Solution(throughput, response, utilisations(nodes, throughput), 1.0 - throughput / rate_in)


def opened_at(rate: Floats, rate_in: float) -> tuple[float, float]:
    """Throughput and response with room for as many transactions as ``rate`` (of :func:`rates`) has entries."""
    state = _chain(np.log(rate_in) - np.log(rate))
    throughput = rate_in * (1.0 - float(state[-1]))
    return throughput, float(np.dot(state, np.arange(len(state)))) / throughput


def utilisations(nodes: Sequence[Node], throughput: float) -> dict[str, float]:
    """Utilisation law: throughput times demand by servers."""
    return {station.name: throughput / station.capacity for station in stations(nodes)}


def stations(nodes: Sequence[Node]) -> Iterator[Station]:
    """All of them, those inside pools too."""
    for node in nodes:
        if isinstance(node, Pool):
            yield from stations(node.inside)
        elif isinstance(node, Station):
            yield node


def demand_of(nodes: Sequence[Node]) -> float:
    """Seconds that a transaction spends where it is alone."""
    return sum(demand_of(node.inside) if isinstance(node, Pool) else node.demand for node in nodes)


@dataclass(frozen=True)
class Bounds:
    """What no load surpasses. ``capacity``: transactions a second; ``limit``: the station or pool that sets it."""

    capacity: float
    limit: str


def bounds(nodes: Sequence[Node]) -> Bounds:
    """The least capacity of all stations and pools; a pool's is its rate with all places taken."""
    limits = [Bounds(node.capacity, node.name) for node in nodes if isinstance(node, Station)]
    for node in nodes:
        if isinstance(node, Pool):
            within = bounds(node.inside)
            full = float(rates(node.inside, node.limit)[-1])
            # A pool that is large enough leaves its inside's own limit.
            limits.append(within if full > POOL_LIMITS * within.capacity else Bounds(full, node.name))
    return min(limits, key=lambda one: one.capacity, default=Bounds(np.inf, ""))


_SMALLEST = 1e-200  # of a sum of terms up to 1: below it digits are lost
POOL_LIMITS = 0.95  # of the capacity of what is inside: a pool that reaches less is the limit itself


def knee(nodes: Sequence[Node], think: float) -> float:
    """Users at which the asymptotes of throughput cross (N* of operational analysis: Denning and Buzen, ACM Computing
    Surveys 10, 1978): fewer hardly queue, more only wait.
    """
    return (demand_of(nodes) + think) * bounds(nodes).capacity


def _weights(node: Node, most: int) -> Floats | None:
    """Logarithms of the node's factors with 0 .. ``most`` transactions; None for one without demand."""
    count = np.arange(1, most + 1, dtype=np.float64)
    if isinstance(node, Pool):
        inside = rates(node.inside, min(most, node.limit))
        speed = np.concatenate([inside, np.full(most - len(inside), inside[-1])])
    elif node.demand <= 0:
        return None
    elif isinstance(node, Delay):
        speed = count / node.demand
    else:
        # With a share of a CPU taken by others even a lone transaction is served more slowly.
        whole = np.ceil(node.servers - 1e-9)
        speed = np.minimum(count, whole) * (node.servers / whole) / node.demand
    return np.concatenate([[0.0], -np.cumsum(np.log(speed))])


def _convolved(one: Floats, other: Floats) -> Floats:
    """Logarithms of the convolution: at once where it stays in range after tilting by the slower node's last rate, else
    term by term.
    """
    count = np.arange(len(one))
    tilt = min(one[-2] - one[-1], other[-2] - other[-1])
    first, second = one + tilt * count, other + tilt * count
    tops = first.max(), second.max()
    whole = np.convolve(np.exp(first - tops[0]), np.exp(second - tops[1]))[: len(one)]
    if whole.min() > _SMALLEST:
        return np.asarray(np.log(whole) + sum(tops) - tilt * count)
    logs = np.empty(len(one))
    for total in range(len(one)):
        terms = one[: total + 1] + other[total::-1]
        top = terms.max()
        logs[total] = top + np.log(np.exp(terms - top).sum())
    return logs


def _chain(steps: Floats) -> Floats:
    """Stationary probabilities of a birth-death chain from the logarithms of birth over next death rate."""
    logs = np.concatenate([[0.0], np.cumsum(steps)])
    weights = np.exp(logs - logs.max())
    return np.asarray(weights / weights.sum())
