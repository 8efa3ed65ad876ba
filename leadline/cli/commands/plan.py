"""``plan``, ``power``, and ``simulate``: how often a study would be right."""

from __future__ import annotations

import json as json_module
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from leadline.api.running import error_rates, open_testbed
from leadline.api.studies import Study
from leadline.checks.files.study import StudyFile
from leadline.checks.plan import Planned, cost, setup_for
from leadline.cli.options import FactorOption, JsonOption, LabOption, SetOption, file_option
from leadline.cli.output import console, print_json, say
from leadline.design.make import plan_from_json, plan_to_json
from leadline.design.properties import DesignProperties, describe_design, properties_text
from leadline.experiments.pilot import compare_layouts, hosting_for, noise_for, overhead_for
from leadline.host.textfile import read_text
from leadline.layouts.check import check_plan
from leadline.model.errors import UsageError
from leadline.model.knob import Knob
from leadline.model.plan import Plan
from leadline.model.result import RESPONSES
from leadline.model.units import format_duration, parse_percent
from leadline.planning.forecast import Forecast, Need, Setup, forecast
from leadline.planning.layouts import Compared
from leadline.planning.noise import Component, Noise, cv_of
from leadline.planning.wording import advice_of, forecast_lines, layout_lines, need_line, noise_lines
from leadline.trial.looks import check_looks
from leadline.trial.progress import treatment_label

_LARGEST = 64 * 1024**2  # bytes


def register(app: typer.Typer) -> None:
    """Add this module's commands."""
    app.command(epilog="Example: leadline plan quickstart --set design.replicates=4 --out plan.json")(plan)
    app.command(epilog="Example: leadline power quickstart --effect 5%")(power)
    app.command(epilog="Example: leadline simulate quickstart --truth truth.yaml --studies 200")(simulate)


def plan(
    study: Annotated[str | None, typer.Argument(help="A built-in study or a study file.")] = None,
    out: Annotated[Path | None, file_option("Save the plan as JSON.")] = None,
    check: Annotated[Path | None, typer.Option(metavar="FILE", help="Check a saved plan instead.")] = None,
    set_: SetOption = None,
    factor: FactorOption = None,
    json: JsonOption = False,
) -> None:
    """Print a study's plan, what it can tell and what it mixes up; save it; check a saved one."""
    if check is not None:
        _show(_read(check), json, {"source": str(check)}, [f"{check}: the plan is sound"])
        return
    if study is None:
        raise UsageError("name a study, for instance leadline plan quickstart, or a saved plan with --check plan.json")
    file = Study.read(study, set_ or [], factor or []).file
    planned = open_testbed(subject=Study(file)).plan(file)
    seconds = cost(file.study, planned.plan)
    lines = [*planned.skipped, f"about {format_duration(seconds)}"]
    if out is not None:
        out.write_text(plan_to_json(planned.plan) + "\n", encoding="utf-8")
        lines.append(f"saved: {out}")
    document = {"study": file.study.study, "seconds": seconds, "skipped": list(planned.skipped)}
    _show(planned.plan, json, document | ({"saved": str(out)} if out is not None else {}), lines, planned.knobs)


def _read(path: Path) -> Plan:
    """A saved plan that is sound. Raises UsageError with the file."""
    text = read_text(path, _LARGEST)
    try:
        plan_ = plan_from_json(text)
        check_plan(plan_)
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from error
    return plan_


def _show(
    shown: Plan, json: bool, document: dict[str, Any], lines: list[str], knobs: Mapping[str, Knob] | None = None
) -> None:
    properties = describe_design(shown)
    if json:
        saved = json_module.loads(plan_to_json(shown))
        print_json({**document, "plan": saved, "properties": _properties_document(properties)})
        return
    console.print(_table(shown, knobs or {}), soft_wrap=not console.is_terminal)
    say(*(*shown.notes, *properties_text(properties), *lines))
    console.print(f"{len(shown.trials)} trials, {shown.kind}, blocks {shown.blocks}, seed {shown.seed}")


def _table(shown: Plan, knobs: Mapping[str, Knob]) -> Table:
    """One row a trial; whole plots and slots where there are some."""
    plots = any(trial.plot is not None for trial in shown.trials)
    slots = any(trial.slots for trial in shown.trials)
    table = Table("trial", "block", *(["plot"] if plots else []), "treatment", *(["slots"] if slots else []))
    for trial in shown.trials:
        cells = [str(trial.position + 1), str(trial.block + 1)]
        if plots:
            cells.append("" if trial.plot is None else str(trial.plot + 1))
        cells.append(treatment_label(trial, shown, knobs))
        if slots:
            cells.append(f"{len(trial.slots)} of {format_duration(trial.slots[0].seconds)}" if trial.slots else "")
        table.add_row(*cells)
    return table


def _properties_document(properties: DesignProperties) -> dict[str, Any]:
    document = asdict(properties)
    document["dear_changes"] = dict(properties.dear_changes)
    for name, effects in (("mains", properties.mains), ("interactions", properties.interactions)):
        for row, effect in zip(document[name], effects, strict=True):
            row["clear"] = effect.clear
    return document


def power(
    study: Annotated[str, typer.Argument(help="A built-in study or a study file.")],
    effect: Annotated[str | None, typer.Option(help="The effect that must not be missed: 5%")] = None,
    cv: Annotated[
        str | None, typer.Option(help="Noise between trials (coefficient of variation) instead of the lab's: 4.3%")
    ] = None,
    from_: Annotated[str | None, typer.Option("--from", help="The study in the lab to learn the noise from.")] = None,
    response: Annotated[str | None, typer.Option(help="The response to plan for; the study's first if absent.")] = None,
    chance: Annotated[str, typer.Option("--power", help="The wanted probability of finding the effect.")] = "80%",
    hosts: Annotated[int, typer.Option(min=1, max=1000, help="Hosts that run its blocks in turn.")] = 1,
    differ: Annotated[
        str | None,
        typer.Option(help="How an effect differs from host to host (standard deviation), instead of the lab's: 2%"),
    ] = None,
    lab: LabOption = Path("lab"),
    set_: SetOption = None,
    factor: FactorOption = None,
    json: JsonOption = False,
) -> None:
    """What a study will find at the noise of earlier trials, and what an effect needs."""
    wanted = share("--effect", effect, 0.01, 1000.0) if effect is not None else None
    noise_cv = share("--cv", cv, 0.01, 200.0) if cv is not None else None
    differ_cv = share("--differ", differ, 0.0, 200.0) if differ is not None else None
    likely = share("--power", chance, 50.0, 99.9) / 100
    file = Study.read(study, set_ or [], factor or []).file
    planned = open_testbed(lab, subject=Study(file)).plan(file)
    check_looks(file, planned.plan)
    name = _response(file, response)
    noise = noise_for(file.study, lab, noise_cv, from_, name)
    overhead = overhead_for(file.study, noise)
    setup = setup_for(planned.design, file.study.workload, overhead, hosts if hosts > 1 else None)
    outlook = forecast(
        planned.plan,
        noise,
        setup,
        effect=wanted,
        power=likely,
        design=planned.design,
        workload=file.study.workload,
        hosts=hosting_for(file.study, lab, hosts, differ_cv, from_, name),
    )
    layouts = compare_layouts(file.study, planned, lab, noise, overhead, wanted, likely)
    if json:
        print_json({"study": file.study.study, **document(noise, outlook, setup), "layouts": layouts_document(layouts)})
        return
    _print(planned, noise, outlook, setup, likely)
    say(*(layout_lines(layouts) if layouts else []))


def share(option: str, text: str, low: float, high: float) -> float:
    """Percent from ``5%`` or ``5``."""
    try:
        return parse_percent(text, low, high)
    except ValueError as error:
        raise UsageError(f"{option}: {error}") from None


def _response(file: StudyFile, response: str | None) -> str:
    if response is None:
        return file.study.responses[0]
    if response not in RESPONSES:
        raise UsageError(f"--response: unknown response {response!r}; responses: {', '.join(RESPONSES)}")
    return response


def _print(planned: Planned, noise: Noise, found: Forecast, setup: Setup, likely: float) -> None:
    lines = [*planned.skipped, plan_line(planned.plan, found), *noise_lines(noise), *forecast_lines(found)]
    if found.need is not None:
        lines.append(f"{found.effect:g} % with probability {likely:g} needs")
        lines += [f"  {need_line(need)}" for need in (found.need, *found.others)]
    advice = advice_of(noise, setup)
    if advice is not None:
        lines.append(advice.sentence)
    say(*lines)


def plan_line(plan: Plan, found: Forecast) -> str:
    """One line on the plan's size."""
    slots = f" with {found.slots} slots" if found.slots else ""
    return f"{found.trials} trials{slots}, {plan.kind}, seed {plan.seed}, about {format_duration(found.seconds)}"


def document(noise: Noise, found: Forecast, setup: Setup) -> dict[str, Any]:
    """The forecast as JSON (docs/reference/json.md)."""
    advice = advice_of(noise, setup)
    auto = noise.autocorrelation
    return {
        "noise": {
            "response": noise.response,
            "source": noise.source,
            "assumed": noise.assumed,
            "trials": noise.trials,
            "trial": _component(noise.trial),
            "block": _component(noise.block),
            "autocorrelation_seconds": None
            if auto is None
            else {"estimate": auto.time, "low": auto.interval.low, "high": auto.interval.high},
            "drift": [drift.sentence for drift in noise.drifts],
        },
        "trials": found.trials,
        "slots": found.slots,
        "seconds": found.seconds,
        "comparisons": found.comparisons,
        "level": found.level,
        "residual_df": found.df,
        "cv": found.cv,
        "smallest": {f"{power:g}": value for power, value in found.smallest.items()},
        "halve": list(found.halve),
        "effect": found.effect,
        "chance": found.chance,
        "need": _need(found.need),
        "others": [_need(need) for need in found.others],
        "reason": found.reason,
        "between_trials": None
        if found.between is None
        else asdict(found.between)
        | {"smallest": {f"{power:g}": value for power, value in found.between.smallest.items()}},
        "hosts": None
        if found.hosts is None
        else asdict(found.hosts) | {"smallest": {f"{power:g}": value for power, value in found.hosts.smallest.items()}},
        "repeat": None if advice is None else asdict(advice),
    }


def layouts_document(found: Compared | None) -> dict[str, Any] | None:
    """The layouts as JSON."""
    if found is None:
        return None
    best = found.best
    return {
        "seconds": found.seconds,
        "noise": {name: cv_of(value) for name, value in found.parts.items()},
        "assumed": list(found.components.assumed),
        "layouts": [asdict(layout) for layout in found.layouts],
        "best": None if best is None else best.name,
    }


def _component(component: Component | None) -> dict[str, float] | None:
    if component is None:
        return None
    return {
        "cv": component.cv,
        "low": component.cv_interval.low,
        "high": component.cv_interval.high,
        "df": component.df,
    }


def _need(need: Need | None) -> dict[str, Any] | None:
    return None if need is None else asdict(need)


def simulate(
    study: Annotated[str, typer.Argument(help="A built-in study or a study file.")],
    truth: Annotated[Path, typer.Option(metavar="FILE", help="The truth file (docs/concepts/simulation.md).")],
    set_: SetOption = None,
    factor: FactorOption = None,
    studies: Annotated[int, typer.Option(min=1, max=100_000, help="How many studies are simulated.")] = 200,
    response: Annotated[str, typer.Option(help="The response that is judged.")] = "throughput",
    seed: Annotated[int, typer.Option(min=0, max=2**62, help="Seed of the first study; each later one adds 1.")] = 1,
    json: JsonOption = False,
) -> None:
    """How often a study would be right: many simulated studies against a known truth."""
    if response not in RESPONSES:
        raise UsageError(f"unknown response {response!r}; responses: {', '.join(RESPONSES)}")
    subject = Study.read(study, set_ or [], factor or [])
    planned, rates_ = error_rates(subject, truth, studies, response=response, seed=seed)
    rows = [
        {
            "factor": name,
            "level": level,
            "truth_percent": round(rates_.truth[(name, level)], 6),
            "found": share,
            "error": rates_.error_of(share),
        }
        for (name, level), share in rates_.found.items()
    ]
    if json:
        print_json(
            {
                "simulated": str(truth),
                "study": subject.name,
                "response": response,
                "studies": rates_.studies,
                "trials": len(planned.plan.trials),
                "coverage": rates_.coverage,
                "simultaneous": rates_.simultaneous,
                "family_error": rates_.family_error,
                "drift_found": rates_.drift_found,
                "effects": rows,
            }
        )
        return
    from rich.table import Table

    table = Table(title=f"SIMULATED: {rates_.studies} studies of {len(planned.plan.trials)} trials, {response}")
    for column in ("setting", "true effect", "found in"):
        table.add_column(column, justify="left" if column == "setting" else "right")
    for row in rows:
        name = str(row["factor"])
        knob = planned.knobs.get(name)
        level = knob.format(row["level"]) if knob else str(row["level"])
        table.add_row(f"{name} = {level}", f"{row['truth_percent']:+.2f} %", f"{row['found']:.1%}")
    console.print(table, soft_wrap=not console.is_terminal)
    say(
        f"A wrong verdict anywhere: {rates_.family_error:.1%} of the studies; 95 % intervals that hold the truth: "
        f"{'none' if rates_.coverage is None else f'{rates_.coverage:.1%}'}; drift found in {rates_.drift_found:.1%}."
    )
