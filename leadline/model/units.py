"""Sizes, durations and shares as people write them."""

from __future__ import annotations

import math
import re

from leadline.model.errors import quoted

MINUS = "\u2212"
_SIZE = {"": 1, "b": 1, "k": 1024, "m": 1024**2, "g": 1024**3, "t": 1024**4}
_DURATION = {"ns": 1e-9, "us": 1e-6, "ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_NUMBER = r"\d+\.?\d*|\.\d+"
_DECIMAL = re.compile(rf"[-+]?(?:{_NUMBER})(?:e[-+]?\d+)?", re.ASCII)
_PART = rf"({_NUMBER})\s*(ns|us|ms|min|s|m|h|d)"
_LONGEST = 60  # characters of a quantity; the patterns are slow on long ones
LARGEST_SIZE = 2**62  # bytes


def parse_size(text: object) -> int:
    """Bytes from ``512m``, ``2g``, ``64k`` or a plain number (powers of 1024); a negative number stays one, for knobs
    that give it a meaning.

    Raises ValueError.
    """
    size: float
    if isinstance(text, int) and not isinstance(text, bool):
        size = text
    else:
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([bkmgt]?)(?:i?b)?\s*", _word(text), re.ASCII)
        if not match:
            raise ValueError(f"{quoted(text)} is not a size such as 512m or 2g")
        size = float(match[1]) * _SIZE[match[2]]
    if not -LARGEST_SIZE <= size <= LARGEST_SIZE:
        raise ValueError(f"{quoted(text)} is larger than any memory")
    return round(size)


def format_number(value: float, digits: int = 3) -> str:
    """So many significant digits, thousands separated; what is before the point in full. ``value`` is finite."""
    if value == int(value) and abs(value) < 1e6:
        return f"{value:,.0f}"
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    return f"{value:,.{min(decimals, 6)}f}"


def rounded(value: float, digits: int) -> str:
    """``format_number`` without zeros at the end."""
    text = f"{value:.{digits}g}"
    return format_number(value, digits) if "e+" in text else text


def signed(value: float, digits: int) -> str:
    """``rounded`` with its sign."""
    return (MINUS if value < 0 else "+") + rounded(abs(value), digits)


def format_size(size: int) -> str:
    """The shortest exact form: 536870912 -> ``512m``."""
    for unit in ("t", "g", "m", "k"):
        if size and size % _SIZE[unit] == 0:
            return f"{size // _SIZE[unit]}{unit}"
    return str(size)


def parse_duration(text: object) -> float:
    """Seconds from ``20s``, ``1.5h``, ``250ms``, ``20us``, ``1h30m`` or a plain number of seconds.

    Raises ValueError; what is returned is finite.
    """
    if isinstance(text, (int, float)) and not isinstance(text, bool):
        return _finite(text, text)
    word = _word(text).strip()
    if re.fullmatch(_NUMBER, word, re.ASCII):
        return _finite(float(word), text)
    if not re.fullmatch(rf"(?:{_PART}\s*)+", word, re.ASCII):
        raise ValueError(f"{quoted(text)} is not a duration such as 20s, 5m or 1h30m")
    return _finite(sum(float(number) * _DURATION[unit] for number, unit in re.findall(_PART, word, re.ASCII)), text)


def format_duration(seconds: float) -> str:
    """``75`` -> ``1m15s``, ``0.25`` -> ``250ms``, ``7200`` -> ``2h``."""
    if seconds < 0:
        return "-" + format_duration(-seconds)
    if 0 < seconds < 0.001:
        return f"{rounded(seconds * 1e6, 3)}us"
    if 0 < seconds < 1:
        return f"{seconds * 1000:.0f}ms"
    whole = round(seconds, 1) if seconds < 60 and seconds != int(seconds) else round(seconds)
    if whole < 60:
        return f"{whole:g}s"
    minutes, second = divmod(int(whole), 60)
    hours, minute = divmod(minutes, 60)
    parts = [f"{hours}h" if hours else "", f"{minute}m" if minute else "", f"{second}s" if second else ""]
    return "".join(parts)


def parse_share(text: object) -> float:
    """A share between 0 and 1 from ``0.1%`` or a plain number. Raises ValueError."""
    word = _word(text).strip() if isinstance(text, str) else text
    if isinstance(word, str) and _DECIMAL.fullmatch(word.removesuffix("%")):
        share = float(word.removesuffix("%")) / (100 if word.endswith("%") else 1)
    elif isinstance(word, (int, float)) and not isinstance(word, bool):
        share = word
    else:
        raise ValueError(f"{quoted(text)} is not a share such as 0.1%")
    if not 0 <= share <= 1:
        raise ValueError(f"{quoted(text)} is not a share between 0 and 100%")
    return float(share)


def parse_percent(text: str, low: float, high: float) -> float:
    """Percent between two bounds from ``5%`` or ``5``. Raises ValueError."""
    word = _word(text).strip().removesuffix("%").rstrip()
    if not _DECIMAL.fullmatch(word):
        raise ValueError(f"{quoted(text)} is not a percentage such as 5%")
    if not low <= float(word) <= high:
        raise ValueError(f"{quoted(text)} is not between {low:g}% and {high:g}%")
    return float(word)


def _word(text: object) -> str:
    """What a quantity is written as, in small letters; never longer than any is."""
    word = str(text) if isinstance(text, (str, float)) else quoted(text)
    return word.lower() if len(word) <= _LONGEST else "?"


def _finite(number: float, text: object) -> float:
    try:
        finite = float(number)
    except OverflowError:
        finite = math.inf
    if not math.isfinite(finite):
        raise ValueError(f"{quoted(text)} is not a finite number")
    return finite
