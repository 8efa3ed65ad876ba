"""What a rotation cannot be, said before it is laid out."""

from __future__ import annotations

import math
from collections.abc import Sequence

from leadline.design.errors import DesignError
from leadline.design.plots import dear_factors
from leadline.design.switchback import is_live
from leadline.model.plan import Factor
from leadline.model.study import Design, Rotation, Workload
from leadline.model.units import format_duration

KEY = ("design", "rotation")


def check_rotation(
    factors: Sequence[Factor], design: Design, workload: Workload, rotation: Rotation, held_by_host: Sequence[Factor]
) -> None:
    """``held_by_host``: factors of the whole host that do not change in slots. Raises DesignError, naming the key."""
    if design.switchback is not None:
        raise DesignError(
            "design.rotation and design.switchback are two layouts; keep one: switchback for levels that change in the "
            "running system, rotation for those that need a restart",
            KEY,
        )
    if design.kind == "racing":
        raise DesignError("design: a race replaces instances one by one; with design.rotation use looks", KEY)
    if design.blocks not in ("by-replicate", "incomplete"):
        raise DesignError(
            f"design.blocks {design.blocks} orders trials one after the other; with design.rotation leave it out or "
            "say incomplete",
            ("design", "blocks"),
        )
    if dear := dear_factors(factors):
        name = dear[0].name
        raise DesignError(
            f"{name} needs a {dear[0].apply_cost.value} of the host, so its levels cannot stand side by side; leave "
            "design.rotation out",
            ("factors", name),
        )
    for factor in held_by_host:
        when = "" if is_live(factor) else " and takes effect when a service starts"
        raise DesignError(
            f"{factor.name} is of the whole host{when}: its levels cannot stand side by side; leave design.rotation "
            "out",
            ("factors", factor.name),
        )
    for key, seconds in (
        ("slot", rotation.slot),
        ("wash_out", rotation.wash_out),
        ("warm_up_slot", rotation.warm_up_slot),
    ):
        if seconds != round(seconds):
            low, high = format_duration(math.floor(seconds)), format_duration(math.ceil(seconds))
            raise DesignError(
                f"design.rotation.{key} is {format_duration(seconds)}, but responses are kept for whole seconds; say "
                f"{low} or {high}",
                (*KEY, key),
            )
    if workload.ramp_up != round(workload.ramp_up):
        raise DesignError(
            f"workload.ramp_up is {format_duration(workload.ramp_up)}, but responses are kept for whole seconds",
            ("workload", "ramp_up"),
        )
    if "warm_up_slot" in rotation.model_fields_set and rotation.warm_up_slot > workload.ramp_up:
        raise DesignError(
            f"design.rotation.warm_up_slot {format_duration(rotation.warm_up_slot)} is longer than workload.ramp_up; "
            f"say {format_duration(workload.ramp_up)} or less, or leave it out",
            (*KEY, "warm_up_slot"),
        )
    if rotation.wash_out > rotation.slot - 1:
        raise DesignError(
            f"design.rotation.wash_out {format_duration(rotation.wash_out)} leaves no whole second of a slot of "
            f"{format_duration(rotation.slot)}; say {format_duration(rotation.slot - 1)} or less",
            (*KEY, "wash_out"),
        )
    for name in ("profile", "bursts", "replay", "generator"):
        if getattr(workload, name) is not None:
            raise DesignError(
                f"workload.{name}: the load of design.rotation comes in slots of `users` or `rate`; leave {name} out",
                ("workload", name),
            )
