"""Warm-up by cycles of load and pause against continuous load, on Tomcat with PostgreSQL.

usage: python bench/warmup/compare.py [--rounds N] [--first N] [--rows FILE] [--lab DIR] [--simulate TRUTH]

In each round every arm has a fresh server; which arm is first changes from round to round. What was measured is added
to FILE, so that rounds can be made at different times. All of it is printed: geometric means, and each arm's change
against continuous load with its 95 % interval over the rounds.
"""

from __future__ import annotations

import argparse
import csv
import math
import sys
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

import leadline
from leadline.analysis.table import Floats
from leadline.model.record import TrialRecord, TrialState
from leadline.observe.window import Recorded, compiling, waiting_to_compile

QUESTION: Mapping[str, Any] = {
    "question": "Which warm-up leaves the faster server?",
    "stack": {"app": "brokerage", "mode": "direct", "server": "tomcat", "database": "postgres"},
    "settings": {"jvm.heap": "256m"},
    "pseudo_factors": {"server": ["one", "two"]},
    "design": {"replicates": 1},
    "budget": "90s",  # for the first of its trials only
    "responses": ["throughput", "p50", "cpu_per_transaction"],
}
LOAD = {"users": 16, "variables": {"think": "1ms"}, "ramp_up": "2s", "steady": "10s", "ramp_down": "1s"}
CONTINUOUS = "48 s of load"
ARMS: Mapping[str, dict[str, Any]] = {
    CONTINUOUS: {"load": "48s", "pause": 0, "cycles": 1},
    "3 x (8 s + 8 s)": {"load": "8s", "pause": "8s", "cycles": 3},  # as long, half the load
}
FIGURES = ("throughput", "p50", "cpu_per_transaction")
BESIDE = ("compiler", "waiting", "others")  # CPUs it used while measured, methods that waited; others' share of CPUs


def figures(trial: TrialRecord) -> dict[str, float]:
    assert trial.directory is not None
    recorded, (begin, end) = Recorded(trial.directory / "series"), trial.under_load[0]
    waiting = waiting_to_compile(recorded, begin, end)
    found = {name: trial.responses[name] for name in FIGURES}
    others = (trial.machine.taken if trial.machine else None) or 0.0
    compiler = compiling(recorded, begin, end) or 0.0
    return found | {"compiler": compiler, "waiting": waiting[1] if waiting else 0.0, "others": others}


def measure(number: int, rows: Path, lab: str, truth: str | None) -> None:
    arms = list(ARMS)
    for at in range(len(arms)):
        arm = arms[(number + at) % len(arms)]
        load = {**LOAD, "warm_up": {**ARMS[arm], "until": "cycles"}}
        keys = {"study": f"warm-up-{number}-{arms.index(arm)}", **QUESTION, "workload": load}
        keys["design"] = {**QUESTION["design"], "seed": number}  # the same requests in all arms
        result = leadline.run(leadline.Study.of(keys), lab, truth=truth).result
        assert isinstance(result, leadline.StudyResult)
        with rows.open("a", newline="") as file:
            for trial in result.record.trials:
                if trial.state == TrialState.DONE:
                    found = figures(trial)
                    csv.writer(file).writerow([number, arm, *(found[name] for name in (*FIGURES, *BESIDE))])


def change(one: Floats, other: Floats) -> str:
    """Percent and 95 % interval of paired logarithms."""
    apart = np.subtract(one, other)
    if len(apart) < 2:
        return f"{100 * math.expm1(float(apart.mean())):+.1f} %"
    error = stats.t.ppf(0.975, len(apart) - 1) * apart.std(ddof=1) / math.sqrt(len(apart))
    middle, low, high = (100 * math.expm1(float(apart.mean()) + part) for part in (0.0, -error, error))
    return f"{middle:+.1f} % [{low:+.1f}, {high:+.1f}]"


def table(rows: Path) -> None:
    found: dict[str, dict[int, list[list[float]]]] = defaultdict(lambda: defaultdict(list))
    for number, arm, *values in csv.reader(rows.open(newline="")):
        found[arm][int(number)].append([float(value) for value in values])
    whole = sorted(set.intersection(*(set(by_round) for by_round in found.values())))
    print(f"{len(whole)} rounds\n\n| warm-up | instances | {' | '.join((*FIGURES, *BESIDE))} |")
    print(f"| --- | ---: |{' ---: |' * (len(FIGURES) + len(BESIDE))}")
    logs = {
        arm: np.array([np.log(np.array(found[arm][number])[:, : len(FIGURES)]).mean(axis=0) for number in whole])
        for arm in found
    }
    for arm in (arm for arm in ARMS if arm in found):
        every = np.array([row for number in whole for row in found[arm][number]])
        told = [f"{math.exp(value):.4g}" for value in logs[arm].mean(axis=0)]
        if arm != CONTINUOUS:
            told = [f"{text}, {change(logs[arm][:, at], logs[CONTINUOUS][:, at])}" for at, text in enumerate(told)]
        told += [f"{value:.2f}" for value in every[:, len(FIGURES) :].mean(axis=0)]
        print(f"| {arm} | {len(every)} | {' | '.join(told)} |")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="to measure now; 0 prints what was measured")
    parser.add_argument("--first", type=int, default=1, help="number of the first of them")
    parser.add_argument("--rows", type=Path, default=Path("warm-up.csv"), metavar="FILE")
    parser.add_argument("--lab", default="lab-warm-up")
    parser.add_argument("--simulate", metavar="TRUTH", default=None, help="on a simulated host")
    options = parser.parse_args()
    for number in range(options.first, options.first + options.rounds):
        measure(number, options.rows, options.lab, options.simulate)
    table(options.rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
