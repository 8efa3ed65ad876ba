"""What a perfect generator would have reported about a run of the server with known answers, from the server's own
log of that run: when it stood still, and how long it really took over each request while it did not, until its kernel
had given the answer to the device. Times in nanoseconds.
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
    """One request: when the server's kernel received it, when the server began to hand its answer over, and when its
    kernel gave that to the device.
    """

    came: int
    answering: int
    sent: int


@dataclass(frozen=True)
class Log:
    """A run as the server wrote it down; Unix nanoseconds, which floats would round to 256."""

    freezes: Sequence[tuple[int, int]] = ()
    requests: Mapping[str, Served] = field(default_factory=dict)
    way: int = 0  # of a request, from the call that sends it to the device: what the server's own calls take

    def working(self, begin: int, end: int) -> int:
        """The time in [begin, end] in which the server did not stand still."""
        still = sum(max(0, min(end, until) - max(begin, since)) for since, until in self._around(begin, end))
        return end - begin - still

    def after(self, begin: int, work: int) -> int:
        """When the server is done with ``work`` nanoseconds of work that it is given at ``begin``."""
        now = begin
        for since, until in self.freezes:
            if until <= now:
                continue
            if since - now >= work:
                break
            work -= max(0, since - now)
            now = until
        return now + work

    def _around(self, begin: int, end: int) -> Sequence[tuple[int, int]]:
        first = bisect.bisect_left(self.freezes, begin, key=lambda freeze: freeze[1])
        last = bisect.bisect_right(self.freezes, end, key=lambda freeze: freeze[0])
        return self.freezes[first:last]


def read_log(path: Path) -> Log:
    """What `known_answers --log` wrote."""
    freezes, requests = [], {}
    for line in path.read_text().splitlines():
        name, *numbers = line.split()
        times = [int(number) for number in numbers]
        if name == "freeze":
            freezes.append((times[0], times[1]))
        else:
            requests[name] = Served(times[0], times[2], times[3])
    ways = [served.sent - served.answering for served in requests.values()]
    return Log(freezes, requests, statistics.median_low(ways) if ways else 0)


def answered(log: Log, moment: int, served: Served) -> int:
    """When the answer to a request that is sent at ``moment`` is in the sender's kernel, if the server takes as long
    over it as it really did.
    """
    return log.after(moment + log.way, log.working(served.came, served.sent))


def of_open(log: Log, due: Mapping[str, int], until: int) -> list[tuple[int, int]]:
    """(end, response) of each request that was due before ``until``, had it been sent when it was due and taken the
    server as long as it really did. Raises KeyError when the server never saw one.
    """
    found = []
    for name, moment in due.items():
        if moment < until:
            end = answered(log, moment, log.requests[name])
            found.append((end, end - moment))
    return found


def of_users(log: Log, due: Mapping[str, int], until: int) -> list[tuple[int, int]]:
    """The same for users with one request at a time: ``due`` is `/user/number`, each user's in order. A request that is
    due before the answer to the one before it starts with that answer.
    """
    found = []
    free: dict[str, int] = {}
    for name, moment in due.items():
        user = name.rsplit("/", 1)[0]
        begin = max(moment, free.get(user, 0))
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
