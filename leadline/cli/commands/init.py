"""``init`` and ``try``: a first study, of the reference application or of one's own."""

from __future__ import annotations

import re
import sys
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from leadline.api.studies import Study
from leadline.checks.files.study import builtin_studies, builtin_tunings, json_schema, parse_study, parse_tuning
from leadline.cli.commands.dry_run import print_plan
from leadline.cli.commands.execute import execute
from leadline.cli.options import JsonOption, LabOption, file_option
from leadline.cli.output import console, errors, print_answer, print_json, say
from leadline.experiments.first import FIRST_SERVERS, QUESTIONS, first_study
from leadline.experiments.trying import Attempt, NotKnownError, prepare
from leadline.model.errors import UsageError
from leadline.model.judgement import NO_ANSWER_CODE
from leadline.model.study import Study as StudyKeys
from leadline.model.tuning import Tuning
from leadline.stack.registry import DATABASES


def register(app: typer.Typer) -> None:
    """Add this module's commands."""
    app.command(epilog="Example: leadline init --server tomcat --question pool --out mine.yaml")(init)
    app.command("try", epilog="Example: leadline try target/shop.jar --dry-run")(try_)
    app.command(epilog="Example: leadline studies")(studies)


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


def try_(
    target: Annotated[Path, typer.Argument(help="A jar that java -jar starts, or a stack file.")],
    scenario: Annotated[
        Path | None,
        typer.Option(metavar="<path>", help="The scenario; made from its OpenAPI description if absent."),
    ] = None,
    budget: Annotated[str, typer.Option(help="Wall time of the study: 10m")] = "20m",
    lab: LabOption = Path("lab"),
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the plan and its cost; start nothing.")] = False,
    json: JsonOption = False,
) -> None:
    """Write and run a first study: the dozen settings that matter to this kind of application, within a budget."""
    output = errors if json else console

    def tell(attempt: Attempt) -> None:
        say(*attempt.notes, to=output)
        if dry_run:
            print_plan(attempt.file, attempt.planned, json, lab)

    try:
        attempt = prepare(target, scenario, budget, lab, partial(say, to=output), tell, dry_run=dry_run)
    except NotKnownError as error:
        if json:
            print_json({"answer": str(error), "answered": False})
        else:
            print_answer(str(error))
        raise typer.Exit(NO_ANSWER_CODE) from None
    if not dry_run:
        execute(Study.read(attempt.study), lab, json=json)


def studies(
    json: JsonOption = False,
    schema: Annotated[bool, typer.Option("--schema", help="The JSON Schema of a study file.")] = False,
    tuning_schema: Annotated[bool, typer.Option("--tuning-schema", help="The JSON Schema of a tuning file.")] = False,
) -> None:
    """List the built-in studies and tunings."""
    if schema or tuning_schema:
        print_json(json_schema(Tuning if tuning_schema else StudyKeys))
        return
    documents = {name: parse_study(text, name).study for name, text in builtin_studies().items()}
    tunings = {name: parse_tuning(text, name).tuning for name, text in builtin_tunings().items()}
    if json:
        print_json({name: study.model_dump(mode="json") for name, study in {**documents, **tunings}.items()})
        return
    for name, study in documents.items():
        console.print(f"{name}: {study.question}")
    for name, tuning in tunings.items():
        console.print(f"{name} (tuning): {tuning.question}")
