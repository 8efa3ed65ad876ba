"""How evenly this host computes: the same small piece of work, timed again and again."""

from __future__ import annotations

import os
import statistics
import time
from dataclasses import dataclass
from pathlib import Path

from leadline.host.facts import read


@dataclass(frozen=True)
class Noise:
    """``spread``: from the 10th to the 90th percentile of the times, in percent of the median. ``worst``: the longest
    above the median, in percent. ``stolen``: share of CPU time the hypervisor gave to others, in percent.
    """

    spread: float
    worst: float
    stolen: float
    rounds: int


def _work(count: int) -> int:
    value = 1
    for number in range(count):
        value = (value * 1103515245 + number) & 0x7FFFFFFF
    return value


def _timed(count: int) -> float:
    begun = time.perf_counter()
    _work(count)
    return time.perf_counter() - begun


def _cpu_ticks(root: Path) -> tuple[int, int]:
    words = [int(word) for word in read(root / "proc/stat").split("\n", 1)[0].split()[1:]]
    return (sum(words[:8]), words[7]) if len(words) > 7 else (0, 0)


def probe(seconds: float = 2.0, root: Path = Path("/")) -> Noise:
    """Work of about 5 ms a round for so many seconds on one core."""
    count = max(1000, int(10_000 * 0.005 / max(1e-6, min(_timed(10_000) for _ in range(5)))))
    total, stolen = _cpu_ticks(root)
    times: list[float] = []
    until = time.perf_counter() + seconds
    while len(times) < 20 or time.perf_counter() < until:
        times.append(_timed(count))
    total_after, stolen_after = _cpu_ticks(root)
    cuts = statistics.quantiles(times, n=10)
    middle = statistics.median(times)
    share = 100 * (stolen_after - stolen) / (total_after - total) if total_after > total else 0.0
    return Noise(100 * (cuts[8] - cuts[0]) / middle, 100 * (max(times) - middle) / middle, share, len(times))


def busy(seconds: float, root: Path = Path("/")) -> float:
    """Share of all CPUs that was not idle in the next seconds, steal included and this process left out."""
    before, own_time = _idle_ticks(root), time.process_time()
    time.sleep(seconds)
    after, own_time = _idle_ticks(root), time.process_time() - own_time
    total, idle = (new - old for new, old in zip(after, before, strict=True))
    ticks = own_time * os.sysconf("SC_CLK_TCK")
    return max(0.0, 1 - (idle + ticks) / total) if total > 0 else 0.0


def _idle_ticks(root: Path) -> tuple[int, int]:
    """All ticks, and those idle or waiting for a disk."""
    words = [int(word) for word in read(root / "proc/stat").split("\n", 1)[0].split()[1:9]]
    return sum(words), sum(words[3:5])
