"""What a study says of its load, checked as the program that drives it reads it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from leadline.checks.files.study import StudyFile
from leadline.checks.machine import not_checked
from leadline.checks.web import web_servers
from leadline.load.arrivals import WorkloadError, check_workload
from leadline.load.cluster.hosts import scenario_files
from leadline.load.driver import CLIENT, check_by_driver, check_variables
from leadline.load.generators.lab import check_generator
from leadline.load.knobs import load_knobs
from leadline.load.scenario import find_scenario, limits_response_times, preset_variables
from leadline.model.errors import LeadlineError, UsageError
from leadline.model.knob import Level
from leadline.model.plan import Factor
from leadline.model.result import OF_LIMITS
from leadline.model.workload import Workload, is_load, load_at
from leadline.stack.own.words import line_of, tls_files
from leadline.stack.registry import application_of

_OF_GENERATORS = {"generator", "load_units", "ramp_up", "steady", "ramp_down"}  # keys of a workload


def check_load(file: StudyFile) -> list[str]:
    """What the study says of its load, its scenario as the driver reads it; returns what only a run can tell."""
    workload, unchecked = file.study.workload, not_checked(file)
    _check_named(file)
    try:
        scenario = find_scenario(workload.scenario)
        if file.study.drivers and workload.generator is None:
            scenario_files(scenario)
    except UsageError as error:
        raise UsageError(f"{file.where(('workload', 'scenario'))}: {error}") from None
    try:
        check_workload(workload)
    except WorkloadError as error:
        varied = f"load.{'.'.join(error.key)}"  # a factor whose baseline stands in the workload
        path = ("factors", varied) if varied in file.study.factors else ("workload", *error.key)
        raise UsageError(f"{file.where(path)}: {error}") from None
    if file.study.drivers and workload.generator is not None:
        problem = "several drivers are leadline-load on every host; leave out workload.generator, or drivers"
        raise UsageError(f"{file.where(('drivers',))}: {problem}")
    _check_tls(file)
    if workload.generator is not None:
        try:
            check_generator(workload.generator)
        except LeadlineError as error:
            raise UsageError(f"{file.where(('workload', 'generator'))}: {error}") from None
    elif workload.preset is not None:
        try:
            preset_variables(workload.preset, workload.scenario, workload.variables)
        except UsageError as error:
            raise UsageError(f"{file.where(('workload', 'preset'))}: {error}") from None
    _check_limited(file)
    if workload.generator is None:
        unchecked += _ask_driver(file)
    return unchecked


def _check_tls(file: StudyFile) -> None:
    """What does not go with an application that speaks HTTPS by itself."""
    study, stack_file = file.study, file.study.stack.own
    if stack_file is None or stack_file.content.tls is None:
        return
    generator = study.workload.generator
    refused = [
        (generator, ("workload", "generator"), "another generator is not told what to trust"),
        (
            study.drivers and stack_file.content.tls.client,
            ("drivers",),
            "the key of a client certificate does not leave this host, which several drivers would need",
        ),
        (study.stack.in_guest, ("guest",), "an application in a guest speaks plain HTTP"),
        (web_servers(study), ("stack",), "a web server speaks plain HTTP to the application behind it"),
    ]
    for reason, path, problem in refused:
        if reason:
            raise UsageError(
                f"{file.where(path)}: {problem}, and {line_of(stack_file, 'tls')} says `tls`: leave one out"
            )


def _check_limited(file: StudyFile) -> None:
    """Responses that are of a scenario's limits need some."""
    for at, name in enumerate(file.study.responses):
        if name in OF_LIMITS and not limits_response_times(file.study.workload):
            sentence = f"{name} is of limits of response times, and this load states none"
            where = file.where(("responses", at))
            raise UsageError(f"{where}: {sentence}: write `limits: {{ p90: 2s }}` to transactions of its scenario")


def check_loads(file: StudyFile, factors: Sequence[Factor], settings: Mapping[str, Level]) -> None:
    """Every level of the load, one factor at a time. Raises UsageError at the level."""
    knobs = load_knobs(file.study.workload)
    load = load_at(_driven(file), settings, knobs)
    for factor in factors:
        for at, level in enumerate(factor.levels if is_load(factor.name) and not factor.pseudo else ()):
            varied = load_at(load, {factor.name: level}, knobs)
            where = file.where(("factors", factor.name, at))
            try:
                check_workload(varied)
                check_by_driver(varied, file.study.design.seed, file.study.drivers, tls_files(file.study.stack.own))
            except UsageError as error:
                raise UsageError(f"{where}: {factor.name}: {error}") from None
            except LeadlineError:  # the driver is not built, which is told once
                return


def _check_named(file: StudyFile) -> None:
    """The scenario that a study has where it names none is of the reference application."""
    study = file.study
    stack_file = study.stack.own
    if study.workload.generator is not None or "scenario" in study.workload.model_fields_set:
        return
    if study.stack.web is not None:
        names = " or ".join(application_of(study.stack).scenarios())
        raise UsageError(f"{file.where(('workload',))}: a web server alone needs a scenario: write {names}")
    if study.stack.url is not None:
        raise UsageError(f"{file.where(('workload',))}: no scenario for {study.stack.url}: write its name or its file")
    if stack_file is None:
        return
    sentence = f"has no scenario: name one, here or in {stack_file.file}; leadline scenario makes a first one"
    raise UsageError(f"{file.where(('workload',))}: {stack_file.content.stack} {sentence}")


def without_effect(workload: Workload) -> list[str]:
    """Keys of leadline-load beside another generator."""
    idle = [name for name in Workload.model_fields if name in workload.model_fields_set - _OF_GENERATORS]
    if workload.generator is None or not idle:
        return []
    return [f"{workload.generator.name} brings its own load: workload.{', '.join(idle)} change nothing."]


def _driven(file: StudyFile) -> Workload:
    """As the driver has it: a fork is warm before its load."""
    load = file.study.workload
    return load.model_copy(update={"ramp_up": 0.0}) if file.study.design.kind == "forks" else load


def _ask_driver(file: StudyFile) -> list[str]:
    workload = _driven(file)
    try:
        check_variables(workload)
    except UsageError as error:
        raise UsageError(f"{file.where(('workload', 'variables'))}: {error}") from None
    try:
        for load in (workload, *([workload.warming] if workload.warm_up else [])):
            check_by_driver(load, file.study.design.seed, file.study.drivers, tls_files(file.study.stack.own))
    except UsageError as error:
        path = ("workload", "variables" if workload.variables else "scenario")
        where, stack_file = file.where(path), file.study.stack.own
        of_tls = line_of(stack_file, "tls") if stack_file is not None else where
        lines = str(error).splitlines()
        places = [of_tls if line.startswith(("--ca ", *CLIENT)) else where for line in lines]
        raise UsageError("\n".join(map("{}: {}".format, places, lines))) from None
    except LeadlineError as error:
        return [f"the scenario and the options of its load: {error}"]
    return []
