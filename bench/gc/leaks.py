"""The leak test on series of known truth, as a table: what it calls a live set that leaks, and one that does not.

    python bench/gc/leaks.py [--runs 200] [--points 20,50,100,300,1000] [--noises harder] [--rows plateau] [--seed 1]

Rows are kinds of series; each cell has the share of verdicts "leak", %, of ``--runs`` series in equal parts of the
kinds of noise: independent, autocorrelated (0.5, 0.8) and uneven; with ``--noises harder`` autocorrelated (0.9), with
heavy tails, at times of a Poisson process, at times that the load sets. A share above 5 % in a row that is no leak is
printed with a mark, and the program ends with 1.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import product
from multiprocessing import get_context
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.signal import lfilter

from leadline.gcanalysis.live import LivePoint, leak

MIB = 1 << 20
BASE = 100.0  # MiB
_ROOM = 4096.0  # MiB of heap that no series meets
SIGMA = 2.0  # MiB, of the noise
Array = NDArray[Any]
Shape = Callable[[Array, np.random.Generator], Array]


def _steps(at: Array, rng: np.random.Generator) -> Array:
    """Classes and caches of a start: three steps in the first half."""
    return sum((rng.uniform(3, 15) * (at > place) for place in rng.uniform(0.02, 0.5, 3)), np.zeros_like(at))


def _teeth(at: Array, rng: np.random.Generator) -> Array:
    turns = rng.uniform(2, 12) * at + rng.uniform()
    return 30 * (turns % 1)


def _gamma_teeth(at: Array, rng: np.random.Generator) -> Array:
    """Teeth whose lengths are of a gamma distribution, 4 to 40 of them, each as high as it is long."""
    ends = np.cumsum(rng.gamma(2.0, 0.5 / rng.uniform(4, 40), 400))
    begins = np.concatenate(([0.0], ends))
    since = at - begins[np.searchsorted(begins, at, side="right") - 1]
    return np.asarray(40 * since / max(float(since.max()), 1e-9))


def _day(at: Array, rng: np.random.Generator, size: float = 30.0, fewest: float = 2, most: float = 10) -> Array:
    turns = 2 * np.pi * (rng.uniform(fewest, most) * at + rng.uniform())
    return size / 2 * np.sin(turns)


def _hours(at: Array, rng: np.random.Generator) -> Array:
    """An office's day: full for a third of it."""
    turns = rng.uniform(3, 8) * at + rng.uniform()
    return 30.0 * np.clip(6 * (np.sin(2 * np.pi * turns) - 0.5), 0, 1)


def _walk(at: Array, rng: np.random.Generator) -> Array:
    return SIGMA * np.cumsum(rng.normal(size=len(at)))


def _fills(part: float) -> Shape:
    return lambda at, rng: rng.uniform(20, 100) * (1 - np.exp(-at / part))


def _slowly(part: float) -> Shape:
    """As a logarithm: the more is there, the less is new."""
    return lambda at, rng: rng.uniform(20, 100) * np.log1p(at / part) / np.log1p(1 / part)


def _plateau(until: float) -> Shape:
    return lambda at, rng: rng.uniform(20, 100) * np.minimum(at / until, 1)


def _refills(at: Array, rng: np.random.Generator) -> Array:
    """A cache of the least recently used that is emptied in part and fills again."""
    emptied = np.sort(rng.uniform(0, 1, 4))
    since = at - np.concatenate(([0.0], emptied))[np.searchsorted(emptied, at, side="right")]
    return 40 * (1 - np.exp(-since / 0.05))


def _week(at: Array, rng: np.random.Generator) -> Array:
    """Days and weeks, two weeks or three."""
    weeks = rng.uniform(2, 3)
    return _day(at, rng, 15, weeks, weeks) + _day(at, rng, 30, 7 * weeks, 7 * weeks)


NONE: Mapping[str, Shape] = {
    "flat": lambda at, _: np.zeros_like(at),
    "seasonal": _day,
    "seasonal, 1 to 2 turns": lambda at, rng: _day(at, rng, 30, 1, 2),
    "two rhythms": _week,
    "seasonal, 80 %": lambda at, rng: _day(at, rng, 80),
    "office hours": _hours,
    "sawtooth": _teeth,
    "sawtooth of gamma lengths": _gamma_teeth,
    "plateau after 0.15": _plateau(0.15),
    "plateau after 0.3": _plateau(0.3),
    "plateau after 0.5": _plateau(0.5),
    "plateau after 0.7": _plateau(0.7),
    "plateau after 0.8": _plateau(0.8),
    "plateau after 0.9": _plateau(0.9),
    "fills, 0.1 of the time": _fills(0.1),
    "fills, 0.2": _fills(0.2),
    "fills, 0.33": _fills(0.33),
    "fills, 0.5": _fills(0.5),
    "fills, 0.75": _fills(0.75),
    "fills, 1.0": _fills(1.0),
    "fills as a logarithm, 0.01": _slowly(0.01),
    "fills as a logarithm, 0.1": _slowly(0.1),
    "emptied and refilled": _refills,
    "warm-up in steps": _steps,
    "warm-up, then a rhythm": lambda at, rng: _plateau(0.2)(at, rng) + _day(at, rng),
    "fills, under a rhythm": lambda at, rng: _fills(0.2)(at, rng) + _day(at, rng),
    "random walk": _walk,
}
LEAKS: Mapping[str, Shape] = {
    "from the start, + 30 %": lambda at, _: 30 * at,
    "from the start, + 100 %": lambda at, _: 100 * at,
    "from the middle, + 30 %": lambda at, _: 60 * np.maximum(at - 0.5, 0),
    "from the middle, + 100 %": lambda at, _: 200 * np.maximum(at - 0.5, 0),
    "doubling under a rhythm": lambda at, rng: 100 * at + _day(at, rng, 30, 3),
    "doubling under a rhythm of 80 %": lambda at, rng: 100 * at + _day(at, rng, 80, 3),
    "doubling under office hours": lambda at, rng: 100 * at + _hours(at, rng),
    "doubling in a random walk": lambda at, rng: 100 * at + _walk(at, rng),
    "doubling after a warm-up": lambda at, rng: 100 * at + _plateau(0.15)(at, rng),
}
LIMIT = 200.0  # MiB


def _meets(part: float) -> Shape:
    """A leak that meets the heap's limit at this part of the log and stays there: "leak" or "full" is right."""
    return lambda at, _: (LIMIT - BASE) * at / part


FULL: Mapping[str, Shape] = {f"meets the limit at {part}": _meets(part) for part in (0.3, 0.6, 0.9)}


@dataclass(frozen=True)
class Noise:
    """``together``: of an autoregression; ``uneven``: the spread grows fourfold over the series; ``tails``: degrees of
    freedom of Student's t, 0 for normal noise. ``gaps``: between points, "even" within a factor of three, "poisson" or
    "load": collections come when a load with a rhythm and a trend has allocated enough.
    """

    together: float = 0.0
    uneven: bool = False
    tails: int = 0
    gaps: str = "even"

    def of(self, count: int, rng: np.random.Generator) -> Array:
        made = rng.standard_t(self.tails, count + 50) if self.tails else rng.normal(size=count + 50)
        if self.together:
            made = lfilter([1], [1, -self.together], made * np.sqrt(1 - self.together**2))
        return made[50:] * (np.linspace(0.4, 1.6, count) if self.uneven else 1.0)

    def times(self, count: int, rng: np.random.Generator) -> Array:
        """Seconds."""
        if self.gaps == "poisson":
            return np.cumsum(rng.exponential(10, count) + 0.001)
        if self.gaps == "load":
            turns = rng.uniform(2, 8) * np.linspace(0, 1, count) + rng.uniform()
            load = (1 + 0.7 * np.sin(2 * np.pi * turns)) * np.linspace(1, rng.uniform(0.3, 3), count)
            return np.cumsum(10 / load)
        return np.cumsum(rng.uniform(5, 15, count))


NOISES = (Noise(), Noise(0.5), Noise(0.8), Noise(0.3, uneven=True))
HARDER = (Noise(0.9), Noise(tails=3), Noise(0.5, gaps="poisson"), Noise(0.3, gaps="load"))


def verdicts(shape: Shape, count: int, noise: Noise, runs: int, seed: int = 1, limit: float = _ROOM) -> Counter[str]:
    """Of ``runs`` series of ``count`` points at uneven times, in whole MiB as in a log; the heap has ``limit``."""
    rng = np.random.default_rng([seed, count, round(100 * noise.together), noise.uneven])
    found: Counter[str] = Counter()
    for _ in range(runs):
        times = noise.times(count, rng)
        at = (times - times[0]) / (times[-1] - times[0])
        sizes = np.maximum(1, BASE + shape(at, rng) + SIGMA * noise.of(count, rng))
        if limit < _ROOM:  # what is left free at the limit is little
            sizes = np.minimum(sizes, limit * (1 - 0.05 * rng.random(count)))
        points = [LivePoint(0, t, None, round(size) * MIB) for t, size in zip(times.tolist(), sizes, strict=True)]
        found[leak(points, "after full collections", round(limit * MIB)).verdict] += 1
    return found


def _leaks(name: str, count: int, noise: Noise, runs: int, seed: int) -> int:
    if name in FULL:
        found = verdicts(FULL[name], count, noise, runs, seed, LIMIT)
        return found["leak"] + found["full"]
    return verdicts({**NONE, **LEAKS}[name], count, noise, runs, seed)["leak"]


def table(
    pool: ProcessPoolExecutor, rows: Sequence[str], counts: Sequence[int], noises: Sequence[Noise], runs: int, seed: int
) -> bool:
    """Prints the rows, each cell over all kinds of noise. Whether no cell of a row without a leak is above 5 %."""
    print(f"| series | {' | '.join(f'{count} points' for count in counts)} |\n| --- {'| --- ' * len(counts)}|")
    good, each = True, runs // len(noises)
    cells = {
        (name, count): [pool.submit(_leaks, name, count, noise, each, seed) for noise in noises]
        for name, count in product(rows, counts)
    }
    for name in rows:
        shown = []
        for count in counts:
            share = 100 * sum(part.result() for part in cells[name, count]) / (each * len(noises))
            over = name in NONE and share > 5
            good &= not over
            shown.append(f"{share:.1f}{' !' if over else ''}")
        print(f"| {name} | {' | '.join(shown)} |", flush=True)
    return good


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--runs", type=int, default=200)
    options.add_argument("--points", default="20,50,100,300,1000")
    options.add_argument("--noises", choices=("usual", "harder"), default="usual")
    options.add_argument("--rows", default="", help="only those whose name this regular expression finds")
    options.add_argument("--seed", type=int, default=1)
    chosen = options.parse_args()
    counts = [int(text) for text in chosen.points.split(",")]
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # the processes share the processors already
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        rows = [name for name in (*NONE, *LEAKS, *FULL) if re.search(chosen.rows, name)]
        noises = HARDER if chosen.noises == "harder" else NOISES
        good = table(pool, rows, counts, noises, chosen.runs, chosen.seed)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
