"""CPU that the small process of `leadline command` takes itself for a run of `true`, beside a bare posix_spawn of it.

CPU and not time: it is the same beside other programs. `python bench/command/own.py`, also for an older file:
`--file timed.py`.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import resource
import statistics
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

from leadline.host import timed

RUNS = 150  # of one figure


def loaded(path: Path) -> ModuleType:
    """A file as a module."""
    spec = importlib.util.spec_from_file_location("other", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def own_cpu(run: Callable[[], object]) -> float:
    """Microseconds of this process's own CPU for a run."""
    before = resource.getrusage(resource.RUSAGE_SELF)
    for _ in range(RUNS):
        run()
    after = resource.getrusage(resource.RUSAGE_SELF)
    return 1e6 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) / RUNS


def bare() -> None:
    os.wait4(os.posix_spawnp("true", ["true"], os.environ), 0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--file", type=Path, help="an older leadline/host/timed.py, measured in turns with this one")
    given = parser.parse_args()
    runs: dict[str, Callable[[], object]] = {"bare": bare, "leadline": lambda: timed.run(["true"], 600.0)}
    if given.file is not None:
        other = loaded(given.file)
        runs["the other file"] = lambda: other.run(["true"], 600.0)
    rows: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(given.rounds):
        for name, run in runs.items():
            rows[name].append(own_cpu(run))
    for name, figures in rows.items():
        print(f"{name}: {statistics.median(figures):.0f} us of CPU [{min(figures):.0f} to {max(figures):.0f}]")


if __name__ == "__main__":
    main()
