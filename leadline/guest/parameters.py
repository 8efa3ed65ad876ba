"""Boot parameters of a guest, from the levels of its knobs."""

from __future__ import annotations

from collections.abc import Mapping

from leadline.guest.kernels import Kernel
from leadline.model.errors import UsageError
from leadline.model.knob import Level

_NEEDS = {  # knob: option without which the kernel does not know it
    "guest.preempt": "PREEMPT_DYNAMIC",
    "guest.mitigations": "",
    "guest.transparent_hugepage": "TRANSPARENT_HUGEPAGE",
}


def boot_parameters(kernel: Kernel, levels: Mapping[str, Level]) -> list[str]:
    """``preempt=full`` and the like, of the guest's knobs among ``levels``.

    Raises UsageError for one that this kernel, as it was built, would pass over in silence.
    """
    found = []
    for knob, option in _NEEDS.items():
        if knob not in levels:
            continue
        parameter = f"{knob.removeprefix('guest.')}={levels[knob]}"
        if option and kernel.config and option not in kernel.config:
            raise UsageError(f"kernel {kernel.name} knows no {parameter}: it was built without {option}")
        found.append(parameter)
    return found
