"""Coverage of 95 % intervals and family-wise error of every design on simulated studies: the table of
docs/evidence/statistics.md.

python bench/statistics/coverage.py [studies] [model] [part of a design's name ...]

With ``model`` the models and their intervals alone, without the looks for drift, carry-over and lives before them, on
other seeds.

Nothing has an effect in these systems, so every verdict is an error. Designs are those that leadline.design knows when
this runs. The Monte Carlo error of a rate of 5 % over 1,000 studies is 0.7 %, of a coverage less (several intervals a
study).

The last two columns take most of that luck out (a control variate). Every study is also judged by one who knows which
part of the noise lies where: generalised least squares with the true ratios of variances and the true correlation. The
law of the largest |t| is exact there, the family-wise error 5 %. What it misses by in these very studies is the luck of
their noise, which the last column subtracts.
"""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # these matrices are small: threads would only wait for each other

import numpy as np  # noqa: E402
from scipy import stats  # noqa: E402

from leadline.analysis.columns import Model as Columns  # noqa: E402
from leadline.analysis.columns import fitted_with_strata  # noqa: E402
from leadline.analysis.comparisons import Family  # noqa: E402
from leadline.analysis.linear import Fit, Strata, fit  # noqa: E402
from leadline.analysis.mixed import whiten  # noqa: E402
from leadline.analysis.study import analyse  # noqa: E402
from leadline.analysis.table import Floats, Sample, StudyTable, sample_of  # noqa: E402
from leadline.design.kinds import KINDS  # noqa: E402
from leadline.design.make import make_plan  # noqa: E402
from leadline.layouts import switchback_plan  # noqa: E402
from leadline.model.design import Design, Switchback  # noqa: E402
from leadline.model.errors import UsageError  # noqa: E402
from leadline.model.knob import ApplyCost  # noqa: E402
from leadline.model.naming import plain_level  # noqa: E402
from leadline.model.plan import Factor, Plan  # noqa: E402
from leadline.model.result import ResponseAnalysis, Verdict  # noqa: E402
from leadline.model.workload import Workload  # noqa: E402
from leadline.places.simulated import Truth  # noqa: E402
from leadline.places.simulated.model import Model  # noqa: E402
from leadline.places.simulated.observations import simulate_observations  # noqa: E402
from leadline.places.simulated.trial import lognormal_sigma  # noqa: E402

MODEL_SEED = 5001
LEFT_OUT = 1.0  # seconds at the start of each slot
TITLES = (
    "coverage",
    "all simultaneous intervals",
    "family-wise error",
    "with the noise known",
    "family-wise error less that luck",
    "carry-over found",
    "lives found to differ",
)
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
        if kind == "confirmation":  # one comparison, planned by itself
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
            {"replicates": 2, "switchback": {"slot": 6, "wash_out": LEFT_OUT, "order": order}, "kind": "one-at-a-time"}
        )
        yield f"switchback {order}", live[:1] if order == "abba" else live, design, steady, SLOTS
    both = Design(replicates=3, switchback=Switchback(slot=6, wash_out=LEFT_OUT))
    yield "switchback, and a factor between trials", [*live, *factors(1, 2)], both, steady, SLOTS
    for kind, chosen in (
        ("plackett-burman, and a factor between trials", [*factors(5, 2, ApplyCost.LIVE, "vm.k"), *factors(1, 2)]),
        ("d-optimal", [*live, *factors(2, 3, ApplyCost.LIVE, "vm.m")]),
    ):
        crossed = Design.model_validate({"replicates": 2, "switchback": {"slot": 6, "wash_out": LEFT_OUT}})
        crossed = crossed.model_copy(update={"kind": kind.split(",")[0]})
        yield f"switchback {kind}", chosen, crossed, steady, SLOTS


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


def components(case: Case) -> dict[str, float]:
    """True variances of the logarithms by stratum, ``inner`` the innermost's; ``correlation`` of neighbouring slots."""
    noise = case.truth.noise
    slots = case.plan.trials[0].slots
    count = slots[0].seconds - LEFT_OUT if slots else case.workload.steady
    lags = np.subtract.outer(np.arange(count), np.arange(count))
    mean = lognormal_sigma(noise.seconds) ** 2 * float(np.mean(noise.autocorrelation ** np.abs(lags)))
    trial = lognormal_sigma(noise.trials) ** 2
    found = {"plot": lognormal_sigma(noise.plots) ** 2, "block": lognormal_sigma(noise.blocks) ** 2}
    if not slots:
        return found | {"inner": trial + mean}
    next_one = lognormal_sigma(noise.seconds) ** 2 * float(np.mean(noise.autocorrelation ** (slots[0].seconds + lags)))
    return found | {"trial": trial, "inner": mean, "correlation": next_one / mean}


def true_parameters(case: Case, strata: Strata) -> Floats:
    """The parameters of ``whiten`` (d) for the true variances."""
    true = components(case)
    tail = [float(np.arctanh(true["correlation"]))] if strata.lags is not None else []
    found: list[float] = []
    ones = np.ones((len(strata.order), 1))
    for index, stratum in enumerate(strata.random):
        rest = len(strata.random) - index
        ratio = whiten(strata, ones, np.array([*found, *[math.log(2)] * rest, *tail])).ratios[index]  # 1 / weight
        found.append(math.log1p(true[stratum.name] / true["inner"] / ratio))
    return np.array([*found, *tail])


@dataclass
class Known:
    """Judges by the true covariance, up to its scale; ``wrong`` remembers of each study whether that erred."""

    case: Case
    wrong: list[bool] = field(default_factory=list)
    _parameters: Floats | None = None

    def look(self, sample: Sample, chosen: Columns, strata: Strata) -> None:
        """One more study."""
        if self._parameters is None:
            self._parameters = true_parameters(self.case, strata)
        rows = np.column_stack([chosen.rows(sample), np.log(sample.values)])[strata.order]
        white = whiten(strata, rows, self._parameters).columns
        known = fit(white[:, :-1], white[:, -1], strata.swept.groups if strata.swept else 0)
        family = Family.of(known, [chosen.effect(main) for main in chosen.mains], 0.95)
        self.wrong.append(bool(np.any(np.abs(family.estimates) > family.critical * family.errors)))


@dataclass
class Counts:
    """Per study: share of plain intervals that hold the truth, whether all simultaneous ones do, any false verdict,
    whether carry-over, and effects that differ between lives, were found.
    """

    covered: list[float] = field(default_factory=list)
    together: list[bool] = field(default_factory=list)
    wrong: list[bool] = field(default_factory=list)
    carried: list[bool] = field(default_factory=list)
    lives: list[bool] = field(default_factory=list)

    def model(self, chosen: Columns, found: Fit) -> None:
        """The model's intervals alone."""
        family = Family.of(found, [chosen.effect(main) for main in chosen.mains], 0.95)
        ratios = np.abs(family.estimates) / family.errors
        self.covered.append(float(np.mean(ratios <= stats.t.isf(0.025, family.degrees))))
        self.wrong.append(bool(np.any(ratios > family.critical)))
        self.together.append(not self.wrong[-1])

    def analysis(self, result: ResponseAnalysis) -> None:
        """A whole analysis."""
        held = [one for one in result.effects if one.interval is not None and one.simultaneous is not None]
        if held:
            self.covered.append(float(np.mean([one.interval.contains(0.0) for one in held])))
            self.together.append(all(one.simultaneous.contains(0.0) for one in held))
        if any("carry-over" in note for note in result.notes):
            self.carried.append(any("detects a carry-over" in note for note in result.notes))
            self.lives.append(any(note.startswith("Effects differ") for note in result.notes))
        self.wrong.append(any(one.verdict in (Verdict.BETTER, Verdict.WORSE) for one in result.effects))


def counted(case: Case, studies: int, alone: bool) -> tuple[Counts, Known]:
    """The studies of one design, judged."""
    model = Model(case.truth, case.workload)
    counts, known = Counts(), Known(case)
    first = MODEL_SEED if alone else 1
    for seed in range(first, first + studies):
        seen = simulate_observations(case.plan, case.truth, case.workload, seed, model=model, wash_out=LEFT_OUT)
        table = StudyTable.of(case.plan, seen, plain_level)
        sample, _ = sample_of(table, "throughput")
        chosen, found, strata = fitted_with_strata(table, sample, np.log(sample.values), timed=False)
        known.look(sample, chosen, strata)
        if alone:
            counts.model(chosen, found)
        else:
            counts.analysis(analyse(case.plan, seen, ["throughput"], verdicts_only=True).responses[0])
    return counts, known


def row(case: Case, studies: int, alone: bool) -> str:
    """One row of the table."""
    counts, known = counted(case, studies, alone)
    slots = sum(len(trial.slots) for trial in case.plan.trials)
    beyond = np.array(counts.wrong, dtype=float) - np.array(known.wrong, dtype=float)
    error = float(np.std(beyond)) / math.sqrt(studies)
    shares = [np.mean(each) if each else None for each in (counts.covered, counts.together, counts.wrong, known.wrong)]
    figures = " | ".join("none" if share is None else f"{share:.3f}" for share in shares)
    corrected = f"{0.05 + np.mean(beyond):.3f} ± {error:.3f}"
    looks = " | ".join(f"{np.mean(each):.3f}" if each else "" for each in (counts.carried, counts.lives))
    return f"| {case.name} | {len(case.plan.trials)} | {slots or ''} | {figures} | {corrected} | {looks} |"


def main() -> None:
    words = sys.argv[1:]
    studies = int(words.pop(0)) if words and words[0].isdigit() else 1000
    alone = "model" in words
    words = [word for word in words if word != "model"]
    print(f"| design | trials | slots | {' | '.join(TITLES)} |")
    print("| --- | --- | --- |" + " --- |" * len(TITLES))
    for case in cases():
        if words and not any(word in case.name for word in words):
            continue
        begun = time.process_time()
        print(row(case, studies, alone), flush=True)
        print(f"{case.name}: {time.process_time() - begun:.0f} s of CPU", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
