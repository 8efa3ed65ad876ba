"""Tables of results with known truth."""

from collections.abc import Collection, Mapping

import numpy as np

from leadline.figures.table import Parameter, ResultTable, Run
from leadline.model.result import RESPONSES


def simulated_table(
    seed: int,
    *,
    systems: int = 6,
    parameters: int = 5,
    levels: int = 3,
    replicates: int = 2,
    baselines: int = 4,
    cv: float = 0.04,
    interaction: float = 0.0,
    effects: Mapping[tuple[int, int], float] | None = None,
    failing: Mapping[tuple[int, int, int], str] | None = None,
    reacting: Collection[int] | None = None,
    response: str = "throughput",
) -> ResultTable:
    """Settings around a baseline whose level is not among them.

    ``effects``: (parameter, level) -> share of the baseline; ``interaction``: standard deviation of the effect
    of setting x system, as a share; ``failing``: (system, parameter, level) -> class of all its runs. ``reacting``:
    systems that have the effects, all if None. System k has the baseline 1000 + 100 k.
    """
    rng = np.random.default_rng(seed)
    runs = []
    for system in range(systems):
        base = 1000.0 + 100.0 * system
        for parameter in range(parameters):
            for level in range(levels):
                effect = (effects or {}).get((parameter, level), 0.0)
                if reacting is not None and system not in reacting:
                    effect = 0.0
                own = 1 + effect + interaction * rng.standard_normal()
                at = tuple(level if p == parameter else -1 for p in range(parameters))
                failure = (failing or {}).get((system, parameter, level), "")
                for _ in range(replicates):
                    value = base * own * (1 + cv * rng.standard_normal())
                    runs.append(Run(system, at, None if failure else value, failure))
        for _ in range(baselines):
            runs.append(Run(system, (-1,) * parameters, base * (1 + cv * rng.standard_normal())))
    return ResultTable(
        RESPONSES[response],
        tuple(f"k{system}" for system in range(systems)),
        tuple(Parameter(f"p{p}", tuple("abcdefgh"[:levels])) for p in range(parameters)),
        tuple(runs),
    )
