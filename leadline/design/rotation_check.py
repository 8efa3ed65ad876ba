"""What a rotation or a duet cannot be, said before it is laid out."""

from __future__ import annotations

import math
from collections.abc import Sequence

from leadline.design.errors import DesignError
from leadline.design.plots import dear_factors
from leadline.design.switchback import is_live
from leadline.model.design import Design, Duet, Rotation
from leadline.model.plan import Factor
from leadline.model.units import format_duration
from leadline.model.workload import IN_NO_CYCLES, Workload

Layout = Rotation | Duet


def key_of(layout: Layout) -> tuple[str, str]:
    """The key of the study file."""
    return ("design", "duet" if isinstance(layout, Duet) else "rotation")


def check_rotation(
    factors: Sequence[Factor], design: Design, workload: Workload, layout: Layout, held_by_host: Sequence[Factor]
) -> None:
    """``held_by_host``: factors of the whole host whose levels cannot change for one instance alone. Raises
    DesignError, naming the key.
    """
    key = key_of(layout)
    name = ".".join(key)
    if design.rotation is not None and design.duet is not None:
        raise DesignError(
            "design.rotation and design.duet are two layouts; keep one: duet for two instances at once on half of the "
            "CPUs each, rotation for one at a time on all of them",
            key,
        )
    if design.switchback is not None:
        raise DesignError(
            f"{name} and design.switchback are two layouts; keep one: switchback for levels that change in the "
            f"running system, {key[1]} for those that need a restart",
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
        seconds = getattr(layout, part, 0.0)
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
    if (
        isinstance(layout, Rotation)
        and "warm_up_slot" in layout.model_fields_set
        and layout.warm_up_slot > workload.ramp_up
    ):
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
