"""Full factorial: every combination of levels, so that interactions can be seen."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from leadline.design.kinds import DesignKind
from leadline.model.plan import Factor, Treatment


def treatments(factors: Sequence[Factor]) -> tuple[Treatment, ...]:
    """Every combination, the baseline first."""
    ordered = [(factor.baseline, *(level for level in factor.levels if level != factor.baseline)) for factor in factors]
    names = [factor.name for factor in factors]
    return tuple(Treatment.of(dict(zip(names, levels, strict=True))) for levels in itertools.product(*ordered))


def count(factors: Sequence[Factor]) -> int:
    return math.prod(len(factor.levels) for factor in factors)


KIND = DesignKind("full-factorial", lambda factors, _: treatments(factors), lambda factors, _: count(factors))
