"""What a rotation cannot be, said before it is laid out."""

from __future__ import annotations

import math
from collections.abc import Sequence

from leadline.design.errors import DesignError
from leadline.design.plots import dear_factors
from leadline.design.switchback import is_live
from leadline.model.design import Design, Rotation
from leadline.model.plan import Factor
from leadline.model.units import format_duration
from leadline.model.workload import IN_NO_CYCLES, Workload

KEY = ("design", "rotation")


def check_rotation(
    factors: Sequence[Factor], design: Design, workload: Workload, layout: Rotation, held_by_host: Sequence[Factor]
) -> None:
    """``held_by_host``: factors of the whole host whose levels cannot change for one instance alone. Raises
    DesignError, naming the key.
    """
    key, name = KEY, ".".join(KEY)
    if design.switchback is not None:
        raise DesignError(
            f"{name} and design.switchback are two layouts; keep one: switchback for levels that change in the "
            f"running system, rotation for those that need a restart",
            key,
        )
    if design.blocks not in ("by-replicate", "incomplete"):
        raise DesignError(
            f"design.blocks {design.blocks} orders trials one after the other; with {name} leave it out or say "
            "incomplete",
            ("design", "blocks"),
        )
    if dear := dear_factors(factors):
        raise DesignError(
            f"{dear[0].name} needs a {dear[0].apply_cost.value} of the host, so its levels cannot stand side by side; "
            f"leave {name} out",
            ("factors", dear[0].name),
        )
    for factor in held_by_host:
        when = "" if is_live(factor) else " and takes effect when a service starts"
        raise DesignError(
            f"{factor.name} is of the whole host{when}: its levels cannot stand side by side; leave {name} out",
            ("factors", factor.name),
        )
    for part in ("slot", "wash_out", "warm_up_slot"):
        seconds = getattr(layout, part)
        if seconds != round(seconds):
            low, high = format_duration(math.floor(seconds)), format_duration(math.ceil(seconds))
            raise DesignError(
                f"{name}.{part} is {format_duration(seconds)}, but responses are kept for whole seconds; say "
                f"{low} or {high}",
                (*key, part),
            )
    if workload.ramp_up != round(workload.ramp_up):
        raise DesignError(
            f"workload.ramp_up is {format_duration(workload.ramp_up)}, but responses are kept for whole seconds",
            ("workload", "ramp_up"),
        )
    if "warm_up_slot" in layout.model_fields_set and layout.warm_up_slot > workload.ramp_up:
        raise DesignError(
            f"{name}.warm_up_slot {format_duration(layout.warm_up_slot)} is longer than workload.ramp_up; "
            f"say {format_duration(workload.ramp_up)} or less, or leave it out",
            (*key, "warm_up_slot"),
        )
    if layout.wash_out > layout.slot - 1:
        raise DesignError(
            f"{name}.wash_out {format_duration(layout.wash_out)} leaves no whole second of a slot of "
            f"{format_duration(layout.slot)}; say {format_duration(layout.slot - 1)} or less",
            (*key, "wash_out"),
        )
    for kind in IN_NO_CYCLES:
        if getattr(workload, kind) is not None:
            raise DesignError(
                f"workload.{kind}: the load of {name} comes in slots of `users` or `rate`; leave {kind} out",
                ("workload", kind),
            )
