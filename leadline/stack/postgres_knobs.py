"""PostgreSQL's knobs: how a level is written to its configuration and how ``pg_settings`` is read back."""

from __future__ import annotations

from functools import partial

from leadline import catalogue
from leadline.model.knob import Kind, Level

_KB = 1024
_SIZES = {"B": 1, "kB": _KB, "8kB": 8 * _KB, "MB": _KB**2}
_TIMES = {"ms": 0.001, "s": 1.0, "min": 60.0}


knob_of = partial(catalogue.knob_of, "postgres")


def render(name: str, level: Level) -> str:
    """``shared_buffers = '134217728B'`` for a level in its unit. Raises LookupError for an unknown knob."""
    knob = knob_of(name)
    option = knob.names["postgres"]
    if isinstance(level, bool):
        return f"{option} = {'on' if level else 'off'}"
    if knob.kind is Kind.SIZE:
        return f"{option} = '{int(level)}B'"
    if knob.kind is Kind.DURATION:
        unit = "ms" if knob.step is not None and knob.step < 1 else "s"
        return f"{option} = '{round(float(level) / _TIMES[unit])}{unit}'"
    if knob.kind is Kind.CHOICE:
        return f"{option} = '{level}'"
    return f"{option} = {level}"


def parse(name: str, setting: str, unit: str | None) -> Level:
    """The level for ``setting`` and ``unit`` as ``pg_settings`` gives them. Raises LookupError, ValueError."""
    kind = knob_of(name).kind
    if kind is Kind.SIZE:
        return int(setting) * _SIZES[unit or "B"]
    if kind is Kind.DURATION:
        return round(int(setting) * _TIMES[unit or "s"], 3)
    if kind is Kind.INTEGER:
        return int(setting)
    if kind is Kind.NUMBER:
        return float(setting)
    if kind is Kind.BOOLEAN:
        return setting == "on"
    return setting
