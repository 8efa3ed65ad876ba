"""``plan``."""

from __future__ import annotations

import json as json_module
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from leadline.api.running import open_testbed
from leadline.api.studies import Study
from leadline.checks.plan import cost
from leadline.cli.options import FactorOption, JsonOption, SetOption, file_option
from leadline.cli.output import console, print_json, say
from leadline.design.make import plan_from_json, plan_to_json
from leadline.design.properties import DesignProperties, describe_design, properties_text
from leadline.host.textfile import read_text
from leadline.layouts.check import check_plan
from leadline.model.errors import UsageError
from leadline.model.knob import Knob
from leadline.model.plan import Plan
from leadline.model.units import format_duration
from leadline.trial.progress import treatment_label

_LARGEST = 64 * 1024**2  # bytes


def register(app: typer.Typer) -> None:
    """Add this module's command."""
    app.command(epilog="Example: leadline plan quickstart --set design.replicates=4 --out plan.json")(plan)


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
