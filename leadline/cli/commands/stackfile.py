"""``stack init``, ``stack check``: an application of one's own; ``up`` and ``down``: a stack without a study."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from leadline.cli.options import JsonOption, LabOption, file_option
from leadline.cli.output import errors, print_json, say
from leadline.experiments.stackfiles import CheckStep, first
from leadline.experiments.stackfiles import check as check_stack_file
from leadline.places.knobs import choice_of, start, stop
from leadline.stack.registry import SERVERS


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


def register(parent: typer.Typer) -> None:
    """Add this module's commands."""
    app = typer.Typer(
        help="An application of your own: a first stack file from its jar, and a check of a stack file.",
        no_args_is_help=True,
        rich_markup_mode=None,
    )
    app.command(epilog="Example: leadline stack init target/shop.jar")(init)
    app.command(epilog="Example: leadline stack check shop.stack.yaml")(check)
    parent.add_typer(app, name="stack")
    parent.command(epilog="Example: leadline up tomcat --set server.threads.max=20")(up)
    parent.command(epilog="Example: leadline down")(down)


def init(
    artifact: Annotated[
        Path,
        typer.Argument(
            help="A jar that java -jar starts, Quarkus's folder quarkus-app, a WAR or an EAR; a start script; a compose"
            " file; with --server the directory of its configuration."
        ),
    ],
    server: Annotated[
        str | None, typer.Option(help="Of a WAR, an EAR or a configuration: the server that runs it.")
    ] = None,
    profile: Annotated[str | None, typer.Option(help="Of Spring Boot or Quarkus: which of its profiles: prod")] = None,
    out: Annotated[Path | None, file_option("The stack file; NAME.stack.yaml if absent.", "--out", "-o")] = None,
) -> None:
    """Write a first stack file from what a jar or another archive tells of itself."""
    path, text = first(artifact, out, server, profile)
    say(text.rstrip())
    say(f"wrote {path}; next: leadline stack check {path}", to=errors)


def check(
    file: Annotated[Path, typer.Argument(help="A stack file.")],
    lab: LabOption = Path("lab"),
    json: JsonOption = False,
) -> None:
    """Start the application once, load it briefly, read every knob back, run the audits, stop it, put all back."""
    found: list[CheckStep] = []

    def tell(step: CheckStep) -> None:
        found.append(step)
        if not json:
            mark = "wrong" if step.wrong else "ok"
            say(f"{step.seconds:6.1f} s  {mark:5}  {': '.join(filter(None, (step.name, step.wrong or step.told)))}")

    good = check_stack_file(file, lab, tell, partial(say, to=errors) if not json else lambda _text: None)
    if json:
        steps = [{"step": step.name, "seconds": step.seconds, "told": step.told, "wrong": step.wrong} for step in found]
        print_json({"file": str(file), "good": good, "steps": steps})
    else:
        say("a study can run on it" if good else "a study cannot run on it yet")
    if not good:
        raise typer.Exit(1)
