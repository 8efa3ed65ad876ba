"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from leadline.model.errors import UsageError, quoted


def _directory(path: Path) -> Path:
    """Raises UsageError for a lab that no directory can be."""
    try:
        above = next(each for each in (path.absolute(), *path.absolute().parents) if each.exists())
    except (OSError, ValueError):
        raise UsageError(f"--lab {quoted(str(path))}: no directory can have this name") from None
    if not above.is_dir():
        raise UsageError(f"--lab {path}: {above} is no directory; name one, or one that is to be made")
    return path


LabOption = Annotated[
    Path,
    typer.Option(
        "--lab", envvar="LEADLINE_LAB", callback=_directory, help="The lab: where studies and trials are kept."
    ),
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
