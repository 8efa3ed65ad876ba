"""Before and after by mode, with the gain as a line: of a measured tuning and of a published one alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt

from leadline.analysis.contrasts import Change
from leadline.model.result import Interval
from leadline.model.tuning import Published
from leadline.planning.sequence import Comparison
from leadline.report import words
from leadline.report.charts.theme import BLUE, GREY, RUST, VERMILLION, DataSets, Figure, figure


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
            "low": interval.low if interval else value,
            "high": interval.high if interval else value,
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
            "low": bar.gain_interval.low if bar.gain_interval else bar.gain,
            "high": bar.gain_interval.high if bar.gain_interval else bar.gain,
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
