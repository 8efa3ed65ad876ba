"""Each step over all its modes, with the modes beside: from the steps' own trials, no rungs needed."""

from __future__ import annotations

import altair as alt

from leadline.report import words
from leadline.report.charts.theme import BLACK, VERDICTS, DataSets, Figure, figure
from leadline.report.tuning.view import TuningView


def over_modes_figure(view: TuningView) -> Figure | None:
    """None where nothing was estimated."""
    rows = []
    points = []
    for effect in view.over_modes:
        percent, interval = effect.change.percent, effect.change.simultaneous
        if percent is None:
            continue
        several = sum(other.step == effect.step for other in view.over_modes) > 1
        label = f"{effect.step} {effect.candidate}" if several else effect.step
        rows.append(
            {
                "label": label,
                "setting": effect.setting,
                "zero": 0.0,
                "percent": percent,
                "low": interval.low if interval else percent,
                "high": interval.high if interval else percent,
                "top": max(0.0, percent, interval.high if interval else percent),
                "verdict": effect.change.verdict.value,
                "text": f"{words.signed(percent)} %",
            }
        )
        points += [
            {"label": label, "mode": mode, "percent": change.percent}
            for mode, change in effect.by_mode.items()
            if change.percent is not None
        ]
    if not rows:
        return None
    sets = DataSets()
    order = [str(row["label"]) for row in rows]
    axis = alt.Axis(labelAngle=-30, labelOverlap=False, labelLimit=160)
    x = alt.X("label:N", title=None, sort=order, axis=axis)
    colour = alt.Color("verdict:N", scale=alt.Scale(domain=list(VERDICTS), range=list(VERDICTS.values())), legend=None)
    title = f"change of {view.response}, %"
    base, lower = sets.chart(rows), sets.chart(points)
    shape = alt.Shape("mode:N", sort=view.record.tuning.modes, legend=alt.Legend(orient="top", title=None))
    chart = alt.layer(
        base.mark_bar(size=46, opacity=0.75).encode(
            x=x,
            y=alt.Y("zero:Q", title=title),
            y2="percent:Q",
            color=colour,
            tooltip=["label:N", "setting:N", "text:N"],
        ),
        base.mark_rule(color=BLACK, strokeWidth=1.8).encode(x=x, y="low:Q", y2="high:Q"),
        lower.mark_point(color=BLACK, size=44, xOffset=16).encode(
            x=x, y="percent:Q", shape=shape, tooltip=["label:N", "mode:N", alt.Tooltip("percent:Q", format="+.1f")]
        ),
        base.mark_text(dy=-9, fontSize=12, fontWeight=600).encode(x=x, y="top:Q", text="text:N"),
    ).properties(width=max(260, 92 * len(rows)), height=280)
    caption = (
        "Bars: each step against the best so far, the mean over the modes in which it was tried, with the 95 % "
        "interval of all steps together; points: the step in each mode. Every step begins at zero: what was not kept "
        "adds nothing to the next."
    )
    return figure("over-modes", "What each step does over its modes", caption, chart, sets=sets)
