"""Coverage, family-wise error and power of the analysis over simulated studies:
the table of docs/evidence/statistics.md.

python bench/statistics/calibration.py [studies] [strata]

With ``strata`` only the designs with several sources of noise: split plots, slots, incomplete blocks.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "statistics")]
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np  # noqa: E402
from scipy import stats  # noqa: E402
from simulated_strata import SimulatedStrata, incomplete_plan, slots_plan, split_plot_plan  # noqa: E402
from simulated_study import SimulatedSystem, pseudo_factors  # noqa: E402

from leadline.analysis.columns import fitted_with_strata  # noqa: E402
from leadline.analysis.comparisons import Family  # noqa: E402
from leadline.analysis.study import analyse  # noqa: E402
from leadline.analysis.table import StudyTable, sample_of  # noqa: E402
from leadline.design.make import make_plan  # noqa: E402
from leadline.model.design import Design  # noqa: E402
from leadline.model.naming import plain_level  # noqa: E402
from leadline.model.plan import Plan  # noqa: E402
from leadline.model.result import Verdict  # noqa: E402


def plans() -> dict[str, Plan]:
    """The designs that are checked, by name."""
    return {
        "one-at-a-time, 5 factors, 3 replicates": make_plan(pseudo_factors(5), Design(replicates=3)),
        "one-at-a-time, 5 factors, 5 replicates": make_plan(pseudo_factors(5), Design(replicates=5)),
        "one-at-a-time, 11 factors of 4 levels, 3 replicates": make_plan(pseudo_factors(11, 4), Design(replicates=3)),
        "one-at-a-time, 4 factors, 1 replicate": make_plan(pseudo_factors(4, 3), Design(replicates=1, sentinels=3)),
        "full factorial 2x2x2, 2 replicates": make_plan(pseudo_factors(3), Design(kind="full-factorial", replicates=2)),
    }


def calibrate(plan: Plan, system: SimulatedSystem | SimulatedStrata, studies: int) -> tuple[float, float, float, float]:
    """Coverage of plain intervals, family-wise error, rate of drift found, rate of best gains above ``gain_95``."""
    covered = intervals = families = drifts = lucky = 0
    for seed in range(studies):
        result = analyse(plan, system.run(plan, seed), ["throughput"]).responses[0]
        mains = result.effects
        found = [effect.interval.contains(0.0) for effect in mains if effect.interval]
        covered += sum(found)
        intervals += len(found)
        families += any(effect.verdict in (Verdict.BETTER, Verdict.WORSE) for effect in mains)
        drifts += result.drift.detected
        lucky += bool(result.luck and (mains[0].percent or 0.0) > result.luck.gain_95)
    return covered / intervals, families / studies, drifts / studies, lucky / studies


def strata() -> dict[str, tuple[Plan, SimulatedStrata]]:
    """Designs with several sources of noise, and systems that have them."""
    even = SimulatedStrata()
    return {
        "split plots 3 x 2 x 2, 4 blocks; plots 4 %, trials 3 %": (split_plot_plan(), even),
        "split plots 2 x 2 x 2, 3 blocks; plots 0, trials 3 %": (split_plot_plan(3, 2), SimulatedStrata(plot_cv=0)),
        "7 levels in 14 blocks of 3; blocks 5 %, trials 3 %": (incomplete_plan(), even),
        "slots, 6 trials of 32, 4 levels; correlation 0.4": (slots_plan(), even),
        "slots, 6 trials of 32, 4 levels; correlation 0.8": (slots_plan(), SimulatedStrata(correlation=0.8)),
        "slots, 1 trial of 32, 4 levels; correlation 0": (slots_plan(1), SimulatedStrata(correlation=0.0)),
        "slots, 1 trial of 32, 4 levels; correlation 0.4": (slots_plan(1), even),
        "slots, 6 trials of 16 and a restart factor; correlation 0.4": (slots_plan(6, 4, heaps=2), even),
    }


def rates(plan: Plan, system: SimulatedStrata, studies: int) -> tuple[float, float]:
    """Coverage of plain intervals and family-wise error of the mixed model, without the other parts of an analysis."""
    covered: list[bool] = []
    families = 0
    for seed in range(studies):
        table = StudyTable.of(plan, system.run(plan, seed), plain_level)
        sample, _ = sample_of(table, "throughput")
        model, fit, _ = fitted_with_strata(table, sample, np.log(sample.values), timed=False)
        rows = np.array([model.effect(main) for main in model.mains])
        ratios = np.abs(fit.estimates(rows)) / fit.errors(rows)
        inside = ratios <= stats.t.ppf(0.975, fit.degrees(rows))
        covered += list(inside)
        families += not inside.all() and bool(np.any(ratios > Family.of(fit, list(rows), 0.95).critical))
    return float(np.mean(covered)), families / studies


def main() -> None:
    studies = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    if "strata" in sys.argv:
        print("| design and noise | coverage | family-wise error |")
        print("| --- | --- | --- |")
        for name, (plan, system) in strata().items():
            covered, families = rates(plan, system, studies)
            print(f"| {name} | {covered:.3f} | {families:.3f} |", flush=True)
        return
    systems = {
        "noise 4 %": SimulatedSystem(block_cv=0.0),
        "noise 4 %, blocks 5 %": SimulatedSystem(block_cv=0.05),
        "noise 4 %, drift 30 % an hour": SimulatedSystem(block_cv=0.0, drift=0.3),
    }
    print("| design | system | coverage | family-wise error | drift found | best above luck's 95 % |")
    print("| --- | --- | --- | --- | --- | --- |")
    for design, plan in plans().items():
        for name, system in systems.items():
            figures = " | ".join(f"{figure:.3f}" for figure in calibrate(plan, system, studies))
            print(f"| {design} | {name} | {figures} |", flush=True)


if __name__ == "__main__":
    main()
