"""A tuning as a sequence of comparisons: what to measure next, and what the measured ones say.

``advance(tuning, results)`` is a function of what has been measured alone, so that a run that was cut off goes on where
it was. docs/guides/tuning.md explains the rule.
"""

from __future__ import annotations

from leadline.planning.sequence.compare import Comparison, Factorial, Progress, Rung, advance
from leadline.planning.sequence.keep import Decision, Measured, Part, Stage, decision_levels

__all__ = [
    "Comparison",
    "Decision",
    "Factorial",
    "Measured",
    "Part",
    "Progress",
    "Rung",
    "Stage",
    "advance",
    "decision_levels",
]
