"""Kernels side by side in virtual time: `python -m bench.kernels` runs a Java program in guests of each."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import mean
from typing import Any

from bench.kernels.guests import measure

Row = dict[str, Any]  # kernel, version, seed, millis by part, facts
KERNELS = "5.10-cloud,6.1-cloud,6.1-amd64,6.1-rt,6.12-cloud,6.12-rt,7.2-cloud"


def table(found: Sequence[Row]) -> str:
    """A row a kernel, the first one is the reference: mean ms [range over seeds], and the change in percent, in bold
    where the ranges of several seeds do not touch.
    """
    runs: dict[str, list[Row]] = {}
    for row in found:
        runs.setdefault(row["kernel"], []).append(row)
    parts = list(found[0]["millis"])
    reference = next(iter(runs.values()))
    rows = [["kernel", "version", *(part.replace("_", " ") for part in parts)], ["---"] * 2 + ["---:"] * len(parts)]
    for name, its in runs.items():
        cells = [
            _cell([row["millis"][part] for row in its], [row["millis"][part] for row in reference]) for part in parts
        ]
        rows.append([name, its[0]["version"], *cells])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _cell(own: Sequence[float], other: Sequence[float]) -> str:
    text = f"{mean(own):.1f} [{min(own):.1f}, {max(own):.1f}]" if len(own) > 1 else f"{own[0]:.1f}"
    if own == other:
        return text
    change = f"{100 * (mean(own) / mean(other) - 1):+.1f} %"
    apart = len(own) > 1 and len(other) > 1 and (min(own) > max(other) or max(own) < min(other))
    return f"{text} **{change}**" if apart else f"{text} {change}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.kernels", description=__doc__)
    parser.add_argument("--kernels", default=KERNELS, help="names, the reference first (default %(default)s)")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--scale", type=int, default=1000, help="round trips: more is longer")
    parser.add_argument("--results", type=Path, help="a file of results: what it has is not measured again")
    given = parser.parse_args()
    rows: list[Row] = json.loads(given.results.read_text()) if given.results and given.results.exists() else []
    known = {(row["kernel"], row["seed"]) for row in rows}
    jobs = [(name, seed + 1) for seed in range(given.seeds) for name in given.kernels.split(",")]
    with tempfile.TemporaryDirectory(prefix="kernels-") as directory:
        for one in measure([job for job in jobs if job not in known], Path(directory), given.scale):
            name, version = one.kernel.name, one.kernel.version
            rows.append(
                {"kernel": name, "version": version, "seed": one.seed, "millis": one.millis, "facts": one.facts}
            )
            print(f"{name} seed {one.seed}: {one.wall_seconds:.0f} s, {one.facts}", file=sys.stderr, flush=True)
            if given.results:
                given.results.write_text(json.dumps(rows, indent=1))
    print(table(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
