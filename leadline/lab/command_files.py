"""Comparisons of programs as files: hyperfine's format, and what it has no place for under ``leadline``."""

from __future__ import annotations

import json
import math
from pathlib import Path
from statistics import fmean, median, stdev
from typing import Any

from leadline.lab.command import Command, Comparison, How, Run, compared, plan_of_runs
from leadline.model.errors import UsageError


def document(found: Comparison) -> dict[str, Any]:
    """What hyperfine's ``--export-json`` writes, and under ``leadline`` the order, all figures and the conclusions."""
    results: list[dict[str, Any]] = []
    for at, command in enumerate(found.commands):
        times = found.of(at, "wall")
        if not times:
            results.append({"command": command.text, "times": [], "parameters": dict(command.parameters)})
            continue
        peaks = found.of(at, "peak_memory")
        results.append(
            {
                "command": command.text,
                "mean": fmean(times),
                "stddev": stdev(times) if len(times) > 1 else None,
                "median": median(times),
                "user": fmean(found.of(at, "user")) if found.of(at, "user") else None,
                "system": fmean(found.of(at, "system")) if found.of(at, "system") else None,
                "min": min(times),
                "max": max(times),
                "times": times,
                **({"memory_usage_byte": [int(1048576 * one) for one in peaks]} if peaks else {}),
                "parameters": dict(command.parameters),
            }
        )
    own = {
        "order": found.how.order,
        "cache": found.how.cache,
        "seed": found.how.seed,
        "margin_percent": found.how.margin,
        "runs": [
            {"command": run.command, "block": run.block, "started": run.started}
            | ({"failed": run.why} if run.why else {"figures": dict(run.figures)})
            for run in found.runs
        ],
    }
    return {"results": results, "leadline": own}


def compared_file(path: Path, margin: float) -> Comparison:
    """The comparison of a file that hyperfine or :func:`document` wrote. Raises UsageError where it is neither."""
    try:
        read = json.loads(path.read_text(encoding="utf-8"))
        results = read["results"]
        commands = [
            Command(str(one["command"]), (), False, {k: str(v) for k, v in (one.get("parameters") or {}).items()})
            for one in results
        ]
        own = read.get("leadline")
        if own:
            runs = [
                Run(
                    at,
                    int(one["block"]),
                    int(one["command"]),
                    float(one["started"]),
                    one.get("figures", {}),
                    str(one.get("failed", "")),
                )
                for at, one in enumerate(own["runs"])
            ]
            how = How(order=own["order"], cache=own["cache"], seed=int(own["seed"]), margin=margin)
        else:
            figures = [
                (at, float(time)) for at, one in enumerate(results) for time in one.get("times") or [one["mean"]]
            ]
            runs = [Run(at, 0, command, float(at), {"wall": time}) for at, (command, time) in enumerate(figures)]
            how = How(margin=margin)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: {getattr(error, 'strerror', None) or error}") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(f"{path}: not what `hyperfine --export-json` writes: {error!r}") from None
    if not commands or not runs:
        raise UsageError(f"{path}: it holds no command")
    if any(not 0 < run.figures["wall"] < math.inf for run in runs if not run.why):
        raise UsageError(f"{path}: a time is not a positive number")
    return compared(commands, how, plan_of_runs(len(commands), runs, sequence=not own), runs, False, ())
