"""Tries every set of columns for fractions of 2**q runs: does any have less aberration than the table's?

python bench/designs/prove_fractions.py [q] [most factors]     (5 and 31: a minute of CPU)
"""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from leadline.design.aberration import MOMENTS, signs, word_lengths  # noqa: E402
from leadline.design.fractions import ADDED  # noqa: E402

CHUNK = 100_000


def less_aberration(q: int, factors: int) -> tuple[int, tuple[int, ...] | None]:
    """(sets tried, columns of one with less aberration than the table's or None)."""
    table = signs(q)
    basic = [1 << bit for bit in range(q)]
    every = [column for column in range(1, 1 << q) if column not in basic]
    ours = table[:, [*basic, *ADDED[(q, factors)]]].sum(axis=1)
    wanted = [int((ours**power).sum()) for power in MOMENTS]
    base = table[:, basic].sum(axis=1)
    sets = itertools.combinations(every, factors - q)
    tried = 0
    while chunk := list(itertools.islice(sets, CHUNK)):
        tried += len(chunk)
        chosen = np.zeros((len(chunk), 1 << q), dtype=np.float32)
        chosen[np.arange(len(chunk))[:, None], np.array(chunk)] = 1.0
        sums = (chosen @ table.astype(np.float32).T).astype(np.int64) + base
        tied = np.ones(len(chunk), dtype=bool)
        for power, value in zip(MOMENTS, wanted, strict=True):
            moment = (sums[tied] ** power).sum(axis=1)
            if np.any(moment < value):
                return tried, chunk[int(np.flatnonzero(tied)[int(np.argmin(moment))])]
            tied[np.flatnonzero(tied)] = moment == value
            if not tied.any():
                break
    return tried, None


def main() -> int:
    q = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    most = int(sys.argv[2]) if len(sys.argv) > 2 else 31
    worse = 0
    for factors in range(q + 1, most + 1):
        tried, better = less_aberration(q, factors)
        lengths = word_lengths(q, [*(1 << bit for bit in range(q)), *ADDED[(q, factors)]])[2:]
        said = "none has less" if better is None else f"{better} has less"
        print(f"{1 << q} runs, {factors} factors, words from length 3 on {lengths}: {tried:,} sets tried, {said}")
        worse += better is not None
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
