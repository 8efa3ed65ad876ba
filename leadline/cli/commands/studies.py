"""``studies``."""

from __future__ import annotations

from typing import Annotated

import typer

from leadline.cli.options import JsonOption
from leadline.cli.output import console, print_json
from leadline.lab.studyfile import builtin_studies, json_schema, parse_study


def register(app: typer.Typer) -> None:
    """Add this module's command."""
    app.command(epilog="Example: leadline studies")(studies)


def studies(
    json: JsonOption = False,
    schema: Annotated[bool, typer.Option("--schema", help="The JSON Schema of a study file.")] = False,
) -> None:
    """List the built-in studies."""
    if schema:
        print_json(json_schema())
        return
    found = {name: parse_study(text, name).study for name, text in builtin_studies().items()}
    if json:
        print_json({name: study.model_dump(mode="json") for name, study in found.items()})
        return
    for name, study in found.items():
        console.print(f"{name}: {study.question}", markup=False, highlight=False)
