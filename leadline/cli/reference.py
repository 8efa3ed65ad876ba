"""Writes ``docs/reference/command-line.md`` from the commands: ``python -m leadline.cli.reference``."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from leadline.cli.main import app

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "command-line.md"
_HEAD = """# Command line

Generated from the commands by `python -m leadline.cli.reference`; edit their help, not this page.
Every command also has `--help`. [Exit codes](exit-codes.md) are the same for all.
"""


def page() -> str:
    """The page as Markdown: a section for every command, in the order of ``leadline --help``."""
    root: Any = typer.main.get_command(app)
    context = root.make_context("leadline", [], resilient_parsing=True)
    parts = [_HEAD]
    for name in root.list_commands(context):
        parts += _sections(f"leadline {name}", root.get_command(context, name), context)
    return "\n".join(parts)


def _sections(title: str, command: Any, parent: Any) -> Iterator[str]:
    context = command.make_context(title.rsplit(" ", 1)[-1], [], parent=parent, resilient_parsing=True)
    usage = " ".join(command.collect_usage_pieces(context))
    yield f"## {title}\n" if title.count(" ") == 1 else f"### {title}\n"
    yield f"{_help(command.help or '')}\n"
    commands = command.list_commands(context) if hasattr(command, "list_commands") else []
    if not commands:
        yield f"```text\n{title} {usage}\n```\n"
    rows = [row for parameter in command.get_params(context) for row in _row(parameter, context)]
    if rows:
        yield "\n".join(("| option or argument | meaning |", "| --- | --- |", *rows, ""))
    for name in commands:
        yield from _sections(f"{title} {name}", command.get_command(context, name), context)


def _row(parameter: Any, context: Any) -> Iterator[str]:
    if getattr(parameter, "hidden", False) or parameter.name == "help":
        return
    record = parameter.get_help_record(context)
    names, meaning = record if record else (parameter.make_metavar(context), "")
    yield f"| `{_cell(names)}` | {_cell(meaning).replace('<', '&lt;').replace('*', chr(92) + '*')} |"


def _help(text: str) -> str:
    return re.sub(r"``", "`", inspect.cleandoc(text).split("\f")[0]).replace("<", "&lt;")


def _cell(text: str) -> str:
    return re.sub(r"\s+", " ", text).replace("``", "`").replace("|", "\\|").strip()


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
