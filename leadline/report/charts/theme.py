"""Colours, fonts and the figure all charts share.

Colours: M. Okabe and K. Ito, Color Universal Design (2008), told apart with every common colour blindness.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import altair as alt
import vl_convert

from leadline.model.result import Interval
from leadline.report.document import plain

VEGA_LITE = "6.4"
BLACK, GREY = "#1b1f24", "#8a9099"
BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY = "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"
RUST = "#b03a00"  # for text: vermillion on white has a contrast of 3.9 only
TREATMENTS = (BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY, "#7a5c00", "#5b4a9c", "#4d7a00", "#8c2d04")
VERDICTS = {
    "better": BLUE,
    "worse": VERMILLION,
    "equivalent": GREEN,
    "identical": GREEN,
    "undetermined": "#6b727c",
    "failed": BLACK,
}

_FONT = "Helvetica Neue, Arial, Liberation Sans, sans-serif"
_FOR_OTHER_FONTS = {"left": 30, "right": 44, "top": 5, "bottom": 5}  # px: a viewer's may be wider than those here
_CONFIG: dict[str, Any] = {
    "font": _FONT,
    "background": "white",
    "view": {"stroke": None},
    "axis": {
        "gridColor": "#e7e9ec",
        "domainColor": "#9aa1ab",
        "tickColor": "#9aa1ab",
        "labelColor": "#353b43",
        "titleColor": "#353b43",
        "titleFontWeight": "normal",
        "labelFontSize": 12,
        "titleFontSize": 12,
        "labelOverlap": "greedy",
    },
    "legend": {"labelFontSize": 12, "titleFontSize": 12, "labelLimit": 420, "symbolStrokeWidth": 2.5},
    "title": {"anchor": "start", "fontSize": 13, "fontWeight": 600, "color": BLACK, "subtitleColor": "#555c66"},
    "header": {"labelFontSize": 12, "titleFontSize": 12},
}


@dataclass(frozen=True)
class Figure:
    """A chart with its words. ``name`` is the file name of the export and the id on the page."""

    name: str
    title: str
    caption: str
    spec: dict[str, Any]

    def svg(self) -> str:
        spec = {"padding": _FOR_OTHER_FONTS, **self.spec}
        return vl_convert.vegalite_to_svg(spec, vl_version=VEGA_LITE)

    def png(self) -> bytes:
        return vl_convert.vegalite_to_png(self.spec, vl_version=VEGA_LITE, scale=2.0)


def figure(
    name: str, title: str, caption: str, chart: Any, *, sets: DataSets | None = None, description: str | None = None
) -> Figure:
    """Finish a chart: theme, rows, description for screen readers, dictionary."""
    spec: dict[str, Any] = chart.to_dict(validate=False)
    if sets:
        spec["datasets"] = plain(sets)
    spec["config"] = _CONFIG
    spec["description"] = description or f"{title}. {caption}"
    spec.pop("$schema", None)
    return Figure(name, title, caption, spec)


def marked(drawn: Figure, simulated: bool) -> Figure:
    """The figure of a simulated study with the word in its title, which goes wherever the picture goes."""
    if not simulated:
        return drawn
    title = drawn.spec.get("title", "")
    rest = dict(title) if isinstance(title, Mapping) else {"text": title}
    text = rest.get("text") or drawn.title
    head = "SIMULATED: "
    rest["text"] = [head + text[0], *text[1:]] if isinstance(text, list) else f"{head}{text}"
    return replace(drawn, title=f"{head}{drawn.title}", spec={**drawn.spec, "title": rest})


class DataSets(dict[str, list[dict[str, Any]]]):
    """Rows of a figure, kept beside the chart: Altair copies a chart with its rows at every step."""

    def chart(self, rows: list[dict[str, Any]]) -> alt.Chart:
        name = f"rows{len(self)}"
        self[name] = rows
        return alt.Chart(alt.NamedData(name))


def palette(treatments: Sequence[str]) -> dict[str, str]:
    """A colour for each treatment, the same in every chart; the baseline is black."""
    others = [name for name in dict.fromkeys(treatments) if name != "baseline"]
    return {"baseline": BLACK} | {name: TREATMENTS[i % len(TREATMENTS)] for i, name in enumerate(others)}


def treatment_colour(shown: Sequence[str], colours: Mapping[str, str], symbol: str = "circle") -> alt.Color:
    """The colour channel of charts that compare treatments, with its legend."""
    return alt.Color(
        "treatment:N",
        sort=list(shown),
        scale=alt.Scale(domain=list(shown), range=[colours[name] for name in shown]),
        legend=alt.Legend(orient="top", columns=3, title=None, symbolType=symbol, symbolOpacity=1),
    )


def ends(value: float | None, interval: Interval | None, prefix: str = "") -> dict[str, float | None]:
    """``low`` and ``high`` of a drawn interval: the value itself where it has none."""
    low, high = (interval.low, interval.high) if interval else (value, value)
    return {f"{prefix}low": low, f"{prefix}high": high}


def coloured(field: str, colours: Mapping[str, str], legend: alt.Legend | None = None) -> alt.Color:
    """The colour channel of a field whose values have these colours."""
    scale = alt.Scale(domain=list(colours), range=list(colours.values()))
    return alt.Color(f"{field}:N", scale=scale, legend=legend)


def no_change(sets: DataSets, **axis: Any) -> Any:
    """The line at zero of a chart of changes."""
    return sets.chart([{"zero": 0}]).mark_rule(color="#353b43", strokeWidth=1.2).encode(x=alt.X("zero:Q", **axis))


def log_ticks(low: float, high: float) -> list[float]:
    """Round values for a logarithmic axis: 1, 2, 5 over few decades, else powers of ten."""
    steps = (1, 2, 5) if high / low <= 300 else (1,)
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    return [step * 10.0**power for power in powers for step in steps]
