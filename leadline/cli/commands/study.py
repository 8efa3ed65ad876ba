"""``run``, ``quickstart``, ``studies``, ``show``, ``report``, ``export``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from leadline.analysis import analyse
from leadline.cli.live import watcher
from leadline.cli.output import console, errors, print_json
from leadline.host.local import LocalHost
from leadline.host.paths import cache_dir
from leadline.lab.planning import Planned, cost, plan_study
from leadline.lab.progress import treatment_label
from leadline.lab.real import RealSystem
from leadline.lab.run import RunResult, StudyRun, study_failed
from leadline.lab.store import Store
from leadline.lab.studyfile import StudyFile, builtin_studies, find_study, json_schema, parse_study
from leadline.model.record import StudyRecord
from leadline.model.result import StudyAnalysis
from leadline.model.units import format_duration
from leadline.report import build
from leadline.report.document import document
from leadline.report.export import export as export_files
from leadline.report.text import table
from leadline.report.words import level_text
from leadline.stack.registry import service_catalogue
from leadline.stack.standing import require_none_standing

LabOption = Annotated[
    Path, typer.Option("--lab", envvar="LEADLINE_LAB", help="The lab: where studies and trials are kept.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="One JSON document on standard output (docs/json.md).")]
SetOption = Annotated[
    list[str] | None, typer.Option("--set", help="Change a key of the study: --set workload.users=20")
]
FactorOption = Annotated[
    list[str] | None, typer.Option("--factor", help="Add or replace a factor: --factor jvm.heap=256m,1g")
]
REPORT = "report.html"


def register(app: typer.Typer) -> None:
    """Add this module's commands."""
    app.command(epilog="Example: leadline run quickstart --set design.replicates=5 --budget 30m")(run)
    app.command(epilog="Example: leadline quickstart")(quickstart)
    app.command(epilog="Example: leadline studies")(studies)
    app.command(epilog="Example: leadline show quickstart")(show)
    app.command(epilog="Example: leadline report quickstart --out report.html")(report)
    app.command(epilog="Example: leadline export quickstart --out figures --format csv,png")(export)


def run(
    study: Annotated[str, typer.Argument(help="A built-in study or a study file.")],
    lab: LabOption = Path("lab"),
    set_: SetOption = None,
    factor: FactorOption = None,
    budget: Annotated[str | None, typer.Option(help="Wall time after which no trial is started: 30m")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the plan and its cost; change nothing.")] = False,
    new: Annotated[bool, typer.Option("--new", help="Start anew even if an unfinished run exists.")] = False,
    disposable: Annotated[
        bool, typer.Option("--disposable", help="This host may be hung: allow dangerous levels.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Run a study, or go on with an unfinished run of it; write its report."""
    overrides = [*(set_ or []), *([f"budget={budget}"] if budget else [])]
    file = find_study(study, overrides, factor or [])
    _run(file, lab, dry_run=dry_run, new=new, disposable=disposable, json=json)


def quickstart(lab: LabOption = Path("lab"), json: JsonOption = False) -> None:
    """Run the built-in study ``quickstart``: about ten minutes on two cores."""
    _run(find_study("quickstart"), lab, dry_run=False, new=False, disposable=False, json=json)


def _run(file: StudyFile, lab: Path, *, dry_run: bool, new: bool, disposable: bool, json: bool) -> None:
    host = LocalHost(disposable=disposable, directories={"cache": cache_dir(), "lab": _existing(lab)})
    stack = file.study.stack
    planned = plan_study(file, host, service_catalogue(stack.server, stack.database), disposable)
    if dry_run:
        _print_plan(file, planned, json)
        return
    require_none_standing(lab)
    store = Store(lab)
    with watcher(errors if json else console) as watching:
        system = RealSystem(file.study, host, store.directory)
        result = StudyRun(file, planned, store, host, system, watching, host.guard).execute(new)
    record = store.load(result.study_id)
    analysis = analysis_of(record)
    page = build(record, analysis, store.directory / "reports" / f"{record.study.study}-{record.id}" / REPORT)
    if json:
        print_json({**document(record, analysis), "run": _run_document(result, page)})
    else:
        _print_end(record, analysis, result, page)
    if study_failed(record):
        raise typer.Exit(1)


def _existing(path: Path) -> Path:
    """The nearest ancestor that exists: what tells the file system a lab will be on."""
    path = path.absolute()
    while not path.exists():
        path = path.parent
    return path


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
        console.print(f"put back: {line}", markup=False, highlight=False)
    if result.stopped:
        console.print(f"stopped: {result.stopped}", markup=False, highlight=False)
    console.print(f"report: {page}", markup=False, highlight=False, soft_wrap=True)


def _print_plan(file: StudyFile, planned: Planned, json: bool) -> None:
    plan, seconds = planned.plan, cost(file.study, planned.plan)
    if json:
        print_json(
            {
                "study": file.study.study,
                "seed": plan.seed,
                "trials": [
                    {
                        "position": trial.position,
                        "block": trial.block,
                        "replicate": trial.replicate,
                        "role": trial.role.value,
                        "levels": trial.treatment.as_dict(),
                        "label": treatment_label(trial, plan),
                    }
                    for trial in plan.trials
                ],
                "skipped": list(planned.skipped),
                "notes": list(plan.notes),
                "seconds": seconds,
            }
        )
        return
    for trial in plan.trials:
        label = treatment_label(trial, plan)
        console.print(f"{trial.position + 1:4d}  block {trial.block + 1}  {label}", markup=False, highlight=False)
    for note in (*planned.skipped, *plan.notes):
        console.print(note, markup=False, highlight=False)
    console.print(
        f"{len(plan.trials)} trials, {plan.kind}, seed {plan.seed}, about {format_duration(seconds)}", highlight=False
    )


def analysis_of(record: StudyRecord) -> StudyAnalysis:
    """The analysis of what has been run so far."""
    observations = [trial.observation() for trial in record.trials if trial.state in ("done", "failed")]
    return analyse(
        record.plan,
        observations,
        record.study.responses,
        describe=lambda factor, level: level_text(record.study, factor, level),
    )


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


def _open(study: str, lab: Path) -> tuple[StudyRecord, StudyAnalysis]:
    store = Store(lab, create=False)
    record = store.load(store.find(study))
    return record, analysis_of(record)


StudyArgument = Annotated[
    str, typer.Argument(help="A study in the lab: its name (the newest), its number, name@number.")
]


def show(study: StudyArgument, lab: LabOption = Path("lab"), json: JsonOption = False) -> None:
    """Print what a study found."""
    record, analysis = _open(study, lab)
    if json:
        print_json(document(record, analysis))
    else:
        console.print(table(record, analysis), soft_wrap=not console.is_terminal)


def report(
    study: StudyArgument,
    lab: LabOption = Path("lab"),
    out: Annotated[Path, typer.Option(help="The page to write.")] = Path(REPORT),
    json: JsonOption = False,
) -> None:
    """Write a study's report: one HTML file that needs no network."""
    record, analysis = _open(study, lab)
    page = build(record, analysis, out)
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
    """Write a study's trials and effects as CSV and its figures as PNG or SVG."""
    record, analysis = _open(study, lab)
    written = export_files(record, analysis, out, {word.strip() for word in format_.split(",") if word.strip()})
    if json:
        print_json({"files": [str(path) for path in written]})
        return
    for path in written:
        console.print(str(path), markup=False, highlight=False, soft_wrap=True)
