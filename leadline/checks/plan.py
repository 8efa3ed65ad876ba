"""From a study file to a plan: factors checked against the catalogue, skipped where the host forbids them."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from leadline.checks.files.stack import check_java
from leadline.checks.files.study import StudyFile
from leadline.checks.load import without_effect
from leadline.checks.machine import check_machine, check_side_by_side
from leadline.checks.subject import OVERHEAD, subject_of
from leadline.design.kind import DesignError
from leadline.design.order import is_live
from leadline.design.profiling import middle_half, profiled
from leadline.host import here
from leadline.host.base import HERE, PlannedHost
from leadline.host.registry import is_machine
from leadline.layouts import layout_of, one_by_one
from leadline.load.knobs import why_not
from leadline.model import places as placements
from leadline.model.bounds import RawLevel
from leadline.model.design import Design
from leadline.model.errors import UsageError, nearest
from leadline.model.guest import KERNEL
from leadline.model.knob import ApplyCost, Catalogue, Knob, Level, Machine
from leadline.model.plan import Factor, Plan, all_levels
from leadline.model.study import Study
from leadline.model.workload import Workload
from leadline.planning.forecast import Setup, setup_of
from leadline.stack.registry import knob_roles, not_a_knob

NO_ROTATION = "No rotation: "


@dataclass(frozen=True)
class Planned:
    """A plan with what it rests on: every knob in play, fixed settings, and factors left out with the reason.

    ``warnings``: what some of its trials risk; also among the plan's notes. ``unchecked``: what only a run can tell.
    ``room``: what the instances of a rotation need, or after ``NO_ROTATION`` why they are not side by side.
    ``design``: the study's, as this machine can hold it. ``of_host``: names of the knobs of the whole host, which is
    ``machine``.
    """

    plan: Plan
    knobs: Mapping[str, Knob]
    settings: Mapping[str, Level]
    skipped: tuple[str, ...]
    design: Design
    machine: Machine
    of_host: frozenset[str]
    warnings: tuple[str, ...] = ()
    unchecked: tuple[str, ...] = ()
    room: str = ""


def plan_study(
    file: StudyFile,
    host: PlannedHost,
    service_knobs: list[Knob],
    disposable: bool = False,
    idle_settings: bool = False,
    of: Callable[[str], PlannedHost] | None = None,
) -> Planned:
    """Check every factor and setting and make the plan. Raises UsageError with file and line.

    ``idle_settings``: settings may change nothing, as in a tuning before the step that gives them a meaning. ``of``:
    the host of a role, as the study's ``stack.hosts`` calls it; None where those of other roles are not known yet.
    """
    study = file.study
    machine = host.machine()
    on_host = {knob.name for knob in host.knobs()}
    catalogue = _catalogue(study, host, service_knobs, of)

    def locked(name: str) -> str:
        """Why this host does not let it be written; empty where it does, and for a knob that is not the host's."""
        return host.writable(name) if name in on_host else ""

    if study.stack.own is not None and host.where == HERE:
        check_java(study.stack.own)
    subject = subject_of(study)
    unchecked = subject.unchecked(file)
    if is_machine(host):
        check_machine(file, host)
    knobs, settings = _settings(file, catalogue, locked, disposable)
    factors, skipped = _factors(file, catalogue, locked, disposable)
    knobs |= {factor.name: catalogue.get(factor.name) for factor in factors}
    _check_baseline_names(file)
    factors += _pseudo_factors(file)
    if not factors:
        why = f" ({'; '.join(skipped)})" if skipped else ""
        raise UsageError(f"{file.source}:1: nothing to vary: no factor is left{why}")
    _check_places(file, host, all_levels(factors, settings))
    subject.check(file, host, factors, settings, idle_settings, of)
    design = _design(file, factors)
    plan = _plan(file, design, factors, skipped, on_host)
    sentence = ""
    if layout_of(plan).side_by_side:
        room = check_side_by_side(file, plan, settings, machine)
        sentence = room.told
        if room.refused:
            design, sentence = one_by_one(design, any(map(is_live, factors))), f"{NO_ROTATION}{room.refused}."
            plan = _plan(file, design, factors, skipped, on_host)
        plan = replace(plan, notes=(*plan.notes, sentence))
    warnings = (*subject.warnings(file, plan, settings), *placements.warnings(all_levels(factors, settings)))
    return Planned(
        replace(plan, notes=(*plan.notes, *without_effect(study.workload), *warnings, *_profiles(study, plan))),
        knobs,
        settings,
        tuple(skipped),
        design,
        machine,
        frozenset(on_host),
        warnings,
        tuple(unchecked),
        sentence,
    )


def _profiles(study: Study, plan: Plan) -> list[str]:
    """Where profiles are taken, in a sentence."""
    if study.profiling == "off":
        return []
    slots = sum(len(trial.slots) for trial in plan.trials)
    if slots:
        where = f"in {len(profiled(plan))} of {slots} slots, of every treatment alike"
        return [f"A {study.profiling} profile of the server {where}."]
    if any(trial.turns for trial in plan.trials):
        return [f"A {study.profiling} profile of the server in every second turn of each instance."]
    part = "the middle half of " if middle_half(study.workload) else ""
    return [f"A {study.profiling} profile of the server in {part}every trial."]


def _catalogue(
    study: Study, host: PlannedHost, service_knobs: list[Knob], of: Callable[[str], PlannedHost] | None
) -> Catalogue:
    """The host's knobs and the services', each within what the machine of its role holds."""
    roles = knob_roles(study.stack) if of is not None else {}
    machines = {role: of(role).machine() for role in set(roles.values())} if of is not None else {}
    machine = host.machine()
    bounded = [knob.on(machines.get(roles.get(knob.name, ""), machine)) for knob in service_knobs]
    return Catalogue([*host.knobs(), *bounded])


def _settings(
    file: StudyFile, catalogue: Catalogue, locked: Callable[[str], str], disposable: bool
) -> tuple[dict[str, Knob], dict[str, Level]]:
    """The knobs that have one level throughout, and that level."""
    study = file.study
    knobs: dict[str, Knob] = {}
    settings: dict[str, Level] = {}
    for name, raw in study.settings.items():
        knob = _knob(file, catalogue, name, ("settings", name))
        settings[name] = _level(knob, raw, file.where(("settings", name)), disposable)
        knobs[name] = knob
        if name in study.factors:
            raise UsageError(f"{file.where(('settings', name))}: {name} is a setting and a factor; keep one of them")
        if reason := locked(name):
            raise UsageError(f"{file.where(('settings', name))}: {name} cannot be set here: {reason}")
    if study.guest is not None and study.guest.kernel is not None:
        knobs[KERNEL] = catalogue.get(KERNEL)
        settings[KERNEL] = _level(knobs[KERNEL], study.guest.kernel, file.where(("guest", "kernel")), disposable)
    return knobs, settings


def _factors(
    file: StudyFile, catalogue: Catalogue, locked: Callable[[str], str], disposable: bool
) -> tuple[list[Factor], list[str]]:
    """The factors that can be varied here, and a sentence for each that is left out."""
    factors: list[Factor] = []
    skipped = list(file.left_out)
    for name, raws in file.study.factors.items():
        factor = _factor(file, catalogue, name, raws, disposable)
        if reason := locked(name):
            if name in file.study.host_knobs:
                raise UsageError(f"{file.where(('factors', name))}: {name} cannot be set here: {reason}")
            skipped.append(f"{name} is left out: {reason}")
        else:
            factors.append(factor)
    return factors, skipped


def _check_baseline_names(file: StudyFile) -> None:
    study = file.study
    for name in study.baseline:
        if name not in study.factors and name not in study.pseudo_factors:
            hint = _did_you_mean(name, [*study.factors, *study.pseudo_factors])
            raise UsageError(f"{file.where(('baseline', name))}: baseline names {name}, which is no factor{hint}")


def _pseudo_factors(file: StudyFile) -> list[Factor]:
    study = file.study
    factors = []
    for name, labels in study.pseudo_factors.items():
        if len(labels) < 2 or len(set(labels)) != len(labels):
            raise UsageError(f"{file.where(('pseudo_factors', name))}: {name} needs two or more different labels")
        baseline = str(study.baseline.get(name, labels[0]))
        if baseline not in labels:
            raise UsageError(f"{file.where(('baseline', name))}: {baseline} is not among the labels of {name}")
        apply_cost = study.pseudo_apply_costs.get(name, ApplyCost.LIVE)
        factors.append(Factor(name, tuple(labels), baseline, pseudo=True, apply_cost=apply_cost))
    for name in study.pseudo_apply_costs:
        if name not in study.pseudo_factors:
            hint = _did_you_mean(name, list(study.pseudo_factors))
            where = file.where(("pseudo_apply_costs", name))
            raise UsageError(f"{where}: pseudo_apply_costs names {name}, which is no pseudo-factor{hint}")
    return factors


def _did_you_mean(name: str, candidates: list[str]) -> str:
    near = nearest(name, candidates)
    return f"; did you mean {near}?" if near else ""


def _check_places(file: StudyFile, host: PlannedHost, levels: Mapping[str, Sequence[Level]]) -> None:
    """Raises UsageError with file and line for places that cannot be made and for options that are of none."""

    def where(name: str, *at: int) -> str:
        return file.where(("factors", name, *at) if name in file.study.factors else ("settings", name))

    for name in (*placements.PLACES, placements.SCHEDULER):
        for at, kind in enumerate(levels.get(name, ())):
            if kind not in (placements.BRD, *placements.MOUNTED, *placements.SCHEDULERS):
                continue
            if why := host.file_system_lacks(str(kind)):
                raise UsageError(f"{where(name, at)}: {kind}: {why}")
    for knob, why in placements.mount_mistakes(levels):
        raise UsageError(f"{where(knob)}: {why}")


def _plan(file: StudyFile, design: Design, factors: list[Factor], skipped: list[str], of_host: Collection[str]) -> Plan:
    study = file.study
    try:
        return layout_of(design).plan(factors, design, study.workload, of_host)
    except DesignError as error:
        raise UsageError(f"{file.where(_path(study, error))}: {error}") from None
    except UsageError as error:
        why = f" ({'; '.join(skipped)})" if skipped else ""
        raise UsageError(f"{file.where(('design', design.layout))}: {error}{why}") from None


def _design(file: StudyFile, factors: list[Factor]) -> Design:
    """The design with the levels of its configurations as the factors hold them; factors that are left out are left out
    here, too.
    """
    study = file.study
    raws: dict[str, Sequence[RawLevel]] = {**study.factors, **study.pseudo_factors}
    factors_ = {factor.name: factor for factor in factors}
    configurations: dict[str, dict[str, Level]] = {}
    for name, levels in study.design.configurations.items():
        configurations[name] = {}
        for factor, raw in levels.items():
            if factor in raws and factor not in factors_:
                continue
            places = [at for at, level in enumerate(raws.get(factor, [])) if level == raw and type(level) is type(raw)]
            configurations[name][factor] = factors_[factor].levels[places[0]] if places else raw
    return study.design.model_copy(update={"configurations": configurations}) if configurations else study.design


def _path(study: Study, error: DesignError) -> tuple[str, ...]:
    """The key of the study file that is to blame."""
    if error.path[0] == "factors" and error.path[-1] in study.pseudo_factors:
        return ("pseudo_factors", *error.path[1:])
    return error.path


def _knob(file: StudyFile, catalogue: Catalogue, name: str, path: tuple[str, ...]) -> Knob:
    try:
        return catalogue.get(name)
    except UsageError as error:
        why = why_not(name, file.study.workload) or not_a_knob(file.study.stack, name) or str(error)
        raise UsageError(f"{file.where(path)}: {why}") from None


def _level(knob: Knob, raw: object, where: str, disposable: bool) -> Level:
    try:
        return knob.accept(raw, disposable)
    except ValueError as error:
        raise UsageError(f"{where}: {knob.name}: {error}") from None


def _factor(
    file: StudyFile, catalogue: Catalogue, name: str, raws: list[bool | int | float | str], disposable: bool
) -> Factor:
    place = file.where(("factors", name))
    knob = _knob(file, catalogue, name, ("factors", name))
    levels = []
    for index, raw in enumerate(raws):
        level = _level(knob, raw, file.where(("factors", name, index)), disposable)
        if level in levels:
            raise UsageError(f"{place}: {name} lists the level {knob.format(level)} twice")
        levels.append(level)
    if len(levels) < 2:
        raise UsageError(f"{place}: {name} needs two or more levels (one level is a setting: move it to `settings`)")
    baseline = levels[0]
    if name in file.study.baseline:
        where = file.where(("baseline", name))
        baseline = _level(knob, file.study.baseline[name], where, disposable)
        if baseline not in levels:
            listed = ", ".join(knob.format(level) for level in levels)
            raise UsageError(
                f"{where}: the baseline {knob.format(baseline)} of {name} is not among its levels {listed}"
            )
    return Factor(name, tuple(levels), baseline, apply_cost=knob.apply_cost)


def first_guess(study: Study, plan: Plan) -> float:
    """Wall seconds of one trial of a plan on this machine, on average, before any has been timed."""
    return cost(study, plan, subject_of(study).first_overhead()) / len(plan.trials)


def load_seconds(study: Study) -> float:
    """Seconds of load in one trial."""
    return study.workload.before_steady + study.workload.steady + study.workload.ramp_down


def worst_cost(study: Study, plan: Plan, overhead: float = OVERHEAD, hosts: int | None = None) -> float:
    """The same where every repeat is used up and every wait takes as long as it may."""
    groups = len(plan.together)
    repeats = study.repeat.at_most if study.repeat else 0
    seconds = cost(study, plan, overhead, hosts) * (1 + repeats / max(1, groups))
    return seconds + (study.wait.at_most * math.ceil((groups + repeats) / (hosts or 1)) if study.wait else 0.0)


def cost(study: Study, plan: Plan, overhead: float = OVERHEAD, hosts: int | None = None) -> float:
    """Estimated wall seconds of a whole plan; ``overhead`` is the part of a trial that is not load; ``hosts`` of a pool
    run its blocks, None: this machine.
    """
    return setup_for(study.design, study.workload, overhead, hosts).seconds(plan)


def setup_for(design: Design, workload: Workload, overhead: float = OVERHEAD, hosts: int | None = None) -> Setup:
    """What a trial takes on this machine, of whose CPUs each runs a guest, or on the hosts of a pool."""
    return setup_of(design, workload, overhead, here.cpus(), hosts)
