"""How the analysis grows with a study: seconds and memory for 1,000 to 100,000 figures of five responses.

python bench/statistics/scaling.py [largest]
python bench/statistics/scaling.py lab [trials ...]

The second is the whole way of ``leadline show``: a lab in a temporary directory, its store read, its studies analysed,
the per-second series of 1,000 trials (600 s of throughput, mean and p99) read and judged. Without numbers: 1,000 and
10,000 trials, and ten trials of ten-second slots.
"""

from __future__ import annotations

import dataclasses
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "statistics")]

from simulated_strata import SimulatedStrata, slots_plan, split_plot_plan  # noqa: E402
from simulated_study import SimulatedSystem, pseudo_factors  # noqa: E402

from leadline.analysis import analyse  # noqa: E402
from leadline.design import make_plan  # noqa: E402
from leadline.model.design import Design  # noqa: E402
from leadline.model.plan import Plan  # noqa: E402
from leadline.model.result import Observation  # noqa: E402

RESPONSES = ["throughput", "p50", "p90", "p99", "cpu_per_transaction"]
Run = Callable[[Plan, int], list[Observation]]


def one_at_a_time(count: int) -> Plan:
    """33 settings around a baseline."""
    return make_plan(pseudo_factors(11, 4), Design(replicates=max(2, round(count / 39))))


def split_plots(count: int) -> Plan:
    return split_plot_plan(replicates=max(2, round(count / 12)))


def slots(count: int) -> Plan:
    """Trials of 100 slots."""
    return slots_plan(trials=max(2, round(count / 100)), blocks_of_slots=25)


def seconds(plan: Plan, run: Run) -> tuple[int, float]:
    """Figures of one response, and CPU seconds of the analysis of five."""
    rows = [run(plan, seed) for seed in range(len(RESPONSES))]
    merged = [
        dataclasses.replace(
            row[0],
            responses={name: one.responses["throughput"] for name, one in zip(RESPONSES, row, strict=True)},
        )
        for row in zip(*rows, strict=True)
    ]
    start = time.process_time()
    analyse(plan, merged, RESPONSES)
    return len(merged), time.process_time() - start


def main() -> None:
    if "lab" in sys.argv:
        from scaling_lab import run as run_lab

        run_lab([int(word) for word in sys.argv[2:]] or [1_000, 10_000])
        return
    largest = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    designs: dict[str, tuple[Callable[[int], Plan], Run]] = {
        "one-at-a-time, 33 settings in blocks": (one_at_a_time, SimulatedSystem().run),
        "split plots, 3 x 2 x 2": (split_plots, SimulatedStrata().run),
        "slots, 100 a trial": (slots, SimulatedStrata().run),
    }
    print("| design | figures of each response | CPU seconds for five responses | largest memory so far, MiB |")
    print("| --- | --- | --- | --- |")
    for name, (build, run) in designs.items():
        for count in (1_000, 10_000, 100_000):
            if count > largest:
                continue
            plan = build(min(count, 99_000) if name.startswith("one") else count)
            figures, spent = seconds(plan, run)
            memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            print(f"| {name} | {figures:,} | {spent:.1f} | {memory:.0f} |", flush=True)


if __name__ == "__main__":
    main()
