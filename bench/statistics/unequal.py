"""Coverage and family-wise error where levels differ in noise: ``python bench/statistics/unequal.py [studies] [part of
a plan's name]``.

Prints a row for each plan and pattern of noise, once under one noise for all levels and once with each level's own, as
docs/evidence/statistics.md has them.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), *(str(ROOT / "tests" / "statistics" / part) for part in ("", "analysis"))]

from simulated_study import pseudo_factors  # noqa: E402
from test_statistics_unequal import one_level, rates, the_baseline  # noqa: E402

from leadline.design import make_plan  # noqa: E402
from leadline.model.design import Design  # noqa: E402
from leadline.model.plan import Factor, Plan  # noqa: E402

NOISES = {
    "equal": one_level(1.0),
    "one level 3 times": one_level(3.0),
    "one level 5 times": one_level(5.0),
    "the baseline 5 times": the_baseline(5.0),
}


def plans() -> dict[str, Plan]:
    """By name. Incomplete blocks hold the baseline each."""
    found = {
        f"{replicates} replicates": make_plan(pseudo_factors(5), Design(replicates=replicates, sentinels=None))
        for replicates in (3, 5, 10)
    }
    for name, factors, size, replicates in (
        ("3 factors in 18 incomplete pairs", pseudo_factors(3), 2, 6),
        ("6 factors in 18 incomplete triples", pseudo_factors(6), 3, 6),
        ("7 levels in 12 incomplete triples", [Factor("pseudo2", tuple("abcdefg"), "a")], 3, 4),
    ):
        design = Design(replicates=replicates, blocks="incomplete", block_size=size, sentinels=None)
        found[name] = make_plan(factors, design)
    return found


def main() -> None:
    studies = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    asked = sys.argv[2] if len(sys.argv) > 2 else ""
    for title, plan in plans().items():
        for name, noise in NOISES.items() if asked in title else ():
            row = [f"| {title} | {name}"]
            for equal in (True, False):
                covered, wrong, reach = rates(plan, noise, equal, studies)
                row.append(f"{covered.min():.3f} | {wrong:.3f} | {reach:.2f}")
            print(" | ".join(row), "|", flush=True)


if __name__ == "__main__":
    main()
