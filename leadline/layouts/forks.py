"""Forks: in each world, a guest of its own, every treatment once, from the same saved guest where that can be."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from leadline.design.forks import WORLDS, booted, warmed, work
from leadline.layouts.plain import Layout, Words
from leadline.model.design import Design
from leadline.model.guest import FORKS

_BETWEEN = "of effects between worlds"


class ForkLayout(Layout):
    """The trials of a world share their past and their luck."""

    words = Words("forked", "world", _BETWEEN, _BETWEEN, "worlds")
    exact = True

    def instances(self, design: Design) -> int:
        return design.worlds or 1

    def fresh(self, design: Design, kind: str, replicates: int, live: Collection[bool]) -> dict[str, Any]:  # noqa: ARG002
        return {"kind": FORKS, "of": kind, "worlds": replicates}


LAYOUT = ForkLayout()

__all__ = ["LAYOUT", "WORLDS", "booted", "warmed", "work"]
