"""MariaDB's knobs: how a level is written to its option file and how ``SHOW GLOBAL VARIABLES`` is read back."""

from __future__ import annotations

from functools import partial

from leadline import catalogue
from leadline.model.knob import Kind, Level

# The option that turns it on names the files.
_BINARY_LOG = {True: "log_bin = mariadb-bin", False: "skip_log_bin"}


knob_of = partial(catalogue.knob_of, "mariadb")


def render(name: str, level: Level) -> str:
    """``innodb_buffer_pool_size = 134217728`` for a level in its unit. Raises LookupError for an unknown knob."""
    knob = knob_of(name)
    option = knob.names["mariadb"]
    if isinstance(level, bool):
        return _BINARY_LOG[level] if option == "log_bin" else f"{option} = {'ON' if level else 'OFF'}"
    if knob.kind in (Kind.SIZE, Kind.DURATION):
        return f"{option} = {int(level)}"
    return f"{option} = {level}"


def parse(name: str, value: str) -> Level:
    """The level for ``value`` as ``SHOW GLOBAL VARIABLES`` gives it. Raises LookupError, ValueError."""
    knob = knob_of(name)
    if knob.kind in (Kind.SIZE, Kind.INTEGER):
        return int(value)
    if knob.kind in (Kind.DURATION, Kind.NUMBER):
        return float(value)
    if knob.kind is Kind.BOOLEAN:
        return value == "ON"
    # it writes the words of some choices in capitals
    return next((choice for choice in knob.choices if choice.casefold() == value.casefold()), value)
