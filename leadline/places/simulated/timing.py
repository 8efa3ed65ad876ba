"""Where the time of a simulated trial goes: the same for the whole life cycle and for observations alone."""

from __future__ import annotations

from leadline.places.simulated.truth import Truth

_BEFORE = 0.6  # of the overhead without the server's start: restore, database; the rest: audit, stop, collect


def before_load(truth: Truth) -> float:
    """Seconds of a trial before its server is started."""
    return _BEFORE * _rest(truth)


def after_load(truth: Truth) -> float:
    """Seconds of a trial after its load."""
    return (1 - _BEFORE) * _rest(truth)


def _rest(truth: Truth) -> float:
    return max(truth.overhead - truth.server.startup, 0.0)
