"""Writes the page of the command line and the man page from the commands: ``python tools/command_pages.py``."""

from __future__ import annotations

import inspect
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from leadline.cli.lazy import GROUPS
from leadline.cli.main import app

_FOLDER = Path(__file__).resolve().parents[1] / "docs" / "reference"
PAGE, MAN_PAGE = _FOLDER / "command-line.md", _FOLDER / "leadline.1"
_HEAD = """# Command line

Generated from the commands by `python tools/command_pages.py`; edit their help, not this page.
Every command also has `--help`. [Exit codes](exit-codes.md) are the same for all.
"""
_MAN_HEAD = r""".\" Generated from the commands by python tools/command_pages.py; edit their help, not this page.
.TH LEADLINE 1 "" leadline "User Commands"
.SH NAME
leadline \- designed experiments on every layer beneath a Java application
.SH SYNOPSIS
.B leadline
.I COMMAND
.RI [ OPTIONS ]
.SH DESCRIPTION
leadline starts a real stack, varies factors in a designed experiment, measures, audits, puts everything back and
reports effects with intervals. Every command has \-\-help. \-\-version prints the version."""
_MAN_TAIL = r""".SH EXIT STATUS
.TP
.B 0
done
.TP
.B 1
the study failed, or something else that is not the user's doing
.TP
.B 2
usage: an option, an argument or a file is wrong
.TP
.B 3
the host could not be put back: leadline restore
.TP
.B 128+n
ended by signal n
.SH ENVIRONMENT
.TP
.B LEADLINE_LAB
the lab, where studies and trials are kept (./lab)
.TP
.B LEADLINE_CACHE
where distributions and database snapshots are kept
.TP
.B LEADLINE_STATE
where the undo journal is kept
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


def man_page() -> str:
    """The page as roff: a section for every group of ``leadline --help``."""
    commands = list(documented())
    parts = [_MAN_HEAD]
    for title, names in GROUPS.items():
        parts.append(f".SH {title.upper()} COMMANDS")
        for name in names:
            parts += [line for command in commands if command.title.split()[1] == name for line in _command(command)]
    return "\n".join([*parts, _MAN_TAIL])


def _command(found: Documented) -> Iterator[str]:
    yield f".SS {_roff(found.title)}"
    yield _text(found.help)
    if found.usage:
        yield f".PP\n.B {_roff(found.title)}\n{_text(found.usage)}"
    for names, meaning in found.rows:
        yield f".TP\n.B {_roff(names)}"
        yield _text(meaning)


def _text(text: str) -> str:
    """Paragraphs; no line of theirs is taken for a request."""
    lines = [_roff(line).strip() for line in text.replace("``", "").splitlines()]
    return "\n".join(line or ".PP" for line in lines)


def _roff(text: str) -> str:
    plain = text.replace("\\", r"\e").replace("-", r"\-")
    return re.sub(r"^([.'])", r"\\&\1", plain)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    MAN_PAGE.write_text(man_page(), encoding="utf-8")
