"""Layouts: how the trials of a study stand in time. Each is a module of this room, named in ``model.design``.

``layout_of`` gives that of a design or a plan; ``check`` says what is wrong with a plan of any.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import get_args

from leadline.design.forks import booted, warmed, work
from leadline.layouts.plain import Layout, Words, assumed_wash_out
from leadline.layouts.rotation import idle_cpus, measured, must_fit, one_by_one, phases_of, rotation_plan
from leadline.layouts.switchback import latest_change, steady_seconds, switchback_plan
from leadline.layouts.whole_host import between_blocks
from leadline.model.design import Design, LayoutName
from leadline.model.plan import Plan

LAYOUTS: Mapping[LayoutName, Layout] = {
    name: import_module(f"leadline.layouts.{name}").LAYOUT for name in get_args(LayoutName)
}


def layout_of(planned: Design | Plan) -> Layout:
    """The layout of a design or a plan."""
    return LAYOUTS[planned.layout]


def wash_out_of(design: Design) -> float:
    """Seconds left out at the start of the slots of a design."""
    return layout_of(design).slots(design)[1]


__all__ = [
    "LAYOUTS",
    "Layout",
    "Words",
    "assumed_wash_out",
    "between_blocks",
    "booted",
    "idle_cpus",
    "latest_change",
    "layout_of",
    "measured",
    "must_fit",
    "one_by_one",
    "phases_of",
    "rotation_plan",
    "steady_seconds",
    "switchback_plan",
    "warmed",
    "wash_out_of",
    "work",
]
