"""Writes a tuning's report: one HTML file as a study's (``leadline.report.page``)."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import altair as alt

from leadline.analysis.contrasts import Change
from leadline.analysis.table import response_kind
from leadline.model.result import Effect, Interval
from leadline.model.tuning import Published
from leadline.planning.sequence import Comparison, Factorial
from leadline.report import words
from leadline.report.charts.theme import (
    BLACK,
    BLUE,
    GREY,
    RUST,
    VERDICTS,
    VERMILLION,
    DataSets,
    Figure,
    coloured,
    ends,
    figure,
    marked,
    no_change,
)
from leadline.report.page import render_page, write_page
from leadline.report.tuning.view import TuningView, change_text, spread_text

# What each kept step added in a mode, one after the other, and what they come to together.


UNTUNED, MEASURED = "untuned", "tuned, measured"


def _waterfall_rows(view: TuningView, mode: str) -> list[dict[str, Any]]:
    """A row per bar, from untuned by way of each step to what was measured; 1 is untuned."""
    higher = response_kind(view.response).higher_is_better
    rows: list[dict[str, Any]] = [{"label": UNTUNED, "begin": 0.0, "end": 1.0, "kind": "whole", "text": "1"}]
    for bar in view.bars[mode]:
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
    for row in rows:
        row["top"] = max(row["begin"], row["end"], row.get("high") or 0.0)
    return rows


def waterfall(view: TuningView, mode: str) -> Figure | None:
    """None where the mode kept nothing."""
    bars = view.bars[mode]
    if not bars:
        return None
    sets = DataSets()
    rows = _waterfall_rows(view, mode)
    links = [
        {"from": before["label"], "to": after["label"], "level": before["end"]}
        for before, after in itertools.pairwise(rows)
        if after["kind"] != "whole"
    ]
    places = alt.Scale(domain=[row["label"] for row in rows])
    axis = alt.Axis(labelAngle=-30, labelOverlap=False, labelLimit=160)
    x = alt.X("label:N", title=None, scale=places, axis=axis)
    colour = coloured("kind", {"whole": GREY, "gain": BLUE, "loss": VERMILLION})
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


# Each step over all its modes, with the modes beside: from the steps' own trials, no rungs needed.


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
                **ends(percent, interval),
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
    colour = coloured("verdict", VERDICTS)
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


# Main effects and interactions of a mode's steps, from its factorial.


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
            **ends(effect.percent, effect.simultaneous),
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
    colour = coloured("verdict", VERDICTS)
    rows_ = sets.chart(rows)
    chart = alt.layer(
        no_change(sets),
        rows_.mark_rule(strokeWidth=1.8).encode(x=alt.X("low:Q"), x2="high:Q", y=y, color=colour),
        rows_.mark_point(filled=True, size=58, opacity=1).encode(
            x=alt.X("percent:Q", title=axis), y=y, color=colour, tooltip=["label:N", "text:N", "verdict:N"]
        ),
        rows_.mark_text(align="left", fontSize=12).encode(x=alt.value(474), y=y, text="text:N"),
    ).properties(width=460, height=alt.Step(24))
    return figure(name, title, caption, chart, sets=sets)


# Before and after by mode, with the gain as a line: of a measured tuning and of a published one alike.


@dataclass(frozen=True)
class Bar:
    """A mode: performance untuned and tuned relative to the reference (1), and the gain in percent.

    Intervals are None where a result was published without them; ``tuned`` and ``gain`` where nothing was kept.
    """

    mode: str
    untuned: float
    tuned: float | None
    gain: float | None
    untuned_interval: Interval | None = None
    tuned_interval: Interval | None = None
    gain_interval: Interval | None = None


def measured_bars(comparison: Comparison) -> list[Bar]:
    """A bar pair for each mode; modes whose untuned configuration gave no figure are left out."""
    bars = []
    for mode in dict.fromkeys(rung.mode for rung in comparison.rungs):
        ladder = comparison.of(mode)
        untuned, low_high = _relative(ladder[0].relative, mode == comparison.reference)
        if untuned is None:
            continue
        gain = comparison.gains.get(mode)
        tuned, tuned_interval = _relative(ladder[-1].relative, False) if gain is not None else (None, None)
        bars.append(
            Bar(
                mode,
                untuned,
                tuned,
                gain.percent if gain else None,
                low_high,
                tuned_interval,
                gain.simultaneous if gain else None,
            )
        )
    return bars


def _relative(change: Change | None, reference: bool) -> tuple[float | None, Interval | None]:
    if change is None or change.percent is None:
        return (1.0 if reference else None), None
    interval = change.simultaneous
    bounds = interval and Interval(1 + interval.low / 100, 1 + interval.high / 100, interval.level)
    return 1 + change.percent / 100, bounds


def published_bars(published: Published) -> list[Bar]:
    """The same of a published result."""
    return [
        Bar(mode, published_bar.untuned, published_bar.untuned * (1 + published_bar.gain / 100), published_bar.gain)
        for mode, published_bar in published.bars.items()
    ]


def bars_figure(bars: Sequence[Bar], name: str, title: str, reference: str, note: str = "") -> Figure | None:
    """None without bars."""
    if not bars:
        return None
    sets = DataSets()
    order = [bar.mode for bar in bars]
    rows = [
        {
            "mode": bar.mode,
            "state": state,
            "value": value,
            **ends(value, interval),
        }
        for bar in bars
        for state, value, interval in (
            ("untuned", bar.untuned, bar.untuned_interval),
            ("tuned", bar.tuned, bar.tuned_interval),
        )
        if value is not None
    ]
    gains = [
        {
            "mode": bar.mode,
            "gain": bar.gain,
            **ends(bar.gain, bar.gain_interval),
            "text": f"{words.signed(bar.gain)} %",
        }
        for bar in bars
        if bar.gain is not None
    ]
    x = alt.X("mode:N", sort=order, title=None, axis=alt.Axis(labelAngle=0, labelFontSize=12))
    offset = alt.XOffset("state:N", sort=["untuned", "tuned"])
    axis = alt.Axis(title=f"relative to {reference} untuned", titleColor=BLUE)
    colour = alt.Color(
        "state:N",
        sort=["untuned", "tuned"],
        scale=alt.Scale(domain=["untuned", "tuned"], range=[GREY, BLUE]),
        legend=alt.Legend(orient="top", title=None),
    )
    tip = ["mode:N", "state:N", alt.Tooltip("value:Q", format=".2f")]
    base = sets.chart(rows)
    bar = base.mark_bar().encode(x=x, xOffset=offset, y=alt.Y("value:Q", axis=axis), color=colour, tooltip=tip)
    error = base.mark_rule(strokeWidth=1.6, color="#1b1f24").encode(
        x=x, xOffset=offset, y=alt.Y("low:Q", axis=axis), y2="high:Q"
    )
    layers: list[Any] = [alt.layer(bar, error)]
    if gains:
        right = alt.Axis(title="gain by tuning, %", titleColor=RUST, grid=False)
        scale = alt.Scale(zero=True, nice=True)
        line = sets.chart(gains)
        y = alt.Y("gain:Q", axis=right, scale=scale)
        layers.append(
            alt.layer(
                line.mark_line(color=VERMILLION, strokeWidth=2).encode(x=x, y=y),
                line.mark_rule(color=VERMILLION, strokeWidth=1.6).encode(
                    x=x, y=alt.Y("low:Q", axis=right, scale=scale), y2="high:Q"
                ),
                line.mark_point(color=VERMILLION, filled=True, size=70, opacity=1).encode(x=x, y=y),
                # above the plot, where no bar is behind it
                line.mark_text(fontSize=12, fontWeight=600, color=RUST).encode(x=x, y=alt.value(-10), text="text:N"),
            )
        )
    chart = alt.layer(*layers).resolve_scale(y="independent").properties(width=130 * len(order), height=280)
    caption = f"Bars: each mode relative to {reference} untuned; line: gain of tuned over untuned. {note}"
    return figure(name, title, caption.strip(), chart, sets=sets)


def figures(view: TuningView) -> dict[str, Figure]:
    """All figures that the tuning has, by name."""
    tuning = view.record.tuning
    drawn: list[Figure | None] = []
    comparison = view.progress.comparison
    if comparison is not None:
        note = "Intervals: 95 % for all comparisons of this table together."
        title = f"{view.response} before and after"
        drawn.append(bars_figure(measured_bars(comparison), "bars", title, comparison.reference, note))
    if tuning.published is not None:
        title = f"Published: {tuning.published.source}"
        note = "Published without intervals, on another system: only the shape can be compared."
        reference = next(iter(tuning.published.bars))
        drawn.append(bars_figure(published_bars(tuning.published), "bars-published", title, reference, note))
    drawn.append(over_modes_figure(view))
    drawn += [waterfall(view, mode) for mode in tuning.modes]
    for factorial in view.progress.factorials:
        drawn += [steps_figure(factorial), interactions_figure(factorial)]
    return {
        figure.name: marked(figure, view.simulated and figure.name != "bars-published")
        for figure in drawn
        if figure is not None
    }


def build(view: TuningView, out: Path, kept: Path | None = None) -> Path:
    """Write the self-contained page to a file, or to ``report.html`` in a directory. OSError when it cannot be."""
    return write_page(render(view, kept), out)


def render(view: TuningView, kept: Path | None = None) -> str:
    """The page's text."""
    drawn = figures(view)
    return render_page(
        "tuning.html.j2",
        {name: figure.spec for name, figure in drawn.items()},
        kept,
        title=view.record.tuning.tuning,
        simulated=view.simulated,
        v=view,
        tuning=view.record.tuning,
        progress=view.progress,
        figures=drawn,
        w=words,
        change=change_text,
        spread=spread_text,
    )
