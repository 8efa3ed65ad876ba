"""What each kept step added in a mode, one after the other, and what they come to together."""

from __future__ import annotations

import itertools
from typing import Any

import altair as alt

from leadline.analysis.scale import response_kind
from leadline.report import words
from leadline.report.charts.theme import BLACK, BLUE, GREY, VERMILLION, DataSets, Figure, figure
from leadline.report.tuning.view import TuningView

UNTUNED, MEASURED = "untuned", "tuned, measured"


def waterfall(view: TuningView, mode: str) -> Figure | None:
    """None where the mode kept nothing."""
    bars = view.bars[mode]
    if not bars:
        return None
    sets = DataSets()
    higher = response_kind(view.response).higher_is_better
    rows: list[dict[str, Any]] = [{"label": UNTUNED, "begin": 0.0, "end": 1.0, "kind": "whole", "text": "1"}]
    for bar in bars:
        percent = bar.change.percent
        interval = bar.change.simultaneous
        rows.append(
            {
                "label": bar.step,
                "setting": bar.setting,
                "begin": bar.begin,
                "end": bar.end,
                "low": bar.begin * (1 + interval.low / 100) if interval else None,
                "high": bar.begin * (1 + interval.high / 100) if interval else None,
                "kind": "gain" if (bar.end >= bar.begin) is higher else "loss",
                "text": f"{words.signed(percent)} %",
            }
        )
    gain = view.progress.comparison.gains.get(mode) if view.progress.comparison else None
    if gain is not None and gain.percent is not None:
        interval_ = gain.simultaneous
        rows.append(
            {
                "label": MEASURED,
                "begin": 0.0,
                "end": 1 + gain.percent / 100,
                "low": 1 + interval_.low / 100 if interval_ else None,
                "high": 1 + interval_.high / 100 if interval_ else None,
                "kind": "whole",
                "text": f"{words.signed(gain.percent)} %",
            }
        )
    order = [row["label"] for row in rows]
    for row in rows:
        row["top"] = max(row["begin"], row["end"], row.get("high") or 0.0)
    links = [
        {"from": before["label"], "to": after["label"], "level": before["end"]}
        for before, after in itertools.pairwise(rows)
        if after["kind"] != "whole"
    ]
    places = alt.Scale(domain=order)
    axis = alt.Axis(labelAngle=-30, labelOverlap=False, labelLimit=160)
    x = alt.X("label:N", title=None, scale=places, axis=axis)
    colour = alt.Color(
        "kind:N", scale=alt.Scale(domain=["whole", "gain", "loss"], range=[GREY, BLUE, VERMILLION]), legend=None
    )
    y_title = f"{view.response} relative to {mode} untuned"
    base = sets.chart(rows)
    with_interval = sets.chart([row for row in rows if row.get("low") is not None])
    layers: list[Any] = [
        base.mark_bar(size=46).encode(
            x=x,
            y=alt.Y("begin:Q", title=y_title, scale=alt.Scale(zero=True)),
            y2="end:Q",
            color=colour,
            tooltip=["label:N", "setting:N", "text:N"],
        ),
        with_interval.mark_rule(color=BLACK, strokeWidth=1.8).encode(x=x, y="low:Q", y2="high:Q"),
        base.mark_text(dy=-9, fontSize=12, fontWeight=600).encode(x=x, y="top:Q", text="text:N"),
    ]
    if links:
        layers.insert(
            1,
            sets.chart(links)
            .mark_rule(strokeDash=[3, 3], color="#353b43")
            .encode(x=alt.X("from:N", title=None, scale=places, axis=axis), x2="to:N", y="level:Q"),
        )
    sources = ", ".join(dict.fromkeys(bar.fresh for bar in bars))
    sum_ = view.sums[mode]
    same = view.progress.comparison is not None and view.progress.comparison.every  # then both are one figure
    together = "" if sum_ is None or same else f" One after the other the steps give {words.signed(sum_)} %."
    caption = (
        f"Each bar starts where the one before ends; percent of the best before the step, from {sources}, with the "
        f"interval of all its comparisons together.{together}"
    )
    chart = alt.layer(*layers).properties(width=max(260, 92 * len(rows)), height=280)
    return figure(f"waterfall-{mode}", f"{mode}: what each step added", caption, chart, sets=sets)
