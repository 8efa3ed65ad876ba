"""Study A's figures as charts: strips, gains and losses, failures, sensitivities, ranks, groups."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import altair as alt

from leadline.figures.everything import StudyFigures, figures_of
from leadline.figures.extremes import ExtremesTable
from leadline.figures.failing import Failures, Throughput
from leadline.figures.grouping import Grouping
from leadline.figures.ranking import Ranking, Standing
from leadline.figures.sensitivity import ALPHA, Sensitivities
from leadline.figures.table import table_of
from leadline.model.errors import UsageError
from leadline.model.naming import describing
from leadline.model.record import StudyRecord
from leadline.report import words
from leadline.report.charts.theme import (
    BLACK,
    BLUE,
    GREY,
    ORANGE,
    VERMILLION,
    DataSets,
    Figure,
    coloured,
    ends,
    figure,
    marked,
    no_change,
)


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


STANDINGS = {Standing.POSITIVE: BLUE, Standing.UNDETERMINED: "#6b727c", Standing.NEGATIVE: VERMILLION}
_WIDTH = 560
_MOST = 60  # settings of a ranking in a chart; the table holds all


def charts(figures: StudyFigures) -> list[Figure]:
    """Every chart that the figures have, in the order of the paper."""
    drawn: list[Figure | None] = []
    if figures.throughput and figures.throughput.systems:
        drawn.append(strips(figures.throughput))
    if figures.extremes:
        drawn.append(gains(figures.extremes))
    if figures.failures:
        drawn.append(failed(figures.failures))
    if figures.sensitivity:
        drawn.append(bars(figures.sensitivity))
        if len(figures.systems) > 1:
            drawn.append(heat_map(figures.sensitivity))
    if figures.ranking:
        drawn += [ranks(figures.ranking), verdicts(figures.ranking)]
    if figures.grouping and figures.sensitivity:
        drawn.append(groups(figures.grouping, figures))
    return [figure for figure in drawn if figure is not None]


def _y(field: str, order: list[str] | None = None) -> alt.Y:
    axis = alt.Axis(labelLimit=300, grid=False, domain=False, ticks=False)
    return alt.Y(f"{field}:N", sort=order, title=None, axis=axis)


def strips(found: Throughput) -> Figure:
    """Figure 1: every setting's mean on every system, the baseline as a bar with its interval."""
    sets = DataSets()
    order = [row.system for row in found.systems]
    x: dict[str, Any] = {"title": f"{found.response}, {found.unit}" if found.unit else found.response}
    x |= {"scale": alt.Scale(zero=False), "axis": alt.Axis(tickCount=7)}
    points = [
        {"system": row.system, "mean": setting.mean, "setting": setting.setting, "runs": setting.runs}
        for row in found.systems
        for setting in row.settings
    ]
    bases = [
        {
            "system": row.system,
            "baseline": row.baseline,
            **ends(row.baseline, row.interval),
            "runs": row.baseline_runs,
        }
        for row in found.systems
        if row.baseline is not None
    ]
    layers: list[Any] = [
        sets.chart(points)
        .mark_point(shape="stroke", size=260, angle=90, strokeWidth=1.3, opacity=0.65, color=BLUE)
        .encode(x=alt.X("mean:Q", **x), y=_y("system", order), tooltip=["system:N", "setting:N", "mean:Q", "runs:Q"])
    ]
    if bases:
        base = sets.chart(bases)
        layers += [
            base.mark_rule(strokeWidth=5, opacity=0.35, color=BLACK).encode(
                x=alt.X("low:Q", **x), x2="high:Q", y=_y("system", order)
            ),
            base.mark_point(shape="diamond", filled=True, size=75, opacity=1, color=BLACK).encode(
                x=alt.X("baseline:Q", **x), y=_y("system", order), tooltip=["system:N", "baseline:Q", "runs:Q"]
            ),
        ]
    caption = "A stroke is the mean of one setting, the diamond the baseline with its 95 % interval. " + found.sentence
    chart = alt.layer(*layers).properties(width=_WIDTH, height=alt.Step(30), title=f"{found.response} by system")
    return figure("study-a-throughput", f"{found.response} by system, all settings", caption, chart, sets=sets)


def gains(found: ExtremesTable) -> Figure:
    """Figure 2: best gain and worst loss with simultaneous intervals; shaded, what luck alone gives."""
    sets = DataSets()
    order = [row.system for row in found.rows]
    rows, shades = [], []
    for row in found.rows:
        for kind, value, interval, setting in (
            ("best gain", row.best, row.best_interval, row.best_setting),
            ("worst loss", row.worst, row.worst_interval, row.worst_setting),
        ):
            rows.append(
                {
                    "system": row.system,
                    "kind": kind,
                    "percent": value,
                    **ends(value, interval),
                    "setting": setting,
                }
            )
        if row.luck:
            shades.append(
                {"system": row.system, "luck": row.luck.gain_95, "ill": -row.luck.gain_95}
                | {"mean": row.luck.expected_gain, "ill_mean": -row.luck.expected_gain}
            )
    x = alt.X("percent:Q", title="against the baseline, % (positive is better)")
    legend = alt.Legend(orient="top", title=None, symbolOpacity=1)
    colour = coloured("kind", {"best gain": BLUE, "worst loss": VERMILLION}, legend)
    y = _y("system", order)
    layers: list[Any] = []
    if shades:
        shade = sets.chart(shades)
        layers += [
            shade.mark_bar(color=GREY, opacity=0.22, height=16).encode(x=alt.X("ill:Q"), x2="luck:Q", y=y),
            shade.mark_tick(color=GREY, thickness=1.5, height=16).encode(x=alt.X("mean:Q"), y=y),
            shade.mark_tick(color=GREY, thickness=1.5, height=16).encode(x=alt.X("ill_mean:Q"), y=y),
        ]
    layers.append(no_change(sets))
    if len(found.rows) > 1:
        means = [{"x": found.mean_best, "kind": "best gain"}, {"x": found.mean_worst, "kind": "worst loss"}]
        dashed = sets.chart(means).mark_rule(strokeDash=[4, 3], strokeWidth=1.2)
        layers.append(dashed.encode(x="x:Q", color=colour))
    for kind, shift in (("best gain", -3), ("worst loss", 3)):  # beside each other where they overlap
        rows_ = sets.chart([row for row in rows if row["kind"] == kind])
        layers += [
            rows_.mark_rule(strokeWidth=1.6, yOffset=shift).encode(x="low:Q", x2="high:Q", y=y, color=colour),
            rows_.mark_point(filled=True, size=60, opacity=1, yOffset=shift).encode(
                x=x, y=y, color=colour, tooltip=["system:N", "kind:N", "setting:N", "percent:Q", "low:Q", "high:Q"]
            ),
        ]
    caption = (
        "Lines: 95 % interval for all settings of a system at once; dashed: means over systems; shaded: what luck "
        "alone gives the best and the worst setting (mean marked, to the edge in 95 of 100 tables). " + found.sentence
    )
    chart = alt.layer(*layers).properties(width=_WIDTH, height=alt.Step(28), title="Best gain and worst loss")
    return figure("study-a-gains", "Best gain and worst loss of any setting", caption, chart, sets=sets)


def failed(found: Failures) -> Figure | None:
    """Figure 3: failed runs by class beside the deviations; None where no system was run."""
    if not found.systems:
        return None
    sets = DataSets()
    order = [row.system for row in found.systems]
    counts = [
        {"system": row.system, "class": name, "runs": count}
        for row in found.systems
        for name, count in row.classes.items()
    ]
    deviations = [
        {"system": row.system, "deviation": name, "percent": value}
        for row in found.systems
        for name, value in (("between repeats", row.repeats), ("from the baseline", row.from_baseline))
        if value is not None
    ]
    palette = [VERMILLION, ORANGE, BLACK, GREY, "#cc79a7"]
    properties = (
        sets.chart(counts or [{"system": order[0], "class": "none", "runs": 0}])
        .mark_bar()
        .encode(
            x=alt.X(
                "runs:Q",
                title="failed runs",
                axis=alt.Axis(tickMinStep=1),
                scale=alt.Scale() if counts else alt.Scale(domain=[0, 1]),
            ),
            y=alt.Y("system:N", sort=order, title=None, scale=alt.Scale(domain=order)),
            color=alt.Color(
                "class:N",
                scale=alt.Scale(range=palette),
                legend=alt.Legend(orient="top", title=None) if counts else None,
            ),
            tooltip=["system:N", "class:N", "runs:Q"],
        )
        .properties(width=_WIDTH // 2 - 40, height=alt.Step(24), title="Failed runs")
    )
    right = (
        sets.chart(deviations)
        .mark_point(filled=True, size=60, opacity=1)
        .encode(
            x=alt.X("percent:Q", title="% of the baseline"),
            y=alt.Y("system:N", sort=order, title=None, scale=alt.Scale(domain=order), axis=alt.Axis(labels=False)),
            shape=alt.Shape("deviation:N", legend=alt.Legend(orient="top", title=None)),
            color=alt.value(BLUE),
            tooltip=["system:N", "deviation:N", "percent:Q"],
        )
        .properties(width=_WIDTH // 2 - 40, height=alt.Step(24), title="Mean deviation")
    )
    chart = alt.hconcat(properties, right).resolve_scale(color="independent", shape="independent")
    caption = (
        "Deviation between repeats: standard deviation of single runs of one setting; from the baseline: mean distance "
        "of the settings' means. " + found.sentence
    )
    return figure("study-a-failures", "Failed runs and mean deviation by system", caption, chart, sets=sets)


def ranks(found: Ranking) -> Figure:
    """Figure 6: mean rank of each setting with the margin around the middle, and its rank on every system."""
    sets = DataSets()
    rows_ = _shown(found)
    order = [row.setting for row in rows_]
    places = {row.setting: place for place, row in enumerate(found.rows)}
    single = [
        {"setting": row.setting, "rank": ranks_of[places[row.setting]], "system": system}
        for row in rows_
        for system, ranks_of in zip(found.systems, found.ranks, strict=True)
    ]
    rows = [
        {"setting": row.setting, "rank": row.mean_rank, "verdict": row.by_rank.value, "model": row.by_model.value}
        for row in rows_
    ]
    y = _y("setting", order)
    x = alt.X("rank:Q", title=f"rank, 1 (worst) to {len(found.rows)} (best)", scale=alt.Scale(zero=False))
    layers: list[Any] = []
    if found.margin is not None:
        band = [{"a": found.middle - found.margin, "b": found.middle + found.margin}]
        layers.append(sets.chart(band).mark_rect(color=GREY, opacity=0.22).encode(x="a:Q", x2="b:Q"))
    layers += [
        sets.chart([{"middle": found.middle}]).mark_rule(color="#353b43", strokeWidth=1.2).encode(x="middle:Q"),
        sets.chart(single)
        .mark_point(shape="stroke", angle=90, size=90, opacity=0.5, color=GREY)
        .encode(x=x, y=y, tooltip=["setting:N", "system:N", "rank:Q"]),
        sets.chart(rows)
        .mark_point(filled=True, size=62, opacity=1)
        .encode(x=x, y=y, color=_standing(), tooltip=["setting:N", "rank:Q", "verdict:N", "model:N"]),
    ]
    chart = alt.layer(*layers).properties(width=_WIDTH, height=alt.Step(17), title="Ranking of the settings")
    caption = (
        "Points: mean rank over systems; strokes: rank on one system; shaded: the margin around the middle that no "
        "setting leaves in 95 of 100 tables without effects. " + found.sentence
    )
    return figure("study-a-ranks", "Ranking of the settings over systems", caption, chart, sets=sets)


def verdicts(found: Ranking) -> Figure | None:
    """Figure 6 by the model, with the verdict of the ranks beside that of the model; None without any estimate."""
    sets = DataSets()
    rows_ = _shown(found)
    order = [row.setting for row in rows_]
    rows = [
        {
            "setting": row.setting,
            "percent": row.model.percent,
            **ends(row.model.percent, row.model.interval),
            "verdict": row.by_model.value,
            "text": f"ranks: {row.by_rank.value}" + ("" if row.agree else "  (differs)"),
        }
        for row in rows_
        if row.model is not None
    ]
    if not rows:
        return None
    points = sets.chart(rows)
    y = _y("setting", order)
    layers = [
        no_change(sets),
        points.mark_rule(strokeWidth=1.6).encode(x=alt.X("low:Q"), x2="high:Q", y=y, color=_standing()),
        points.mark_point(filled=True, size=55, opacity=1).encode(
            x=alt.X("percent:Q", title="against the middle half of the settings, %"),
            y=y,
            color=_standing(),
            tooltip=["setting:N", "percent:Q", "low:Q", "high:Q", "verdict:N"],
        ),
        points.mark_text(align="left", fontSize=12).encode(x=alt.value(_WIDTH + 12), y=y, text="text:N"),
    ]
    chart = alt.layer(*layers).properties(width=_WIDTH, height=alt.Step(17), title="The same by the mixed model")
    caption = (
        "Change against the middle half of the settings with 95 % intervals for all settings at once, colours by the "
        "model's verdict; at the right the verdict of the ranks. "
        f"Both methods agree on {found.agreement} of {len(found.rows)} settings."
    )
    return figure("study-a-model", "Settings by the mixed model, beside the ranks", caption, chart, sets=sets)


def groups(found: Grouping, figures: StudyFigures) -> Figure:
    """Figure 7: every parameter's sensitivity by group, with the group means."""
    sets = DataSets()
    values = {
        row.parameter: row.corrected if found.corrected else row.plain
        for row in (figures.sensitivity.rows if figures.sensitivity else ())
    }
    order = [group.name for group in found.groups]
    rows = [
        {"group": group.name, "parameter": name, "sensitivity": values[name]}
        for group in found.groups
        for name in group.parameters
    ]
    means = [{"group": group.name, "mean": group.mean} for group in found.groups]
    unit = f", {figures.unit}" if figures.unit else ""
    x = alt.X("sensitivity:Q", title=f"sensitivity{' without noise' if found.corrected else ''}{unit}")
    chart = alt.layer(
        sets.chart(rows)
        .mark_point(filled=True, size=60, opacity=0.8, color=BLUE)
        .encode(x=x, y=_y("group", order), tooltip=["group:N", "parameter:N", "sensitivity:Q"]),
        sets.chart(means).mark_tick(color=BLACK, thickness=2.5, size=22).encode(x="mean:Q", y=_y("group", order)),
    ).properties(width=_WIDTH, height=alt.Step(34), title="Sensitivity by group")
    caption = "A point is one parameter, the bar its group's mean. " + found.sentence
    return figure("study-a-groups", "Sensitivity by group of parameters", caption, chart, sets=sets)


def _shown(found: Ranking) -> list[Any]:
    """All rows, or the best and the worst of them where they are too many for a chart."""
    rows = list(found.rows)
    return rows if len(rows) <= _MOST else rows[: _MOST // 2] + rows[-_MOST // 2 :]


def _standing() -> alt.Color:
    legend = alt.Legend(orient="top", title=None, symbolOpacity=1)
    return coloured("verdict", {standing.value: colour for standing, colour in STANDINGS.items()}, legend)


FACTORS = 4  # with fewer, the effects say it all


@dataclass(frozen=True)
class Section:
    """What the page shows of one response."""

    response: str
    sentences: tuple[str, ...]
    figures: tuple[Figure, ...]
    notes: tuple[str, ...]


def section(record: StudyRecord) -> Section | None:
    """The figures of the study's first response; None with fewer than four factors or without a figure."""
    if len(record.plan.factors) < FACTORS or not record.study.responses:
        return None
    response = record.study.responses[0]
    try:
        table = table_of(
            record.plan,
            record.observations(),
            response,
            describe=describing(record.study),
        )
    except UsageError:
        return None  # no run has a figure: the page says so where it lists the effects
    figures = figures_of(table)
    return Section(
        response,
        tuple(figures.sentences()),
        tuple(marked(chart, record.simulated) for chart in charts(figures)),
        figures.notes,
    )
