"""A ready-made first study of an application."""

from __future__ import annotations

from leadline.experiments.trying import Attempt, prepare, scenario_of

__all__ = ["Attempt", "prepare", "scenario_of"]
