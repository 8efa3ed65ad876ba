"""``scenario``: first scenarios from what other tools saved, and scenarios as scripts of other tools."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from leadline.cli.options import file_option
from leadline.host.textfile import read_text
from leadline.model.errors import UsageError

if TYPE_CHECKING:
    from leadline.load.convert.write import Draft

LARGEST_RECORDING = 256 * 1024**2  # bytes
_File = Annotated[Path, typer.Argument(help="The file to convert.")]
_Out = Annotated[
    Path | None,
    file_option("Write it to a file instead of printing it.", "--out", "-o"),
]

app = typer.Typer(
    help="Make a first scenario from a recording (HAR) or an interface description (OpenAPI), or export one.",
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
    from leadline.load.convert.har import from_har

    _convert(file, out, lambda text, name: from_har(text, name, resources))


@app.command("from-openapi")
def openapi(file: _File, out: _Out = None) -> None:
    """An OpenAPI description, JSON or YAML."""
    from leadline.load.convert.openapi import from_openapi

    _convert(file, out, from_openapi)


@app.command(epilog="Example: leadline scenario export brokerage-json --to k6 -o brokerage.js")
def export(
    scenario: Annotated[str, typer.Argument(help="A built-in scenario or a scenario file.")],
    to: Annotated[str, typer.Option(help="The other generator: k6 or hyperfoil.")],
    out: _Out = None,
) -> None:
    """A scenario as a script of another generator; what that cannot do is named with its line."""
    from leadline.load.export.write import export_scenario

    found = export_scenario(scenario, to)
    _write(found, out)


def _convert(file: Path, out: Path | None, convert: Callable[[str, str], Draft]) -> None:
    from leadline.load.convert.write import Names

    text = read_text(file, LARGEST_RECORDING)
    try:
        found = convert(text, Names().make(file.stem, "scenario")).text()
    except UsageError as error:
        raise UsageError(f"{file}: {error}") from None
    except RecursionError:
        raise UsageError(f"{file}: nested too deeply") from None
    _write(found, out)


def _write(text: str, out: Path | None) -> None:
    if out is None:
        typer.echo(text, nl=False)
        return
    out.write_text(text, encoding="utf-8")
