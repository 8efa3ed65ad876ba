"""``knobs``."""

from __future__ import annotations

from collections.abc import Mapping
from textwrap import wrap
from typing import Annotated, Any

import typer
from rich.text import Text

from leadline import catalogue
from leadline.cli.options import HostOption, JsonOption
from leadline.cli.output import console, errors, print_json, say
from leadline.model.errors import UsageError, nearest
from leadline.model.knob import Catalogue, Knob, Level, Owner
from leadline.places.hosts import today
from leadline.places.knobs import (
    asks_flags,
    every_knob,
    flags,
    flags_called,
    knobs_of,
    knobs_of_stack,
    machine,
    present,
)
from leadline.stack.servers.jvm import PREFIX as FLAGS


def register(app: typer.Typer) -> None:
    """Add this module's command."""
    app.command(epilog="Example: leadline knobs server --server tomcat")(knobs)


def knobs(
    pattern: Annotated[str, typer.Argument(help="A prefix or part of names, or a pattern: vm, jvm.*")] = "",
    server: Annotated[str, typer.Option("--server", help="Only what this server and its JVM have.")] = "",
    database: Annotated[str, typer.Option("--database", help="Only what this database has.")] = "",
    stack: Annotated[str, typer.Option("--stack", help="Only what this stack file, or a study's stack, has.")] = "",
    host: HostOption = "here",
    json: JsonOption = False,
) -> None:
    """List knobs: unit, range, default, risk, apply cost; for the host's also today's value.

    With --server or --database: its own names and defaults, and the knobs of others that it lacks. Every product flag
    of a JVM is a knob as well: leadline knobs jvm.flag lists them.
    """
    absent: dict[str, list[str]] = {}
    declaring = None
    if stack:
        catalogue, declaring = knobs_of_stack(stack)
    else:
        catalogue, absent = knobs_of(server, database) if server or database else (every_knob(), {})
        if asks_flags(pattern):
            catalogue = Catalogue([*catalogue, *flags()])
    if not asks_flags(pattern):
        catalogue = Catalogue(knob for knob in catalogue if not knob.name.startswith(FLAGS))
    limits, there = (machine(), None) if host == "here" else today(host, lambda line: say(line, to=errors))
    fitting = catalogue.matching(pattern) if pattern else list(catalogue)
    shown_knobs = [knob.on(limits) for knob in fitting or flags_called(pattern)]
    absent = {name: owners for name, owners in absent.items() if name.startswith(pattern) or pattern in name}
    if not shown_knobs and not absent:
        near = nearest(pattern, catalogue.names())
        raise UsageError(f"no knob fits {pattern!r}" + (f"; did you mean {near}?" if near else ""))
    rows = [(knob, present(knob, declaring) if there is None else _there(knob, there)) for knob in shown_knobs]
    if json:
        document: dict[str, Any] = {"knobs": [_knob(knob, today, writable) for knob, (today, writable) in rows]}
        print_json({**document, "absent": absent} if server or database else document)
        return
    lines = [line for knob, (today, reason) in rows for line in _lines(knob, today, reason)]
    if lines:  # one call: rich takes its time for each
        console.print(Text("\n").join(lines), soft_wrap=True)
    for name, owners in absent.items():
        lacking = " and ".join(filter(None, (server, database)))
        console.print(f"{name}: not in {lacking}, only in {', '.join(owners)}", soft_wrap=True)


def _there(knob: Knob, levels: Mapping[str, tuple[Level, str]]) -> tuple[Level, str]:
    """As ``present`` of another host."""
    return levels.get(knob.name, ("", "its kernel has no such knob")) if knob.owner is Owner.HOST else ("", "")


def _lines(knob: Knob, today: Level, reason: str) -> list[Text]:
    """What is printed of one knob: its line, and below it, wrapped, what it is and why it cannot be set."""
    names = "; ".join(f"{program}: {name}" for program, name in knob.names.items())
    dangers = (f"{where}: {why}" for where, why in catalogue.dangers_of(knob))
    paragraphs = [line for line in (knob.summary, names, *dangers, reason) if line]
    wrapped = (part for line in paragraphs for part in wrap(line, max(40, console.width - 4), break_on_hyphens=False))
    return [_line(knob, today), *(Text(f"    {part}", style="dim") for part in wrapped)]


def _line(knob: Knob, today: Level) -> Text:
    """``vm.dirty_ratio  today 20 %, default 20, 0..100; live, safe; dangerous below 1 or above 90``."""
    unit = catalogue.unit_behind(knob)
    facts = [f"today {knob.format(today)}{unit}"] if today != "" else []
    if default := catalogue.default_of(knob):
        facts.append(f"default {default}{'' if facts or knob.default is None else unit}")
    if span := catalogue.range_of(knob):
        facts.append(span)
    return Text.assemble(
        (knob.name, "bold"), "  ", f"{', '.join(facts)}; {knob.apply_cost.value}, {catalogue.risk_of(knob)}"
    )


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
        "dangerous": [{"levels": levels, "why": why} for levels, why in catalogue.dangers_of(knob)],
        "names": dict(knob.names),
        "summary": knob.summary,
        "source": knob.source,
    }
