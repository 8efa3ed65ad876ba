"""A simulated host: observations of a plan with known effects, block to block changes, drift, noise and failures."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from leadline.model.errors import FailureClass
from leadline.model.knob import ApplyCost, Level
from leadline.model.plan import Factor, Plan, Treatment
from leadline.model.result import Observation


@dataclass(frozen=True)
class SimulatedSystem:
    """Truth of a system. ``effects`` maps (factor, level) to a ratio, absent means 1; ``crossed`` maps pairs of those
    to the ratio by which the two together differ from the product. Noise is lognormal, ``cv`` of trials, ``block_cv``
    of blocks, as shares; ``drift`` is the growth in an hour as a share; ``failing`` maps (factor, level) to the
    probability that a trial breaks.
    """

    baseline: float = 500.0
    effects: Mapping[tuple[str, Level], float] = field(default_factory=dict)
    crossed: Mapping[frozenset[tuple[str, Level]], float] = field(default_factory=dict)
    cv: float = 0.04
    block_cv: float = 0.05
    drift: float = 0.0
    failing: Mapping[tuple[str, Level], float] = field(default_factory=dict)
    infrastructure: float = 0.0
    trial_seconds: float = 60.0

    def mean(self, treatment: Treatment) -> float:
        """The response of a treatment without any noise."""
        levels = set(treatment.levels)
        value = self.baseline * math.prod(self.effects.get(level, 1.0) for level in treatment.levels)
        return value * math.prod(ratio for both, ratio in self.crossed.items() if both <= levels)

    def run(self, plan: Plan, seed: int, response: str = "throughput") -> list[Observation]:
        """Every trial of the plan once, in its order."""
        rng = np.random.default_rng(seed)
        blocks = np.exp(rng.normal(0.0, self.block_cv, size=1 + max(trial.block for trial in plan.trials)))
        observations = []
        for trial in plan.trials:
            started = 1.7e9 + trial.position * self.trial_seconds
            hours = trial.position * self.trial_seconds / 3600
            value = self.mean(trial.treatment) * blocks[trial.block] * math.exp(rng.normal(0.0, self.cv))
            value *= (1 + self.drift) ** hours
            broken = max((self.failing.get(level, 0.0) for level in trial.treatment.levels), default=0.0)
            failure = None
            if rng.random() < broken:
                failure = FailureClass.CONFIGURATION
            elif rng.random() < self.infrastructure:
                failure = FailureClass.INFRASTRUCTURE
            observations.append(
                Observation(
                    trial=trial.position + 1,
                    position=trial.position,
                    block=trial.block,
                    replicate=trial.replicate,
                    role=trial.role,
                    treatment=trial.treatment,
                    started=started,
                    responses={} if failure else {response: float(value)},
                    failure=failure,
                )
            )
        return observations


def pseudo_factors(count: int, levels: int = 2) -> list[Factor]:
    """Factors that change nothing: for A/A studies."""
    names = tuple("abcdefgh"[:levels])
    return [
        Factor(f"pseudo{number}", names, names[0], pseudo=True, apply_cost=ApplyCost.LIVE)
        for number in range(1, count + 1)
    ]
