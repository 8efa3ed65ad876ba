"""How often BCa intervals of few units hold the true mean, beside Student's t on the same figures:
docs/concepts/statistics.md.

python bench/statistics/bootstrap.py [draws]

Two kinds of noise: t with three degrees of freedom (heavy tails), and lognormal with a sigma of one (a skew of six).
The Monte Carlo error of 95 % over 500 draws is 1.0 %.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from leadline.analysis.bootstrap import of_pairs, of_two

Floats = NDArray[np.float64]
LEVEL = 0.95
LAWS: dict[str, Callable[[np.random.Generator, int], Floats]] = {
    "t(3)": lambda rng, count: rng.standard_t(3, count),
    "lognormal, skew 6": lambda rng, count: rng.lognormal(0, 1, count) - math.exp(0.5),
}


def pairs(values: Floats) -> tuple[bool, bool]:
    """Whether BCa and Student's t hold nothing, for differences inside pairs."""
    both = np.column_stack([values, np.zeros(len(values))]).ravel()
    inside = np.tile([1, 0], len(values))
    found = of_pairs(both, inside, np.repeat(np.arange(len(values)), 2), LEVEL, "pairs").interval
    assert found is not None
    return found[0] <= 0 <= found[1], bool(stats.ttest_1samp(values, 0).pvalue >= 1 - LEVEL)


def two_sides(values: Floats) -> tuple[bool, bool]:
    """The same for two sides of equal size."""
    one, other = np.split(values, 2)
    found = of_two(one, other, LEVEL, 1.0, "trials").interval
    assert found is not None
    return found[0] <= 0 <= found[1], bool(stats.ttest_ind(one, other).pvalue >= 1 - LEVEL)


def main() -> None:
    draws = int(sys.argv[1]) if len(sys.argv) > 1 else 500
    print("| noise | units | BCa | Student's t |")
    print("| --- | --- | --- | --- |")
    rng = np.random.default_rng(1)
    for noise, law in LAWS.items():
        for name, judge, units in (("12 pairs", pairs, 12), ("30 pairs", pairs, 30), ("12 a side", two_sides, 24)):
            held = np.mean([judge(law(rng, units)) for _ in range(draws)], axis=0)
            print(f"| {noise} | {name} | {held[0]:.3f} | {held[1]:.3f} |", flush=True)


if __name__ == "__main__":
    main()
