"""Coverage of 95 % intervals and family-wise error of every design on simulated studies: the table of
docs/simulation.md.

python bench/statistics/coverage.py [studies] [model] [part of a design's name ...]

With ``model`` the models and their intervals alone, without the looks for drift, carry-over and lives before them, on
other seeds.

Nothing has an effect in these systems, so every verdict is an error. Designs are those that leadline.design knows when
this runs. The Monte Carlo error of a rate of 5 % over 1,000 studies is 0.7 %, of a coverage less (several intervals a
study).
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # these matrices are small: threads would only wait for each other

import numpy as np  # noqa: E402
from scipy import stats  # noqa: E402

from leadline.analysis.columns import fitted  # noqa: E402
from leadline.analysis.comparisons import Family  # noqa: E402
from leadline.analysis.table import StudyTable, plain_level, sample_of  # noqa: E402
from leadline.design import KINDS, make_plan  # noqa: E402
from leadline.design.switchback import switchback_plan  # noqa: E402
from leadline.model.errors import UsageError  # noqa: E402
from leadline.model.knob import ApplyCost  # noqa: E402
from leadline.model.plan import Factor, Plan  # noqa: E402
from leadline.model.study import Design, Switchback, Workload  # noqa: E402
from leadline.simulate import Truth, rates  # noqa: E402
from leadline.simulate.model import Model  # noqa: E402
from leadline.simulate.observations import simulate_observations  # noqa: E402

MODEL_SEED = 5001
TRIALS = Workload(users=40, ramp_up=2, steady=10, ramp_down=1)
NOISE = {"trials": 0.04, "blocks": 0.03, "seconds": 0.05, "autocorrelation": 0.3}
PLOTS = {**NOISE, "plots": 0.05}
SLOTS = {"trials": 0.04, "seconds": 0.08, "autocorrelation": 0.6}


@dataclass(frozen=True)
class Case:
    """A plan with the system it runs on."""

    name: str
    plan: Plan
    workload: Workload
    truth: Truth


def factors(count: int, levels: int, cost: ApplyCost = ApplyCost.RESTART, name: str = "server.k") -> list[Factor]:
    """Factors without any effect."""
    return [Factor(f"{name}{number}", tuple(range(levels)), 0, apply_cost=cost) for number in range(1, count + 1)]


def recipes() -> Iterator[tuple[str, list[Factor], Design, Workload, dict[str, float]]]:
    """One or more studies for each kind of design, each way of blocking, split plots and switchback."""
    sizes = {
        "one-at-a-time": [(factors(5, 2), Design(replicates=3)), (factors(11, 4), Design(replicates=3))],
        "full-factorial": [(factors(3, 2), Design(kind="full-factorial", replicates=2))],
        "definitive-screening": [(factors(6, 3), Design(kind="definitive-screening", replicates=2))],
        "d-optimal": [(factors(3, 3) + factors(3, 2, name="jvm.k"), Design(kind="d-optimal", replicates=2))],
    }
    for kind in KINDS:
        if kind == "racing":  # which trials a race has depends on its figures: bench/statistics/sequential.py
            continue
        usual = [(factors(7, 2), Design.model_validate({"kind": kind, "replicates": 2}))]
        for chosen, design in sizes.get(kind, usual):
            shape = " + ".join(sorted({f"{_count(chosen, n)} of {n} levels" for n in {len(f.levels) for f in chosen}}))
            yield f"{kind}, {shape}, {design.replicates} replicates", chosen, design, TRIALS, NOISE
    three, one = factors(3, 2), factors(1, 4)
    yield "blocks incomplete", factors(1, 6), Design(blocks="incomplete", block_size=3, replicates=4), TRIALS, NOISE
    yield "blocks latin", one, Design(blocks="latin", replicates=4), TRIALS, NOISE
    yield "blocks williams", one, Design(blocks="williams", replicates=4), TRIALS, NOISE
    yield "blocks abba", factors(1, 2), Design(blocks="abba", replicates=6), TRIALS, NOISE
    dear = factors(1, 2, ApplyCost.KERNEL, "kernel")
    yield "split plot, one-at-a-time", [*dear, *three], Design(replicates=4), TRIALS, PLOTS
    yield "split plot, full-factorial", [*dear, *three[:2]], Design(kind="full-factorial", replicates=4), TRIALS, PLOTS
    live = factors(2, 2, ApplyCost.LIVE, "vm.k")
    steady = Workload(users=40, ramp_up=2, steady=180, ramp_down=1)
    for order in ("random-blocks", "williams", "abba"):
        design = Design.model_validate(
            {"replicates": 2, "switchback": {"slot": 6, "wash_out": 1, "order": order}, "kind": "one-at-a-time"}
        )
        yield f"switchback {order}", live[:1] if order == "abba" else live, design, steady, SLOTS
    both = Design(replicates=3, switchback=Switchback(slot=6, wash_out=1))
    yield "switchback, and a factor between trials", [*live, *factors(1, 2)], both, steady, SLOTS


def _count(chosen: list[Factor], levels: int) -> int:
    return sum(len(factor.levels) == levels for factor in chosen)


def cases() -> Iterator[Case]:
    """What can be planned; a refusal is printed."""
    for name, chosen, design, workload, noise in recipes():
        try:
            planned = switchback_plan(chosen, design, workload) if design.switchback else make_plan(chosen, design)
        except UsageError as refusal:
            print(f"{name}: {refusal}", file=sys.stderr)
            continue
        yield Case(name, planned, workload, Truth.model_validate({"noise": noise}))


def model_rates(case: Case, studies: int) -> tuple[float, float, float]:
    """Coverage of plain intervals, share of studies whose simultaneous intervals all hold, family-wise error."""
    model = Model(case.truth, case.workload)
    covered: list[bool] = []
    wrong = 0
    for number in range(studies):
        seen = simulate_observations(case.plan, case.truth, case.workload, MODEL_SEED + number, model=model)
        table = StudyTable.of(case.plan, seen, plain_level)
        sample, _ = sample_of(table, "throughput")
        columns, fit = fitted(table, sample, np.log(sample.values), timed=False)
        family = Family.of(fit, [columns.effect(main) for main in columns.mains], 0.95)
        ratios = np.abs(family.estimates) / family.errors
        covered += list(ratios <= stats.t.isf(0.025, family.degrees))
        wrong += bool(np.any(ratios > family.critical))
    return float(np.mean(covered)), 1 - wrong / studies, wrong / studies


def shares_of(case: Case, studies: int, alone: bool) -> tuple[float | None, float | None, float]:
    if alone:
        return model_rates(case, studies)
    found = rates(case.plan, case.truth, case.workload, studies)
    return found.coverage, found.simultaneous, found.family_error


def main() -> None:
    words = sys.argv[1:]
    studies = int(words.pop(0)) if words and words[0].isdigit() else 1000
    alone = "model" in words
    words = [word for word in words if word != "model"]
    print("| design | trials | slots | coverage | all simultaneous intervals | family-wise error |")
    print("| --- | --- | --- | --- | --- | --- |")
    for case in cases():
        if words and not any(word in case.name for word in words):
            continue
        begun = time.process_time()
        found = shares_of(case, studies, alone)
        slots = sum(len(trial.slots) for trial in case.plan.trials)
        shares = " | ".join("none" if share is None else f"{share:.3f}" for share in found)
        print(f"| {case.name} | {len(case.plan.trials)} | {slots or ''} | {shares} |", flush=True)
        print(f"{case.name}: {time.process_time() - begun:.0f} s of CPU", file=sys.stderr)


if __name__ == "__main__":
    main()
