"""Coverage and family-wise error where levels differ in noise: ``python bench/statistics/unequal.py [studies]``.

Prints a row for each number of replicates and pattern of noise, once under one noise for all levels and once with each
level's own, as docs/concepts/statistics.md has them.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "statistics")]

from simulated_study import pseudo_factors  # noqa: E402
from test_statistics_unequal import one_level, rates, the_baseline  # noqa: E402

from leadline.design import make_plan  # noqa: E402
from leadline.model.study import Design  # noqa: E402

NOISES = {
    "equal": one_level(1.0),
    "one level 3 times": one_level(3.0),
    "one level 5 times": one_level(5.0),
    "the baseline 5 times": the_baseline(5.0),
}


def main() -> None:
    studies = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    for replicates in (3, 5, 10):
        plan = make_plan(pseudo_factors(5), Design(replicates=replicates, sentinels=None))
        for name, noise in NOISES.items():
            row = [f"| {replicates} | {name}"]
            for equal in (True, False):
                covered, wrong, _ = rates(plan, noise, equal, studies)
                row.append(f"{covered.min():.3f} | {wrong:.3f}")
            print(" | ".join(row), "|", flush=True)


if __name__ == "__main__":
    main()
