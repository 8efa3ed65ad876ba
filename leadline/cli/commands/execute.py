"""Running a planned study from the command line, to its printed end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from leadline.cli.commands.results import REPORT, knobs_of
from leadline.cli.live import watcher
from leadline.cli.output import console, errors, print_json
from leadline.host.local import LocalHost
from leadline.lab.planning import Planned
from leadline.lab.real import RealSystem
from leadline.lab.results import analysis_of
from leadline.lab.run import RunResult, StudyRun, study_failed
from leadline.lab.store import Store
from leadline.lab.studyfile import StudyFile
from leadline.model.record import StudyRecord
from leadline.model.result import StudyAnalysis
from leadline.report.document import document
from leadline.report.page import build
from leadline.report.text import answer_line, table
from leadline.stack.standing import require_none_standing


def execute(file: StudyFile, planned: Planned, host: LocalHost, lab: Path, *, new: bool, json: bool) -> None:
    """Run what is left, write the report, print the result. Ends with code 1 when the study failed."""
    require_none_standing(lab)
    store = Store(lab)
    with watcher(errors if json else console) as watching:
        system = RealSystem(file.study, host, store.directory)
        result = StudyRun(file, planned, store, host, system, watching, host.guard).execute(new)
    present(store, result, json=json)


def present(store: Store, result: RunResult, *, json: bool) -> None:
    """Write the report of a run that has ended and print its result. Ends with code 1 when the study failed."""
    record = store.load(result.study_id)
    analysis = analysis_of(record)
    place = store.directory / "reports" / f"{record.study.study}-{record.id}" / REPORT
    page = build(record, analysis, place, knobs_of(record))
    if json:
        print_json({**document(record, analysis), "run": _run_document(result, page)})
    else:
        _print_end(record, analysis, result, page)
    if study_failed(record):
        raise typer.Exit(1)


def _run_document(result: RunResult, page: Path) -> dict[str, Any]:
    return {
        "study_id": result.study_id,
        "complete": result.complete,
        "stopped": result.stopped,
        "restored": list(result.restored),
        "report": str(page),
    }


def _print_end(record: StudyRecord, analysis: StudyAnalysis, result: RunResult, page: Path) -> None:
    console.print(table(record, analysis), soft_wrap=not console.is_terminal)
    for line in result.restored:
        console.print(f"put back: {line}", markup=False, highlight=False, soft_wrap=True)
    if result.stopped:
        console.print(f"stopped: {result.stopped}", markup=False, highlight=False, soft_wrap=True)
    console.print(f"report: {page}", markup=False, highlight=False, soft_wrap=True)
    console.print(answer_line(analysis), soft_wrap=True)
