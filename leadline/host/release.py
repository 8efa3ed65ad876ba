"""The kernel of a whole host as a knob, for hosts that something can boot: a boot loader, or a pool's scheduler."""

from __future__ import annotations

from collections.abc import Sequence

from leadline.model.hosts import KERNEL
from leadline.model.knob import ApplyCost, Kind, Knob, Owner, Risk


def release_knob(releases: Sequence[str], text: str, source: str) -> Knob:
    """The kernel of a host that can boot each of these."""
    return Knob(
        KERNEL,
        Kind.CHOICE,
        ApplyCost.REBOOT,
        text,
        default_note="the one that runs",
        choices=tuple(releases),
        risk=Risk.CAUTION,
        owner=Owner.HOST,
        names={"kernel": "uname -r"},
        source=source,
    )
