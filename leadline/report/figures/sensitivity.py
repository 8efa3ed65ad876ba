"""Sensitivities as ranked bars and as a map parameter x system."""

from __future__ import annotations

from typing import Any

import altair as alt

from leadline.figures.sensitivity import ALPHA, Sensitivities
from leadline.report import words
from leadline.report.charts.theme import BLACK, BLUE, GREY, DataSets, Figure, figure

_WIDTH = 560


def _unit(found: Sensitivities) -> str:
    return f", {found.unit}" if found.unit else ""


def bars(found: Sensitivities) -> Figure | None:
    """Figure 4, ranked: pale the plain formula, solid without noise, with its interval."""
    rows = [row for row in found.rows if row.plain is not None]
    if not rows:
        return None
    sets = DataSets()
    order = [row.parameter for row in rows]
    data: list[dict[str, Any]] = [
        {
            "parameter": row.parameter,
            "plain": row.plain,
            "corrected": row.corrected,
            "low": row.interval.low if row.interval else None,
            "high": row.interval.high if row.interval else None,
            "text": words.probability(row.p_adjusted) if row.p_adjusted is not None else "",
            "told": "yes" if row.told else "no",
        }
        for row in rows
    ]
    y = alt.Y("parameter:N", sort=order, title=None, axis=alt.Axis(labelLimit=300, domain=False, ticks=False))
    title = f"sum over systems of the standard deviation over the levels{_unit(found)}"
    tip = ["parameter:N", "plain:Q", "corrected:Q", "low:Q", "high:Q", alt.Tooltip("text:N", title="p, adjusted")]
    every = sets.chart(data)
    rows_ = sets.chart([row for row in data if row["corrected"] is not None])
    shade = alt.condition("datum.told == 'yes'", alt.value(BLUE), alt.value("#6b727c"))
    layers = [
        every.mark_bar(color=GREY, opacity=0.35, height=15).encode(x=alt.X("plain:Q", title=title), y=y, tooltip=tip),
        rows_.mark_bar(height=8).encode(x="corrected:Q", y=y, color=shade, tooltip=tip),
        rows_.mark_rule(color=BLACK, strokeWidth=1.4).encode(x="low:Q", x2="high:Q", y=y),
        rows_.mark_text(align="left", fontSize=12)
        .encode(x=alt.value(_WIDTH + 12), y=y, text=alt.Text("label:N"))
        .transform_calculate(label="'p = ' + datum.text"),
    ]
    chart = alt.layer(*layers).properties(width=_WIDTH, height=alt.Step(26), title="Sensitivity of the parameters")
    caption = (
        "Pale: the plain formula, which noise inflates; solid: without what noise adds, with the 95 % interval, blue "
        "where it is more than noise (adjusted for all parameters). " + found.sentence
    )
    return figure("study-a-sensitivity", "Sensitivity of the parameters", caption, chart, sets=sets)


def heat_map(found: Sensitivities) -> Figure | None:
    """Figure 5: parameter x system, percent of the system's baseline."""
    cells = [cell for cell in found.cells if cell.percent is not None]
    if not cells:
        return None
    sets = DataSets()
    parameters = [row.parameter for row in found.rows]
    systems = list(dict.fromkeys(cell.system for cell in found.cells))
    top = max(cell.percent or 0.0 for cell in cells)
    data = [
        {
            "parameter": cell.parameter,
            "system": cell.system,
            "percent": cell.percent,
            "plain": cell.plain,
            "corrected": cell.corrected,
            "text": f"{cell.percent:.1f}" + ("" if cell.p_value is None or cell.p_value >= ALPHA else "*"),
            "dark": (cell.percent or 0.0) > 0.55 * top,
            "p": words.probability(cell.p_value),
        }
        for cell in cells
    ]
    x = alt.X("system:N", sort=systems, title=None, axis=alt.Axis(labelAngle=-40, labelLimit=160))
    y = alt.Y("parameter:N", sort=parameters, title=None, axis=alt.Axis(labelLimit=300))
    base = sets.chart(data).encode(x=x, y=y)
    chart = alt.layer(
        base.mark_rect(stroke="white").encode(
            color=alt.Color(
                "percent:Q",
                scale=alt.Scale(scheme="blues", domainMin=0),
                legend=alt.Legend(title="% of the baseline", gradientLength=120),
            ),
            tooltip=["parameter:N", "system:N", "percent:Q", "plain:Q", "corrected:Q", "p:N"],
        ),
        base.mark_text(fontSize=12).encode(
            text="text:N", color=alt.condition("datum.dark", alt.value("white"), alt.value(BLACK))
        ),
    ).properties(width=alt.Step(46), height=alt.Step(24), title="Sensitivity by parameter and system")
    caption = (
        "Standard deviation of the response over the parameter's levels, percent of the system's baseline (plain "
        "formula). *: noise alone gives as much in fewer than 5 of 100 cases, each cell by itself."
    )
    return figure("study-a-map", "Sensitivity by parameter and system", caption, chart, sets=sets)
