"""Rotation against plain trials: the same question in about the same minutes, beside a neighbour that comes and goes.

usage: python bench/layouts/compare.py [--pairs N] [--quiet] [--lab DIR] [--simulate TRUTH]

Prints each effect with its 95 % interval by either layout, and how many times wider the plain one is on the log scale.
The neighbour is a process that computes and rests in turns of exponential length, mean 8 s each; ``--quiet``: none.
"""

from __future__ import annotations

import argparse
import math
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import leadline
from leadline.model.result import Effect

NEIGHBOUR = """
import random, sys, time
rng = random.Random(int(sys.argv[1]))
while True:
    until = time.monotonic() + rng.expovariate(1 / 8)
    while time.monotonic() < until:
        pass
    time.sleep(rng.expovariate(1 / 8))
"""
QUESTION: Mapping[str, Any] = {
    "question": "What does the statement cache save?",
    "stack": {"app": "brokerage", "mode": "direct", "server": "liberty", "database": "postgres"},
    "factors": {"server.datasource.statement_cache": [60, 0]},
    "settings": {"jvm.heap": "256m", "server.threads.min": 50},
    "responses": ["throughput", "p50", "cpu_per_transaction"],
}
LOAD = {"users": 40, "variables": {"think": "60ms"}, "ramp_down": "1s"}
LAYOUTS: Mapping[str, dict[str, Any]] = {
    "rotation": {
        "workload": {**LOAD, "ramp_up": "12s", "steady": "24s"},
        "design": {"replicates": 4, "rotation": {"slot": "4s", "instances": 2, "warm_up_slot": "4s"}},
    },
    "plain": {
        "workload": {**LOAD, "ramp_up": "6s", "steady": "12s"},
        "design": {"replicates": 7, "sentinels": None},
    },
}


@contextmanager
def neighbour(seed: int) -> Iterator[None]:
    with subprocess.Popen([sys.executable, "-c", NEIGHBOUR, str(seed)]) as process:
        try:
            yield
        finally:
            process.kill()


@contextmanager
def nobody(_seed: int) -> Iterator[None]:
    yield


def effects(layout: str, seed: int, lab: str, truth: str | None) -> tuple[dict[str, Effect], float]:
    """By response, and the seconds that the study took."""
    keys = {"study": f"cache-{layout}-{seed}", **QUESTION, **LAYOUTS[layout]}
    keys["design"] = {**LAYOUTS[layout]["design"], "seed": seed}
    result = leadline.run(leadline.Study.of(keys), lab, truth=truth).result
    assert isinstance(result, leadline.StudyResult)
    trials = result.record.trials
    seconds = (result.record.seconds_per_trial or 0.0) * sum(trial.failure is None for trial in trials)
    return {one.response: one.effects[0] for one in result.analysis.responses}, seconds


def width(effect: Effect) -> float:
    """Of the 95 % interval on the log scale."""
    interval = effect.interval
    return math.nan if interval is None else math.log1p(interval.high / 100) - math.log1p(interval.low / 100)


def text(effect: Effect) -> str:
    if effect.interval is None or effect.percent is None:
        return "none"
    return f"{effect.percent:+.1f} % [{effect.interval.low:+.1f}, {effect.interval.high:+.1f}]"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=1, help="of studies, one of each layout")
    parser.add_argument("--quiet", action="store_true", help="without a neighbour")
    parser.add_argument("--lab", default="lab-layouts")
    parser.add_argument("--simulate", metavar="TRUTH", default=None, help="on a simulated host")
    options = parser.parse_args()
    beside = nobody if options.quiet or options.simulate else neighbour
    print("| seed | response | rotation | plain | plain to rotation, width |\n| --- | --- | --- | --- | --- |")
    for seed in range(1, options.pairs + 1):
        found = {}
        for layout in LAYOUTS if seed % 2 else reversed(list(LAYOUTS)):
            with beside(seed):
                found[layout], seconds = effects(layout, seed, options.lab, options.simulate)
            print(f"{layout}: {seconds:.0f} s", file=sys.stderr)
        for response, effect in found["rotation"].items():
            other = found["plain"][response]
            ratio = width(other) / width(effect)
            print(f"| {seed} | {response} | {text(effect)} | {text(other)} | {ratio:.1f} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
