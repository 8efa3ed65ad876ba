"""``figures``: study A's figures of a stored study or of a table of results; with ``--pages`` study C's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from leadline.api.results import load_lab
from leadline.cli.options import JsonOption, LabOption, directory_option
from leadline.cli.output import print_json, say
from leadline.figures.everything import StudyFigures, figures_of, figures_of_gains
from leadline.figures.extremes import extremes_table
from leadline.figures.foreign import Row, is_gains, read_gains, read_rows, rows_of_csv, rows_of_json
from leadline.figures.grouping import parse_groups
from leadline.figures.pages import read_pages
from leadline.figures.table import table_of
from leadline.host.textfile import read_text
from leadline.model.errors import UsageError, nearest
from leadline.model.naming import describing
from leadline.model.record import StudyRecord
from leadline.model.result import ResponseKind, StudyAnalysis

_LARGEST_TABLE = 1024**2  # bytes


def show_pages(source: str, lab: Path, out: Path | None, system: str | None, json: bool) -> None:
    """Raises UsageError, OSError."""
    from leadline.report.figures.pages import document as pages_document
    from leadline.report.figures.pages import lines as pages_lines
    from leadline.report.figures.pages import over_time as pages_over_time
    from leadline.report.figures.pages import table_of_study as pages_table
    from leadline.report.figures.pages import write as write_pages

    path = Path(source)
    if path.suffix.lower() == ".csv":
        if system is not None:
            raise UsageError("--system names a factor of a study; a table has its systems in a column")
        table, drawn, simulated = read_pages(read_text(path, _LARGEST_TABLE), source), None, False
    elif path.is_file():
        raise UsageError(f"{source}: a table of pages ends in .csv")
    else:
        record = load_lab(lab).study(source).record
        table, simulated = pages_table(record, system), record.simulated
        drawn = pages_over_time(record, system)
    written = [] if out is None else write_pages(table, drawn, out, simulated=simulated)
    if json:
        files = {"files": [str(file) for file in written]} if out else {}
        print_json({**pages_document(table, simulated=simulated), **files})
        return
    say(*pages_lines(table), *map(str, written))


ENDINGS = (".csv", ".json")


OTHER_ESTIMATE = (
    "These are study A's estimates, from the means of settings; the conclusion has those of `leadline show`, from the "
    "model of the design, in which blocks are taken out."
)
_LARGEST = 64 * 1024**2  # bytes


def register(app: typer.Typer) -> None:
    """Add this module's commands."""
    app.command(epilog="Example: leadline figures vmm --out figures --groups red=vm.swappiness,vm.dirty_ratio")(figures)


def figures(
    source: Annotated[
        str, typer.Argument(metavar="STUDY|FILE", help="A study in the lab, or a table as .csv or .json.")
    ],
    lab: LabOption = Path("lab"),
    out: Annotated[Path | None, directory_option("A directory for the tables (CSV) and charts (SVG, PNG).")] = None,
    response: Annotated[
        str | None, typer.Option(help="The response (a study's first if absent), or the file's column of it.")
    ] = None,
    system: Annotated[
        str | None, typer.Option(help="The factor of a study that plays the system; its kernel or server if absent.")
    ] = None,
    groups: Annotated[
        list[str] | None, typer.Option(help="A group of parameters to test: --groups red=a,b --groups blue=c,d")
    ] = None,
    groups_file: Annotated[
        Path | None, typer.Option("--groups-file", help="The groups in a file, a line each: red=a,b")
    ] = None,
    cv: Annotated[
        float | None, typer.Option(min=0.0, max=1000.0, help="Noise of one row in percent, for tables without repeats.")
    ] = None,
    settings: Annotated[
        int | None, typer.Option(min=1, help="Settings behind each best gain of a table of gains: 33")
    ] = None,
    replicates: Annotated[
        int | None, typer.Option(min=1, help="Runs behind each setting of a table of gains: 3")
    ] = None,
    unit: Annotated[str, typer.Option(help="Unit of a file's response.")] = "",
    lower_is_better: Annotated[
        bool, typer.Option("--lower-is-better", help="Less of a file's response is better.")
    ] = False,
    pages: Annotated[
        bool, typer.Option("--pages", help="Study C's table instead: pages/s, time and CPU a page; pages over time.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Study A's figures: gains against luck, failures, sensitivities, ranking over systems, test of a grouping."""
    if pages:
        show_pages(source, lab, out, system, json)
        return
    concluded: StudyAnalysis | None = None
    grouping = parse_groups([*((f"--groups {group}", group) for group in groups or []), *_lines(groups_file)])
    path = Path(source)
    if path.suffix.lower() in ENDINGS:
        _refuse("a table", {"--system": system})
        response_kind = ResponseKind(response or "response", unit, not lower_is_better, response or "response")
        figures_ = _of_file(
            path, response, response_kind if unit or lower_is_better else None, grouping, cv, settings, replicates
        )
    elif path.exists() and not path.is_dir():
        raise UsageError(f"{source}: a table ends in {' or '.join(ENDINGS)}")
    else:
        of_tables = {"--unit": unit, "--lower-is-better": lower_is_better}
        _refuse("a study", {**of_tables, "--settings": settings, "--replicates": replicates})
        stored = load_lab(lab).study(source)
        figures_ = _of_study(stored.record, response, system, grouping, cv)
        concluded = stored.analysis
    _print(figures_, out, json, concluded)


def _refuse(source: str, options: Mapping[str, object]) -> None:
    """Raises UsageError for an option that is given and means nothing for this source."""
    for option, value in options.items():
        if value:
            raise UsageError(f"{option} means nothing for {source}: leave it out")


def _lines(path: Path | None) -> list[tuple[str, str]]:
    lines = [] if path is None else enumerate(_read(path).splitlines(), 1)
    return [(f"{path}:{number}", line) for number, line in lines if not line.lstrip().startswith("#")]


def _read(path: Path) -> str:
    return read_text(path, _LARGEST)


def _of_file(
    path: Path,
    response: str | None,
    kind: ResponseKind | None,
    groups: Mapping[str, Sequence[str]],
    cv: float | None,
    settings: int | None,
    replicates: int | None,
) -> StudyFigures:
    text = _read(path)
    rows: list[Row]
    if path.suffix.lower() == ".json":
        rows = rows_of_json(text, str(path), response)
    else:
        rows = rows_of_csv(text, str(path), response)
    if not is_gains(rows):
        _refuse("a table of runs", {"--settings": settings, "--replicates": replicates})
        name = response or "response"
        kind = kind or rows[0].kind or ResponseKind(name, "", True, name)
        return figures_of(read_rows(rows, kind), groups, cv)
    if groups:
        raise UsageError(f"{path}: best gains and worst losses say nothing of single parameters, so no groups of them")
    return figures_of_gains(extremes_table(read_gains(rows), settings=settings, replicates=replicates, cv=cv))


def _of_study(
    record: StudyRecord,
    response: str | None,
    system: str | None,
    groups: Mapping[str, Sequence[str]],
    cv: float | None,
) -> StudyFigures:
    responses = list(record.study.responses)
    if response is not None and response not in responses:
        near = nearest(response, responses)
        raise UsageError(
            f"--response {response}: " + (f"did you mean {near}?" if near else f"one of {', '.join(responses)}")
        )
    table = table_of(
        record.plan,
        record.observations(),
        response or responses[0],
        system,
        describe=describing(record.study),
    )
    figures_ = figures_of(table, groups, cv)
    return replace(figures_, notes=(*figures_.notes, OTHER_ESTIMATE))


def _print(found: StudyFigures, out: Path | None, json: bool, concluded: StudyAnalysis | None) -> None:
    """``concluded``: of a study of the lab, whose answer is the last line."""
    written: list[Path] = []
    simulated = concluded is not None and concluded.simulated
    if out is not None:
        from leadline.report.figures.tables import write as write_figures

        written = write_figures(found, out, simulated=simulated)
    if json:
        from leadline.report.figures.tables import document as figures_document

        answer = {"answer": concluded.answer} if concluded is not None else {}
        files = {"files": [str(path) for path in written]} if out else {}
        print_json({**figures_document(found, simulated=simulated), **answer, **files})
        return
    from leadline.report.figures.tables import lines as figures_lines

    last = [concluded.answer] if concluded is not None else []
    say(*figures_lines(found), *map(str, written), *last)
