"""``scenario``: first scenarios from what other tools saved."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from leadline.cli.options import file_option
from leadline.load.convert.har import of_har
from leadline.load.convert.openapi import of_openapi

_File = Annotated[Path, typer.Argument(help="The file to convert.")]
_Out = Annotated[
    Path | None,
    file_option("Write it to a file instead of printing it.", "--out", "-o"),
]

app = typer.Typer(
    help="Make a first scenario from a recording (HAR) or an interface description (OpenAPI).",
    no_args_is_help=True,
    rich_markup_mode=None,
)


def register(parent: typer.Typer) -> None:
    """Add this module's commands."""
    parent.add_typer(app, name="scenario")


@app.command("from-har")
def har(
    file: _File,
    out: _Out = None,
    resources: Annotated[bool, typer.Option(help="Keep images, styles and scripts.")] = False,
) -> None:
    """A HAR file, as browsers save what they loaded."""
    _write(of_har(file, resources), out)


@app.command("from-openapi")
def openapi(file: _File, out: _Out = None) -> None:
    """An OpenAPI description, JSON or YAML."""
    _write(of_openapi(file), out)


def _write(text: str, out: Path | None) -> None:
    if out is None:
        typer.echo(text, nl=False)
        return
    out.write_text(text, encoding="utf-8")
