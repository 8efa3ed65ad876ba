"""Right digits (log relative error) of the analysis of variance on the NIST reference sets: the table of
docs/evidence/reference-values.md.

python bench/statistics/nist.py
"""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "statistics")]

from nist_anova import SETS, anova, digits, reference  # noqa: E402


def textbook(groups: np.ndarray, values: np.ndarray) -> float:
    """F from sums of squares of deviations from means in doubles: what the data allow."""
    parts = [values[groups == group] for group in np.unique(groups)]
    within = sum(float(np.sum((part - part.mean()) ** 2)) for part in parts)
    between = sum(len(part) * float(part.mean() - values.mean()) ** 2 for part in parts)
    return between / (len(parts) - 1) / (within / (len(values) - len(parts)))


def main() -> None:
    print("| set | constant leading digits | between | within | F | R squared | residual sd | F by centred sums |")
    print("| --- |" + " ---: |" * 7)
    for name, leading in SETS.items():
        known = reference(name)
        found, certified = asdict(anova(known.groups, known.values)), asdict(known.certified)
        cells = [f"{digits(found[key], certified[key]):.1f}" for key in certified]
        plain = digits(textbook(known.groups, known.values), certified["statistic"])
        print(f"| {name} | {leading} | " + " | ".join(cells) + f" | {plain:.1f} |")


if __name__ == "__main__":
    main()
