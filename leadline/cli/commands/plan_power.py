"""``power``, and ``simulate``: how often a study would be right."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from leadline.api.running import error_rates, open_testbed
from leadline.api.studies import Study
from leadline.checks.files.study import StudyFile
from leadline.checks.plan import Planned, setup_for
from leadline.cli.options import FactorOption, JsonOption, LabOption, SetOption
from leadline.cli.output import console, print_json, say
from leadline.experiments.pilot import compare_layouts, hosting_for, noise_for, overhead_for
from leadline.model.errors import UsageError
from leadline.model.plan import Plan
from leadline.model.result import RESPONSES
from leadline.model.units import format_duration, parse_percent
from leadline.planning.forecast import Forecast, Need, Setup, forecast
from leadline.planning.layouts import Compared
from leadline.planning.noise import Component, Noise, cv_of
from leadline.planning.wording import advice_of, forecast_lines, layout_lines, need_line, noise_lines
from leadline.trial.looks import check_looks


def register(app: typer.Typer) -> None:
    """Add this module's commands."""
    app.command(epilog="Example: leadline power quickstart --effect 5%")(power)
    app.command(epilog="Example: leadline simulate quickstart --truth truth.yaml --studies 200")(simulate)


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
