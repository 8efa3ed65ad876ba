"""What a perfect generator would have reported about a run of the server with known answers, from the server's own
log of that run: when it stood still, and how long it really took over each request while it did not. Times in
nanoseconds.
"""

from __future__ import annotations

import bisect
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

STATISTICS = ("mean", "p50", "p95", "p99", "p999")


@dataclass(frozen=True)
class Served:
    """One request: when the server's kernel received it, and when the server began to hand its answer over."""

    came: float
    answering: float


@dataclass(frozen=True)
class Log:
    """A run as the server wrote it down; Unix nanoseconds."""

    freezes: Sequence[tuple[float, float]] = ()
    requests: Mapping[str, Served] = field(default_factory=dict)
    way: float = 0.0  # from the call that sends to the other's kernel, over loopback; as long for request as for answer

    def working(self, begin: float, end: float) -> float:
        """The time in [begin, end] in which the server did not stand still."""
        still = sum(max(0.0, min(end, until) - max(begin, since)) for since, until in self._around(begin, end))
        return end - begin - still

    def after(self, begin: float, work: float) -> float:
        """When the server is done with ``work`` nanoseconds of work that it is given at ``begin``."""
        now = begin
        for since, until in self.freezes:
            if until <= now:
                continue
            if since - now >= work:
                break
            work -= max(0.0, since - now)
            now = until
        return now + work

    def _around(self, begin: float, end: float) -> Sequence[tuple[float, float]]:
        first = bisect.bisect_left(self.freezes, begin, key=lambda freeze: freeze[1])
        last = bisect.bisect_right(self.freezes, end, key=lambda freeze: freeze[0])
        return self.freezes[first:last]


def read_log(path: Path) -> Log:
    """What `known_answers --log` wrote."""
    freezes, requests, ways = [], {}, []
    for line in path.read_text().splitlines():
        name, *numbers = line.split()
        times = [float(number) for number in numbers]
        if name == "freeze":
            freezes.append((times[0], times[1]))
        elif name == "way":
            ways.append(times[0])
        else:
            requests[name] = Served(times[0], times[2])
    return Log(freezes, requests, statistics.median(ways))


def answered(log: Log, moment: float, served: Served) -> float:
    """When the answer to a request that is sent at ``moment`` is in the sender's kernel, if the server takes as long
    over it as it really did.
    """
    return log.after(moment + log.way, log.working(served.came, served.answering + log.way))


def of_open(log: Log, due: Mapping[str, float], until: float) -> list[tuple[float, float]]:
    """(end, response) of each request that was due before ``until``, had it been sent when it was due and taken the
    server as long as it really did. Raises KeyError when the server never saw one.
    """
    found = []
    for name, moment in due.items():
        if moment < until:
            end = answered(log, moment, log.requests[name])
            found.append((end, end - moment))
    return found


def of_users(log: Log, due: Mapping[str, float], until: float) -> list[tuple[float, float]]:
    """The same for users with one request at a time: ``due`` is `/user/number`, each user's in order. A request that is
    due before the answer to the one before it starts with that answer.
    """
    found = []
    free: dict[str, float] = {}
    for name, moment in due.items():
        user = name.rsplit("/", 1)[0]
        begin = max(moment, free.get(user, 0.0))
        if begin >= until:
            continue
        end = answered(log, begin, log.requests[name])
        free[user] = end
        found.append((end, end - moment))
    return found


def summary(values: Iterable[float]) -> dict[str, float]:
    """Mean and percentiles, milliseconds."""
    ordered = sorted(values)

    def p(share: float) -> float:
        return ordered[min(len(ordered), max(1, math.ceil(share * len(ordered)))) - 1] / 1e6

    mean = math.fsum(ordered) / len(ordered) / 1e6
    return {"mean": mean, "p50": p(0.5), "p95": p(0.95), "p99": p(0.99), "p999": p(0.999)}
