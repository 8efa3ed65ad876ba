"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

LabOption = Annotated[
    Path, typer.Option("--lab", envvar="LEADLINE_LAB", help="The lab: where studies and trials are kept.")
]
JsonOption = Annotated[
    bool, typer.Option("--json", help="One JSON document on standard output (docs/reference/json.md).")
]
SetOption = Annotated[
    list[str] | None, typer.Option("--set", help="Change a key of the study: --set workload.users=20")
]
FactorOption = Annotated[
    list[str] | None, typer.Option("--factor", help="Add or replace a factor: --factor jvm.heap=256m,1g")
]
StudyArgument = Annotated[
    str, typer.Argument(help="A study or tuning in the lab: its name (the newest), its number, name@number.")
]
