"""Pull requests without a change, and with more CPU, drawn from recorded blocks; the gate and what else is used.

python -m bench.gate LAB BLOCKS

LAB is written by ``bench.gate.record``. A pull request is so many of its blocks in another order, sides exchanged at
random. Where arms are measured apart, both are neighbouring stretches of half as many slots, one after the other.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from scipy import stats

import leadline
from leadline.model.conditions import Condition, parse
from leadline.model.plan import Plan
from leadline.model.result import Observation
from leadline.planning.gating import differences, ends_of

CPU, STEADY = "cpu_per_transaction", "steady_cpu_per_transaction"
CONDITIONS = {name: parse([f"{name}>3%", "p90>10%"], [name, "p90"]) for name in (CPU, STEADY)}
NAMES = [STEADY, "p90"]
PULLS = 200
Rows = list[tuple[Observation, Observation]]  # base and head of a block


def planted(row: Observation, percent: float) -> Observation:
    more = {name: row.responses[name] * (1 + percent / 100) for name in (CPU, STEADY)}
    return replace(row, responses={**row.responses, **more})


def steady(row: Observation) -> Observation:
    """Of recordings that were made before there was this response."""
    compiled = row.responses["compiler_cpu_per_transaction"]
    return replace(row, responses={STEADY: row.responses[CPU] - compiled, **row.responses})


def drawn(rows: Rows, blocks: int, seed: int, percent: float) -> Rows:
    random = np.random.default_rng(seed)
    pairs: Rows = []
    for block, at in enumerate(random.permutation(len(rows))[:blocks]):
        sides = [rows[at][side] for side in random.permutation(2)]
        base, head = (
            replace(side, block=block, replicate=block, role=like.role, treatment=like.treatment)
            for side, like in zip(sides, rows[at], strict=True)
        )
        pairs.append((base, planted(head, percent)))
    return pairs


def gates(plan: Plan, pulls: Sequence[Rows], conditions: Sequence[Condition]) -> tuple[float, float]:
    """Shares that alarm, and that are undecided."""
    rows = [differences(plan, [row for pair in pull for row in pair], conditions) for pull in pulls]
    broken, undecided = (sides.any(axis=1) for sides in ends_of(np.array(rows), conditions))
    return float(broken.mean()), float((undecided & ~broken).mean())


def welch(base: Sequence[Observation], head: Sequence[Observation]) -> bool:
    """Worse in any response at 5 %."""
    sides = [([row.responses[name] for row in base], [row.responses[name] for row in head]) for name in NAMES]
    tests = [(stats.ttest_ind(old, new, equal_var=False).pvalue, np.mean(new) - np.mean(old)) for old, new in sides]
    return any(p_value < 0.05 and difference > 0 for p_value, difference in tests)


def band(base: Sequence[Observation], head: Sequence[Observation]) -> bool:
    """Worse by more than 10 % in any mean."""
    return any(
        np.mean([row.responses[name] for row in head]) > 1.1 * np.mean([row.responses[name] for row in base])
        for name in NAMES
    )


def limit(base: Sequence[Observation], head: Sequence[Observation]) -> bool:
    """A threshold as in k6, 10 % above the base's p90."""
    first, second = (np.mean([row.responses["p90"] for row in rows]) for rows in (base, head))
    return bool(second > 1.1 * first)


def boundary(base: Sequence[Observation], head: Sequence[Observation]) -> bool:
    """Bencher's t test: any mean of the head beyond where 95 % of single figures of the base lie."""
    for name in NAMES:
        old = [row.responses[name] for row in base]
        most = np.mean(old) + stats.t.ppf(0.95, len(old) - 1) * np.std(old, ddof=1)
        if np.mean([row.responses[name] for row in head]) > most:
            return True
    return False


def apart(rows: Rows, slots: int, percent: float, rule: Callable[..., bool]) -> float:
    """Share of alarms where one arm follows the other."""
    ordered = sorted((row for pair in rows for row in pair), key=lambda row: row.started)
    alarms = []
    for at in range(len(ordered) - 2 * slots + 1):
        arms = ordered[at : at + slots], ordered[at + slots : at + 2 * slots]
        alarms += [rule(base, [planted(row, percent) for row in head]) for base, head in (arms, arms[::-1])]
    return float(np.mean(alarms))


def main() -> None:
    blocks = int(sys.argv[2])
    record = leadline.load_lab(Path(sys.argv[1])).studies()[-1].record
    sides: dict[int, dict[bool, Observation]] = {}
    for row in record.observations():
        if row.failure is None and "compiler_cpu_per_transaction" in row.responses:
            row = steady(row)
            sides.setdefault(row.block, {})[row.treatment != record.plan.baseline] = row
    rows: Rows = [(pair[False], pair[True]) for pair in sides.values() if len(pair) == 2]
    trials = tuple(trial for trial in record.plan.trials if trial.block < blocks)
    plan = replace(record.plan, trials=trials)
    print(f"{len(rows)} recorded blocks, {PULLS} pull requests of {blocks} blocks\n")
    print("| alarm | no change | +5 % CPU |\n| --- | ---: | ---: |")
    shares: dict[str, list[str]] = {}
    for percent in (0.0, 5.0):
        pulls = [drawn(rows, blocks, seed, percent) for seed in range(PULLS)]
        arms = [tuple(zip(*pull, strict=True)) for pull in pulls]
        ends = {name: gates(plan, pulls, conditions) for name, conditions in CONDITIONS.items()}
        alarms: dict[str, float] = {
            **{f"leadline gate, {name}": alarm for name, (alarm, _) in ends.items()},
            "Welch, the same blocks": float(np.mean([welch(*arm) for arm in arms])),
            "Welch, arms apart": apart(rows, blocks // 2, percent, welch),
            "more than 10 %, arms apart": apart(rows, blocks // 2, percent, band),
            "a limit of p90, arms apart": apart(rows, blocks // 2, percent, limit),
            "a t test on the base's figures, arms apart": apart(rows, blocks // 2, percent, boundary),
            **{f"undecided, {name}": share for name, (_, share) in ends.items()},
        }
        for name, share in alarms.items():
            shares.setdefault(name, []).append(f"{100 * share:.0f} %")
    for name, cells in shares.items():
        print(f"| {name} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
