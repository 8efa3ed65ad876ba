"""What the quickstart's layout claims, and the most that any test of its size can: docs/evidence/statistics.md.

python bench/statistics/quickstart.py [--studies 300] [--first cpu_per_transaction]

Eight instances of eight slots, three factors, five responses that correlate by 0.4. One factor makes p50 25 % and CPU
10 % larger, or nothing does.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from scipy import optimize, stats

from bench.statistics.components import Noise, observations, plan_of
from leadline.analysis.selection import claimed
from leadline.analysis.study import analyse

CPU = "cpu_per_transaction"
NOISE = {"throughput": 0.02, "p50": 0.08, "p90": 0.10, "p99": 0.18, CPU: 0.12}  # of a slot
PLANTED = {"p50": math.log(1.25), CPU: math.log(1.10)}
CORRELATION, INSTANCE = 0.4, 0.05


def study(first: str, gains: dict[str, float], seed: int) -> set[tuple[str, str]]:
    """Response and factor of what is claimed in one study; ``gains``: logarithms of the second factor's effects."""
    plan = plan_of("rotation of 8")
    target = plan.factors[1].name
    rng = np.random.default_rng([seed, 43])
    rows = observations(plan, Noise(slot=0.0, instance=0.0, block=0.0), seed)
    size, trials = len(rows), np.array([row.trial for row in rows])
    common = rng.normal(size=size)
    values = {}
    for name, noise in NOISE.items():
        slots = math.sqrt(CORRELATION) * common + math.sqrt(1 - CORRELATION) * rng.normal(size=size)
        level = rng.normal(0, INSTANCE, trials.max() + 1)[trials]
        changed = np.array([row.treatment[target] == 1 for row in rows])
        values[name] = 100 * np.exp(noise * slots + level + gains.get(name, 0.0) * changed)
    merged = [replace(row, responses={name: float(values[name][at]) for name in NOISE}) for at, row in enumerate(rows)]
    names = [first, *(name for name in NOISE if name != first)]
    return {(response, factor) for response, factor, *_ in claimed(analyse(plan, merged, names))}


def most(rate: float, instances: int, effect: float, error: float) -> float:
    """The largest power at ``effect`` (logarithm, with slots' standard ``error``) of any test that is wrong in at most
    ``rate`` of studies however much the effect differs between ``instances``: a linear program over what is seen, the
    estimate and the instances' mean square, both in the slots' known error.
    """
    free = instances - 1
    squares = np.r_[0.0, np.geomspace(0.15, 60, 46), np.inf]
    estimates = np.r_[np.linspace(0, 8, 81), np.geomspace(8, 80, 25)[1:], np.inf]

    def mass(variance: float, mean: float) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        inside = np.diff(stats.chi2.cdf(squares * free / variance, free))
        below = stats.norm.cdf(estimates, mean, math.sqrt(variance)) - stats.norm.cdf(
            -estimates, mean, math.sqrt(variance)
        )
        return np.outer(inside, np.diff(below)).ravel()

    differs = np.r_[0.0, np.geomspace(0.05, 100, 31)]  # variance of the effect between instances, in the slots' error
    wrong = np.array([mass(1 + variance, 0.0) for variance in differs])
    power = mass(1.0, effect / error)
    best = optimize.linprog(-power, A_ub=wrong, b_ub=np.full(len(differs), rate), bounds=(0, 1))
    assert best.x is not None, best.message
    return float(power @ best.x)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--studies", type=int, default=300)
    parser.add_argument("--first", nargs="*", default=["throughput", CPU])
    options = parser.parse_args()
    target = plan_of("rotation of 8").factors[1].name
    print("| first response | nothing differs: claimed | else: CPU | p50 | something else |")
    print("| --- | ---: | ---: | ---: | ---: |")
    with ProcessPoolExecutor(2) as pool:
        for first in options.first:
            null = list(pool.map(partial(study, first, {}), range(options.studies), chunksize=5))
            planted = list(pool.map(partial(study, first, PLANTED), range(options.studies), chunksize=5))
            true = {(name, target) for name in PLANTED}
            cells = [
                np.mean([bool(claims) for claims in null]),
                np.mean([(CPU, target) in claims for claims in planted]),
                np.mean([("p50", target) in claims for claims in planted]),
                np.mean([bool(claims - true) for claims in planted]),
            ]
            print(f"| {first} | {' | '.join(f'{cell:.3f}' for cell in cells)} |", flush=True)
    print("\nThe most that any test finds of CPU +10 % with 64 slots, by the rate that it may be wrong in:\n")
    print("| instances | 5 % | 1.67 % | 0.33 % |")
    print("| ---: | ---: | ---: | ---: |")
    for instances in (8, 16, 32):
        powers = [
            most(rate, instances, PLANTED[CPU], NOISE[CPU] * math.sqrt(4 / 64)) for rate in (0.05, 1 / 60, 1 / 300)
        ]
        print(f"| {instances} | {' | '.join(f'{power:.2f}' for power in powers)} |")


if __name__ == "__main__":
    main()
