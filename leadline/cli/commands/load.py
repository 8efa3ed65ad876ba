"""``load``."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from leadline.load.command import run_scenario
from leadline.model.errors import LeadlineError


def register(app: typer.Typer) -> None:
    """Add this module's command."""
    app.command(
        epilog="Example: leadline load brokerage-classic --url http://127.0.0.1:8080/brokerage --users 20",
        context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    )(load)


def load(
    context: typer.Context,
    scenario: Annotated[str, typer.Argument(help="A built-in scenario or a scenario file.")],
) -> None:
    """Run leadline-load alone; further options go to it as they are (docs/load.md)."""
    code = run_scenario(scenario, context.args)
    if code == 2:
        sys.exit(2)
    if code:
        raise LeadlineError(f"leadline-load ended with code {code}")
