"""How long orders took from acceptance to effect, where they went through a queue."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import polars as pl

from leadline.host.received import csv_file

FILE = Path("raw") / "completions.csv"  # of a trial's directory: accepted_us,effective_us
_PERCENTILES = {"p50": 50, "p90": 90, "p99": 99}


def completion_between(directory: Path, from_s: float, until_s: float) -> Mapping[str, float]:
    """``completion_mean`` and percentiles in milliseconds of the orders accepted in the window of Unix seconds.

    Empty where no order went through a queue or none was accepted in the window.
    """
    try:
        rows = csv_file(directory / FILE, {"accepted_us": pl.Int64, "effective_us": pl.Int64})
    except FileNotFoundError:
        return {}
    accepted, effective = (rows[name].to_numpy() for name in rows.columns)
    inside = (accepted >= from_s * 1e6) & (accepted < until_s * 1e6)
    times = (effective - accepted)[inside] / 1e3
    if not times.size:
        return {}
    figures = {f"completion_{name}": float(np.percentile(times, share)) for name, share in _PERCENTILES.items()}
    return {"completion_mean": float(times.mean()), **figures}
