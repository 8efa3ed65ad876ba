"""A response against the load, where a study varies it: the load as a number, a line for each setting of the rest."""

from __future__ import annotations

import statistics
from typing import Any

import altair as alt

from leadline.conclude.loads import load_of
from leadline.model.record import StudyRecord
from leadline.model.result import ResponseAnalysis
from leadline.report import words
from leadline.report.charts.theme import TREATMENTS, DataSets, Figure, figure

_MOST = len(TREATMENTS)  # lines


def against_load(record: StudyRecord, analysis: ResponseAnalysis) -> Figure | None:
    """None for a study whose load is the same in all trials."""
    factor = load_of(record)
    if factor is None:
        return None
    rows: list[dict[str, Any]] = []
    for observation in record.observations():
        levels = observation.treatment.as_dict()
        value = observation.responses.get(analysis.response)
        if observation.failure is None and value is not None:
            rest = [words.setting(record.study, name, level) for name, level in levels.items() if name != factor]
            rows.append({"load": float(levels[factor]), "value": value, "setting": ", ".join(rest)})
    settings = list(dict.fromkeys(str(row["setting"]) for row in rows))
    if not rows or len(settings) > _MOST:
        return None
    sets = DataSets()
    means = [
        {"load": load, "setting": setting, "value": statistics.fmean(values)}
        for setting in settings
        for load in sorted({row["load"] for row in rows})
        if (values := [row["value"] for row in rows if (row["setting"], row["load"]) == (setting, load)])
    ]
    kind = words.kind_of(analysis.response)
    x = alt.X("load:Q", title=factor)
    y = alt.Y("value:Q", title=[analysis.response, kind.unit], scale=alt.Scale(zero=True))
    legend = alt.Legend(orient="top", columns=2, title=None) if len(settings) > 1 else None
    colour = alt.Color(
        "setting:N", scale=alt.Scale(domain=settings, range=list(TREATMENTS[: len(settings)])), legend=legend
    )
    drawn = alt.layer(
        sets.chart(means).mark_line(strokeWidth=1.8).encode(x=x, y=y, color=colour),
        sets.chart(rows)
        .mark_point(size=36, opacity=0.7)
        .encode(x=x, y=y, color=colour, tooltip=["setting:N", "load:Q", "value:Q"]),
    ).properties(width=460, height=220)
    title = f"{analysis.response} against {factor}"
    lines = "; a line for each setting of the other factors" if len(settings) > 1 else ""
    caption = f"{analysis.response} of every trial over its load, and the mean at each load{lines}."
    return figure(f"load-{analysis.response}", title, caption, drawn, sets=sets)
