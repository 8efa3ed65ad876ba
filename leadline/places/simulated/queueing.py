"""Queueing laws: throughput and response times of a pooled server from its parameters.

Inside the pool a transaction alternates between ``cores`` CPUs (processor sharing, exponential demand) and a delay:
a closed network with a load-dependent station, solved exactly by its normalising constants (Buzen, CACM 16, 1973).
The pool as a whole is then one station whose rate depends on how many are inside (flow-equivalent aggregation:
Chandy, Herzog and Woo, IBM J. Res. Dev. 19, 1975), and the users or arrivals around it a birth-death chain. An
arriving transaction sees the chain with itself left out (arrival theorem; PASTA for open arrivals). Its response time
is a wait of exponential stages and a stay inside; percentiles are those of the gamma distribution with its mean and
variance.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaincinv, logsumexp

Floats = NDArray[np.float64]
PERCENTILES = (("p50", 0.5), ("p90", 0.9), ("p95", 0.95), ("p99", 0.99), ("p999", 0.999), ("max", 0.99999))


@dataclass(frozen=True)
class Station:
    """CPU ``demand`` and ``delay`` in seconds of one transaction, at most ``pool`` of them inside ``cores`` CPUs."""

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
