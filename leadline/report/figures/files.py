"""Writes study A's figures: tables as CSV, charts as SVG and PNG, everything as one JSON document."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from leadline.figures.everything import StudyFigures
from leadline.report.charts.theme import marked
from leadline.report.document import plain, with_simulated
from leadline.report.figures.charts import charts
from leadline.report.figures.tables import csv_text, tables

FORMAT = "leadline-figures/1"


def document(figures: StudyFigures, *, simulated: bool = False) -> dict[str, Any]:
    """The figures as JSON types (docs/concepts/study-a.md)."""
    return {"format": FORMAT, "simulated": simulated, "sentences": figures.sentences(), **plain(figures)}


def write(figures: StudyFigures, directory: Path, *, simulated: bool = False) -> list[Path]:
    """Write all files to the directory and return them. Raises OSError when it cannot be written."""
    written: list[Path] = []

    def save(name: str, data: bytes) -> None:
        (directory / name).write_bytes(data)
        written.append(directory / name)

    directory.mkdir(parents=True, exist_ok=True)
    for name, table in tables(figures).items():
        save(f"{name}.csv", csv_text(with_simulated(table, simulated)).encode())
    for chart in (marked(chart, simulated) for chart in charts(figures)):
        save(f"{chart.name}.svg", chart.svg().encode())
        save(f"{chart.name}.png", chart.png())
    text = json.dumps(document(figures, simulated=simulated), indent=2, allow_nan=False)
    save("figures.json", f"{text}\n".encode())
    return written
