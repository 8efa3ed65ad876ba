"""Statistics of a study: effects, intervals, luck, drift, steady state. Pure: values in, values out.

``analyse(plan, observations, responses)`` judges a study, ``steady_state(values)`` one trial's per-second series,
``littles_law(...)`` a driver's figures, ``gain_of_luck(...)`` a table of best gains.
docs/concepts/statistics.md explains them.
"""

from __future__ import annotations

from leadline.analysis.confirm import confirm
from leadline.analysis.little import LittlesLaw, littles_law
from leadline.analysis.luck import gain_of_luck
from leadline.analysis.steady import steady_state
from leadline.analysis.study import analyse
from leadline.analysis.verdicts import steady_verdict

__all__ = [
    "LittlesLaw",
    "analyse",
    "confirm",
    "gain_of_luck",
    "littles_law",
    "steady_state",
    "steady_verdict",
]
