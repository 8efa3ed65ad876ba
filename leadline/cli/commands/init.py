"""``init``."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Annotated

import typer

from leadline.cli.options import file_option
from leadline.experiments.first import FIRST_SERVERS, QUESTIONS, first_study
from leadline.model.errors import UsageError
from leadline.stack.registry import DATABASES


def register(app: typer.Typer) -> None:
    """Add this module's command."""
    app.command(epilog="Example: leadline init --server tomcat --question pool --out mine.yaml")(init)


def init(
    server: Annotated[
        str, typer.Option("--server", help=f"What runs the application: {', '.join(FIRST_SERVERS)}.")
    ] = "",
    database: Annotated[str, typer.Option("--database", help=f"Its database: {', '.join(DATABASES)}.")] = "postgres",
    question: Annotated[
        str, typer.Option("--question", metavar="KIND", help=f"What you want to know: {', '.join(QUESTIONS)}.")
    ] = "",
    users: Annotated[int, typer.Option("--users", min=1, max=100_000, help="Users at once.")] = 20,
    out: Annotated[Path, file_option("The study file; an existing one is never overwritten.", "--out", "-o")] = Path(
        "study.yaml"
    ),
) -> None:
    """Write a first study file that runs; ask on a terminal for what is not given."""
    if out.exists():
        raise UsageError(f"--out {out}: it is there already; name another file")
    if not re.fullmatch(r"[a-z0-9][a-z0-9-]{0,60}", out.stem) or out.suffix not in (".yaml", ".yml"):
        raise UsageError(f"--out {out.name}: a study's file is named by small letters, digits and -, as in mine.yaml")
    server = server or _asked("--server", "What runs the application", list(FIRST_SERVERS))
    question = question or _asked("--question", "What do you want to know", list(QUESTIONS))
    out.write_text(first_study(out.stem, question, server, database, users), encoding="utf-8")
    typer.echo(f"{out}: {QUESTIONS[question].asks}")
    typer.echo(f"Next: leadline run {out} --dry-run")


def _asked(option: str, text: str, choices: list[str]) -> str:
    """Raises UsageError where nobody can be asked."""
    if not sys.stdin.isatty():
        raise UsageError(f"{option} is missing: one of {', '.join(choices)}")
    return str(typer.prompt(f"{text} ({', '.join(choices)})", default=choices[0]))
