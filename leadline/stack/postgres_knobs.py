"""PostgreSQL's knobs: how a level is written to its configuration and how ``pg_settings`` is read back."""

from __future__ import annotations

from leadline.model.errors import UsageError
from leadline.model.knob import Kind, Level
from leadline.stack.postgres_catalogue import IN_MILLISECONDS, KNOBS, STEPS

_KB = 1024
_BY_NAME = {knob.name: knob for knob in KNOBS}
_SIZES = {"B": 1, "kB": _KB, "8kB": 8 * _KB, "MB": _KB**2}
_TIMES = {"ms": 0.001, "s": 1.0, "min": 60.0}


def parameter(name: str) -> str:
    """PostgreSQL's own name of a knob. Raises LookupError for a knob it does not have."""
    if name not in _BY_NAME:
        raise LookupError(f"PostgreSQL has no knob {name}")
    return _BY_NAME[name].names["postgres"]


def render(name: str, level: Level) -> str:
    """``shared_buffers = '134217728B'`` for a level in the knob's unit.

    Raises LookupError for an unknown knob and UsageError for a level PostgreSQL would round.
    """
    own = parameter(name)
    knob = _BY_NAME[name]
    if isinstance(level, bool):
        return f"{own} = {'on' if level else 'off'}"
    if knob.kind is Kind.SIZE:
        size, step = int(level), STEPS.get(own, _KB)
        if size % step:
            below, above = size // step * step, -(-size // step) * step
            raise UsageError(
                f"{name}: PostgreSQL keeps it in steps of {knob.format(step)} and would round {size};"
                f" the nearest are {below} and {above} bytes"
            )
        return f"{own} = '{size}B'"
    if knob.kind is Kind.DURATION:
        unit, word = ("ms", "milliseconds") if own in IN_MILLISECONDS else ("s", "seconds")
        count = float(level) / _TIMES[unit]
        if abs(count - round(count)) > 1e-6:
            raise UsageError(f"{name}: PostgreSQL keeps whole {word} and would round {level:g} s")
        return f"{own} = '{round(count)}{unit}'"
    if knob.kind is Kind.CHOICE:
        return f"{own} = '{level}'"
    return f"{own} = {level}"


def parse(name: str, setting: str, unit: str | None) -> Level:
    """The level for ``setting`` and ``unit`` as ``pg_settings`` gives them. Raises LookupError, ValueError."""
    parameter(name)
    kind = _BY_NAME[name].kind
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
