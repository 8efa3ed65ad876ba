"""How often a comparison is found that is forecast to be found in 80 of 100 studies: docs/evidence/statistics.md.

python bench/statistics/forecast.py [studies]
"""

from __future__ import annotations

import math
import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "statistics")]
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from simulated_study import SimulatedSystem, pseudo_factors  # noqa: E402

from leadline.analysis.study import analyse  # noqa: E402
from leadline.design.make import make_plan  # noqa: E402
from leadline.model.design import Design  # noqa: E402
from leadline.model.result import Verdict  # noqa: E402
from leadline.planning.power import percent, precision_of  # noqa: E402

NOISE = 0.04
PLANS = (
    ("one-at-a-time", 3, 3),
    ("one-at-a-time", 3, 6),
    ("one-at-a-time", 8, 3),
    ("full-factorial", 3, 2),
    ("full-factorial", 3, 4),
    ("fractional-factorial", 5, 2),
)


def main() -> None:
    studies = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    print("| design | trials | effect | found |\n| --- | ---: | ---: | ---: |")
    for kind, factors, replicates in PLANS:
        plan = make_plan(pseudo_factors(factors), Design(kind=kind, replicates=replicates, sentinels=None))
        precision = precision_of(plan)
        assert not isinstance(precision, str)
        effect = precision.smallest(NOISE, 0.8)
        assert effect is not None
        system = SimulatedSystem(effects={("pseudo2", "b"): math.exp(effect)}, cv=NOISE)
        found = sum(
            any(row.factor == "pseudo2" and row.verdict is Verdict.BETTER for row in analysis.responses[0].effects)
            for analysis in (analyse(plan, system.run(plan, seed), ["throughput"]) for seed in range(studies))
        )
        name = f"{kind}, {factors} factors, {replicates} replicates"
        print(f"| {name} | {len(plan.trials)} | {percent(effect):.1f} % | {found / studies:.3f} |", flush=True)


if __name__ == "__main__":
    main()
