"""Response times of the server with known answers, computed: the truth that generators are compared with."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass


@dataclass(frozen=True)
class Server:
    """Answers after ``service`` seconds, without a limit on concurrency; stands still for ``freeze`` seconds at the
    start of every ``period``.
    """

    service: float = 0.001
    freeze: float = 0.2
    period: float = 2.0

    def answered(self, arrives: float) -> float:
        """When a request that arrives at a moment is answered."""
        return self._awake(self._awake(arrives) + self.service)

    def _awake(self, moment: float) -> float:
        into = moment % self.period
        return moment - into + self.freeze if into < self.freeze else moment


@dataclass(frozen=True)
class Truth:
    """Milliseconds."""

    mean: float
    p50: float
    p95: float
    p99: float
    p999: float


def of_open_arrivals(server: Server, points: int = 200_000) -> Truth:
    """Constant and Poisson arrivals see time averages (Wolff, Poisson arrivals see time averages, 1982)."""
    moments = ((i + 0.5) * server.period / points for i in range(points))
    return _summary([server.answered(moment) - moment for moment in moments])


def of_cycling_users(server: Server, cycle: float, users: int = 400, seconds: float = 400.0, seed: int = 1) -> Truth:
    """Users who want to start once a negative exponential cycle (mean ``cycle`` seconds, cut at five times that), one
    request at a time, each counted from the moment it was due. Simulated.
    """
    draw = random.Random(seed)
    found = []
    for _ in range(users):
        due, free = draw.random() * server.period, 0.0
        while due < seconds:
            free = server.answered(max(due, free))
            found.append(free - due)
            due += min(draw.expovariate(1.0), 5.0) * cycle
    return _summary(found)


def _summary(values: list[float]) -> Truth:
    values.sort()

    def p(share: float) -> float:
        return 1000 * values[min(len(values), max(1, math.ceil(share * len(values)))) - 1]

    return Truth(1000 * sum(values) / len(values), p(0.5), p(0.95), p(0.99), p(0.999))
