"""``up``, ``down`` and ``load``: a stack and the driver without a study."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, get_args

import typer

from leadline.cli.options import JsonOption, LabOption
from leadline.cli.output import errors, print_json, say
from leadline.host.local import LocalHost
from leadline.lab.studyfile import find_study
from leadline.model.errors import UsageError, nearest, quoted, shortened
from leadline.model.knob import Catalogue, Level
from leadline.model.study import StackChoice
from leadline.stack.assembly import Stack, StackOptions
from leadline.stack.registry import SERVERS, knob_of_others, stack_catalogue
from leadline.stack.standing import require_none_standing, save_standing, stop_standing
from leadline.stack.web.knobs import chosen


def register(app: typer.Typer) -> None:
    """Add this module's commands."""
    app.command(epilog="Example: leadline up tomcat --set server.threads.max=20")(up)
    app.command(epilog="Example: leadline down")(down)


def up(
    stack: Annotated[
        str,
        typer.Argument(help=f"SERVER or SERVER/MODE: {', '.join(SERVERS)}, liberty/orm; or a study's name."),
    ],
    lab: LabOption = Path("lab"),
    set_: Annotated[list[str] | None, typer.Option("--set", help="A knob's level: --set jvm.heap=512m")] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="HTTP port; 0 takes a free one.")] = 0,
    json: JsonOption = False,
) -> None:
    """Start a stack and leave it running; print its address."""
    choice = choice_of(stack)
    host = LocalHost()
    settings = settings_of(choice, set_ or [])
    lab.mkdir(parents=True, exist_ok=True)
    with host.lease():
        require_none_standing(lab)
        name = f"{choice.server}-{choice.mode}"
        web = chosen(settings)
        options = StackOptions(http_port=port, web_servers=[web] if web else [])
        standing = Stack(choice, host, lab / "services" / f"up-{name}", options)
        told: Callable[[str], None] = partial(say, to=errors) if not json else lambda _text: None
        standing.provision(told)
        standing.prepare_data(told)
        directory = lab / "up" / f"{name}-{int(time.time())}"
        standing.reset_data(directory)
        seconds = standing.up(settings, directory)
        saved = save_standing(standing, lab, directory)
        certificate = standing.certificate()
        trusted = directory / "logs" / "tls.crt"
        if certificate is not None:
            trusted.write_text(certificate)
    if json:
        document = {"stack": saved.stack, "url": saved.url, "seconds": seconds, "logs": str(directory)}
        print_json({**document, "certificate": str(trusted) if certificate else None})
        return
    say(f"{saved.stack} is up after {seconds:.1f} s")
    words = "; ".join(filter(None, (standing.application.login(), "stop it with leadline down")))
    say(f"{saved.url}/   ({words})")
    if certificate is not None:
        say(f"certificate to trust (--ca): {trusted}")


def choice_of(stack: str) -> StackChoice:
    """The stack of ``SERVER/MODE`` or of a study. Raises UsageError."""
    try:
        return find_study(stack).study.stack
    except UsageError:
        server, _, mode = stack.partition("/")
        modes = get_args(StackChoice.model_fields["mode"].annotation)
        if mode and mode not in modes:
            near = nearest(mode, list(modes))
            hint = f"; did you mean {near}?" if near else ""
            raise UsageError(f"{quoted(stack)}: no mode {quoted(mode)}, there is {', '.join(modes)}{hint}") from None
        return StackChoice.model_validate({"server": server, "mode": mode or "direct"})


def settings_of(choice: StackChoice, assignments: list[str]) -> dict[str, Level]:
    """Levels of ``--set knob=level``. Raises UsageError."""
    machine = LocalHost().machine()
    catalogue = Catalogue(knob.on(machine) for knob in stack_catalogue(choice))
    settings = {}
    for assignment in assignments:
        name, _, value = assignment.partition("=")
        if name not in catalogue and (why := knob_of_others(name, choice.server, choice.database)):
            raise UsageError(f"--set {shortened(assignment, 100)}: {why}")
        try:
            settings[name] = catalogue.get(name).accept(value, disposable=False)
        except ValueError as error:
            raise UsageError(f"--set {shortened(assignment, 100)}: {error}") from None
    return settings


def down(lab: LabOption = Path("lab"), json: JsonOption = False) -> None:
    """Stop the stack that ``up`` started and put the host back."""
    host = LocalHost()
    with host.lease():
        lines = [*stop_standing(lab), *host.restore()]
    if json:
        print_json({"stopped": lines})
        return
    say(*(lines or ["nothing is up in this lab"]))
