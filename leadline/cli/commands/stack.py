"""``up`` and ``down``: a stack without a study."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from leadline.cli.options import JsonOption, LabOption
from leadline.cli.output import errors, print_json, say
from leadline.places.running import choice_of, start, stop
from leadline.stack.registry import SERVERS


def register(app: typer.Typer) -> None:
    """Add this module's commands."""
    app.command(epilog="Example: leadline up tomcat --set server.threads.max=20")(up)
    app.command(epilog="Example: leadline down")(down)


def up(
    stack: Annotated[
        str,
        typer.Argument(help=f"SERVER or SERVER/MODE: {', '.join(SERVERS)}, liberty/orm; a stack file; or a study."),
    ],
    lab: LabOption = Path("lab"),
    set_: Annotated[list[str] | None, typer.Option("--set", help="A knob's level: --set jvm.heap=512m")] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="HTTP port; 0 takes a free one.")] = 0,
    json: JsonOption = False,
) -> None:
    """Start a stack and leave it running; print its address."""
    report: Callable[[str], None] = partial(say, to=errors) if not json else lambda _text: None
    up = start(choice_of(stack), set_ or [], lab, port, report)
    if json:
        document = {"stack": up.stack, "url": up.url, "seconds": up.seconds, "logs": str(up.logs)}
        print_json({**document, "certificate": str(up.trusted) if up.trusted else None})
        return
    say(f"{up.stack} is up after {up.seconds:.1f} s")
    words = "; ".join(filter(None, (up.login, "stop it with leadline down")))
    say(f"{up.url}/   ({words})")
    if up.trusted is not None:
        say(f"certificate to trust (--ca): {up.trusted}")


def down(lab: LabOption = Path("lab"), json: JsonOption = False) -> None:
    """Stop the stack that ``up`` started and put the host back."""
    lines = stop(lab)
    if json:
        print_json({"stopped": lines})
        return
    say(*(lines or ["nothing is up in this lab"]))
