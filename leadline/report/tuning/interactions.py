"""Main effects and interactions of a mode's steps, from its factorial."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt

from leadline.model.result import Effect
from leadline.planning.sequence import Factorial
from leadline.report import words
from leadline.report.charts.theme import VERDICTS, DataSets, Figure, figure


def steps_figure(one: Factorial) -> Figure | None:
    """Each step over all combinations of the others; None where nothing could be estimated."""
    caption = (
        f"A {one.plan.kind} design of the steps in mode {one.mode}: effect of each step over all combinations of the "
        "others. Intervals: all effects together."
    )
    return _forest(f"steps-{one.mode}", f"{one.mode}: each step", one.analysis.effects, "change, %", caption)


def interactions_figure(one: Factorial) -> Figure | None:
    """How the steps work together; None where the design tells no interaction."""
    caption = (
        f"How far two steps together differ from what each alone would give, in mode {one.mode}: not a change against "
        "the untuned stack. Intervals: all pairs together."
    )
    title = f"{one.mode}: how steps work together"
    return _forest(f"interactions-{one.mode}", title, one.analysis.interactions, "beyond each alone, %", caption)


def _forest(name: str, title: str, effects: Sequence[Effect], axis: str, caption: str) -> Figure | None:
    rows = [
        {
            "label": effect.factor,
            "percent": effect.percent,
            "low": effect.simultaneous.low if effect.simultaneous else effect.percent,
            "high": effect.simultaneous.high if effect.simultaneous else effect.percent,
            "verdict": effect.verdict.value,
            "text": f"{words.signed(effect.percent)} % {words.change_interval(effect.simultaneous)}",
        }
        for effect in effects
        if effect.percent is not None
    ]
    if not rows:
        return None
    sets = DataSets()
    order = [str(row["label"]) for row in rows]
    y = alt.Y("label:N", sort=order, title=None, axis=alt.Axis(labelLimit=260, grid=False))
    colour = alt.Color("verdict:N", scale=alt.Scale(domain=list(VERDICTS), range=list(VERDICTS.values())), legend=None)
    rows_ = sets.chart(rows)
    chart = alt.layer(
        sets.chart([{"zero": 0}]).mark_rule(color="#353b43", strokeWidth=1.2).encode(x="zero:Q"),
        rows_.mark_rule(strokeWidth=1.8).encode(x=alt.X("low:Q"), x2="high:Q", y=y, color=colour),
        rows_.mark_point(filled=True, size=58, opacity=1).encode(
            x=alt.X("percent:Q", title=axis), y=y, color=colour, tooltip=["label:N", "text:N", "verdict:N"]
        ),
        rows_.mark_text(align="left", fontSize=12).encode(x=alt.value(474), y=y, text="text:N"),
    ).properties(width=460, height=alt.Step(24))
    return figure(name, title, caption, chart, sets=sets)
