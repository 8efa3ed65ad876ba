"""Plots of cell means: what one factor's levels do under each level of another."""

from __future__ import annotations

from collections.abc import Iterator

import altair as alt

from leadline.model.record import StudyRecord
from leadline.model.result import ResponseAnalysis
from leadline.report import words
from leadline.report.charts.theme import TREATMENTS, DataSets, Figure, figure

_MOST = 3  # pairs of factors drawn: those with the strongest interactions


def cell_means(record: StudyRecord, analysis: ResponseAnalysis) -> Iterator[Figure]:
    """A figure for each pair of factors that has an interaction, the strongest pairs first."""
    pairs = list(dict.fromkeys(interaction.factors for interaction in analysis.interactions if interaction.sentence))
    for names in (pairs or list(dict.fromkeys(interaction.factors for interaction in analysis.interactions))[:1])[
        :_MOST
    ]:
        yield _pair(record, analysis, names)


def _pair(record: StudyRecord, analysis: ResponseAnalysis, names: tuple[str, str]) -> Figure:
    along, apart = names
    rows = [
        {
            "along": words.level_text(record.study, along, cell.levels[0]),
            "apart": words.setting(record.study, apart, cell.levels[1]),
            "mean": cell.mean,
            "low": cell.interval.low if cell.interval else cell.mean,
            "high": cell.interval.high if cell.interval else cell.mean,
            "trials": cell.trials,
        }
        for cell in analysis.cells
        if cell.factors == names
    ]
    kind = words.kind_of(analysis.response)
    sets = DataSets()
    chart = sets.chart(rows)
    order = list(dict.fromkeys(str(row["along"]) for row in rows))
    kinds = list(dict.fromkeys(str(row["apart"]) for row in rows))
    x = alt.X("along:N", sort=order, title=along, axis=alt.Axis(labelAngle=0))
    y = alt.Y("mean:Q", title=[analysis.response, kind.unit], scale=alt.Scale(zero=False))
    colours = [TREATMENTS[number % len(TREATMENTS)] for number in range(len(kinds))]
    colour = alt.Color("apart:N", title=None, scale=alt.Scale(domain=kinds, range=colours))
    shape = alt.Shape("apart:N", title=None, scale=alt.Scale(domain=kinds))
    drawn = alt.layer(
        chart.mark_rule(strokeWidth=1.4, opacity=0.6).encode(x=x, y=alt.Y("low:Q"), y2="high:Q", color=colour),
        chart.mark_line(strokeWidth=1.8).encode(x=x, y=y, color=colour),
        chart.mark_point(filled=True, size=64, opacity=1).encode(
            x=x, y=y, color=colour, shape=shape, tooltip=["along:N", "apart:N", "mean:Q", "low:Q", "high:Q", "trials:Q"]
        ),
    ).properties(width=420, height=220)
    title = f"{analysis.response}: {along} with {apart}"
    caption = (
        f"Mean {analysis.response} of all trials with both levels, with its 95 % interval. Parallel lines: each factor "
        "does the same whatever the other; lines that are not: the effects depend on each other."
    )
    name = f"interaction-{analysis.response}-{along}-{apart}".replace(".", "-")
    return figure(name, title, caption, drawn, sets=sets)
