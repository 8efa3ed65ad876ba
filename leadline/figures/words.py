"""How the sentences of the figures write numbers and lists."""

from __future__ import annotations

import math
from collections.abc import Sequence

from leadline.model.result import Interval
from leadline.model.units import rounded


def size(value: float) -> str:
    """Three significant digits or so, without exponents for common sizes."""
    if value == 0:
        return "0"
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:.{min(digits, 6)}f}" if abs(value) >= 1e-4 else rounded(value, 2)


def between(interval: Interval | None) -> str:
    return "" if interval is None else f" [{size(interval.low)}, {size(interval.high)}]"


def count(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def listed(parts: Sequence[str], most: int = 4) -> str:
    """``a, b and c``; what is beyond ``most`` is counted."""
    first = list(parts[:most])
    if len(parts) > most:
        first.append(f"{len(parts) - most} more")
    return first[0] if len(first) == 1 else ", ".join(first[:-1]) + " and " + first[-1] if first else "none"


def chance(p_value: float) -> str:
    return "p < 0.001" if p_value < 0.001 else f"p = {p_value:.3f}"
