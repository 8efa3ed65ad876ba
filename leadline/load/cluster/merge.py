"""The results of several drivers as one driver would have written them: ``leadline-load merge`` makes them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from leadline.host import here
from leadline.host.received import lines_of
from leadline.load.cluster.clock import Offset
from leadline.load.driver import find_binary
from leadline.load.result import read_summary
from leadline.model.drivers import DriverHost
from leadline.model.errors import LeadlineError


@dataclass(frozen=True)
class Part:
    """One driver's results, in a directory of its name. ``moved_ns``: how far its clock moved against this host's
    during the run.
    """

    driver: DriverHost
    directory: Path
    share: str
    cpus: int
    clock: Offset
    moved_ns: float


def check_results(directory: Path) -> None:
    """What a driver on another host wrote, before it is read together with others'. Raises LeadlineError."""
    read_summary(directory)
    for path in sorted(directory.iterdir()):
        for _ in lines_of(path):
            pass  # none is too long


def merge(parts: Sequence[Part], out: Path, started_unix_ns: int) -> None:
    """Write summary.json, seconds.csv, outcomes.csv and the interval logs of all drivers together into ``out``.

    Seconds are numbered from the agreed start, which is ``started_unix_ns`` by this host's clock. Raises LeadlineError
    when a driver's results are missing or incomplete, or are not of the same scenario.
    """
    notes = [
        {
            "via": part.driver.via,
            "share": part.share,
            "cpus": part.cpus,
            "clock_offset_ms": part.clock.ns / 1e6,
            "clock_uncertainty_ms": part.clock.uncertainty_ns / 1e6,
            "clock_moved_ms": part.moved_ns / 1e6,
        }
        for part in parts
    ]
    options = ["--out", str(out), "--start", str(started_unix_ns), "--notes", json.dumps(notes)]
    done = here.run([str(find_binary()), "merge", *options, *(str(part.directory) for part in parts)])
    if done.returncode:
        raise LeadlineError(done.stderr.strip().removeprefix("leadline-load: ") or f"exit code {done.returncode}")
