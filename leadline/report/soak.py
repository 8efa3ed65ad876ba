"""The report of a long run: one self-contained page with the verdict, the gaps, and every series over time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import altair as alt

from leadline.analysis.soak import Drift, Series, duration_text
from leadline.conclude.soak import SoakAnswer, series_of, trend_text
from leadline.experiments.soak.record import SoakRecord, evened
from leadline.model.record import StudyRecord
from leadline.report import words
from leadline.report.charts.theme import BLUE, GREY, VERMILLION, DataSets, Figure, figure
from leadline.report.page import render_page, write_page

_WIDTH, _HEIGHT = 1000, 90
_MOST_POINTS = 2_000  # of a series; more are drawn as every second, third, ... one
_HOUR, _DAY = 3600.0, 86400.0


def build(study: StudyRecord, record: SoakRecord, answer: SoakAnswer, out: Path, kept: Path | None = None) -> Path:
    """Write the page to a file. Raises OSError."""
    out.parent.mkdir(parents=True, exist_ok=True)
    drawn = figures(record, answer)
    text = render_page(
        "soak.html.j2",
        {figure.name: figure.spec for figure in drawn},
        kept,
        title=study.study.study,
        simulated=study.simulated,
        study=study.study,
        record=record,
        answer=answer,
        drawn=drawn,
        trend=trend_text,
        duration=duration_text,
        moment=lambda seconds: datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC"),
        worst=[drift for drift in answer.judged.drifts if drift.verdict == "degrading"],
        environment=study.environment,
        w=words,
    )
    return write_page(text, out)


def figures(record: SoakRecord, answer: SoakAnswer) -> list[Figure]:
    """What users see, then what degrades or not, by unit."""
    drifts = {drift.series.name: drift for drift in answer.judged.drifts}
    series = series_of(evened(record.intervals), answer.begin)
    users_series = [line for line in series if not line.resource]
    resources = sorted(
        (line for line in series if line.resource), key=lambda one: drifts[one.name].verdict != "degrading"
    )
    figures_ = [_figure("soak-users", "What users saw", users_series, drifts, answer)]
    if resources:
        figures_.append(_figure("soak-held", "What the stack held", resources, drifts, answer))
    return figures_


def _figure(name: str, title: str, series: Sequence[Series], drifts: dict[str, Drift], answer: SoakAnswer) -> Figure:
    last = max((line.times[-1] for line in series if line.times), default=1.0)
    size, unit = (_DAY, "days") if last >= 3 * _DAY else (_HOUR, "hours") if last >= 3 * _HOUR else (60.0, "minutes")
    sets = DataSets()
    gaps = [
        {"from": (gap.begin - answer.begin) / size, "until": (gap.end - answer.begin) / size, "why": gap.why}
        for gap in answer.gaps
    ]
    rows = [_row(sets, line, drifts[line.name], gaps, (size, last / size, unit)) for line in series]
    caption = (
        f"A point is an interval, over {unit} since the start; grey bands are gaps in which nothing ran. Series that "
        "degrade are red, a dashed line marks where that begins."
    )
    return figure(name, title, caption, alt.vconcat(*rows, spacing=12), sets=sets)


def _row(sets: DataSets, one: Series, drift: Drift, gaps: list[dict[str, Any]], along: tuple[float, float, str]) -> Any:
    size, last, unit = along
    every = max(1, math.ceil(len(one.times) / _MOST_POINTS))
    points = [
        {"at": at / size, "value": value} for at, value in zip(one.times[::every], one.values[::every], strict=True)
    ]
    scale = alt.Scale(domain=[0, last], nice=False)
    x = alt.X("at:Q", scale=scale, title=None, axis=alt.Axis(grid=False))
    y = alt.Y("value:Q", scale=alt.Scale(zero=False), title=one.unit, axis=alt.Axis(tickCount=3))
    colour = VERMILLION if drift.verdict == "degrading" else BLUE
    layers: list[Any] = []
    if gaps:
        band = sets.chart(gaps).mark_rect(color=GREY, opacity=0.3)
        layers.append(band.encode(x=alt.X("from:Q", scale=scale), x2="until:Q", tooltip=["why:N"]))
    drawn = sets.chart(points).mark_circle(size=10, color=colour, opacity=0.8)
    layers.append(drawn.encode(x=x, y=y, tooltip=[alt.Tooltip("at:Q", title=unit), "value:Q"]))
    if drift.since is not None:
        rule = sets.chart([{"at": drift.since / size}]).mark_rule(color=VERMILLION, strokeDash=[5, 4])
        layers.append(rule.encode(x=alt.X("at:Q", scale=scale)))
    return alt.layer(*layers).properties(width=_WIDTH, height=_HEIGHT, title=f"{one.name}: {drift.verdict}")
