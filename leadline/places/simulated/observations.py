"""Observations of a plan straight from the model: no store, no files, no steady-state verdicts.

``rates``: how often the analysis of simulated studies is right: coverage, family-wise error, power.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from leadline.analysis.study import analyse
from leadline.layouts import layout_of, measured, phases_of
from leadline.model.design import Rotation
from leadline.model.errors import FailureClass
from leadline.model.knob import ApplyCost, Level
from leadline.model.plan import Plan, PlannedTrial, Role, Treatment
from leadline.model.record import figures_of
from leadline.model.result import Effect, Observation, ResponseAnalysis, Verdict
from leadline.model.workload import Workload
from leadline.places.simulated.model import Failure, Model, Truth
from leadline.places.simulated.timing import EPOCH, after_load, before_load
from leadline.places.simulated.trial import (
    Instance,
    TrialSeries,
    changes_of,
    failure_of,
    figures,
    plot_key,
    startup_of,
    trial_series,
    whole_seconds,
)

DEAR = (ApplyCost.REMOUNT, ApplyCost.REBOOT, ApplyCost.KERNEL)


def simulate_observations(
    plan: Plan,
    truth: Truth,
    workload: Workload,
    seed: int | None = None,
    *,
    model: Model | None = None,
    wash_out: float | None = None,
    error_limit: float = 0.001,
) -> list[Observation]:
    """Every trial of the plan once, in its order; one observation a slot where trials have slots.

    The same figures as a run of the whole life cycle gives for this truth and ``seed`` (the truth's own if absent) as
    long as no trial is repeated and no warm-up is cut: the whole steady state is the window here. ``wash_out``: seconds
    left out at the start of a slot, a third of it and at most three if absent; of a rotation a second.
    ``model`` saves solving the queueing laws again for another seed of the same truth and workload. A silent knob fails
    every trial that starts with it away from its baseline, and every such slot.
    """
    model = model or Model(truth, workload)
    dear = {factor.name for factor in plan.factors if factor.apply_cost in DEAR}
    root = truth.seed if seed is None else seed
    observations: list[Observation] = []
    now, warmed = 0.0, workload.warm_up.load * workload.warm_up.cycles if workload.warm_up else 0.0
    baseline = {factor.name: factor.baseline for factor in plan.factors}
    usual = {factor.name: factor.baseline for factor in plan.factors if not factor.pseudo}
    host_of = host_of_block(truth)
    for number, trial in enumerate(trial for trial in plan.trials if not trial.turns):
        levels = trial.treatment.as_dict()
        steady = trial.slots[-1].begin + trial.slots[-1].seconds if trial.slots else workload.steady
        plot = plot_key({name: level for name, level in levels.items() if name in dear})
        changes = changes_of(model, levels, baseline) if layout_of(plan).exact else None
        instance = Instance(
            root, number, trial.seed, plot, 0.0, changes=changes, host=host_of(trial.block), usual=usual
        )
        startup = startup_of(model, instance, levels)
        instance = replace(instance, hours=(now + before_load(truth) + startup) / 3600, warmed=warmed)
        observations += _trial(
            model, instance, trial, plan.baseline, steady, EPOCH + now, startup, wash_out, error_limit
        )
        now += before_load(truth) + startup + workload.before_steady + steady + workload.ramp_down + after_load(truth)
    for block in [block for block in plan.together if block[0].turns]:
        instances = []
        for trial in block:
            levels = trial.treatment.as_dict()
            host = host_of(trial.block)
            instance = Instance(root, trial.position, trial.seed, "", 0.0, trial.turns, host=host, usual=usual)
            instances.append((trial, instance, EPOCH + now, startup_of(model, instance, levels)))
            now += before_load(truth) + instances[-1][-1]
        side = side_by_side(block, workload)
        now += workload.warm_up_seconds(len(block))
        together = Model(truth, side)
        left_out = Rotation().wash_out if wash_out is None else wash_out
        for trial, instance, started, startup in instances:
            instance = replace(instance, hours=now / 3600, warmed=warmed)
            observations += _trial(
                together, instance, trial, plan.baseline, side.steady, started, startup, left_out, error_limit
            )
        now += side.ramp_up + side.steady + side.ramp_down + len(block) * after_load(truth)
    return observations


def host_of_block(truth: Truth) -> Callable[[int], int | None]:
    """Which host runs a block, from 0; None on one host."""
    hosts = truth.hosts
    return lambda block: None if hosts is None else hosts.of_block(block)


def host_name(host: int | None) -> str:
    """``host-1``; empty on one host."""
    return "" if host is None else f"host-{host + 1}"


def side_by_side(block: Sequence[PlannedTrial], workload: Workload) -> Workload:
    """The load of a rotation's block as a whole."""
    ramp_up, steady = phases_of(block)
    return workload.model_copy(update={"ramp_up": ramp_up, "steady": steady})


def _trial(
    model: Model,
    instance: Instance,
    trial: PlannedTrial,
    baseline: Treatment,
    steady: float,
    started: float,
    startup: float,
    wash_out: float | None,
    error_limit: float,
) -> list[Observation]:
    levels = trial.treatment.as_dict()
    whole = Observation(
        trial=trial.position + 1,
        position=trial.position,
        block=trial.block,
        replicate=trial.replicate,
        role=trial.role,
        treatment=trial.treatment,
        started=started,
        plot=trial.plot,
        host=host_name(instance.host),
    )
    failure = failure_of(model.truth, instance, levels)
    broken = _ends_trial(failure)
    if _unheard(model.truth, levels, baseline):
        broken = FailureClass.CONFIGURATION
    if broken is None:
        ramp = model.workload.ramp_up
        schedule: Sequence[tuple[float, Mapping[str, Level]]] = [(0.0, levels)]
        if trial.slots:
            schedule = [(0.0, levels), *((ramp + s.begin, s.treatment.as_dict()) for s in trial.slots)]
        series = trial_series(model, instance, schedule, steady, failure)
        if series.driver_was_limit:
            broken = FailureClass.BOTTLENECK
        elif trial.slots:
            return _slots(series, model.truth, whole, trial, baseline, instance, wash_out, error_limit)
        else:
            turns = measured(trial.turns, wash_out or 0.0)
            responses = series.over(turns) if turns else series.window(*series.steady)
            if responses is None or responses["errors"] > error_limit:
                broken = FailureClass.WORKLOAD
            else:
                machine = figures_of(series.machine(turns or [series.steady], "neighbour"))
                return [replace(whole, responses=responses | {"startup": startup}, machine=machine)]
    return [replace(whole, failure=broken, slot=0 if trial.slots else None)]


def _ends_trial(failure: Failure | None) -> FailureClass | None:
    """The class of a failure that ends a trial before its load counts."""
    if failure is None:
        return None
    in_load = failure.at == "load" and failure.failure_class in (FailureClass.WORKLOAD, FailureClass.BOTTLENECK)
    return None if in_load else failure.failure_class


def _unheard(truth: Truth, levels: Mapping[str, Level], baseline: Treatment) -> bool:
    """Whether a silent knob is away from its baseline."""
    return any(name in levels and levels[name] != baseline[name] for name in truth.silent)


def _slots(
    series: TrialSeries,
    truth: Truth,
    whole: Observation,
    trial: PlannedTrial,
    baseline: Treatment,
    instance: Instance,
    wash_out: float | None,
    error_limit: float,
) -> list[Observation]:
    sums = np.concatenate([np.zeros((len(series.logs), 1)), np.cumsum(np.exp(series.logs), axis=1)], axis=1)
    ramp = series.steady[0]
    origin = EPOCH + 3600 * instance.hours
    slots = []
    for slot in trial.slots:
        left_out = min(slot.seconds / 3, 3.0) if wash_out is None else wash_out
        begin = ramp + slot.begin
        first, last = whole_seconds(begin + left_out, begin + slot.seconds)
        failure = None if last > first else FailureClass.WORKLOAD
        responses = {}
        if failure is None:
            means = (sums[:, last] - sums[:, first]) / (last - first)
            responses = figures(means, float(series.failed[first:last].mean()))
            if responses["errors"] > error_limit:
                failure, responses = FailureClass.WORKLOAD, {}
        if _unheard(truth, slot.treatment.as_dict(), baseline):
            failure, responses = FailureClass.CONFIGURATION, {}
        slots.append(
            replace(
                whole,
                treatment=slot.treatment,
                role=Role.BASELINE if slot.treatment == baseline else Role.TREATMENT,
                started=origin + begin,
                responses=responses,
                failure=failure,
                slot=slot.index,
                seconds=float(last - first),
                machine=figures_of(series.machine([(first, last)], "neighbour")),
            )
        )
    return slots


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
