"""``doctor``, ``knobs``, ``restore``."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

import typer
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from leadline.cli.options import JsonOption
from leadline.cli.output import console, print_json
from leadline.host.base import Host
from leadline.host.checks import Finding, findings
from leadline.host.local import LocalHost
from leadline.model.errors import UsageError, nearest
from leadline.model.knob import Catalogue, Kind, Knob, Level
from leadline.stack.registry import APPLICATIONS, DATABASES, SERVERS, application, service_catalogue


def register(app: typer.Typer) -> None:
    """Add this module's commands."""
    app.command(epilog="Example: leadline doctor")(doctor)
    app.command(epilog="Example: leadline knobs vm")(knobs)
    app.command(epilog="Example: leadline restore")(restore)


def doctor(json: JsonOption = False) -> None:
    """What this machine can do and how noisy it is, each finding with the command that mends it."""
    found = findings(LocalHost())
    if json:
        print_json({"findings": [_finding(finding) for finding in found]})
    else:
        table = Table("", "check", "finding", "to mend it", show_edge=False)
        marks = {"ok": "[green]ok[/]", "warn": "[yellow]warn[/]", "bad": "[red]bad[/]"}
        for finding in found:
            table.add_row(marks[finding.level], finding.name, finding.sentence, finding.mend)
        console.print(table)
    if any(finding.level == "bad" for finding in found):
        raise typer.Exit(1)


def _finding(finding: Finding) -> dict[str, str]:
    return {"name": finding.name, "level": finding.level, "sentence": finding.sentence, "mend": finding.mend}


def knobs(
    pattern: Annotated[str, typer.Argument(help="A prefix or part of names, or a pattern: vm, jvm.*")] = "",
    json: JsonOption = False,
) -> None:
    """List knobs: unit, range, default, risk, apply cost; for the host's also today's value."""
    host = LocalHost()
    catalogue = _catalogue(host)
    found = catalogue.matching(pattern) if pattern else list(catalogue)
    if not found:
        near = nearest(pattern, catalogue.names())
        raise UsageError(f"no knob fits {pattern!r}" + (f"; did you mean {near}?" if near else ""))
    host_names = {knob.name for knob in host.knobs()}
    rows = [(knob, _today(host, knob) if knob.name in host_names else ("", "")) for knob in found]
    if json:
        print_json({"knobs": [_knob(knob, today, writable) for knob, (today, writable) in rows]})
        return
    for knob, (today, reason) in rows:
        console.print(_line(knob, today), soft_wrap=True)
        own = "; ".join(f"{server}: {name}" for server, name in knob.names.items())
        for line in (knob.summary, own, reason):
            if line:
                console.print(Padding(Text(line, style="dim"), (0, 0, 0, 4)))


def _line(knob: Knob, today: Level) -> Text:
    """``vm.dirty_ratio  today 20 %, default 20, 0..100; live, safe``."""
    unit = f" {knob.unit}" if knob.unit and knob.kind not in (Kind.SIZE, Kind.DURATION) else ""
    facts = [f"today {knob.format(today)}{unit}"] if today != "" else []
    if knob.default is not None:
        facts.append(f"default {knob.format(knob.default)}{'' if facts else unit}")
    if span := _range(knob):
        facts.append(span)
    cost = f"; {knob.apply_cost.value}, {knob.risk.value}"
    return Text.assemble((knob.name, "bold"), "  ", ", ".join(facts), cost)


def _catalogue(host: Host) -> Catalogue:
    """The knobs of the host and of every program; a generic name once, with each program's own name.

    Where programs differ in the default, it stands beside their own names.
    """
    merged: dict[str, Knob] = {knob.name: knob for knob in host.knobs()}
    for app in APPLICATIONS:
        merged |= {knob.name: knob for knob in application(app).knobs()}
    for server in SERVERS:
        for database in DATABASES:
            for knob in service_catalogue(server, database):
                known = merged.setdefault(knob.name, knob)
                if known.default == knob.default:
                    merged[knob.name] = replace(known, names={**known.names, **knob.names})
                else:
                    merged[knob.name] = replace(known, default=None, names={**_named(known), **_named(knob)})
    return Catalogue(merged.values())


def _named(knob: Knob) -> dict[str, str]:
    if knob.default is None:
        return dict(knob.names)
    return {program: f"{name} (default {knob.format(knob.default)})" for program, name in knob.names.items()}


def _today(host: Host, knob: Knob) -> tuple[Level, str]:
    """Today's level, and why it cannot be set (empty if it can)."""
    try:
        return host.read_knob(knob.name), host.writable(knob.name)
    except (LookupError, OSError) as error:
        return "", str(error)


def _range(knob: Knob) -> str:
    if knob.choices:
        return ", ".join(knob.choices)
    low, high = (
        "" if bound is None else knob.format(bound if knob.kind in (Kind.NUMBER, Kind.DURATION) else int(bound))
        for bound in (knob.minimum, knob.maximum)
    )
    return f"{low}..{high}" if low or high else ""


def _knob(knob: Knob, today: Level, not_writable: str) -> dict[str, Any]:
    return {
        "name": knob.name,
        "kind": knob.kind.value,
        "unit": knob.unit,
        "default": knob.default,
        "today": today if today != "" else None,
        "not_writable": not_writable,
        "minimum": knob.minimum,
        "maximum": knob.maximum,
        "choices": list(knob.choices),
        "apply_cost": knob.apply_cost.value,
        "risk": knob.risk.value,
        "names": dict(knob.names),
        "summary": knob.summary,
        "source": knob.source,
    }


def restore(json: JsonOption = False) -> None:
    """Put this host back after any crash: undo every open entry of the journal, end what was started."""
    host = LocalHost()
    with host.lease():
        lines = list(host.restore())
    if json:
        print_json({"restored": lines})
        return
    for line in lines:
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    if not lines:
        console.print("nothing to put back")
