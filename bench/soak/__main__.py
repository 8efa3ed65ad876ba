"""``python -m bench.soak [RUNS]``: false alarms among so many runs of eight series, by how much hours hang together.
``python -m bench.soak planted [RUNS]``: soaks of a simulated stack with and without a leak (``bench.soak.planted``).
"""

from __future__ import annotations

import sys

import numpy as np

from bench.soak import planted
from bench.soak.series import family, series
from leadline.analysis.soak import judge

TOGETHER = (0.0, 0.5, 0.8, 0.95)


def main(runs: int) -> None:
    """A line for each coefficient of autocorrelation, then all."""
    alarms = 0
    for phi in TOGETHER:
        rng = np.random.default_rng(1000 + round(100 * phi))
        found = sum(judge(series(family(rng, phi))).verdict != "stable" for _ in range(runs // len(TOGETHER)))
        alarms += found
        print(f"{phi:.2f}: {found} of {runs // len(TOGETHER)}")
    print(f"all: {alarms} of {runs // len(TOGETHER) * len(TOGETHER)}")


if __name__ == "__main__":
    words = sys.argv[1:]
    if words[:1] == ["planted"]:
        planted.main(int(words[1]) if len(words) > 1 else 204)
    else:
        main(int(words[0]) if words else 400)
