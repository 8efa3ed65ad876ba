"""``doctor``, ``restore``."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from leadline.cli.options import HostOption, JsonOption
from leadline.cli.output import console, errors, print_json, say
from leadline.host.checks import HostFinding
from leadline.places.hosts import doctor as host_findings
from leadline.places.hosts import restore as restore_host


def register(app: typer.Typer) -> None:
    """Add this module's commands."""
    app.command(epilog="Example: leadline doctor")(doctor)
    app.command(epilog="Example: leadline restore")(restore)


def doctor(host: HostOption = "here", json: JsonOption = False) -> None:
    """What a machine can do and how noisy it is, each finding with the command that mends it."""
    findings = host_findings(host, _tell)
    if json:
        print_json({"findings": [_finding(finding) for finding in findings]})
    else:
        table = Table("", "check", "finding", "to mend it", show_edge=False)
        styles = {"ok": "green", "warn": "yellow", "bad": "red"}
        for finding in findings:
            table.add_row(
                Text(finding.level, style=styles[finding.level]), finding.name, finding.sentence, finding.mend
            )
        console.print(table)
    if any(finding.level == "bad" for finding in findings):
        raise typer.Exit(1)


def _tell(line: str) -> None:
    say(line, to=errors)


def _finding(finding: HostFinding) -> dict[str, str]:
    return {"name": finding.name, "level": finding.level, "sentence": finding.sentence, "mend": finding.mend}


def restore(
    host: Annotated[
        list[str] | None,
        typer.Option(
            "--host",
            metavar="HOST",
            help="Another host than this one: ssh:NAME; again for more of them, each is tried.",
        ),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Put a host back after any crash: undo every open entry of the journal, end what was started."""
    lines = restore_host(host or ["here"], _tell)
    if json:
        print_json({"restored": lines})
        return
    say(*lines)
    if not lines:
        console.print("nothing to put back")
