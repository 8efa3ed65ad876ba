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
    """One request: when the server's kernel received it, and when its answer was in the other's kernel, which over
    loopback happens while the server hands it over; the middle of that is taken.
    """

    came: float
    answered: float
    handing: float  # how long it took to hand the answer over


@dataclass(frozen=True)
class Log:
    """A run as the server wrote it down; Unix nanoseconds."""

    freezes: Sequence[tuple[float, float]] = ()
    requests: Mapping[str, Served] = field(default_factory=dict)

    @property
    def way(self) -> float:
        """From the call that sends to the other's kernel, over loopback: half of what the server's calls took, median.
        A request needs as long as an answer.
        """
        return statistics.median(served.handing for served in self.requests.values()) / 2

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
    freezes, requests = [], {}
    for line in path.read_text().splitlines():
        name, *numbers = line.split()
        times = [float(number) for number in numbers]
        if name == "freeze":
            freezes.append((times[0], times[1]))
        else:
            requests[name] = Served(times[0], (times[2] + times[3]) / 2, times[3] - times[2])
    return Log(freezes, requests)


def of_open(log: Log, due: Mapping[str, float], until: float) -> list[tuple[float, float]]:
    """(end, response) of each request that was due before ``until``, had it been sent when it was due and taken the
    server as long as it really did. Raises KeyError when the server never saw one.
    """
    found, way = [], log.way
    for name, moment in due.items():
        if moment < until:
            served = log.requests[name]
            end = log.after(moment + way, log.working(served.came, served.answered))
            found.append((end, end - moment))
    return found


def of_users(log: Log, due: Mapping[str, float], until: float) -> list[tuple[float, float]]:
    """The same for users with one request at a time: ``due`` is `/user/number`, each user's in order. A request that is
    due before the answer to the one before it starts with that answer.
    """
    found, way = [], log.way
    free: dict[str, float] = {}
    for name, moment in due.items():
        user = name.rsplit("/", 1)[0]
        begin = max(moment, free.get(user, 0.0))
        if begin >= until:
            continue
        served = log.requests[name]
        end = log.after(begin + way, log.working(served.came, served.answered))
        free[user] = end
        found.append((end, end - moment))
    return found


def of_average(log: Log, since: float, until: float, points: int = 20_000) -> dict[str, float]:
    """What arrivals at random moments of [since, until) would have seen (time averages: Wolff, Poisson arrivals see
    time averages, 1982), each taking the server as long as the next request it really got. For generators whose
    planned moments are not known.
    """
    served = sorted(log.requests.values(), key=lambda one: one.came)
    came = [one.came for one in served]
    values, way = [], log.way
    for point in range(points):
        moment = since + (point + 0.5) * (until - since) / points
        near = served[min(bisect.bisect_left(came, moment), len(served) - 1)]
        values.append(log.after(moment + way, log.working(near.came, near.answered)) - moment)
    return summary(values)


def summary(values: Iterable[float]) -> dict[str, float]:
    """Mean and percentiles, milliseconds."""
    ordered = sorted(values)

    def p(share: float) -> float:
        return ordered[min(len(ordered), max(1, math.ceil(share * len(ordered)))) - 1] / 1e6

    mean = math.fsum(ordered) / len(ordered) / 1e6
    return {"mean": mean, "p50": p(0.5), "p95": p(0.95), "p99": p(0.99), "p999": p(0.999)}
