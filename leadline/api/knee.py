"""The largest load at which a study's system keeps its limits."""

from __future__ import annotations

from leadline.experiments.knee.answer import Knee, KneeOutline, knee, limit_overrides, outline
from leadline.experiments.knee.run import question_of

__all__ = ["Knee", "KneeOutline", "knee", "limit_overrides", "outline", "question_of"]
