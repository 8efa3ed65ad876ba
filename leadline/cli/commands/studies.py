"""``studies``."""

from __future__ import annotations

from typing import Annotated

import typer

from leadline.checks.files.study import builtin_studies, parse_study
from leadline.checks.files.study import json_schema as schema_of_studies
from leadline.checks.files.tuning import builtin_tunings, parse_tuning
from leadline.checks.files.tuning import json_schema as schema_of_tunings
from leadline.cli.options import JsonOption
from leadline.cli.output import console, print_json


def register(app: typer.Typer) -> None:
    """Add this module's command."""
    app.command(epilog="Example: leadline studies")(studies)


def studies(
    json: JsonOption = False,
    schema: Annotated[bool, typer.Option("--schema", help="The JSON Schema of a study file.")] = False,
    tuning_schema: Annotated[bool, typer.Option("--tuning-schema", help="The JSON Schema of a tuning file.")] = False,
) -> None:
    """List the built-in studies and tunings."""
    if tuning_schema:
        print_json(schema_of_tunings())
        return
    if schema:
        print_json(schema_of_studies())
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
