"""How often the interval beside a claim holds the truth: docs/evidence/statistics.md.

python bench/statistics/selected.py [--studies 1000] [--layouts plain ...] [--sources "noise alone" ...]

Four responses; each of three factors of two levels changes each of them by a normal number of 3 %.
"""

from __future__ import annotations

import argparse
import math
import sys
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np

from bench.statistics.components import LAYOUTS, SOURCES, observations, plan_of
from leadline.analysis.selection import claim_key, claimed
from leadline.analysis.study import analyse
from leadline.model.result import Interval

RESPONSES = ("throughput", "p50", "p99", "cpu_per_transaction")
SPREAD = 0.03  # of the logarithm of a factor's effect


def held(interval: Interval | None, truth: float) -> bool:
    return interval is not None and interval.contains(100 * math.expm1(truth))


def study(layout: str, source: str, seed: int) -> list[tuple[bool, bool, bool]]:
    """Of each claim whether it is its response's largest, and whether the plain interval and the simultaneous one,
    which is printed beside the claim, hold the truth.
    """
    plan, names = plan_of(layout), [factor.name for factor in plan_of(layout).factors]
    gains = np.random.default_rng([seed, 7]).normal(0, SPREAD, (len(RESPONSES), len(names)))
    each = [
        observations(plan, SOURCES[source], seed * len(RESPONSES) + at, list(gain)) for at, gain in enumerate(gains)
    ]
    merged = [
        replace(
            rows[0], responses={name: row.responses["throughput"] for name, row in zip(RESPONSES, rows, strict=True)}
        )
        for rows in zip(*each, strict=True)
    ]
    analysis = analyse(plan, merged, list(RESPONSES))
    claims, rows = claimed(analysis), []
    for response in analysis.responses:
        chosen = [effect for effect in response.effects if claim_key(effect) in claims]
        largest = max((abs(effect.percent or 0.0) for effect in chosen), default=0.0)
        for effect in chosen:
            truth = float(gains[RESPONSES.index(effect.response), names.index(effect.factor)])
            intervals = (held(effect.interval, truth), held(effect.simultaneous, truth))
            rows.append((abs(effect.percent or 0.0) == largest, *intervals))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--studies", type=int, default=1000)
    parser.add_argument("--layouts", nargs="*", default=LAYOUTS)
    parser.add_argument("--sources", nargs="*", default=tuple(SOURCES))
    options = parser.parse_args()
    print("| layout | source | claims | plain | the same, largest | beside the claim | the same, largest |")
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: |")
    for layout in options.layouts:
        for source in options.sources:
            rows = np.array([row for seed in range(options.studies) for row in study(layout, source, seed)], dtype=bool)
            means = [part.mean() for at in (1, 2) for part in (rows[:, at], rows[rows[:, 0], at])]
            print(f"| {layout} | {source} | {len(rows)} | {' | '.join(f'{mean:.3f}' for mean in means)} |", flush=True)


if __name__ == "__main__":
    main()
