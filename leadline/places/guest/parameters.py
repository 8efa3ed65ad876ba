"""Boot parameters of a guest, from the levels of its knobs."""

from __future__ import annotations

import re
from collections.abc import Mapping

from leadline.model.errors import UsageError
from leadline.model.knob import Level
from leadline.places.guest.kernels import Kernel

_LAZY_ALONE = (7, 0)  # from this version on what is not full is lazy, on processors that can be lazy


def boot_parameters(kernel: Kernel, levels: Mapping[str, Level]) -> list[str]:
    """``preempt=full`` and the like, of the guest's knobs among ``levels``.

    Raises UsageError for one that this kernel, as it was built, would pass over in silence.
    """
    parameters = []
    for knob in ("guest.preempt", "guest.mitigations", "guest.transparent_hugepage"):
        if knob not in levels:
            continue
        parameter = f"{knob.removeprefix('guest.')}={levels[knob]}"
        if kernel.config and (why := _unknown(kernel, knob, str(levels[knob]))):
            raise UsageError(f"kernel {kernel.name} knows no {parameter}: {why}")
        parameters.append(parameter)
    return parameters


def _unknown(kernel: Kernel, knob: str, level: str) -> str:
    """Why the parameter would do nothing; empty where it does something."""
    if knob == "guest.transparent_hugepage" and "TRANSPARENT_HUGEPAGE" not in kernel.config:
        return "it was built without TRANSPARENT_HUGEPAGE"
    if knob != "guest.preempt":
        return ""
    if "PREEMPT_DYNAMIC" not in kernel.config:
        return "it was built without PREEMPT_DYNAMIC"
    modes = _modes(kernel)
    return "" if level in modes else f"it knows {' and '.join(modes)}"


def _modes(kernel: Kernel) -> list[str]:
    """Modes between which ``preempt=`` chooses (kernel/sched/core.c)."""
    lazy = "ARCH_HAS_PREEMPT_LAZY" in kernel.config
    number = tuple(int(part) for part in re.findall(r"\d+", kernel.release)[:2])
    restricted = "PREEMPT_RT" in kernel.config or (lazy and number >= _LAZY_ALONE)
    return [*(() if restricted else ("none", "voluntary")), "full", *(("lazy",) if lazy else ())]
