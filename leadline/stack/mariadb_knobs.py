"""MariaDB's knobs: how a level is written to its option file and how ``SHOW GLOBAL VARIABLES`` is read back."""

from __future__ import annotations

from leadline.model.errors import UsageError
from leadline.model.knob import Kind, Level
from leadline.stack.mariadb_catalogue import KNOBS, STEPS

_BY_NAME = {knob.name: knob for knob in KNOBS}
# The option that turns it on names the files.
_BINARY_LOG = {True: "log_bin = mariadb-bin", False: "skip_log_bin"}


def parameter(name: str) -> str:
    """MariaDB's own name of a knob. Raises LookupError for a knob it does not have."""
    if name not in _BY_NAME:
        raise LookupError(f"MariaDB has no knob {name}")
    return _BY_NAME[name].names["mariadb"]


def render(name: str, level: Level) -> str:
    """``innodb_buffer_pool_size = 134217728`` for a level in the knob's unit.

    Raises LookupError for an unknown knob and UsageError for a level MariaDB would round.
    """
    own = parameter(name)
    knob = _BY_NAME[name]
    if isinstance(level, bool):
        return _BINARY_LOG[level] if own == "log_bin" else f"{own} = {'ON' if level else 'OFF'}"
    if knob.kind is Kind.SIZE:
        size, step = int(level), STEPS.get(own, 1)
        if size % step:
            below, above = size // step * step, -(-size // step) * step
            raise UsageError(
                f"{name}: MariaDB keeps it in steps of {knob.format(step)} and would round {size};"
                f" the nearest are {below} and {above} bytes"
            )
        return f"{own} = {size}"
    if knob.kind is Kind.DURATION:
        seconds = float(level)
        if seconds != int(seconds):
            raise UsageError(f"{name}: MariaDB keeps whole seconds and would round {level}")
        return f"{own} = {int(seconds)}"
    return f"{own} = {level}"


def parse(name: str, value: str) -> Level:
    """The level for ``value`` as ``SHOW GLOBAL VARIABLES`` gives it. Raises LookupError, ValueError."""
    parameter(name)
    knob = _BY_NAME[name]
    if knob.kind in (Kind.SIZE, Kind.INTEGER):
        return int(value)
    if knob.kind in (Kind.DURATION, Kind.NUMBER):
        return float(value)
    if knob.kind is Kind.BOOLEAN:
        return value == "ON"
    # it writes the words of some choices in capitals
    return next((choice for choice in knob.choices if choice.casefold() == value.casefold()), value)
