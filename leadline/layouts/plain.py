"""A layout: how the trials of a study stand in time, and what follows from that. This one is plain trials, one after
the other; each other layout is a module of this room that says where it differs.

A design and a plan know the name of theirs (``Design.layout``, ``Plan.layout``), ``layout_of`` gives the object. Trials
that stand side by side are run by ``leadline.trial.run``, others each alone by ``leadline.trial.lifecycle``.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from leadline.design.make import make_plan
from leadline.model.design import Design, Switchback
from leadline.model.plan import Factor, Plan
from leadline.model.workload import Workload


@dataclass(frozen=True)
class Words:
    """What users read: what a ``plan`` is called after its kind, what it ``repeats``, and where its noise is: between
    trials, between those of a block, and between which ``blocks``.
    """

    plan: str = ""
    repeats: str = "replicate"
    trials: str = "between trials"
    in_block: str = "between trials of a block"
    blocks: str = "blocks"


class Layout:
    """``exact``: the trials of a block differ by their treatments alone, without noise and without an order in time.
    ``side_by_side``: they share the machine at the same time. ``estimates_wash_out``: from its slots, after a run.
    """

    words = Words()
    exact = False
    side_by_side = False
    estimates_wash_out = False

    def plan(
        self, factors: Sequence[Factor], design: Design, _workload: Workload, _of_host: Collection[str] = (), /
    ) -> Plan:
        """The seeded, ordered plan under a load; last, names of knobs of the whole host. Raises UsageError."""
        return make_plan(factors, design)

    def slots(self, design: Design) -> tuple[float, float]:
        """Seconds of a slot, and those left out at its start; where there is none, as a switchback would have them."""
        switchback = design.switchback or Switchback()
        return switchback.slot, assumed_wash_out(switchback)

    def same_question(self, design: Design, live: bool) -> Design:  # noqa: ARG002
        """The design in this layout instead of its own; ``live``: some factors change in the running system."""
        return design.model_copy(update={"rotation": None, "switchback": None})

    def keys(self, design: Design) -> dict[str, str]:  # noqa: ARG002
        """The layout as ``--set`` takes it."""
        return {}

    def instances(self, design: Design) -> int:
        """How often each treatment is tried."""
        return design.replicates

    def with_instances(self, design: Design, instances: int) -> Design:
        """So many instances of each treatment."""
        return design.model_copy(update={"replicates": instances})

    def smaller(self, design: Design, fit: int) -> Design | None:  # noqa: ARG002
        """With at most ``fit`` instances at once, fewer than there are; None where that cannot be."""
        return None

    def fresh(self, design: Design, kind: str, replicates: int, live: Collection[bool]) -> dict[str, Any]:  # noqa: ARG002
        """Keys of a design that tries treatments of a ``kind`` again in the layout of ``design``; ``live``: whether the
        factors that differ change in the running system.
        """
        return {"kind": kind, "replicates": replicates, "sentinels": None}


def assumed_wash_out(switchback: Switchback) -> float:
    """Seconds left out at the start of a slot: as given, else a third of the slot, at most three seconds."""
    return switchback.wash_out if switchback.wash_out is not None else min(switchback.slot / 3, 3.0)


LAYOUT = Layout()
