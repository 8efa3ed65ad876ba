"""How long a guest may take, in seconds of this machine's time: one that takes longer hangs, and is ended."""

from __future__ import annotations

from leadline.model.units import format_duration
from leadline.model.workload import Workload

BOOT = 900.0  # a boot and the start of a stack, emulated on a busy machine
_FORK = 180.0  # a saved guest goes on, sets its levels and sends its files
_A_SECOND = 60.0  # of load, emulated on a busy machine


def of_past(load: Workload) -> float:
    """Boot, start and warm-up."""
    return BOOT + _A_SECOND * load.ramp_up


def of_fork(seconds: float) -> float:
    """A fork whose load takes so many seconds of the guest's time."""
    return _FORK + _A_SECOND * seconds


def told(load: Workload, forks: bool) -> str:
    """The bounds of a study, as its plan says them."""
    past, trial = of_past(load), of_fork(load.steady + load.ramp_down)
    if forks:
        bound = f"its boot, start and warm-up take longer than {format_duration(past)}, a fork than"
        return f"A guest hangs, and is ended as a failed trial, where {bound} {format_duration(trial)}."
    return f"A guest hangs, and is ended as a failed trial, where it takes longer than {format_duration(past + trial)}."
