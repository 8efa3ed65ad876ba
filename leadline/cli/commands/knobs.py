"""``knobs``."""

from __future__ import annotations

from dataclasses import replace
from textwrap import wrap
from typing import Annotated, Any

import typer
from rich.text import Text

from leadline.catalogue import text
from leadline.cli.options import JsonOption
from leadline.cli.output import console, print_json
from leadline.host.base import Host
from leadline.host.local import LocalHost
from leadline.model.errors import UsageError, nearest
from leadline.model.knob import Catalogue, Knob, Level, Owner
from leadline.stack import registry
from leadline.stack.registry import APPLICATIONS, DATABASES, SERVERS
from leadline.stack.web.knobs import KNOBS as WEB_KNOBS


def register(app: typer.Typer) -> None:
    """Add this module's command."""
    app.command(epilog="Example: leadline knobs server --server tomcat")(knobs)


def knobs(
    pattern: Annotated[str, typer.Argument(help="A prefix or part of names, or a pattern: vm, jvm.*")] = "",
    server: Annotated[str, typer.Option("--server", help="Only what this server and its JVM have.")] = "",
    database: Annotated[str, typer.Option("--database", help="Only what this database has.")] = "",
    json: JsonOption = False,
) -> None:
    """List knobs: unit, range, default, risk, apply cost; for the host's also today's value.

    With --server or --database: its own names and defaults, and the knobs of others that it lacks.
    """
    host = LocalHost()
    catalogue, absent = _of(server, database) if server or database else (_catalogue(host), {})
    machine = host.machine()
    found = [knob.on(machine) for knob in (catalogue.matching(pattern) if pattern else catalogue)]
    absent = {name: owners for name, owners in absent.items() if name.startswith(pattern) or pattern in name}
    if not found and not absent:
        near = nearest(pattern, catalogue.names())
        raise UsageError(f"no knob fits {pattern!r}" + (f"; did you mean {near}?" if near else ""))
    rows = [(knob, _today(host, knob) if knob.owner is Owner.HOST else ("", "")) for knob in found]
    if json:
        document: dict[str, Any] = {"knobs": [_knob(knob, today, writable) for knob, (today, writable) in rows]}
        print_json({**document, "absent": absent} if server or database else document)
        return
    lines = [line for knob, (today, reason) in rows for line in _lines(knob, today, reason)]
    if lines:  # one call: rich takes its time for each
        console.print(Text("\n").join(lines), soft_wrap=True)
    for name, owners in absent.items():
        lacking = " and ".join(filter(None, (server, database)))
        console.print(f"{name}: not in {lacking}, only in {', '.join(owners)}", markup=False, soft_wrap=True)


def _lines(knob: Knob, today: Level, reason: str) -> list[Text]:
    """What is printed of one knob: its line, and below it, wrapped, what it is and why it cannot be set."""
    own = "; ".join(f"{program}: {name}" for program, name in knob.names.items())
    dangers = (f"{where}: {why}" for where, why in text.dangers_of(knob))
    told = [line for line in (knob.summary, own, *dangers, reason) if line]
    wrapped = (part for line in told for part in wrap(line, max(40, console.width - 4), break_on_hyphens=False))
    return [_line(knob, today), *(Text(f"    {part}", style="dim") for part in wrapped)]


def _of(server: str, database: str) -> tuple[Catalogue, dict[str, list[str]]]:
    """The knobs of one server, of one database or of both; and those that only others have, with their names.

    Raises UsageError for an unknown name.
    """
    own: list[Knob] = []
    others: dict[str, list[str]] = {}
    if server:
        own += registry.server(server).knobs()
        for name in SERVERS:
            for knob in registry.server(name).knobs():
                others.setdefault(knob.name, []).append(name)
    if database:
        own += registry.database(database).knobs()
        for name in DATABASES:
            for knob in registry.database(name).knobs():
                others.setdefault(knob.name, []).append(name)
    names = {knob.name for knob in own}
    return Catalogue(own), {name: owners for name, owners in sorted(others.items()) if name not in names}


def _line(knob: Knob, today: Level) -> Text:
    """``vm.dirty_ratio  today 20 %, default 20, 0..100; live, safe; dangerous below 1 or above 90``."""
    unit = text.unit_behind(knob)
    facts = [f"today {knob.format(today)}{unit}"] if today != "" else []
    if default := text.default_of(knob):
        facts.append(f"default {default}{'' if facts or knob.default is None else unit}")
    if span := text.range_of(knob):
        facts.append(span)
    return Text.assemble(
        (knob.name, "bold"), "  ", f"{', '.join(facts)}; {knob.apply_cost.value}, {text.risk_of(knob)}"
    )


def _widened(known: Knob, other: Knob) -> Knob:
    """``known`` with the range of both; a program's own range is in its own list. A level is refused by both, or none:
    what one program refuses another may have.
    """
    if known is other:
        return known
    lows, highs = (known.minimum, other.minimum), (known.maximum, other.maximum)
    minimum = None if None in lows else min(lows)  # type: ignore[type-var]
    maximum = None if None in highs else max(highs)  # type: ignore[type-var]
    relative = {name: bound for name, bound in known.relative.items() if name in other.relative}
    refused = {level: why for level, why in known.refused.items() if level in other.refused}
    return replace(known, minimum=minimum, maximum=maximum, relative=relative, refused=refused)


def _catalogue(host: Host) -> Catalogue:
    """The knobs of the host and of every program; a generic name once, with each program's own name.

    Where programs differ in the default, it stands beside their own names.
    """
    merged: dict[str, Knob] = {knob.name: knob for knob in host.knobs()}
    for app in APPLICATIONS:
        merged |= {knob.name: knob for knob in registry.application(app).knobs()}
    programs = [
        *(registry.server(name).knobs() for name in SERVERS),
        *(registry.database(name).knobs() for name in DATABASES),
        WEB_KNOBS,
    ]
    for knob in (knob for program in programs for knob in program):
        known = _widened(merged.setdefault(knob.name, knob), knob)
        if (known.default, known.default_note) == (knob.default, knob.default_note):
            merged[knob.name] = replace(known, names={**known.names, **knob.names})
        else:
            names = {**_named(known), **_named(knob)}
            merged[knob.name] = replace(known, default=None, default_note="", names=names)
    return Catalogue(merged.values())


def _named(knob: Knob) -> dict[str, str]:
    if knob.default is None and not knob.default_note:
        return dict(knob.names)
    return {program: f"{name} (default {text.default_of(knob)})" for program, name in knob.names.items()}


def _today(host: Host, knob: Knob) -> tuple[Level, str]:
    """Today's level, and why it cannot be set (empty if it can)."""
    try:
        return host.read_back(knob.name), host.writable(knob.name)
    except (LookupError, OSError) as error:
        return "", str(error)


def _knob(knob: Knob, today: Level, not_writable: str) -> dict[str, Any]:
    return {
        "name": knob.name,
        "kind": knob.kind.value,
        "unit": knob.unit,
        "default": knob.default,
        "default_note": knob.default_note,
        "today": today if today != "" else None,
        "not_writable": not_writable,
        "minimum": knob.minimum,
        "maximum": knob.maximum,
        "choices": [choice for choice in knob.choices if choice not in knob.refused],
        "apply_cost": knob.apply_cost.value,
        "risk": knob.risk.value,
        "dangerous": [{"levels": levels, "why": why} for levels, why in text.dangers_of(knob)],
        "names": dict(knob.names),
        "summary": knob.summary,
        "source": knob.source,
    }
