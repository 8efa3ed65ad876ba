"""The report's section of study A's figures."""

from __future__ import annotations

from dataclasses import dataclass

from leadline.figures.everything import figures_of
from leadline.figures.study import table_of
from leadline.model.errors import UsageError
from leadline.model.naming import describing
from leadline.model.record import StudyRecord
from leadline.report.charts.theme import Figure, marked
from leadline.report.figures.charts import charts

FACTORS = 4  # with fewer, the effects say it all


@dataclass(frozen=True)
class Section:
    """What the page shows of one response."""

    response: str
    sentences: tuple[str, ...]
    figures: tuple[Figure, ...]
    notes: tuple[str, ...]


def section(record: StudyRecord) -> Section | None:
    """The figures of the study's first response; None with fewer than four factors or without a figure."""
    if len(record.plan.factors) < FACTORS or not record.study.responses:
        return None
    response = record.study.responses[0]
    try:
        table = table_of(
            record.plan,
            record.observations(),
            response,
            describe=describing(record.study),
        )
    except UsageError:
        return None  # no run has a figure: the page says so where it lists the effects
    figures = figures_of(table)
    return Section(
        response,
        tuple(figures.sentences()),
        tuple(marked(chart, record.simulated) for chart in charts(figures)),
        figures.notes,
    )
