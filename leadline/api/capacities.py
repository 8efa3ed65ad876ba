"""A study's queueing model, and the scalability law."""

from __future__ import annotations

from leadline.report.capacities import CapacityResult, ScalingResult

__all__ = ["CapacityResult", "ScalingResult"]
