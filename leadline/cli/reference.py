"""Writes ``docs/reference/command-line.md`` from the commands: ``python -m leadline.cli.reference``."""

from __future__ import annotations

import inspect
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from leadline.cli.main import app

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "command-line.md"
_HEAD = """# Command line

Generated from the commands by `python -m leadline.cli.reference`; edit their help, not this page.
Every command also has `--help`. [Exit codes](exit-codes.md) are the same for all.
"""
_MANY = 4  # commands that share an option, from which on it is explained once


@dataclass(frozen=True)
class Documented:
    """A command or a group of commands. ``usage``: empty of a group; ``rows``: options and arguments with meanings."""

    title: str
    help: str
    usage: str
    rows: tuple[tuple[str, str], ...]


def documented() -> Iterator[Documented]:
    """Every command, in the order of ``leadline --help``."""
    root: Any = typer.main.get_command(app)
    context = root.make_context("leadline", [], resilient_parsing=True)
    for name in root.list_commands(context):
        yield from _below(f"leadline {name}", root.get_command(context, name), context)


def _below(title: str, command: Any, parent: Any) -> Iterator[Documented]:
    context = command.make_context(title.rsplit(" ", 1)[-1], [], parent=parent, resilient_parsing=True)
    names = command.list_commands(context) if hasattr(command, "list_commands") else []
    usage = "" if names else " ".join(command.collect_usage_pieces(context))
    rows = tuple(row for parameter in command.get_params(context) for row in _row(parameter, context))
    yield Documented(title, inspect.cleandoc(command.help or "").split("\f")[0], usage, rows)
    for name in names:
        yield from _below(f"{title} {name}", command.get_command(context, name), context)


def _row(parameter: Any, context: Any) -> Iterator[tuple[str, str]]:
    if getattr(parameter, "hidden", False) or parameter.name == "help":
        return
    record = parameter.get_help_record(context)
    names, meaning = record if record else (parameter.make_metavar(context), "")
    yield names, re.sub(r"\s+", " ", meaning)


def page() -> str:
    """The page as Markdown: a section for every command; options of many commands are explained once."""
    commands = list(documented())
    counts = Counter(row for command in commands for row in command.rows)
    shared = [row for row, count in counts.items() if count >= _MANY]
    head = [_HEAD, "Options of many commands:\n", *map(_option, shared), ""]
    return "\n".join([*head, *(part for command in commands for part in _section(command, shared))])


def _section(command: Documented, shared: Sequence[tuple[str, str]]) -> Iterator[str]:
    yield f"## {command.title}\n" if command.title.count(" ") == 1 else f"### {command.title}\n"
    yield f"{_help(command.help)}\n"
    if command.usage:
        yield f"```text\n{command.title} {command.usage}\n```\n"
    options = [_option(row) for row in command.rows if row not in shared]
    also = ", ".join(f"`{_cell(names)}`" for names, meaning in command.rows if (names, meaning) in shared)
    if lines := [*options, *([f"- Also {also}."] if also else [])]:
        yield "\n".join((*lines, ""))


def _option(row: tuple[str, str]) -> str:
    names, meaning = row
    return f"- `{_cell(names)}`: {_meaning(meaning)}" if meaning else f"- `{_cell(names)}`"


def _meaning(text: str) -> str:
    return _cell(text).replace("<", "&lt;").replace("*", chr(92) + "*")


def _help(text: str) -> str:
    return text.replace("``", "`").replace("<", "&lt;")


def _cell(text: str) -> str:
    return re.sub(r"\s+", " ", text).replace("``", "`").strip()


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
