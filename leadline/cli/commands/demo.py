"""``demo``: a small lab of real runs that comes with the package, to look at before anything is run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from leadline.api.demo import unpack
from leadline.cli.commands.ui import ui
from leadline.cli.options import directory_option
from leadline.cli.output import say


def register(app: typer.Typer) -> None:
    """Add this module's command."""
    app.command(epilog="Example: leadline demo")(demo)


def demo(
    out: Annotated[Path, directory_option("Where the lab is unpacked.")] = Path("leadline-demo"),
    page: Annotated[bool, typer.Option(help="Serve the live page until Ctrl-C.")] = True,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port of the page; a free one if 0.")] = 0,
) -> None:
    """Look at a stored lab of two real runs: report, live page, comparison. Nothing is installed or run."""
    for line in unpack(out):
        say(line)
    if page:
        ui(lab=out, port=port)
