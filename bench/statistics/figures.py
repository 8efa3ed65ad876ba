"""How often study A's figures are right, over simulated tables: the tables of docs/concepts/study-a.md.

python bench/statistics/figures.py [tables]
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "statistics")]

from simulated_table import simulated_table  # noqa: E402

from leadline.figures.extremes import extremes  # noqa: E402
from leadline.figures.fits import fit_systems  # noqa: E402
from leadline.figures.inversion import corrected_sum  # noqa: E402
from leadline.figures.ranking import Standing, ranking  # noqa: E402
from leadline.figures.sensitivity import level_means  # noqa: E402

SHAPES = {
    "1 system, 5 x 3, 3 runs": {"systems": 1, "replicates": 3},
    "6 systems, 5 x 3, 2 runs": {"systems": 6},
    "12 systems, 11 x 3, 3 runs": {"systems": 12, "parameters": 11, "replicates": 3, "baselines": 10},
}


def null_rates(shape: dict[str, int], tables: int) -> tuple[float, ...]:
    """Shares of tables without effects that have a verdict by ranks, one by the model, a gain or loss told (of the
    systems), a best gain above luck's 95 % (of the systems), a mean gain above its own.
    """
    counts = np.zeros(5)
    for seed in range(tables):
        table = simulated_table(seed, **shape)
        fits = fit_systems(table)
        ranked, found = ranking(table, fits), extremes(table, fits)
        assert ranked is not None
        assert found is not None
        counts[0] += any(row.by_rank is not Standing.UNDETERMINED for row in ranked.rows)
        counts[1] += any(row.by_model is not Standing.UNDETERMINED for row in ranked.rows)
        counts[2] += np.mean([row.best_told or row.worst_told for row in found.rows])
        counts[3] += np.mean([row.luck is not None and row.best > row.luck.gain_95 for row in found.rows])
        counts[4] += found.luck_mean_95 is not None and found.mean_best > found.luck_mean_95
    return tuple(counts / tables)


def sensitivity_rates(systems: int, scale: float, one: bool, tables: int) -> tuple[float, ...]:
    """Truth, mean of the plain formula, mean and coverage without noise, share told; ``one``: only system 0 reacts."""
    effects = {(0, 0): -scale, (0, 2): scale}
    true = sum((1000.0 + 100.0 * k) * scale for k in range(1 if one else systems))
    rows = []
    for seed in range(tables):
        reacting = {0} if one else None
        table = simulated_table(seed, systems=systems, parameters=3, effects=effects, reacting=reacting)
        parts = [part for fit in fit_systems(table) if (part := level_means(table, fit, 0)) is not None]
        found = corrected_sum(parts)
        assert found is not None
        plain = sum(part.sd for part in parts)
        rows.append((plain, found.value, found.interval.contains(true), found.p_value < 0.05))
    return (true, *np.mean(np.array(rows, dtype=np.float64), axis=0))


def main() -> None:
    tables = int(sys.argv[1]) if len(sys.argv) > 1 else 300
    print("| table | verdict by ranks | by model | gain or loss told | best above luck | mean above luck |")
    print("| --- | --- | --- | --- | --- | --- |")
    for name, shape in SHAPES.items():
        number = tables // 3 if shape["systems"] > 6 else tables
        rates = " | ".join(f"{rate:.3f}" for rate in null_rates(shape, number))
        print(f"| {name} ({number}) | {rates} |", flush=True)
    print()
    print("| systems | levels at | truth | plain formula | without noise | coverage | told |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for systems, scale, one in (
        *((1, 0.0, False), (1, 0.05, False), (6, 0.0, False), (6, 0.02, False), (6, 0.05, False)),
        *((12, 0.02, False), (6, 0.2, True), (12, 0.4, True)),
    ):
        true, plain, corrected, coverage, told = sensitivity_rates(systems, scale, one, tables)
        which = " on one system" if one else ""
        print(
            f"| {systems} | ±{100 * scale:.0f} %{which} | {true:.0f} | {plain:.0f} | {corrected:.0f} | {coverage:.3f} "
            f"| {told:.2f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
