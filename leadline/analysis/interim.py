"""How strictly an analysis judges its family when others of the same study come before or after it.

The significance level approach (Jennison and Turnbull, Group Sequential Methods, 2000, section 4.4): a boundary for
known noise says at which level this analysis judges, and the analysis does so by its own model and degrees of freedom.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

TOO_EARLY = "this interim analysis has too little of the error rate to conclude; later ones have more"


@dataclass(frozen=True)
class Interim:
    """``level``: confidence of this analysis's simultaneous intervals, 1 where nothing can be said yet. ``repeated``
    takes a family's p value of this analysis to the one that holds over all analyses.
    """

    level: float
    repeated: Callable[[float], float]
