"""``show``, ``report``, ``export``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from leadline.cli.options import JsonOption, LabOption, StudyArgument
from leadline.cli.output import console, print_json
from leadline.lab.results import analysis_of
from leadline.lab.store import Store
from leadline.model.errors import UsageError
from leadline.model.knob import Knob
from leadline.model.record import StudyRecord
from leadline.model.result import StudyAnalysis
from leadline.report.document import document
from leadline.report.text import answer_line, table

REPORT = "report.html"


def register(app: typer.Typer) -> None:
    """Add this module's commands."""
    app.command(epilog="Example: leadline show quickstart")(show)
    app.command(epilog="Example: leadline report quickstart --out report.html")(report)
    app.command(epilog="Example: leadline export quickstart --out figures --format csv,png")(export)


def knobs_of(record: StudyRecord) -> dict[str, Knob]:
    """The knobs of a study's stack and of this host, by name; none where the stack is not known here."""
    from leadline.host.local import LocalHost
    from leadline.stack.registry import stack_catalogue

    try:
        return {knob.name: knob for knob in (*LocalHost().knobs(), *stack_catalogue(record.study.stack))}
    except UsageError:
        return {}


def _open(study: str, lab: Path) -> tuple[StudyRecord, StudyAnalysis]:
    store = Store(lab, create=False)
    record = store.load(store.find(study))
    return record, analysis_of(record)


def show(study: StudyArgument, lab: LabOption = Path("lab"), json: JsonOption = False) -> None:
    """Print what a study or a tuning found."""
    from leadline.cli.commands.tuning import show_tuning, stored

    tuning = stored(study, lab)
    if tuning is not None:
        show_tuning(tuning, json)
        return
    record, analysis = _open(study, lab)
    if json:
        print_json(document(record, analysis))
    else:
        console.print(table(record, analysis), soft_wrap=not console.is_terminal)
        console.print(answer_line(analysis), soft_wrap=True)


def report(
    study: StudyArgument,
    lab: LabOption = Path("lab"),
    out: Annotated[Path, typer.Option(help="The page to write.")] = Path(REPORT),
    json: JsonOption = False,
) -> None:
    """Write the report of a study or a tuning: one HTML file that needs no network."""
    from leadline.cli.commands.tuning import report_tuning, stored
    from leadline.report.page import build

    tuning = stored(study, lab)
    if tuning is not None:
        report_tuning(tuning, out, json)
        return
    record, analysis = _open(study, lab)
    page = build(record, analysis, out, knobs_of(record))
    if json:
        print_json({"report": str(page), "bytes": page.stat().st_size})
    else:
        console.print(str(page), markup=False, highlight=False, soft_wrap=True)


def export(
    study: StudyArgument,
    lab: LabOption = Path("lab"),
    out: Annotated[Path, typer.Option(help="The directory to write to.")] = Path("export"),
    format_: Annotated[str, typer.Option("--format", help="Any of csv,png,svg,json.")] = "csv,png",
    json: JsonOption = False,
) -> None:
    """Write the trials and effects of a study, or the steps of a tuning, as CSV and its figures as PNG or SVG."""
    from leadline.cli.commands.tuning import stored
    from leadline.report.export import export as export_files
    from leadline.report.tuning.export import export as export_tuning

    formats = {word.strip() for word in format_.split(",")}
    tuning = stored(study, lab)
    if tuning is not None:
        written = export_tuning(tuning, out, formats)
    else:
        record, analysis = _open(study, lab)
        written = export_files(record, analysis, out, formats)
    if json:
        print_json({"files": [str(path) for path in written]})
        return
    for path in written:
        console.print(str(path), markup=False, highlight=False, soft_wrap=True)
