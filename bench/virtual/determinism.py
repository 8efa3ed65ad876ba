"""One trial several times in virtual time, for several seeds: the responses must be the same to the last digit.

A trial is run in two ways: in a guest of its own, from boot to power-off, and as a fork of one saved guest. Guests run
side by side on all CPUs: neighbours must change nothing.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from statistics import median

from bench.kernels.guests import tell
from bench.virtual.service import Bench, Load, Measured
from bench.virtual.text import table
from leadline.host import here


@dataclass(frozen=True)
class Repeats:
    """What the repeats of one trial told: ``way`` is how it was run."""

    seed: int
    way: str
    outcomes: Sequence[Measured]

    @property
    def identical(self) -> bool:
        return len(set(map(responses, self.outcomes))) == 1

    def row(self) -> list[str]:
        digests = list(dict.fromkeys(hashlib.sha256(responses(one).encode()).hexdigest()[:12] for one in self.outcomes))
        medians = list(dict.fromkeys(f"{median(one.each) / 1e6:.6f}" for one in self.outcomes))
        wall = median(one.wall_seconds for one in self.outcomes)
        cells = [str(self.seed), self.way, str(len(self.outcomes)), ", ".join(medians), ", ".join(digests)]
        return [*cells, f"{wall:.1f}", "identical" if self.identical else "DIFFERENT"]


def responses(measured: Measured) -> str:
    """All that a trial tells: the nanoseconds of every request, and what the guest said of itself."""
    return json.dumps([measured.text, sorted(measured.facts.items())])


def verdict(found: Sequence[Repeats]) -> tuple[bool, str]:
    """Whether repeats are identical and seeds are not; a sentence."""
    different = [f"seed {one.seed}, {one.way}" for one in found if not one.identical]
    if different:
        return False, f"not identical: {'; '.join(different)}"
    ways = {one.way for one in found}
    seeds = len({one.seed for one in found})
    if any(len({responses(one.outcomes[0]) for one in found if one.way == way}) < seeds for way in ways):
        return False, "two seeds gave the same figures: the seed is not in force"
    trials = sum(len(one.outcomes) for one in found)
    return True, f"{trials} trials: every repeat identical to the last digit, every seed another"


def run(bench: Bench, seeds: int, runs: int) -> tuple[bool, str]:
    """Whether all was identical, and the table."""
    load = Load(warm_up=300, requests=300)
    found = []
    with ThreadPoolExecutor(here.cpu_count()) as pool:
        for seed in range(1, seeds + 1):
            boot = replace(bench.boot, seed=seed)
            found.append(_repeated(pool, seed, "from boot to end", runs, partial(bench.booted, load, boot)))
            saved = bench.warmed(load, seed)
            found.append(_repeated(pool, seed, "fork", runs, partial(bench.fork, saved, load)))
            saved.remove(bench.host)
    head = ["seed", "trial", "repeats", "median request (ms)", "digest of all figures", "wall (s)", ""]
    same, words = verdict(found)
    return same, f"{table(head, [one.row() for one in found])}\n\n{words}"


def _repeated(pool: ThreadPoolExecutor, seed: int, way: str, runs: int, trial: Callable[[], Measured]) -> Repeats:
    outcomes = [done.result() for done in [pool.submit(trial) for _ in range(runs)]]
    repeats = Repeats(seed, way, outcomes)
    tell(" ".join(repeats.row()))
    return repeats
