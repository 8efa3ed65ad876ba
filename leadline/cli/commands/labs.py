"""``lab list``."""

from __future__ import annotations

import time
from pathlib import Path

import typer
from rich.table import Table

from leadline.api.labs import load_lab
from leadline.cli.options import JsonOption, LabOption
from leadline.cli.output import console, print_json, say
from leadline.model.record import TrialState


def register(app: typer.Typer) -> None:
    """Add this module's commands."""
    labs = typer.Typer(help="What a lab holds.", no_args_is_help=True, rich_markup_mode=None)
    labs.command("list", epilog="Example: leadline lab list")(list_)
    app.add_typer(labs, name="lab")


def list_(lab: LabOption = Path("lab"), json: JsonOption = False) -> None:
    """List the studies of a lab."""
    held = load_lab(lab)
    studies = [one.record for one in held.studies()]
    tunings = [one.record for one in held.tunings()]
    counts = [
        {
            "trials": len(record.trials),
            "done": sum(trial.state == TrialState.DONE for trial in record.trials),
            "failed": sum(trial.state == TrialState.FAILED for trial in record.trials),
        }
        for record in studies
    ]
    if json:
        told = [
            {"id": one.id, "tuning": one.tuning.tuning, "created": one.created, "studies": len(one.parts)}
            | {"finished": one.finished}
            for one in tunings
        ]
        rows = [
            {"id": one.id, "study": one.study.study, "created": one.created, **count}
            for one, count in zip(studies, counts, strict=True)
        ]
        print_json({"lab": str(lab), "studies": rows, "tunings": told})
        return
    table = Table("study", "started", "trials", "done", "failed")
    for record, count in zip(studies, counts, strict=True):
        started = time.strftime("%Y-%m-%d %H:%M", time.localtime(record.created))
        table.add_row(f"{record.study.study}@{record.id}", started, *map(str, count.values()))
    console.print(table)
    for one in tunings:
        state = "finished" if one.finished else "not finished"
        say(f"tuning {one.tuning.tuning}@{one.id}: {len(one.parts)} studies, {state}")
