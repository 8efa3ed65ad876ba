"""What designs of many two-level factors cost and how exact they are: the table of docs/concepts/designs.md.

python bench/designs/compare.py [factors]
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from leadline.design import describe_design, make_plan  # noqa: E402
from leadline.model.design import Design  # noqa: E402
from leadline.model.plan import Factor  # noqa: E402

DESIGNS = {
    "one-at-a-time, 3 replicates": Design(sentinels=None),
    "fractional factorial, resolution III": Design(kind="fractional-factorial", resolution=3, replicates=1),
    "fractional factorial, resolution IV": Design(kind="fractional-factorial", replicates=1),
    "Plackett-Burman": Design(kind="plackett-burman", replicates=1),
    "Plackett-Burman, folded over": Design(kind="plackett-burman", foldover=True, replicates=1),
    "D-optimal, main effects": Design(kind="d-optimal", replicates=1),
}


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 33
    factors = [Factor(f"f{number}", ("off", "on"), "off") for number in range(count)]
    print(f"| design of {count} two-level factors | trials | baseline | standard error | D-efficiency | clear |")
    print("| --- | --- | --- | --- | --- | --- |")
    for name, design in DESIGNS.items():
        found = describe_design(make_plan(factors, design))
        inflation = max(effect.inflation or 0.0 for effect in found.mains)
        # a two-level effect over n trials of an orthogonal design has the variance 4 sigma^2 / n
        error = 2 * (inflation / found.trials) ** 0.5
        clear = sum(effect.clear for effect in found.mains) if design.kind != "one-at-a-time" else "at the baseline"
        print(
            f"| {name} | {found.trials} | {found.baseline_trials} | {error:.2f} | {found.d_efficiency or 0:.0f} % "
            f"| {clear} |"
        )


if __name__ == "__main__":
    main()
