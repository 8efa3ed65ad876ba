"""Sizes, durations and shares as people write them."""

from __future__ import annotations

import re

_SIZE = {"": 1, "b": 1, "k": 1024, "m": 1024**2, "g": 1024**3, "t": 1024**4}
_DURATION = {"ns": 1e-9, "us": 1e-6, "ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_NUMBER = r"\d+\.?\d*|\.\d+"
_PART = rf"({_NUMBER})\s*(ns|us|ms|min|s|m|h|d)"


def parse_size(text: str | int) -> int:
    """Bytes from ``512m``, ``2g``, ``64k`` or a plain number (powers of 1024).

    Raises ValueError.
    """
    if isinstance(text, int) and not isinstance(text, bool):
        return text
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([bkmgt]?)(?:i?b)?\s*", str(text).lower())
    if not match:
        raise ValueError(f"{text!r} is not a size such as 512m or 2g")
    return round(float(match[1]) * _SIZE[match[2]])


def format_size(size: int) -> str:
    """The shortest exact form: 536870912 -> ``512m``."""
    for unit in ("t", "g", "m", "k"):
        if size and size % _SIZE[unit] == 0:
            return f"{size // _SIZE[unit]}{unit}"
    return str(size)


def parse_duration(text: str | int | float) -> float:
    """Seconds from ``20s``, ``1.5h``, ``250ms``, ``20us``, ``1h30m`` or a plain number of seconds.

    Raises ValueError.
    """
    if isinstance(text, (int, float)) and not isinstance(text, bool):
        return float(text)
    word = str(text).strip().lower()
    if re.fullmatch(_NUMBER, word):
        return float(word)
    if not re.fullmatch(rf"(?:{_PART}\s*)+", word):
        raise ValueError(f"{text!r} is not a duration such as 20s, 5m or 1h30m")
    return sum(float(number) * _DURATION[unit] for number, unit in re.findall(_PART, word))


def format_duration(seconds: float) -> str:
    """``75`` -> ``1m15s``, ``0.25`` -> ``250ms``, ``7200`` -> ``2h``."""
    if seconds < 0:
        return "-" + format_duration(-seconds)
    if 0 < seconds < 1:
        return f"{seconds * 1000:.0f}ms"
    whole = round(seconds, 1) if seconds < 60 and seconds != int(seconds) else round(seconds)
    if whole < 60:
        return f"{whole:g}s"
    minutes, second = divmod(int(whole), 60)
    hours, minute = divmod(minutes, 60)
    parts = [f"{hours}h" if hours else "", f"{minute}m" if minute else "", f"{second}s" if second else ""]
    return "".join(parts)


def parse_share(text: str | int | float) -> float:
    """A share between 0 and 1 from ``0.1%`` or a plain number. Raises ValueError."""
    if isinstance(text, str) and text.strip().endswith("%"):
        share = float(text.strip()[:-1]) / 100
    else:
        share = float(text)
    if not 0 <= share <= 1:
        raise ValueError(f"{text!r} is not a share between 0 and 100%")
    return share
