"""Everything about one response: effects, intervals, luck, groups, drift, sources of noise, notes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from leadline.analysis import comparisons, forks
from leadline.analysis.across_hosts import Hosts, across_hosts, baseline_over_hosts
from leadline.analysis.carry import CarryOver, carry_over
from leadline.analysis.columns import Model, fitted_with_strata
from leadline.analysis.components import components_of, model_sentence
from leadline.analysis.covariates import Checked, checked, gain_sentence, with_gain
from leadline.analysis.drift import drift, judged, no_drift
from leadline.analysis.hosts import HostPart, HostsFit, hosts_fit
from leadline.analysis.instances import Instances, between_instances
from leadline.analysis.linear import Fit, Strata, detectable
from leadline.analysis.mixed import MixedFit
from leadline.analysis.robust import with_ranks
from leadline.analysis.selection import luck, with_selection
from leadline.analysis.sequential import Interim
from leadline.analysis.table import Floats, Sample, Scale, StudyTable, baseline_mean, response_kind, sample_of, scale_of
from leadline.model.plan import Role
from leadline.model.result import (
    CellMean,
    Component,
    Covariate,
    Drift,
    Effect,
    Interaction,
    Interval,
    Luck,
    ResponseAnalysis,
    ResponseKind,
    Scope,
    Verdict,
)

# What a screening design's runs cannot tell apart: main effects and two-factor interactions, as sentences.


_MOST = 6  # told in full
_SAME = 0.999
_NONE = 1e-6


def alias_notes(table: StudyTable, sample: Sample, used: frozenset[tuple[int, int]]) -> list[str]:
    """Sentences on aliases of the runs that gave figures, sentinels aside, from their model matrix. ``used`` are the
    pairs of factors whose interactions are in the model.

    A factor's effects and a pair's interactions are subspaces of the runs' space; their canonical correlations tell
    whether two are the same (all 1), orthogonal (all 0) or mixed.
    """
    if not table.screening:
        return []
    placed = zip(table.observations, table.cell_of, strict=True)
    cells = {cell for observation, cell in placed if observation.role is not Role.SENTINEL}
    codes = np.array([table.cells[run] for run in sorted(cells & {int(cell) for cell in sample.cells})])
    if len(codes) < 2:
        return []
    mains = [_space(_effects(codes[:, f], len(factor.levels))) for f, factor in enumerate(table.factors)]
    pairs = {
        (f, g): _space(_products(table, codes, f, g)) for f, g in itertools.combinations(range(len(table.factors)), 2)
    }
    notes = []
    full: list[str] = []
    mixed: set[tuple[int, int]] = set()
    for f, factor in enumerate(table.factors):
        for pair, space in pairs.items():
            if f in pair:
                continue
            if _same(mains[f], space):
                full.append(f"{factor.name} = {_name(table, pair)}")
            elif _shared(mains[f], space)[0] > _NONE:
                mixed.add(pair)
    if full:
        notes.append(
            f"Aliased, so that an effect may be the interaction's: {_some(full)}. A design of higher resolution, or a "
            "foldover, would tell them apart."
        )
    if mixed:
        notes.append(
            f"Main effects have a part in them of {len(mixed)} of {len(pairs)} two-factor interactions: they hold as "
            "far as these are small."
        )
    unused = [pair for pair in pairs if pair not in used]
    chains = [
        f"{_name(table, chain)} = {_name(table, other)}"
        for chain, other in itertools.combinations(unused, 2)
        if _same(pairs[chain], pairs[other])
    ]
    if chains:
        notes.append(f"Interactions that are not distinguishable, and are left out: {_some(chains)}.")
    elif pairs:
        share = f"{len(used)} of {len(pairs)}" if used else "none"
        notes.append(f"Two-factor interactions that these runs can estimate: {share}.")
    return notes


def _effects(codes: Floats, levels: int) -> Floats:
    return np.asarray(codes[:, None] == np.arange(1, levels), dtype=np.float64)


def _products(table: StudyTable, codes: Floats, f: int, g: int) -> Floats:
    sizes = len(table.factors[f].levels), len(table.factors[g].levels)
    first, other = (_effects(codes[:, k], size) - 1 / size for k, size in zip((f, g), sizes, strict=True))
    return np.asarray((first[:, :, None] * other[:, None, :]).reshape(len(codes), -1), dtype=np.float64)


def _space(columns: Floats) -> Floats:
    """Orthonormal basis (runs, rank) of the columns less their mean."""
    basis, singular, _ = np.linalg.svd(columns - columns.mean(axis=0), full_matrices=False)
    return np.asarray(basis[:, singular > 1e-9], dtype=np.float64)


def _shared(one: Floats, other: Floats) -> Floats:
    """Canonical correlations, the largest first; a zero where one of the two is empty."""
    if not one.shape[1] or not other.shape[1]:
        return np.zeros(1)
    return np.asarray(np.linalg.svd(one.T @ other, compute_uv=False), dtype=np.float64)


def _same(one: Floats, other: Floats) -> bool:
    return one.shape == other.shape and bool(_shared(one, other)[-1] > _SAME)


def _name(table: StudyTable, pair: tuple[int, int]) -> str:
    return " x ".join(table.factors[index].name for index in pair)


def _some(items: list[str]) -> str:
    rest = len(items) - _MOST
    return "; ".join(items[:_MOST]) + (f"; and {rest} more" if rest > 0 else "")


SAME = (
    "every trial gave the same figure, so there is nothing to compare; a response with a finer scale, or a workload "
    "that moves it, helps"
)
LENTH = (
    "No trial is repeated, so the noise was taken from the effects themselves, most of which are assumed to be none "
    "(Lenth's pseudo standard error)."
)
ONE_INSTANCE = (
    "All slots come from one server instance: the effects hold for it, and what another start would change is not "
    "known."
)
ON_ONE_HOST = (
    "fewer than two hosts can compare it with the baseline, which says nothing of others; running the missing trials "
    "helps"
)
_UNJUDGED = {
    "plot": "it changes only between whole plots, and too few of these are repeated to know their noise; "
    "two or more replicates are needed",
    "trial": "it changes only between trials, and too few of these are repeated to know their noise; "
    "two or more replicates are needed",
    "block": comparisons.LOST,
}
_ALIASED = (
    "these runs cannot distinguish it from the other factors; running the missing trials, or a "
    "d-optimal or full factorial "
    "design, helps"
)


@dataclass(frozen=True)
class _Fitted:
    """The chosen model and its fit."""

    model: Model
    fit: Fit
    strata: Strata
    carried: CarryOver | None
    instances: Instances | None = None
    covariates: tuple[Covariate, ...] = ()
    hosts: Hosts | None = None

    @property
    def inside(self) -> Fit:
        """The fit that knows nothing of hosts."""
        return self.fit.plain if isinstance(self.fit, HostsFit) else self.fit


@dataclass(frozen=True)
class _Noise:
    """What follows from the residual variance; None where there is none."""

    luck: Luck | None = None
    detectable: float | None = None
    cv: float | None = None
    groups: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True)
class Measured:
    """The figures of one response before any model. ``broken``: trials whose figure is not a finite number. ``reason``:
    why nothing can be estimated, else empty; ``scale`` is None then.
    """

    response: str
    sample: Sample
    broken: int
    reason: str
    scale: Scale | None
    drift: Drift


def measured(table: StudyTable, responses: Sequence[str], level: float) -> list[Measured]:
    """The figures of all responses of a study, whose drifts are judged together."""
    figures = []
    for response in responses:
        sample, broken = sample_of(table, response)
        reason = _hopeless(table, sample, response)
        if reason:
            figures.append(
                Measured(response, sample, broken, reason, None, no_drift(f"Drift cannot be seen: {reason}."))
            )
            continue
        scale = scale_of(response_kind(response), sample)
        slope = no_drift(forks.NO_ORDER) if table.exact else drift(scale, sample, level)
        figures.append(Measured(response, sample, broken, "", scale, slope))
    drifts = judged([measured_.drift for measured_ in figures])
    return [replace(measured_, drift=slope) for measured_, slope in zip(figures, drifts, strict=True)]


def analyse_response(
    table: StudyTable,
    figures: Measured,
    level: float,
    margin: float | None = None,
    verdicts_only: bool = False,
    interim: Interim | None = None,
) -> tuple[ResponseAnalysis, list[str]]:
    """The analysis of one response, and warnings about its data. ``verdicts_only`` as :func:`analyse` says."""
    response, sample, over_time = figures.response, figures.sample, figures.drift
    kind, scale = response_kind(response), figures.scale
    warnings = [f"{response}: {sentence}" for sentence in _doubts(figures, kind)]
    if scale is None:
        return _without(table, figures, kind, level, margin), warnings
    whole, every, same = table, sample, forks.identical_levels(table, sample) if table.exact else frozenset()
    if same:
        table = forks.without(whole, same)
        sample, _ = sample_of(table, response)
    chosen = _fitted(table, sample, scale, over_time.detected)
    if chosen.model.covariates:
        chosen = _with_gain(chosen, table, sample, scale, over_time.detected)
    model, fit = chosen.model, chosen.fit
    warnings += [f"{response}: {sentence}" for sentence in _disturbances(chosen)]
    family = comparisons.Family.of(fit, [model.effect(main) for main in model.mains], level, interim)
    effects = _scoped_effects(table, sample, kind, scale, chosen, family, level, margin)
    if table.exact:
        effects += [comparisons.unestimated(whole, main, kind.name) for main in same]
        constant = forks.named(table, forks.constant_levels(model, fit))
        effects = forks.told(every, effects, forks.named(whole, same), constant, kind.higher_is_better)
    noise, paired, cells = _Noise(), list[Interaction](), list[CellMean]()
    components: tuple[Component, ...] = ()
    if not verdicts_only:
        effects = with_selection(effects, table, model, family, fit, scale)
        effects, sentences = with_ranks(effects, table, sample, kind, scale, model, family, fit, level)
        warnings += [f"{response}: {sentence}" for sentence in sentences]
        noise = _noise(table, sample, scale, model, fit, family, level, kind)
        paired = comparisons.interactions_of(table, kind, scale, model, fit, level, margin, interim)
        cells = comparisons.cell_means(table, sample, scale, paired, fit, level)
        components = _components(scale, sample, chosen, level)
    mean, interval, blocks = _baseline(scale, sample, level)
    hosts = None
    if chosen.hosts is not None and not verdicts_only:
        hosts = across_hosts(table, kind, scale, model, chosen.hosts, level, margin)
        warnings += [f"{response}: {hosts.sentence}"] if hosts.differ else []
    result = ResponseAnalysis(
        response=response,
        baseline_mean=mean,
        baseline_interval=interval,
        baseline_trials=int(sample.is_baseline.sum()),
        baseline_blocks=blocks,
        counted="slot" if sample.slotted else "trial",
        across_hosts=hosts,
        effects=tuple(effects),
        interactions=tuple(paired),
        cells=tuple(cells),
        luck=noise.luck,
        drift=_with_remedy(over_time, model, sample),
        groups=noise.groups,
        residual_cv=noise.cv,
        detectable=noise.detectable,
        reason=_unknown(table, sample, fit),
        model=model_sentence(model, sample, chosen.inside, chosen.strata) + _each_host(fit),
        components=components,
        correlation=chosen.inside.correlation if isinstance(chosen.inside, MixedFit) else None,
        notes=(*_notes(table, sample, chosen), *([f"{hosts.holds} {hosts.sentence}"] if hosts else [])),
        margin=margin,
        covariates=chosen.covariates,
    )
    return result, warnings


def _doubts(figures: Measured, kind: ResponseKind) -> Iterator[str]:
    """Sentences on figures that are missing or cannot be compared as ratios."""
    if figures.broken:
        yield f"{figures.broken} trials gave no finite number; they are left out."
    if figures.scale is not None and not figures.scale.log and kind.unit != "share":
        yield "some figures are not positive, so differences instead of ratios were analysed."


def _with_gain(chosen: _Fitted, table: StudyTable, sample: Sample, scale: Scale, timed: bool) -> _Fitted:
    """With what its covariates gain over the model without them."""
    plain = _fitted(replace(table, covariates=()), sample, scale, timed)
    gained = with_gain(chosen.covariates, scale, sample, (chosen.model, chosen.fit), (plain.model, plain.fit))
    return replace(chosen, covariates=gained)


def _disturbances(chosen: _Fitted) -> Iterator[str]:
    """A sentence for each that was detected: carry-over, differing instances."""
    if chosen.carried is not None and chosen.carried.detected:
        yield chosen.carried.sentence
    if chosen.instances is not None and chosen.instances.detected:
        yield chosen.instances.sentence


def _with_remedy(over_time: Drift, model: Model, sample: Sample) -> Drift:
    """A drift that was detected, with what the effects do about it."""
    remedy = "there are too few trials to take it out"
    if model.timed:
        remedy = "a straight line over time was taken out"
    elif sample.slotted and model.places:
        remedy = "what slots of one number have in common was taken out"
    return replace(over_time, remedy=f"In the effects {remedy}.") if over_time.detected else over_time


def _scoped_effects(
    table: StudyTable,
    sample: Sample,
    kind: ResponseKind,
    scale: Scale,
    chosen: _Fitted,
    family: comparisons.Family,
    level: float,
    margin: float | None,
) -> list[Effect]:
    """The effects of the factors, each with the scope it holds for."""
    model, fit = chosen.model, chosen.fit
    lost = _UNJUDGED.get(chosen.strata.unjudged, _ALIASED if table.screening else comparisons.LOST)
    lost = ON_ONE_HOST if isinstance(fit, HostsFit) else lost
    effects = comparisons.effects_of(table, sample, kind, scale, model, family, level, margin, lost)
    if sample.slotted and len(np.unique(sample.trials)) == 1:
        effects = [_of_this_instance(effect) for effect in effects]
    if isinstance(fit, HostsFit) and not fit.random:
        effects = [replace(effect, scope=Scope.THESE_HOSTS) for effect in effects]
    return effects


def _baseline(scale: Scale, sample: Sample, level: float) -> tuple[float | None, Interval | None, int]:
    """The baseline's mean, its interval, and the number of blocks (hosts, where there are several) behind it."""
    if (over_hosts := baseline_over_hosts(scale, sample, level)) is not None:
        return over_hosts
    return *baseline_mean(scale, sample, level), len(np.unique(sample.blocks[sample.is_baseline]))


def _each_host(fit: Fit) -> str:
    return (
        f" Each of {len(fit.parts)} hosts by itself; effects are means over them." if isinstance(fit, HostsFit) else ""
    )


def _unknown(table: StudyTable, sample: Sample, fit: Fit) -> str:
    """Why the noise is not known, empty where it is."""
    if fit.df <= 0:
        return forks.ONE_WORLD if table.exact and len(np.unique(sample.blocks)) == 1 else comparisons.NO_NOISE
    return comparisons.EXACT if fit.sigma == 0 else ""


def _of_this_instance(effect: Effect) -> Effect:
    reason = effect.reason
    if effect.verdict in (Verdict.BETTER, Verdict.WORSE, Verdict.EQUIVALENT):
        reason = f"{reason}, in this server instance alone" if reason else "in this server instance alone"
    return replace(effect, scope=Scope.THIS_INSTANCE, reason=reason)


def fitted_response(table: StudyTable, response: str, level: float) -> tuple[Scale, Sample, Model, Fit] | None:
    """The model that ``analyse_response`` uses; None where nothing can be estimated."""
    (figures,) = measured(table, [response], level)
    if figures.scale is None:
        return None
    chosen = _fitted(table, figures.sample, figures.scale, figures.drift.detected)
    return figures.scale, figures.sample, chosen.model, chosen.fit


def _fitted(table: StudyTable, sample: Sample, scale: Scale, timed: bool) -> _Fitted:
    plain = _of_one_host(table, sample, scale, timed)
    present = np.unique(sample.hosts)
    if len(present) < 2:
        return plain
    parts = []
    for host in present:
        part, kept_sample = table.on_host(int(host)), sample.only(sample.hosts == host)
        fitted = _of_one_host(part, kept_sample, scale, timed)
        parts.append(HostPart(part, kept_sample, fitted.model, fitted.fit))
    fit = hosts_fit(plain.model, plain.fit, parts)
    hosts = Hosts(tuple(table.hosts[host] for host in present), tuple(parts), fit)
    return replace(plain, hosts=hosts, fit=plain.fit if isinstance(fit, str) else fit)


def _of_one_host(table: StudyTable, sample: Sample, scale: Scale, timed: bool) -> _Fitted:
    values = scale.into(sample.values)
    check = checked(table, sample, values, timed) if table.covariates else Checked((), ())
    fitting = partial(fitted_with_strata, table, sample, values, timed, covariates=check.used)
    model, fit, strata = fitting()
    carried = carry_over(model, sample, values, fit, strata) if sample.slotted else None
    if carried is not None and carried.share:
        model, fit, strata = fitting(carried.share)
    if fit.df <= 0 and table.screening:
        widest, saturated, strata = fitted_with_strata(table, sample, values, False, saturated=True)
        rows = [*(widest.effect(main) for main in widest.mains), *(widest.interaction(pair) for pair in widest.pairs)]
        guessed = comparisons.lenth_fit(saturated, np.array(rows))
        if isinstance(guessed, comparisons.LenthFit):
            model, fit = widest, guessed
    instances = between_instances(model, sample, scale, fit, strata) if sample.slotted else None
    fit = instances.fit if instances else fit
    if table.exact and len(np.unique(sample.blocks)) == 1:
        fit = forks.of_one_world(fit)
    if carried is not None and isinstance(fit, MixedFit):
        fit = carried.around(fit)
    return _Fitted(model, fit, strata, carried, instances, check.told)


def _notes(table: StudyTable, sample: Sample, chosen: _Fitted) -> list[str]:
    used = frozenset((first[0], other[0]) for first, other in chosen.model.pairs)
    notes = alias_notes(table, sample, used)
    if isinstance(chosen.fit, comparisons.LenthFit):
        notes.append(LENTH)
    if sample.slotted and len(np.unique(sample.trials)) == 1:
        notes.append(ONE_INSTANCE)
    if chosen.carried is not None:
        notes.append(chosen.carried.sentence)
    if chosen.instances is not None and chosen.instances.sentence:
        notes.append(chosen.instances.sentence)
    together = gain_sentence(chosen.covariates)
    notes += [*([together] if together else []), *(covariate.sentence for covariate in chosen.covariates)]
    return notes


def _components(scale: Scale, sample: Sample, chosen: _Fitted, level: float) -> tuple[Component, ...]:
    if not isinstance(chosen.inside, MixedFit):
        return ()
    components = components_of(scale, sample, chosen.inside, chosen.strata, level)
    return components if chosen.instances is None else (*components, *chosen.instances.components)


def _hopeless(table: StudyTable, sample: Sample, response: str) -> str:
    """Why nothing can be estimated, empty when something can."""
    if not table.observations:
        return "no trial has finished"
    failed = sum(observation.failure is not None for observation in table.observations)
    if failed == len(table.observations):
        every = f"all {failed} trials" if failed > 1 else "the only trial"
        return f"{every} failed; any design works once a baseline trial succeeds"
    if sample.size == 0:
        return f"no trial gave a figure for {response}"
    if not sample.is_baseline.any() and not table.screening:
        return f"no baseline trial gave a figure for {response}, so there is nothing to compare with"
    if sample.size > 1 and np.ptp(sample.values) == 0:
        return SAME
    return ""


def _without(
    table: StudyTable, figures: Measured, kind: ResponseKind, level: float, margin: float | None
) -> ResponseAnalysis:
    sample, reason = figures.sample, figures.reason
    effects = [comparisons.unestimated(table, main, kind.name, reason) for main in table.comparisons()]
    if table.exact and reason == SAME:
        same = forks.named(table, forks.identical_levels(table, sample))
        effects = forks.told(sample, effects, same, frozenset(), kind.higher_is_better)
    return ResponseAnalysis(
        response=kind.name,
        baseline_mean=baseline_mean(Scale(False, 0.0), sample, level)[0],
        baseline_interval=None,
        baseline_trials=int(sample.is_baseline.sum()),
        baseline_blocks=len(np.unique(sample.blocks[sample.is_baseline])),
        counted="slot" if sample.slotted else "trial",
        effects=tuple(sorted(effects, key=lambda effect: effect.verdict is Verdict.FAILED)),
        luck=None,
        drift=figures.drift,
        groups=(),
        residual_cv=None,
        detectable=None,
        reason=reason,
        margin=margin,
    )


def _noise(
    table: StudyTable,
    sample: Sample,
    scale: Scale,
    model: Model,
    fit: Fit,
    family: comparisons.Family,
    level: float,
    kind: ResponseKind,
) -> _Noise:
    if family.law is None or not len(family.scatter):
        return _Noise()
    middle = int(np.argsort(family.strict, kind="stable")[len(family.strict) // 2])
    error = float(family.strict[middle])
    critical = float(family.critical[middle] * family.errors[middle]) / error
    smallest = detectable(critical, error, float(family.shared[middle])) if math.isfinite(critical) else None
    return _Noise(
        luck(scale, family.scatter, fit.sigma, family.df, kind.higher_is_better),
        None if smallest is None else scale.percent(smallest),
        scale.noise(fit.sigma),
        () if table.screening else _groups(table, sample, model, fit, level, kind),
    )


def _groups(
    table: StudyTable, sample: Sample, model: Model, fit: Fit, level: float, kind: ResponseKind
) -> tuple[tuple[str, ...], ...]:
    """Groups of the treatments that gave figures and can be compared with the baseline."""
    present = [0, *sorted({int(cell) for cell in sample.cells} - {0})]
    rows = np.array([model.treatment(table.cells[cell]) for cell in present])
    usable = [index for index, good in enumerate(fit.estimable(rows)) if good]
    if not 2 <= len(usable) <= comparisons.LARGEST:
        return ()
    names = [table.cell_name(table.cells[present[index]]) for index in usable]
    groups = comparisons.ordered_groups(fit, rows[usable], names, level, kind.higher_is_better)
    return tuple(tuple(group) for group in groups)
