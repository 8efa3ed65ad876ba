"""How much of the noise of CPU between a recording's slots each covariate takes away.

python -m bench.gate.noise LAB [LAB ...]

LABs are written by ``bench.gate.record``. Standard deviations about the block's mean of logarithms of CPU per
transaction in a slot, all of it and without the JIT compiler's, when a straight line by the covariate is taken out.
Then of the differences of blocks between two instances, each by several figures of its slots.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import numpy as np

import leadline
from leadline.analysis.table import Floats
from leadline.model.record import TrialRecord, TrialState
from leadline.observe.window import CpuLines, MachineLines

CPU, STEADY, OTHERS = 0, 1, 2  # columns of a slot's figures
COVARIATES = ("time in the block", "log of the driver's CPU per transaction", "CPU pressure", "steal")


def slots(trial: TrialRecord, wash_out: float) -> list[list[float]]:
    """Of each slot: logarithms of CPU, and of CPU without the compiler's, a transaction; then the covariates."""
    assert trial.directory is not None
    assert trial.phases is not None
    series = trial.directory / "series"
    roles, threads, machine = CpuLines(series), CpuLines(series, "threads.cpu_seconds"), MachineLines(series)
    with (trial.directory / "driver" / "seconds.csv").open() as lines:
        counts = [(int(row["time_ns"]) / 1e9, int(row["ok"])) for row in csv.DictReader(lines)][::2]
    rows = []
    for turn in trial.planned.turns:
        begin, end = trial.phases.load_started + turn.begin + wash_out, trial.phases.load_started + turn.end
        transactions = sum(count for at, count in counts if begin - 0.01 <= at < end - 0.5)
        use = machine.use([(begin, end)])
        used = [
            lines.between(name, begin, end)
            for lines, name in ((roles, "server"), (threads, "compiler"), (roles, "driver"))
        ]
        if turn.warm_up or not transactions or use is None or None in used:
            continue
        server, compiler, driver = (0.0 if one is None else one.share * (end - begin) for one in used)
        figures = [use.figures.get(name, 0.0) for name in ("cpu_pressure", "steal")]
        logs = [float(np.log(cpu / transactions)) for cpu in (server, server - compiler, driver)]
        rows.append([*logs[:2], turn.begin, logs[2], *figures])
    return rows


def spread(values: Floats, blocks: Floats, columns: Floats) -> float:
    """Standard deviation in percent that the blocks' means and the columns leave."""
    design = np.column_stack([blocks, columns])
    solved, _, rank, _ = np.linalg.lstsq(design, values, rcond=None)
    rest = values - design @ solved
    return float(100 * np.sqrt(rest @ rest / (len(values) - rank)))


def instances(numbers: Floats, sides: Floats, figures: Floats) -> dict[str, list[float]]:
    """By estimator the difference of each block: head's less base's, CPU without the compiler's."""
    found: dict[str, list[float]] = {}
    for block in np.unique(numbers):
        base, head = (figures[(numbers == block) & (sides == side)] for side in (0, 1))
        if len(base) and len(head):
            means = head.mean(axis=0) - base.mean(axis=0)
            found.setdefault("all slots", []).append(means[STEADY])
            found.setdefault("last slot", []).append(head[-1, STEADY] - base[-1, STEADY])
            found.setdefault("least of the slots", []).append(head[:, STEADY].min() - base[:, STEADY].min())
            found.setdefault("less the driver's", []).append(means[STEADY] - means[OTHERS + 1])
            found.setdefault("the compiler's", []).append(means[CPU] - means[STEADY])
    return found


def main() -> None:
    for lab in sys.argv[1:]:
        record = leadline.load_lab(Path(lab)).studies()[-1].record
        rotation = record.study.design.rotation
        assert rotation is not None
        trials = [trial for trial in record.trials if trial.state is TrialState.DONE]
        rows = [
            [trial.planned.block, trial.planned.treatment != record.plan.baseline, *row]
            for trial in trials
            for row in slots(trial, rotation.wash_out)
        ]
        numbers, sides, *columns_ = np.array(rows, dtype=np.float64).T
        figures = np.column_stack(columns_)
        blocks = np.asarray(numbers[:, None] == np.unique(numbers), dtype=np.float64)
        columns = {name: figures[:, [OTHERS + at]] for at, name in enumerate(COVARIATES)}
        columns["time in the block"] = blocks * columns["time in the block"]
        columns = {"nothing": np.zeros((len(rows), 0)), **columns}
        columns["time and the driver's CPU"] = np.column_stack([columns[name] for name in COVARIATES[:2]])
        print(f"\n{len(rows)} slots in {blocks.shape[1]} blocks\n")
        print("| taken out | CPU | without the JIT compiler's |\n| --- | ---: | ---: |")
        for name, column in columns.items():
            sizes = [spread(figures[:, at], blocks, column) for at in (CPU, STEADY)]
            print(f"| {name} | {' | '.join(f'{size:.1f} %' for size in sizes)} |")
        found = {name: np.array(rows) for name, rows in instances(numbers, sides, figures).items()}
        compiled = found.pop("the compiler's")
        found["all slots, a line by the compiler's CPU"] = found["all slots"] - np.polyval(
            np.polyfit(compiled, found["all slots"], 1), compiled
        )
        print(f"\n{len(compiled)} blocks\n\n| differences of blocks by | standard deviation |\n| --- | ---: |")
        for name, values in found.items():
            print(f"| {name} | {100 * values.std(ddof=1):.1f} % |")


if __name__ == "__main__":
    main()
