"""``studies``."""

from __future__ import annotations

from typing import Annotated

import typer

from leadline.checks.files.study import builtin_studies, builtin_tunings, json_schema, parse_study, parse_tuning
from leadline.cli.options import JsonOption
from leadline.cli.output import console, print_json
from leadline.model.study import Study
from leadline.model.tuning import Tuning


def register(app: typer.Typer) -> None:
    """Add this module's command."""
    app.command(epilog="Example: leadline studies")(studies)


def studies(
    json: JsonOption = False,
    schema: Annotated[bool, typer.Option("--schema", help="The JSON Schema of a study file.")] = False,
    tuning_schema: Annotated[bool, typer.Option("--tuning-schema", help="The JSON Schema of a tuning file.")] = False,
) -> None:
    """List the built-in studies and tunings."""
    if schema or tuning_schema:
        print_json(json_schema(Tuning if tuning_schema else Study))
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
