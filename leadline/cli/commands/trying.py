"""``try``: a ready-made first study of an application of one's own."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from leadline.api.studies import Study
from leadline.cli.commands.dry_run import print_plan
from leadline.cli.commands.execute import execute
from leadline.cli.options import JsonOption, LabOption
from leadline.cli.output import console, errors, print_answer, print_json, say
from leadline.experiments.trying import Attempt, NotKnownError, prepare
from leadline.model.judgement import NO_ANSWER_CODE


def register(app: typer.Typer) -> None:
    """Add this module's command."""
    app.command("try", epilog="Example: leadline try target/shop.jar --dry-run")(try_)


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
