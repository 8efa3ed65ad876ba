"""Options that several commands share."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from leadline.model.errors import UsageError, quoted


def _directory(given: str | Path) -> Path:
    """Raises UsageError for a lab that no directory can be, and for a name that no file of a service can hold."""
    if not str(given):
        raise UsageError("--lab '': name a directory; . is this one")
    if not str(given).isprintable():
        raise UsageError(f"--lab {quoted(str(given))}: a name has characters that print, in UTF-8")
    path = Path(given)
    try:
        with suppress(FileNotFoundError, NotADirectoryError):
            path.stat()
        above = next(each for each in (path.absolute(), *path.absolute().parents) if os.path.lexists(each))
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "no directory can have this name"
        raise UsageError(f"--lab {quoted(str(path))}: {reason}") from None
    if not above.is_dir():
        raise UsageError(f"--lab {path}: {above} is no directory; name one, or one that is to be made")
    return path


LabOption = Annotated[
    Path,
    typer.Option(
        "--lab",
        envvar="LEADLINE_LAB",
        parser=_directory,
        metavar="<path>",
        help="The lab: where studies and trials are kept.",
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
