"""A knob in words, as ``leadline knobs`` and the reference pages have it."""

from __future__ import annotations

from leadline.model.knob import Kind, Knob, Share
from leadline.model.units import format_size

_SILENT = ("mode", "bits", "switch")  # units that say what kind of number it is; none stands behind a level


def unit_behind(knob: Knob) -> str:
    """`` %``: what follows a level of the knob; empty where the level says it itself."""
    unit = knob.kind in (Kind.SIZE, Kind.DURATION) or knob.unit in _SILENT
    return "" if unit or not knob.unit else f" {knob.unit}"


def default_of(knob: Knob) -> str:
    """The default, or on what it depends."""
    if knob.default is None:
        return knob.default_note
    return f"{knob.format(knob.default)}{f' ({knob.default_note})' if knob.default_note else ''}"


def range_of(knob: Knob) -> str:
    """``0..100``, the choices, or empty for any level."""
    if knob.choices:
        if knob.values.keys() != set(knob.values.values()):
            return ", ".join(f"{name} ({value})" for name, value in knob.values.items())
        return ", ".join(choice for choice in knob.choices if choice not in knob.refused)
    if knob.kind is Kind.BOOLEAN:
        return "off, on"
    low, high = bound_of(knob, "minimum"), bound_of(knob, "maximum")
    also = "".join(f"{knob.format_bound(level)}, " for level in knob.special)
    return f"{also}{low}..{high}" if low or high else ""


def bound_of(knob: Knob, field: str) -> str:
    """``minimum``, ``maximum``, ``dangerous_below`` or ``dangerous_above`` as people write it; empty for none."""
    if field in knob.relative:
        return share_of(knob.relative[field][0])
    bound = getattr(knob, field)
    if bound is None:
        return ""
    return knob.format_bound(bound if isinstance(bound, (int, float)) else bound.level)


def share_of(share: Share) -> str:
    """``10 % of memory``."""
    text = "memory" if share.memory == 1 else f"{share.memory * 100:g} % of memory"
    if share.per_cpu:
        text += " by CPU"
    return text if share.each in (0, 1, 1024) else f"{text} in units of {format_size(share.each)}"


def dangers_of(knob: Knob) -> list[tuple[str, str]]:
    """Which levels need a disposable host, each with the reason: ``("below 1", "every write waits ...")``."""
    dangers = []
    for field, word in (("dangerous_below", "below"), ("dangerous_above", "above")):
        if text := bound_of(knob, field):
            limit = getattr(knob, field)
            dangers.append((f"{word} {text}", limit.why if limit else knob.relative[field][1]))
    if knob.elements is not None and knob.elements.width is not None:
        dangers.append((f"less than {knob.elements.width.level:g} wide", knob.elements.width.why))
    return dangers


def risk_of(knob: Knob) -> str:
    """``safe``, ``caution``, or ``safe; dangerous below 1 or above 90``."""
    dangers = " or ".join(where for where, _ in dangers_of(knob))
    return f"{knob.risk.value}; dangerous {dangers}" if dangers else knob.risk.value
