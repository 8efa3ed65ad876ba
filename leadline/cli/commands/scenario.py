"""``scenario``: first scenarios from what other tools saved."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from leadline.cli.options import file_option
from leadline.cli.output import end_with, errors, say
from leadline.load.convert.formats import of_file
from leadline.load.convert.write import Draft

app = typer.Typer(
    help="Make a first scenario from a recording, an access log, copied requests or an OpenAPI description.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


def register(parent: typer.Typer) -> None:
    """Add this module's commands."""
    parent.add_typer(app, name="scenario")


@app.callback()
def _group() -> None:
    """Keep ``from`` a command of its own."""


@app.command("from", epilog="Example: leadline scenario from tour.har -o tour.yaml --replay http://127.0.0.1:8080")
def from_(
    file: Annotated[Path, typer.Argument(help="The file to convert; what it is, its content tells.")],
    out: Annotated[Path | None, file_option("Write it to a file instead of printing it.", "--out", "-o")] = None,
    resources: Annotated[bool, typer.Option(help="Keep images, styles and scripts.")] = False,
    replay: Annotated[
        str | None, typer.Option(metavar="<url>", help="Try every request at once against this server.")
    ] = None,
) -> None:
    """HAR, OpenAPI, curl commands, Postman, .http, an access log: a first scenario."""
    write(of_file(file, resources), out, replay)


def write(draft: Draft, out: Path | None, url: str | None) -> None:
    """The scenario to a file or the terminal, replayed before where there is a ``url``; then failures end with 1."""
    failures = None
    if url is not None:
        from leadline.load.replay import SESSIONS, replay

        result = replay(draft, url)
        failures = result.failures
        draft = result.noted(draft)
    if out is None:
        typer.echo(draft.text(), nl=False)
    else:
        out.write_text(draft.text(), encoding="utf-8")
        if draft.times:
            times = out.with_suffix(".times")
            times.write_text("".join(f"{seconds:.6f}\n" for seconds in draft.times), encoding="utf-8")
            say(f"arrivals: --arrivals replay --replay {times}", to=errors)
    if failures is not None:
        lines = [f"failed: {line}" for line in failures]
        say(*(lines or [f"replayed: {result.requests} requests in {SESSIONS} sessions, none failed"]), to=errors)
        end_with(int(bool(failures)))
