"""What a level does to each quantile of the response time: quantile treatment effects, all of them judged together.

A trial's quantile comes from the histogram of all its requests, a slot's from those of the slot. These figures, one a
trial or slot, are compared as any response is, so that trials, server instances and neighbouring slots are the units of
noise, never single requests (Liu et al., "Large-scale online experimentation with quantile metrics", 2019, on what
goes wrong else). The quantiles share the error rate (Bonferroni).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import scipy  # loads scipy.optimize at its first use

from leadline.analysis.scale import MARGIN
from leadline.analysis.sequential import Interim
from leadline.analysis.study import analyse
from leadline.model.naming import Describe, plain_level
from leadline.model.plan import Plan
from leadline.model.result import Effect, Observation

QUANTILES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p999": 0.999}
BEYOND = 2  # requests of a slot beyond a quantile, with fewer of which it is hardly more than the slowest one


def quantile_effects(
    plan: Plan,
    observations: Sequence[Observation],
    level: float = 0.95,
    interim: Callable[[str], Interim | None] = lambda _: None,
    describe: Describe = plain_level,
    margin: float | None = MARGIN,
    covariates: Sequence[str] = (),
) -> tuple[Effect, ...]:
    """The effects of every level on every quantile that the observations have, simultaneous over both; by quantile,
    then as ranked. Empty where fewer than two quantiles were measured.
    """
    names = [name for name, share in QUANTILES.items() if _measured(observations, name, share)]
    if len(names) < 2:
        return ()

    def shared(response: str) -> Interim:
        return _shared(interim(response), level, len(names))

    analysis = analyse(
        plan, observations, names, level, describe, margin, verdicts_only=True, interim=shared, covariates=covariates
    )
    return tuple(effect for response in analysis.responses for effect in response.effects)


def _measured(observations: Sequence[Observation], name: str, share: float) -> bool:
    """Whether the observations have figures of a quantile, with requests enough beyond it in a slot."""
    having = [
        observation.responses
        for observation in observations
        if observation.failure is None and name in observation.responses
    ]
    counts = [
        observation.responses["throughput"] * observation.seconds
        for observation in observations
        if observation.failure is None and observation.seconds is not None and "throughput" in observation.responses
    ]
    return bool(having) and (not counts or float(np.median(counts)) * (1 - share) >= BEYOND)


def _shared(inner: Interim | None, level: float, count: int) -> Interim:
    """How one of ``count`` families judges that share the error rate; ``inner``: one alone, at an interim analysis."""
    alpha = (1 - level) / count
    if inner is None:
        return Interim(1 - alpha, lambda p_value: min(1.0, count * p_value))
    if inner.level >= 1:
        return inner
    repeated = inner.repeated
    nominal = scipy.optimize.brentq(
        lambda power: repeated(math.exp(power)) - alpha, math.log(1e-14), math.log(1 - inner.level)
    )
    return Interim(1 - math.exp(nominal), lambda p_value: min(1.0, count * repeated(p_value)))
