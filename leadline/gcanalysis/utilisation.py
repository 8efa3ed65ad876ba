"""Minimum mutator utilisation: the smallest share of any window that is left to the application."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

WINDOWS_MS = (1.0, 10.0, 50.0, 100.0, 500.0, 1000.0, 5000.0, 10000.0, 60000.0)


@dataclass(frozen=True)
class Utilisation:
    """``share`` in 0..1 of the worst window of ``window_ms``; None when the log is shorter than the window."""

    window_ms: float
    share: float | None


def utilisation(
    stops: Iterable[tuple[float, float]], begin: float, end: float, windows_ms: Sequence[float] = WINDOWS_MS
) -> list[Utilisation]:
    """Of stops (begin, end) in seconds within ``begin`` to ``end`` (Cheng and Blelloch 2001).

    Exact: the worst window begins where a stop begins or ends where one ends. Stops that overlap by the resolution of
    the log's times are moved apart: the later one begins when the one before ends.
    """
    merged: list[tuple[float, float]] = []
    for start, stop in sorted(stops):
        start = max(start, begin, merged[-1][1] if merged else begin)
        stop = min(stop, end)
        if stop > start:
            merged.append((start, stop))
    starts, stops_at = np.array([one[0] for one in merged]), np.array([one[1] for one in merged])
    lengths = stops_at - starts
    # Time stopped since the beginning, at each edge; linear between.
    edges = np.ravel(np.column_stack((starts, stops_at)))
    total = np.ravel(np.column_stack((np.cumsum(lengths) - lengths, np.cumsum(lengths))))
    found = []
    for window_ms in windows_ms:
        window = window_ms / 1e3
        if window > end - begin or window <= 0:
            found.append(Utilisation(window_ms, None))
            continue
        if not merged:
            found.append(Utilisation(window_ms, 1.0))
            continue
        at = np.clip(np.concatenate((starts, stops_at - window)), begin, end - window)
        stopped = np.interp(at + window, edges, total) - np.interp(at, edges, total)
        found.append(Utilisation(window_ms, float(np.clip(1 - stopped.max() / window, 0.0, 1.0))))
    return found
