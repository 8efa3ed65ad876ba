"""Study C's table in the terminal, as CSV and JSON, and pages over time as lines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import altair as alt

from leadline.figures.pages import PageTable, pages_of
from leadline.figures.table import system_factor
from leadline.model.naming import describing, treatment_name
from leadline.model.record import StudyRecord
from leadline.report import words
from leadline.report.charts.theme import TREATMENTS, DataSets, Figure, coloured, figure, marked
from leadline.report.document import plain
from leadline.report.export import write_csv, write_figures, write_json
from leadline.report.figures.tables import Table
from leadline.report.files import read

FORMAT = "leadline-pages/1"
_LINES = 200  # trials at most


def table_of_study(record: StudyRecord, system: str | None = None) -> PageTable:
    """Raises UsageError where there is nothing to put in it, or no such factor."""
    return pages_of(record.plan, record.observations(), system, describing(record.study))


def lines(table: PageTable) -> list[str]:
    """A row for each measure, a column for each system: there are more measures than systems."""
    rows = [("", *(row.system for row in table.rows))]
    if any(row.trials for row in table.rows):
        rows.append(("trials", *(str(row.trials) for row in table.rows)))
    for measure in table.measures:
        figures = [row.figures.get(measure.name) for row in table.rows]
        cells = [
            "–"
            if figure is None
            else f"{words.number(figure.value)} {words.value_interval(figure.interval) or ''}".rstrip()
            for figure in figures
        ]
        rows.append((measure.title, *cells))
    return [*words.aligned(rows), *table.sentences(), *(f"Note: {note}" for note in table.notes)]


def document(table: PageTable, *, simulated: bool = False) -> dict[str, Any]:
    """The table as JSON types (docs/reference/json.md)."""
    return {"format": FORMAT, "simulated": simulated, "sentences": table.sentences(), **plain(table)}


def csv_table(table: PageTable) -> Table:
    """Head and rows; None stands where there is no figure."""
    head = [f"{measure.name}{end}" for measure in table.measures for end in ("", "_low", "_high")]
    rows: Table = [["system", "trials", *head]]
    for row in table.rows:
        cells: list[Any] = [row.system, row.trials]
        for measure in table.measures:
            figure = row.figures.get(measure.name)
            interval = figure.interval if figure else None
            cells += [figure.value if figure else None, *((interval.low, interval.high) if interval else (None, None))]
        rows.append(cells)
    return rows


def over_time(record: StudyRecord, system: str | None = None) -> Figure | None:
    """Pages served since the start of each trial's load, a line for each trial; None without a trial's seconds."""
    chosen, describe = system_factor(record.plan, system), describing(record.study)
    rows: list[dict[str, Any]] = []
    for trial in record.trials[:_LINES]:
        seconds = None if trial.failure else read(trial).seconds
        if seconds is None:
            continue
        treatment = trial.planned.treatment
        name = treatment_name(record.plan, treatment, describe)
        if chosen is not None:
            name = describe(chosen.name, treatment.as_dict()[chosen.name])
        total = 0.0
        for row in seconds.sort("second").iter_rows(named=True):
            total += row["ok"] or 0.0
            rows.append({"second": row["second"] + 1, "system": name, "trial": trial.id, "pages": total})
    systems = list(dict.fromkeys(str(row["system"]) for row in rows))
    if not rows or len(systems) > len(TREATMENTS):
        return None
    sets = DataSets()
    colour = coloured("system", dict(zip(systems, TREATMENTS, strict=False)), alt.Legend(orient="top", title=None))
    chart = (
        sets.chart(rows)
        .mark_line(strokeWidth=1.4, opacity=0.8)
        .encode(
            x=alt.X("second:Q", title="seconds since the start of the load", scale=alt.Scale(nice=False)),
            y=alt.Y("pages:Q", title="pages served", scale=alt.Scale(zero=True)),
            color=colour,
            detail="trial:N",
            tooltip=["system:N", "trial:N", "second:Q", "pages:Q"],
        )
        .properties(width=640, height=300)
    )
    caption = "Pages served since the start of the load, ramps included; a line for each trial."
    return figure("pages-over-time", "Pages over time", caption, chart, sets=sets)


def write(table: PageTable, drawn: Figure | None, directory: Path, *, simulated: bool = False) -> list[Path]:
    """Write the table (CSV, JSON) and the chart (SVG, PNG); returns the files. Raises OSError."""
    directory.mkdir(parents=True, exist_ok=True)
    written = [write_csv(directory / "pages.csv", csv_table(table), simulated)]
    written.append(write_json(directory / "pages.json", document(table, simulated=simulated)))
    return written + write_figures(directory, [] if drawn is None else [marked(drawn, simulated)])
