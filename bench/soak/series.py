"""Figures of 14 days of a stationary server, made by a seed."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from leadline.analysis.soak import DAY, Series

HOURS = np.arange(14 * 24) * 3600.0
LEVELS = {"heap": 400, "native": 900, "handles": 300, "threads": 61, "connections": 12, "disk": 5000}
Floats = NDArray[np.float64]


def autoregression(rng: np.random.Generator, together: float, count: int) -> Floats:
    """Of first order, standard deviation 1."""
    values = rng.normal(size=count)
    for at in range(1, count):
        values[at] = together * values[at - 1] + math.sqrt(1 - together**2) * values[at]
    return values


def noise(rng: np.random.Generator, together: float) -> Floats:
    """An autoregression of 14 days."""
    return autoregression(rng, together, len(HOURS))


def family(rng: np.random.Generator, together: float) -> dict[str, Floats]:
    """Hourly figures of a stationary server whose load has days."""
    day = np.sin(2 * np.pi * HOURS / DAY)
    return {
        "throughput": 500 * (1 + 0.3 * day) + 10 * noise(rng, together),
        "p99": 20 * (1 + 0.2 * day) + noise(rng, together),
        "heap": 400 + 20 * noise(rng, together),
        "native": 900 + 5 * noise(rng, together),
        "handles": np.round(300 + 10 * day + 4 * noise(rng, together)),
        "threads": np.full(len(HOURS), 61.0),
        "connections": np.round(12 + 2 * day + noise(rng, together)),
        "disk": 5000 + 30 * noise(rng, together),
    }


def series(figures: dict[str, Floats]) -> list[Series]:
    users = ("throughput", "p99")
    return [
        Series(
            name,
            "",
            HOURS.tolist(),
            values.tolist(),
            "falling" if name == "throughput" else "rising",
            name not in users,
        )
        for name, values in figures.items()
    ]
