"""How often the analysis of simulated studies is right: coverage, family-wise error, power."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from leadline.analysis.study import analyse
from leadline.model.knob import Level
from leadline.model.plan import Plan
from leadline.model.result import Effect, Observation, ResponseAnalysis, Verdict
from leadline.model.workload import Workload
from leadline.places.simulated.model import Model
from leadline.places.simulated.observations import simulate_observations
from leadline.places.simulated.truth import Truth

TINY = 1e-9  # percent: a smaller true effect is none
Judge = Callable[[Plan, list[Observation], str], ResponseAnalysis]


@dataclass(frozen=True)
class Rates:
    """Over ``studies`` simulated studies of one plan, one response.

    ``coverage``: of the plain intervals, ``simultaneous``: studies whose simultaneous intervals all hold the truth.
    ``family_error``: studies with a verdict where there is no effect, or with the wrong sign. ``found``: for each level
    (factor, level) the share of studies that gave it the right verdict; for levels without an effect, any verdict.
    ``intervals``: how many there were. Shares are None where there was nothing to count.
    """

    studies: int
    coverage: float | None
    simultaneous: float | None
    family_error: float
    found: Mapping[tuple[str, Level], float]
    truth: Mapping[tuple[str, Level], float]
    intervals: int
    drift_found: float

    def error_of(self, share: float) -> float:
        """Monte Carlo standard error of a share of the studies."""
        return math.sqrt(max(share * (1 - share), 0.0) / self.studies)


def judge(plan: Plan, observations: list[Observation], response: str) -> ResponseAnalysis:
    """The lab's own analysis of one response, as far as verdicts rest on it."""
    return analyse(plan, observations, [response], verdicts_only=True).responses[0]


def rates(
    plan: Plan,
    truth: Truth,
    workload: Workload,
    studies: int,
    *,
    response: str = "throughput",
    seed: int = 1,
    judge: Judge = judge,
) -> Rates:
    """Simulate and analyse ``studies`` studies; study k has the seed ``seed + k``. Raises ValueError for none."""
    if studies < 1:
        raise ValueError("at least one study is needed")
    model = Model(truth, workload)
    crossed = _crossed(plan)
    true = {
        (factor.name, level): model.effect(plan.factors, factor.name, level, response, crossed)
        for factor in plan.factors
        for level in factor.levels
        if level != factor.baseline
    }
    covered = intervals = wrong = together = drifts = 0
    right: Counter[tuple[str, Level]] = Counter()
    for number in range(studies):
        result = judge(plan, simulate_observations(plan, truth, workload, seed + number, model=model), response)
        effects = result.effects
        drifts += result.drift.detected
        wrong += any(_mistaken(effect, true[(effect.factor, effect.level)]) for effect in effects)
        with_intervals = [
            effect for effect in effects if effect.interval is not None and effect.simultaneous is not None
        ]
        intervals += len(with_intervals)
        covered += sum(_holds(effect, true[(effect.factor, effect.level)], False) for effect in with_intervals)
        together += all(_holds(effect, true[(effect.factor, effect.level)], True) for effect in with_intervals)
        right.update(
            (effect.factor, effect.level) for effect in effects if _right(effect, true[(effect.factor, effect.level)])
        )
    return Rates(
        studies=studies,
        coverage=covered / intervals if intervals else None,
        simultaneous=together / studies if intervals else None,
        family_error=wrong / studies,
        found={key: right[key] / studies for key in true},
        truth=true,
        intervals=intervals,
        drift_found=drifts / studies,
    )


def _crossed(plan: Plan) -> bool:
    baseline = plan.baseline
    return any(
        sum(a != b for a, b in zip(treatment.levels, baseline.levels, strict=True)) > 1
        for trial in plan.trials
        for treatment in (trial.treatment, *(slot.treatment for slot in trial.slots))
    )


def _holds(effect: Effect, truth: float, simultaneous: bool) -> bool:
    interval = effect.simultaneous if simultaneous else effect.interval
    return interval is not None and interval.contains(truth)


def _said(effect: Effect) -> int:
    """+1 or -1 where the verdict says the response grows or shrinks, else 0."""
    if effect.verdict not in (Verdict.BETTER, Verdict.WORSE) or effect.percent is None:
        return 0
    return 1 if effect.percent > 0 else -1


def _mistaken(effect: Effect, truth: float) -> bool:
    claim = _said(effect)
    return claim != 0 and (abs(truth) < TINY or (truth > 0) != (claim > 0))


def _right(effect: Effect, truth: float) -> bool:
    claim = _said(effect)
    return claim != 0 and (abs(truth) < TINY or (truth > 0) == (claim > 0))
