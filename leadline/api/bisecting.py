"""Which change between two ends makes the difference."""

from __future__ import annotations

from leadline.experiments.bisect.answer import Bisected, BisectOutline, bisect, outline, question

__all__ = ["BisectOutline", "Bisected", "bisect", "outline", "question"]
