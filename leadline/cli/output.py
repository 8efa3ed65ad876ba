"""Printing for people and for machines."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import typer
from rich.console import Console, RenderableType
from rich.text import Text

from leadline.trial.interruption import Interruption

# What users name (files, levels, hosts) is printed as it is: brackets are no markup, names between colons no emoji.
console = Console(markup=False, emoji=False, highlight=False)
errors = Console(stderr=True, markup=False, emoji=False, highlight=False)


def say(*lines: str, to: Console = console) -> None:
    """Lines of plain text, never wrapped where they may be read by a program."""
    for line in lines:
        to.print(line, soft_wrap=True)


def say_ended(restored: Iterable[str], stopped: str, to: Console = console) -> None:
    """What a run has put back, and why it ended before its end."""
    say(*(f"put back: {line}" for line in restored), *([f"stopped: {stopped}"] if stopped else []), to=to)


def print_table(table: RenderableType | Sequence[str]) -> None:
    """A table, or its lines."""
    if isinstance(table, (list, tuple)):
        say(*table)
    else:
        console.print(table, soft_wrap=not console.is_terminal)


def print_answer(answer: str) -> None:
    """The conclusion."""
    from leadline.report.text import one_line

    console.print(Text(one_line(answer), style="bold"), soft_wrap=True)


def print_text(text: str) -> None:
    """A document as it is, nothing else on standard output."""
    sys.stdout.write(text)


def print_json(document: Any) -> None:
    """One JSON document on standard output, nothing else."""
    json.dump(document, sys.stdout, indent=2, default=str, allow_nan=False)
    sys.stdout.write("\n")


def end_with(code: int) -> None:
    """End a command that has run something: with the code of the signal that cut it short, else with this one."""
    if code and Interruption.cut_short:
        code = 128 + Interruption.cut_short
    if code:
        raise typer.Exit(code)
