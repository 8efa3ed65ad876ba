"""``lab list``."""

from __future__ import annotations

import time
from pathlib import Path

import typer
from rich.table import Table

from leadline.cli.options import JsonOption, LabOption
from leadline.cli.output import console, print_json
from leadline.lab.store import Store
from leadline.lab.tuning.records import TuningRecords


def register(app: typer.Typer) -> None:
    """Add this module's commands."""
    labs = typer.Typer(help="What a lab holds.", no_args_is_help=True, rich_markup_mode=None)
    labs.command("list", epilog="Example: leadline lab list")(list_)
    app.add_typer(labs, name="lab")


def list_(lab: LabOption = Path("lab"), json: JsonOption = False) -> None:
    """List the studies of a lab."""
    rows = [
        {
            "id": record.id,
            "study": record.study.study,
            "created": record.created,
            "trials": len(record.trials),
            "done": sum(trial.state == "done" for trial in record.trials),
            "failed": sum(trial.state == "failed" for trial in record.trials),
        }
        for record in Store(lab, create=False).studies()
    ]
    records = TuningRecords(Store(lab, create=False))
    tunings = [records.load(number) for number in records.ids()]
    if json:
        told = [
            {"id": one.id, "tuning": one.tuning.tuning, "created": one.created, "studies": len(one.parts)}
            | {"finished": one.finished}
            for one in tunings
        ]
        print_json({"lab": str(lab), "studies": rows, "tunings": told})
        return
    table = Table("study", "started", "trials", "done", "failed")
    for row in rows:
        started = time.strftime("%Y-%m-%d %H:%M", time.localtime(float(str(row["created"]))))
        table.add_row(f"{row['study']}@{row['id']}", started, *(str(row[key]) for key in ("trials", "done", "failed")))
    console.print(table)
    for one in tunings:
        state = "finished" if one.finished else "not finished"
        text = f"tuning {one.tuning.tuning}@{one.id}: {len(one.parts)} studies, {state}"
        console.print(text, markup=False, highlight=False)
