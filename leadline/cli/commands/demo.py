"""``demo``: a small lab of real runs that comes with the package, to look at before anything is run."""

from __future__ import annotations

import lzma
from pathlib import Path
from typing import Annotated

import typer

from leadline.cli.commands.ui import ui
from leadline.cli.options import directory_option
from leadline.cli.output import say
from leadline.host import received
from leadline.model.errors import UsageError

ARCHIVE = Path(__file__).parents[2] / "demo.tar.xz"  # written by tools/demo_lab.py
_MARK = "lab.sqlite"
COMMANDS = ("comparison  leadline compare startup@1 startup@2", "results     leadline show startup@1")


def unpack(out: Path) -> list[str]:
    """Unpack the lab into ``out`` where it is not there yet; what to look at, a line each. Raises UsageError."""
    if not (out / _MARK).exists():
        if out.exists() and any(out.iterdir()):
            raise UsageError(f"--out {out}: the directory holds other files; name a new one")
        with lzma.open(ARCHIVE) as archive:
            received.unpack(archive, out, ARCHIVE.name)
    about = (out / "about.txt").read_text(encoding="utf-8").strip()
    return [about, f"report      {out / 'report.html'}", *(f"{line} --lab {out}" for line in COMMANDS)]


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
