"""``mcp``."""

from __future__ import annotations

import secrets
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from leadline.cli.live import watcher
from leadline.cli.options import DisposableOption, LabOption, SimulateOption, StudyArgument
from leadline.cli.output import errors, say
from leadline.model.errors import UsageError

if TYPE_CHECKING:
    from leadline.api.running import Session


def register(app: typer.Typer) -> None:
    """Add this module's command."""
    app.command(epilog="Example: leadline mcp my-study.yaml")(mcp)


def mcp(
    study: StudyArgument,
    session: Annotated[
        str, typer.Option(metavar="NAME", help="Of the session; one of this name in the lab is gone on with.")
    ] = "",
    blocks: Annotated[
        int,
        typer.Option(min=4, max=500, help="Of one comparison alone; proposals, judged more strictly, may take more."),
    ] = 20,
    port: Annotated[
        int | None, typer.Option(min=1, max=65535, help="Serve HTTP on this port of the loopback, with a token.")
    ] = None,
    simulate: SimulateOption = None,
    disposable: DisposableOption = False,
    lab: LabOption = Path("lab"),
) -> None:
    """Serve a session to a program that tunes (Model Context Protocol): propose, measure, keep what is better."""
    if find_spec("mcp") is None:
        raise UsageError("leadline mcp needs the package mcp: pip install 'leadline[mcp]'")
    from leadline.web.tools import LOOPBACK, listening, serve

    watching = watcher(errors)

    def opened() -> Session:
        from leadline.api.running import open_session
        from leadline.api.studies import Study

        options: dict[str, Any] = {"name": session, "blocks": blocks, "truth": simulate, "disposable": disposable}
        return open_session(Study.read(study), lab, watcher=watching, **options)

    token = "" if port is None else secrets.token_urlsafe(32)
    listener = None if port is None else listening(port)
    if listener is not None:
        say(f"http://{LOOPBACK}:{port}/mcp", f"Authorization: Bearer {token}", to=errors)
    with watching:
        serve(opened, listener, token)
