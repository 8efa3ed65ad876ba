"""The study that confirms what a finished one found, as large as its effect needs."""

from __future__ import annotations

from leadline.experiments.confirm import confirmation

__all__ = ["confirmation"]
