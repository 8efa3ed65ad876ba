"""Agreement of the verdict on steady state with published classifications of Java microbenchmarks.

python bench/statistics/published_steady.py CHECKOUT [forks]

CHECKOUT is the replication package of Traini, Cortellessa, Di Pompeo and Tucci, Towards effective assessment of steady
state performance in Java software: are we there yet? (Empirical Software Engineering 28, 2023), the repository
SEALABQualityGroup/steady-state: 586 benchmarks, ten forks of 3,000 iterations of about 0.1 s each. It has no licence,
so none of it is in this repository.

Their classes of a fork are "steady state" with the iteration where it starts, and "no steady state". The first is
divided here as Barrett et al. (OOPSLA 2017) do: flat when it starts at once, slowdown when an earlier segment between
the published change points is faster than the steady part by more than 5 %, otherwise warmup. An even number of forks
of each class is drawn with a fixed seed.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from leadline.analysis import steady_state  # noqa: E402
from leadline.analysis.steady import Limits  # noqa: E402
from leadline.model.result import SteadyState  # noqa: E402

CLASSES = ("flat", "warmup", "slowdown", "no steady state")
VERDICTS = ("steady from the start", "steady after a cut", "still-warming", "slowing-down", "never-steady", "too-short")
EFFECT = 0.05  # smallest change of a mean that counts, of the publication
LENGTH = 3000
LAST = 2499  # a steady state that starts later is none, of the publication
Fork = tuple[str, int]


def published(data: Path, name: str) -> list[tuple[str, int]]:
    """Class and start of every fork of a benchmark."""
    values = json.loads((data / "timeseries" / "all" / name).read_text())
    points = json.loads((data / "changepoints" / name).read_text())
    found = json.loads((data / "classification" / name).read_text())
    return [
        (_divided(np.array(series), cuts, start), start)
        for series, cuts, start in zip(values, points, found["steady_state_starts"], strict=True)
    ]


def _divided(series: np.ndarray, cuts: list[int], start: int) -> str:
    if start <= 0:
        return "no steady state" if start < 0 else "flat"
    steady = float(series[start + 1 :].mean())
    ends = [cut + 1 for cut in cuts if cut <= start]
    means = [float(series[a:b].mean()) for a, b in zip([0, *ends], ends, strict=False)]
    return "slowdown" if min(means) < steady * (1 - EFFECT) else "warmup"


def sample(data: Path, forks: int) -> list[tuple[Fork, str, int]]:
    """Forks with class and published start, as many of each class."""
    names = sorted(path.name for path in (data / "classification").glob("*.json"))
    every: dict[str, list[tuple[Fork, int]]] = {one: [] for one in CLASSES}
    for name in names:
        for number, (kind, start) in enumerate(published(data, name)):
            every[kind].append(((name, number), start))
    counts = ", ".join(f"{kind} {len(rows)}" for kind, rows in every.items())
    print(f"{sum(map(len, every.values()))} published forks: {counts}", flush=True)
    rng = np.random.default_rng(2023)
    chosen = []
    for kind, rows in every.items():
        for place in rng.permutation(len(rows))[: forks // len(CLASSES)]:
            chosen.append((rows[place][0], kind, rows[place][1]))
    return sorted(chosen)


def column(verdict: SteadyState) -> str:
    if verdict.cut is None:
        return verdict.verdict
    return VERDICTS[1] if verdict.cut else VERDICTS[0]


def table(data: Path, rows: list[tuple[Fork, str, int]], limits: Limits) -> None:
    """Verdicts by published class, and how far the cuts are apart."""
    counts: Counter[tuple[str, str]] = Counter()
    apart, means, values = [], [], ("", [])
    for (name, number), kind, start in rows:
        if values[0] != name:
            values = (name, json.loads((data / "timeseries" / "all" / name).read_text()))
        series = values[1][number]
        verdict = steady_state(series, higher_is_better=False, limits=limits)
        counts[kind, column(verdict)] += 1
        if verdict.cut is not None and kind != CLASSES[-1]:
            apart.append(abs(verdict.cut - start))
            means.append(abs(float(np.mean(series[int(verdict.cut) :])) / float(np.mean(series[start + 1 :])) - 1))
    print(
        f"\nDifferences up to {limits.tolerance:.0%} do not matter; steady for the last {limits.share:.0%} at least:\n"
    )
    print("| published | " + " | ".join(VERDICTS) + " |\n| --- |" + " ---: |" * len(VERDICTS))
    for kind in CLASSES:
        print(f"| {kind} | " + " | ".join(str(counts[kind, verdict]) for verdict in VERDICTS) + " |")
    steady = sum(counts[kind, verdict] for kind in CLASSES[:3] for verdict in VERDICTS[:2])
    not_steady = sum(counts[CLASSES[-1], verdict] for verdict in VERDICTS[2:])
    print(f"\nsteady or not: {(steady + not_steady) / len(rows):.0%} agree")
    late = sum(start > (1 - limits.share) * LENGTH for _, kind, start in rows if kind != CLASSES[-1])
    print(f"published starts that leave less than {limits.share:.0%} of the series: {late}")
    within = ", ".join(f"{np.mean(np.array(apart) <= limit):.0%} within {limit}" for limit in (30, 150, 300))
    print(
        f"cuts of both: {within} iterations; "
        + ", ".join(
            f"means after them within {limit:.0%}: {np.mean(np.array(means) < limit):.0%}" for limit in (0.01, EFFECT)
        )
    )


def main() -> None:
    if len(sys.argv) < 2:
        sys.exit("usage: published_steady.py CHECKOUT [forks]")
    data = Path(sys.argv[1]) / "data"
    rows = sample(data, int(sys.argv[2]) if len(sys.argv) > 2 else 600)
    table(data, rows, Limits())
    table(data, rows, Limits(tolerance=EFFECT, share=1 - (LAST + 1) / LENGTH))


if __name__ == "__main__":
    main()
