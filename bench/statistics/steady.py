"""Rates of right decisions of steady_state on synthetic series: the table of docs/concepts/statistics.md.

python bench/statistics/steady.py [runs]
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "statistics")]

from simulated_series import SHAPES, Shape, counts, noisy  # noqa: E402

from leadline.analysis import steady_state  # noqa: E402

COLUMNS = [
    (f"n={length} AR={ar} {'spikes' if spikes else ''}".strip(), length, ar, spikes)
    for length in (600, 120)
    for spikes in (False, True)
    for ar in (0.0, 0.5)
]


def rate(shape: Shape, length: int, ar: float, spikes: bool, runs: int) -> float:
    """Share of right decisions at a noise of 5 %."""
    rng = np.random.default_rng([7, length, int(10 * ar), spikes])
    series = (noisy(shape, length, rng, 0.05, ar, spikes) for _ in range(runs))
    return sum(shape.right(steady_state(list(values)), length) for values in series) / runs


def verdicts(shape: Shape, length: int, mean: float, runs: int) -> str:
    """Shares of the verdicts on short series of counts."""
    rng = np.random.default_rng([8, length, int(mean)])
    found = Counter(steady_state(list(counts(shape, length, rng, mean))).verdict for _ in range(runs))
    return ", ".join(f"{word} {count / runs:.2f}" for word, count in found.most_common())


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 400
    print("| shape | " + " | ".join(name for name, *_ in COLUMNS) + " |")
    print("| --- |" + " --- |" * len(COLUMNS))
    for shape in SHAPES:
        cells = [f"{rate(shape, length, ar, spikes, runs):.2f}" for _, length, ar, spikes in COLUMNS]
        print(f"| {shape.name} | " + " | ".join(cells) + " |", flush=True)
    print()
    print("| shape | seconds | mean a second | verdicts |")
    print("| --- | --- | --- | --- |")
    for shape in SHAPES:
        for length, mean in ((20, 40.0), (20, 200.0), (25, 1000.0)):
            print(f"| {shape.name} | {length} | {mean:.0f} | {verdicts(shape, length, mean, runs)} |", flush=True)


if __name__ == "__main__":
    main()
