"""Analysis of covariance beside a planted neighbour: error rates, coverage and what it narrows.

``python -m bench.statistics.covariates [--studies 1000] [CASE ...]``: simulated studies of one factor with three levels
(five replicates in blocks) or of slots in five trials. The neighbour takes a share of the CPUs that the covariate
tells. Every case is analysed with and without the covariate.

``--lab DIR [--study 1]``: what the covariates do to a recorded study instead.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from leadline.analysis.study import analyse
from leadline.checks.files.study import parse_study
from leadline.design.make import make_plan
from leadline.layouts import switchback_plan
from leadline.model.design import Design, Switchback
from leadline.model.knob import ApplyCost, Kind, Knob
from leadline.model.plan import Factor, Plan
from leadline.model.result import Observation, Verdict
from leadline.model.workload import Workload
from leadline.places.simulated import SimulatedTestbed, parse_truth
from leadline.places.simulated.model import Model
from leadline.places.simulated.observations import simulate_observations
from leadline.store.lab import Store

LEVELS = ("a", "b", "c")
RESPONSE = "throughput"


@dataclass(frozen=True)
class Case:
    """``share``: mean CPU that a neighbour takes where it is there in half of the trials; ``moved``: added to it, in
    standard deviations of the covariate between trials, at the last level; ``ratio``: noise of the last level over
    that of the others; ``effect``: log change at the last level; ``slots``: slots in place of trials. ``host``: the
    layout of a study on the simulated host, where the neighbour computes half of the time in phases of 8 s.
    """

    share: float = 0.3
    moved: float = 0.0
    ratio: float = 1.0
    effect: float = 0.0
    slots: bool = False
    slope: float = -1.0
    bent: bool = False  # the response falls by log(1 - share), not along a straight line
    noise: float = 0.03
    host: str = ""


CASES = {
    "quiet": Case(share=0.0),
    "neighbour": Case(),
    "neighbour, effect 5 %": Case(effect=math.log(1.05)),
    "neighbour that does no harm": Case(slope=0.0),
    "neighbour, curved": Case(bent=True),
    "neighbour, one level with 3 times the noise": Case(ratio=3.0),
    "neighbour, one level with 5 times the noise": Case(ratio=5.0),
    "moved by half a deviation": Case(share=0.2, moved=0.5),
    "moved by 2 deviations": Case(share=0.2, moved=2.0),
    "moved by 5 deviations": Case(share=0.2, moved=5.0),
    "simulated host, trials": Case(host="trials"),
    "simulated host, trials, effect 4 %": Case(host="trials", effect=math.log(1.04)),
    "simulated host, rotation": Case(host="rotation"),
    "simulated host, rotation, effect 4 %": Case(host="rotation", effect=math.log(1.04)),
    "slots": Case(slots=True),
    "slots, effect 5 %": Case(slots=True, effect=math.log(1.05)),
}


def host_of(case: Case) -> tuple[Plan, Model, Workload]:
    """A study of a restart knob with three levels, its truth bound to it."""
    percent = f"{100 * math.expm1(case.effect):.6g}%"
    effect = f"{{ when: {{ server.pool: c }}, percent: {{ throughput: {percent} }} }}"
    noise = "noise: { trials: 2%, seconds: 4% }"
    truth = parse_truth(f"truth: {{ effects: [{effect}], neighbour: {{ share: 45% }}, {noise} }}", "truth")
    rotation = "ramp_up: 10s, steady: 24s", ", rotation: { slot: 4s, instances: 1 }"
    load, layout = rotation if case.host == "rotation" else ("ramp_up: 6s, steady: 24s", "")
    file = parse_study(
        f"study: s\nquestion: q\nworkload: {{ users: 40, {load}, ramp_down: 1s }}\n"
        f"factors: {{ server.pool: [a, b, c] }}\n"
        f"design: {{ replicates: 5, sentinels: null, seed: 5{layout} }}\n",
        "study",
    )
    knob = Knob("server.pool", Kind.CHOICE, ApplyCost.RESTART, "a pool", default="a", choices=LEVELS)
    bed = SimulatedTestbed(truth, Path(), service_knobs=[knob], host=[])
    planned = bed.plan(file)
    return planned.plan, Model(bed.bound(file, planned), file.study.workload), file.study.workload


def plan_of(case: Case) -> Plan:
    factor = Factor("pseudo", LEVELS, LEVELS[0], pseudo=True, apply_cost=ApplyCost.LIVE)
    if case.slots:
        design = Design(replicates=5, switchback=Switchback(slot=10.0), seed=5)
        return switchback_plan([factor], design, Workload(users=1, ramp_up=5, steady=180))
    return make_plan([factor], Design(replicates=5, sentinels=None, seed=5))


def study(case: Case, plan: Plan, rng: np.random.Generator) -> list[Observation]:
    """Every trial, or slot, once: the response falls with what the neighbour takes."""
    blocks = rng.normal(0.0, 0.03, 1 + max(trial.block for trial in plan.trials))
    spread = case.share * math.sqrt(1 / 12 + 1 / 4)  # of the covariate between trials: half of them have none
    found = []
    for trial in plan.trials:
        life = float(rng.normal(0.0, 0.02)) if trial.slots else 0.0
        for slot in trial.slots or (None,):
            treatment = slot.treatment if slot else trial.treatment
            last = treatment["pseudo"] == LEVELS[-1]
            taken = case.share * float(rng.uniform(0.5, 1.5)) * float(rng.random() < 0.5)
            taken = min(max(taken + (case.moved * spread if last else 0.0), 0.0), 0.9)
            value = float(blocks[trial.block]) + life + case.noise * (case.ratio if last else 1.0) * float(rng.normal())
            value += math.log1p(-taken) if case.bent else case.slope * taken
            value += case.effect if last else 0.0
            found.append(
                Observation(
                    trial.position + 1,
                    trial.position,
                    trial.block,
                    trial.replicate,
                    trial.role,
                    treatment,
                    1.7e9 + 60 * trial.position + (10 * slot.index if slot else 0),
                    {RESPONSE: 500 * math.exp(value)},
                    slot=slot.index if slot else None,
                    seconds=7.0 if slot else None,
                    machine={"others_cpu": max(0.0, taken + 0.005 * float(rng.normal()))},
                )
            )
    return found


def rates(case: Case, studies: int, seed: int) -> dict[str, float]:
    """With and without the covariate: wrong verdicts or power, coverage, median width (log), and how often it is used.

    What the truth is where levels move the covariate: the whole effect, the moved part included.
    """
    rng = np.random.default_rng([seed, 1])
    if case.host:
        plan, model, workload = host_of(case)
    else:
        plan = plan_of(case)
    spread = case.share * math.sqrt(1 / 12 + 1 / 4)
    truth = {LEVELS[1]: 0.0, LEVELS[2]: case.effect + case.slope * case.moved * spread}
    sums: dict[str, list[float]] = {}
    for number in range(studies):
        if case.host:
            seen = simulate_observations(plan, model.truth, workload, number, model=model)
        else:
            seen = study(case, plan, rng)
        for name, covariates in (("plain", ()), ("covariate", ("others_cpu",))):
            response = analyse(plan, seen, [RESPONSE], verdicts_only=True, covariates=covariates).responses[0]
            told, covers, equal, widths, wrong = 0.0, [], [], [], 0.0
            for effect in response.effects:
                if effect.interval is None or effect.simultaneous is None:
                    continue
                real = 100 * math.expm1(truth[str(effect.level)])
                covers.append(float(effect.interval.contains(real)))
                direct = 100 * math.expm1(case.effect) if str(effect.level) == LEVELS[2] else 0.0
                equal.append(float(effect.interval.contains(direct)))
                widths.append(math.log1p(effect.simultaneous.high / 100) - math.log1p(effect.simultaneous.low / 100))
                says = effect.verdict in (Verdict.BETTER, Verdict.WORSE)
                sign = 1 if effect.verdict is Verdict.BETTER else -1
                wrong = max(wrong, float(says and sign * truth[str(effect.level)] <= 0))
                told += float(says and str(effect.level) == LEVELS[2])
            sums.setdefault(f"{name} wrong verdict", []).append(wrong)
            sums.setdefault(f"{name} found", []).append(told)
            sums.setdefault(f"{name} coverage", []).append(float(np.mean(covers)))
            sums.setdefault(f"{name} coverage at equal use", []).append(float(np.mean(equal)))
            sums.setdefault(f"{name} width", []).append(float(np.median(widths)))
            if covariates:
                sums.setdefault("used", []).append(float(response.covariates[0].used))
    return {
        name: float(np.median(values) if name.endswith("width") else np.mean(values)) for name, values in sums.items()
    }


def of_lab(place: Path, number: int) -> None:
    """What each list of covariates does to the intervals of a recorded study: change, simultaneous interval, and
    geometric mean of the widths over those without any.
    """
    record = Store(place, create=False).load(number)
    print("| response | covariates | changes | width |")
    print("| --- | --- | --- | ---: |")
    plain: dict[str, float] = {}
    for covariates in (
        (),
        ("others_cpu",),
        ("driver_cpu_per_transaction",),
        ("others_cpu", "driver_cpu_per_transaction"),
    ):
        analysis = analyse(
            record.plan_that_ran,
            record.observations(),
            record.study.responses,
            verdicts_only=True,
            covariates=covariates,
        )
        for response in analysis.responses:
            pairs = [(effect, effect.simultaneous) for effect in response.effects if effect.simultaneous]
            width = float(np.mean([math.log(math.log((100 + wide.high) / (100 + wide.low))) for _, wide in pairs]))
            ratio = math.exp(width - plain.setdefault(response.response, width))
            text = "; ".join(
                f"{effect.factor} {effect.percent:+.1f} [{wide.low:+.1f}, {wide.high:+.1f}]" for effect, wide in pairs
            )
            used = ", ".join(one.name for one in response.covariates if one.used) or "none"
            print(f"| {response.response} | {used} | {text} | {ratio:.2f} |")


def main(names: Sequence[str], studies: int) -> None:
    for name in names:
        found = {key: round(value, 4) for key, value in rates(CASES[name], studies, 7).items()}
        print(json.dumps({"case": name, "studies": studies, **found}), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--studies", type=int, default=1000)
    parser.add_argument("cases", nargs="*", default=list(CASES))
    parser.add_argument("--lab", type=Path, help="the recorded study of this lab instead")
    parser.add_argument("--study", type=int, default=1)
    chosen = parser.parse_args()
    if chosen.lab:
        of_lab(chosen.lab, chosen.study)
    else:
        main(chosen.cases, chosen.studies)
