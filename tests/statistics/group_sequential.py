"""Group sequential boundaries for one comparison with known variance: what the family's boundaries are held against.

Crossing probabilities by the recursive numerical integration of Armitage, McPherson and Rowe (1969), as laid out in
Jennison and Turnbull, Group Sequential Methods (2000), chapter 19. Spending functions: Lan and DeMets (1983).
"""

import math
from collections.abc import Sequence
from functools import cache
from itertools import pairwise

import numpy as np
from scipy import optimize, special

from leadline.analysis.table import Floats
from leadline.planning.boundary import obrien_fleming_spending

_NODES = 401
_FAR = 8.0  # standard deviations beyond which nothing is left


def crossing(fractions: Sequence[float], bounds: Sequence[float]) -> Floats:
    """Probability (k) under no effect that |Z| first passes its bound at each look.

    ``fractions``: the information at each look, growing; ``bounds``: of |Z| there, infinite for none.
    """
    found, density, nodes, weights, last = [], None, np.zeros(0), np.zeros(0), 0.0
    for fraction, bound in zip(fractions, bounds, strict=True):
        reach = min(bound, _FAR) * math.sqrt(fraction)  # of the score S = Z sqrt(information)
        if density is None:
            found.append(2 * float(special.ndtr(-bound)))
        else:
            step = math.sqrt(fraction - last)
            outside = special.ndtr((nodes - bound * math.sqrt(fraction)) / step)
            outside += special.ndtr((-nodes - bound * math.sqrt(fraction)) / step)
            found.append(float(np.sum(weights * density * outside)))
        fresh, fresh_weights = _grid(reach)
        if density is None:
            density = np.exp(-(fresh**2) / (2 * fraction)) / math.sqrt(2 * math.pi * fraction)
        else:
            step = math.sqrt(fraction - last)
            kernel = np.exp(-((fresh[:, None] - nodes[None, :]) ** 2) / (2 * step**2)) / (math.sqrt(2 * math.pi) * step)
            density = kernel @ (weights * density)
        nodes, weights, last = fresh, fresh_weights, fraction
    return np.array(found)


def _grid(reach: float) -> tuple[Floats, Floats]:
    nodes, weights = _unit_grid()
    return reach * nodes, reach * weights


@cache
def _unit_grid() -> tuple[Floats, Floats]:
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    return nodes, weights


def spending_bounds(fractions: Sequence[float], alpha: float = 0.05) -> tuple[float, ...]:
    """Two-sided bounds of |Z| at looks with these information fractions (the last is 1 for a whole study)."""
    _check(fractions, alpha)
    bounds: list[float] = []
    for number, fraction in enumerate(fractions, 1):
        target = obrien_fleming_spending(fraction, alpha)
        known = list(fractions[:number])

        def excess(bound: float, known: list[float] = known, target: float = target) -> float:
            return float(crossing(known, [*bounds, bound]).sum()) - target

        bounds.append(_FAR if excess(_FAR) >= 0 else float(optimize.brentq(excess, 0.0, _FAR, xtol=1e-8)))
    return tuple(bounds)


def obrien_fleming(looks: int, alpha: float = 0.05) -> tuple[float, ...]:
    """The classical boundary C sqrt(looks/k) for equally spaced looks (O'Brien and Fleming 1979)."""
    return _shaped(looks, alpha, 0.5)


def pocock(looks: int, alpha: float = 0.05) -> tuple[float, ...]:
    """The constant boundary for equally spaced looks (Pocock 1977)."""
    return _shaped(looks, alpha, 0.0)


def _shaped(looks: int, alpha: float, power: float) -> tuple[float, ...]:
    fractions = [number / looks for number in range(1, looks + 1)]
    _check(fractions, alpha)
    shape = [(1 / fraction) ** power for fraction in fractions]

    def excess(constant: float) -> float:
        return float(crossing(fractions, [constant * each for each in shape]).sum()) - alpha

    constant = float(optimize.brentq(excess, 0.5, _FAR, xtol=1e-9))
    return tuple(constant * each for each in shape)


def _check(fractions: Sequence[float], alpha: float) -> None:
    if not 0 < alpha < 1:
        raise ValueError(f"alpha {alpha} is not between 0 and 1")
    if not fractions or fractions[0] <= 0 or any(b <= a for a, b in pairwise(fractions)):
        raise ValueError("the information fractions must be positive and grow from look to look")
