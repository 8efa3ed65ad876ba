"""A study drawn: effects on a response, plots of cell means, responses against the load, all trials in their order."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping
from typing import Any

import altair as alt

from leadline.conclude.loads import load_of
from leadline.model.plan import Role
from leadline.model.record import StudyRecord, TrialState
from leadline.model.result import Effect, Interval, ResponseAnalysis, StudyAnalysis, Verdict
from leadline.report import words
from leadline.report.charts import theme

_SETTINGS = len(theme.TREATMENTS)  # lines


def against_load(record: StudyRecord, analysis: ResponseAnalysis) -> theme.Figure | None:
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
    if not rows or len(settings) > _SETTINGS:
        return None
    sets = theme.DataSets()
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
    colour = theme.coloured("setting", dict(zip(settings, theme.TREATMENTS, strict=False)), legend)
    drawn = alt.layer(
        sets.chart(means).mark_line(strokeWidth=1.8).encode(x=x, y=y, color=colour),
        sets.chart(rows)
        .mark_point(size=36, opacity=0.7)
        .encode(x=x, y=y, color=colour, tooltip=["setting:N", "load:Q", "value:Q"]),
    ).properties(width=460, height=220)
    title = f"{analysis.response} against {factor}"
    lines = "; a line for each setting of the other factors" if len(settings) > 1 else ""
    caption = f"{analysis.response} of every trial over its load, and the mean at each load{lines}."
    return theme.figure(f"load-{analysis.response}", title, caption, drawn, sets=sets)


_PAIRS = 3  # pairs of factors drawn: those with the strongest interactions


def cell_means(record: StudyRecord, analysis: ResponseAnalysis) -> Iterator[theme.Figure]:
    """A figure for each pair of factors that has an interaction, the strongest pairs first."""
    pairs = list(dict.fromkeys(interaction.factors for interaction in analysis.interactions if interaction.sentence))
    for names in (pairs or list(dict.fromkeys(interaction.factors for interaction in analysis.interactions))[:1])[
        :_PAIRS
    ]:
        yield _pair(record, analysis, names)


def _pair(record: StudyRecord, analysis: ResponseAnalysis, names: tuple[str, str]) -> theme.Figure:
    along, apart = names
    rows = [
        {
            "along": words.level_text(record.study, along, cell.levels[0]),
            "apart": words.setting(record.study, apart, cell.levels[1]),
            "mean": cell.mean,
            **theme.ends(cell.mean, cell.interval),
            "trials": cell.trials,
        }
        for cell in analysis.cells
        if cell.factors == names
    ]
    kind = words.kind_of(analysis.response)
    sets = theme.DataSets()
    chart = sets.chart(rows)
    order = list(dict.fromkeys(str(row["along"]) for row in rows))
    kinds = list(dict.fromkeys(str(row["apart"]) for row in rows))
    x = alt.X("along:N", sort=order, title=along, axis=alt.Axis(labelAngle=0))
    y = alt.Y("mean:Q", title=[analysis.response, kind.unit], scale=alt.Scale(zero=False))
    colours = [theme.TREATMENTS[number % len(theme.TREATMENTS)] for number in range(len(kinds))]
    colour = alt.Color("apart:N", title=None, scale=alt.Scale(domain=kinds, range=colours))
    shape = alt.Shape("apart:N", title=None, scale=alt.Scale(domain=kinds))
    drawn = alt.layer(
        chart.mark_rule(strokeWidth=1.4, opacity=0.6).encode(x=x, y=alt.Y("low:Q"), y2="high:Q", color=colour),
        chart.mark_line(strokeWidth=1.8).encode(x=x, y=y, color=colour),
        chart.mark_point(filled=True, size=64, opacity=1).encode(
            x=x, y=y, color=colour, shape=shape, tooltip=["along:N", "apart:N", "mean:Q", "low:Q", "high:Q", "trials:Q"]
        ),
    ).properties(width=420, height=220)
    title = f"{analysis.response}: {along} with {apart}"
    caption = (
        f"Mean {analysis.response} of all trials with both levels, with its 95 % interval. Parallel lines: each factor "
        "does the same whatever the other; lines that are not: the effects depend on each other."
    )
    name = f"interaction-{analysis.response}-{along}-{apart}".replace(".", "-")
    return theme.figure(name, title, caption, drawn, sets=sets)


_WIDTH = 560
_SHAPES = ["triangle-up", "triangle-down", "square", "circle", "cross"]  # in the order of the verdicts
_LINEAR = 10.0  # percent up to which a wide axis stays linear
_TICKS = (-100, -50, -20, -10, 0, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000)


def effects(record: StudyRecord, analysis: ResponseAnalysis) -> theme.Figure | None:
    """None where the response has no effects."""
    rows = [_row(record, effect) for effect in analysis.effects]
    if not rows:
        return None
    kind = words.kind_of(analysis.response)
    x, wide = _axis(rows)
    order = [row["label"] for row in rows]
    y = alt.Y("label:N", sort=order, title=None, axis=alt.Axis(labelLimit=330, grid=False, domain=False, ticks=False))
    colour = theme.coloured("verdict", theme.VERDICTS)
    sets = theme.DataSets()
    estimated = [row for row in rows if row["percent"] is not None]
    rows_ = sets.chart(estimated)
    tip = [alt.Tooltip("label:N", title="setting"), alt.Tooltip("text:N", title="change"), "trials:N", "verdict:N"]
    layers: list[Any] = []
    if analysis.luck:
        gain = analysis.luck.gain_95 if kind.higher_is_better else -analysis.luck.gain_95
        layers.append(
            sets.chart([{"a": min(0.0, gain), "b": max(0.0, gain)}])
            .mark_rect(color=theme.GREY, opacity=0.22, clip=True)
            .encode(x=alt.X("a:Q", **x), x2="b:Q")
        )
    layers += [
        theme.no_change(sets, **x),
        rows_.mark_rule(strokeWidth=1.4).encode(x=alt.X("wide_low:Q", **x), x2="wide_high:Q", y=y, color=colour),
        rows_.mark_rule(strokeWidth=5, opacity=0.5).encode(x=alt.X("low:Q", **x), x2="high:Q", y=y, color=colour),
        rows_.mark_point(size=58, filled=True, opacity=1).encode(
            x=alt.X("percent:Q", **x),
            y=y,
            color=colour,
            shape=alt.Shape(
                "verdict:N",
                scale=alt.Scale(domain=list(theme.VERDICTS), range=_SHAPES),
                legend=None,
            ),
            tooltip=tip,
        ),
        sets.chart(rows)
        .mark_text(align="left", fontSize=12)
        .encode(x=alt.value(_WIDTH + 14), y=y, text="text:N", color=colour),
    ]
    comparisons = analysis.luck.comparisons if analysis.luck else len(estimated)
    title = f"{analysis.response}: {kind.unit or 'no unit'}, {'more' if kind.higher_is_better else 'less'} is better"
    base = (
        f"baseline {words.number(analysis.baseline_mean)} {kind.unit} "
        f"{words.value_interval(analysis.baseline_interval)}, {words.baseline_trials(analysis)}"
    )
    family = f"all {comparisons} comparisons" if comparisons > 1 else "its one comparison"
    caption = (
        f"Change of {analysis.response} against the baseline. Thick: 95 % interval; thin: adjusted for {family}; "
        "shaded: what luck alone gives to the best of them (95 of 100 studies)."
    )
    if wide:
        caption += f" The axis is linear up to ±{_LINEAR:.0f} % and logarithmic beyond."
    chart = alt.layer(*layers).properties(
        width=_WIDTH,
        height=alt.Step(25),
        title=alt.Title(title, subtitle=base),
    )
    return theme.figure(f"effects-{analysis.response}", f"Effects on {analysis.response}", caption, chart, sets=sets)


def _row(record: StudyRecord, effect: Effect) -> dict[str, Any]:
    row: dict[str, Any] = {
        "label": words.setting(record.study, effect.factor, effect.level),
        "percent": effect.percent,
        "verdict": effect.verdict.value,
        "trials": words.trials_text(effect),
    }
    if effect.percent is None:
        what = f"all {effect.failures} trials failed" if effect.verdict is Verdict.FAILED else effect.reason
        row["text"] = what or "not estimated"
        return row
    plain, wide = effect.interval, effect.simultaneous
    row |= theme.ends(effect.percent, plain) | theme.ends(effect.percent, wide, "wide_")
    failed = f", {effect.failures} failed" if effect.failures else ""
    row["text"] = (
        f"{words.signed(effect.percent)} % {words.change_interval(plain)} n={effect.trials}{failed} · {row['verdict']}"
    )
    return row


def _axis(rows: list[dict[str, Any]]) -> tuple[dict[str, Any], bool]:
    """Encoding of the x axis; a symmetric logarithm where one effect would hide the others."""
    bounds = [abs(row[key]) for row in rows for key in ("wide_low", "wide_high") if row.get(key) is not None]
    widest = max(bounds, default=1.0)
    wide = widest > 6 * _LINEAR
    label = "datum.value == 0 ? '0' : replace(format(datum.value, '+,~r'), '-', '\u2212')"
    axis: dict[str, Any] = {"labelExpr": label, "title": "change against the baseline, %", "labelOverlap": "greedy"}
    scale: dict[str, Any] = {"nice": False, "zero": True}
    if wide:
        lowest = min((row["wide_low"] for row in rows if row.get("wide_low") is not None), default=0.0)
        highest = max((row["wide_high"] for row in rows if row.get("wide_high") is not None), default=0.0)
        axis["values"] = [tick for tick in _TICKS if lowest * 1.1 - 1 <= tick <= highest * 1.1 + 1]
        scale |= {"type": "symlog", "constant": _LINEAR}
        scale["domain"] = [min(lowest * 1.1, -_LINEAR), max(highest * 1.1, _LINEAR)]
    else:
        axis["tickCount"] = 7
        scale["nice"] = True
    return {"axis": alt.Axis(**axis), "scale": alt.Scale(**scale)}, wide


_ROW, _HEIGHT = 1000, 112
_WIDEST = 4.0  # times the range of the points


def timeline(record: StudyRecord, analysis: StudyAnalysis, colours: Mapping[str, str]) -> theme.Figure | None:
    """One row a response; None when no trial was started. ``colours``: treatment -> colour."""
    started = [trial for trial in record.trials if trial.state in (TrialState.DONE, TrialState.FAILED)]
    names = [name for name in _responses(record, analysis) if any(name in t.responses for t in started)]
    if not started or not names:
        return None
    labels = {t.id: words.trial_text(record.study, record.plan, t.planned) for t in started}
    present = set(labels.values())
    colour = theme.treatment_colour([name for name in colours if name in present], colours)
    last = max(t.planned.position for t in record.trials) + 1
    baselines = {response.response: response.baseline_interval for response in analysis.responses}
    edges = _blocks(record)
    charts = []
    sets = theme.DataSets()
    for name in names:
        rows = [
            {
                "position": t.planned.position + 1,
                "value": t.responses[name],
                "treatment": labels[t.id],
                "role": t.planned.role.value,
                "trial": t.id,
                "block": t.planned.block + 1,
            }
            for t in started
            if t.state == TrialState.DONE and math.isfinite(t.responses.get(name, math.nan))
        ]
        failed = [
            {
                "position": t.planned.position + 1,
                "trial": t.id,
                "treatment": labels[t.id],
                "class": t.failure.value if t.failure else "failed",
            }
            for t in started
            if t.state == TrialState.FAILED
        ]
        charts.append(_timeline_row(sets, name, rows, failed, edges, baselines.get(name), colour, last))
    caption = (
        f"All {len(started)} trials in the order they ran; a point is one trial. Diamonds are sentinels, × failed "
        "trials, dashed lines separate blocks; the band is the 95 % interval of the baseline mean, the grey line "
        "joins baseline and sentinel trials."
    )
    chart = alt.vconcat(*charts, spacing=14).resolve_scale(color="shared", shape="shared")
    return theme.figure("timeline", "Trials in order", caption, chart, sets=sets)


def _responses(record: StudyRecord, analysis: StudyAnalysis) -> list[str]:
    return list(dict.fromkeys([*(response.response for response in analysis.responses), *record.study.responses]))


def _blocks(record: StudyRecord) -> list[dict[str, Any]]:
    first: dict[int, int] = {}
    for planned in record.plan.trials:
        first[planned.block] = min(planned.position, first.get(planned.block, planned.position))
    return [{"edge": position + 0.5, "label": f"block {block + 1}"} for block, position in sorted(first.items())]


def _domain(values: list[float], interval: Interval | None) -> Any:
    """Holds all points, and the band unless that would flatten them: few baseline trials give a wide one."""
    spread = values[-1] - values[0] if values else 0.0
    if spread == 0 or interval is None:
        return alt.Undefined
    low, high = min(values[0], interval.low), max(values[-1], interval.high)
    if high - low <= _WIDEST * spread:
        return alt.Undefined
    bottom = values[0] - spread / 4
    if values[0] > 0:
        bottom = max(bottom, values[0] / 2)  # the axis may be logarithmic
    return [max(low, bottom), min(high, values[-1] + spread / 4)]


def _timeline_row(
    sets: theme.DataSets,
    name: str,
    rows: list[dict[str, Any]],
    failed: list[dict[str, Any]],
    edges: list[dict[str, Any]],
    interval: Interval | None,
    colour: alt.Color,
    last: int,
) -> Any:
    kind = words.kind_of(name)
    along = alt.Scale(domain=[0.4, last + 0.6], nice=False)
    x = alt.X("position:Q", scale=along, axis=alt.Axis(grid=False, tickMinStep=1, format="d"), title=None)
    values = sorted(row["value"] for row in rows)
    # one slow treatment must not flatten the others
    logarithmic = bool(values) and values[0] > 0 and values[-1] > 4 * values[len(values) // 2]
    domain = _domain(values, interval)
    scale = (
        alt.Scale(type="log", nice=False, padding=8, domain=domain)
        if logarithmic
        else alt.Scale(zero=False, padding=8, domain=domain)
    )
    y = alt.Y(
        "value:Q",
        scale=scale,
        title=[name, kind.unit + (" (log)" if logarithmic else "")],
        axis=alt.Axis(
            tickCount=4,
            format="~s" if values and values[-1] >= 10000 else ",~r",
            values=theme.log_ticks(values[0], values[-1]) if logarithmic else alt.Undefined,
        ),
    )
    layers: list[Any] = []
    if interval is not None:
        layers.append(
            sets.chart([{"low": interval.low, "high": interval.high}])
            .mark_rect(color=theme.GREY, opacity=0.22, clip=True)
            .encode(y=alt.Y("low:Q", scale=scale), y2="high:Q")
        )
    layers.append(
        sets.chart(edges[1:]).mark_rule(strokeDash=[4, 3], color=theme.GREY).encode(x=alt.X("edge:Q", scale=along))
    )
    steady = [row for row in rows if row["role"] != Role.TREATMENT.value]
    layers.append(sets.chart(steady).mark_line(color="#b4bac2", strokeWidth=1.2).encode(x=x, y=y))
    layers.append(
        sets.chart(rows)
        .mark_point(size=52, filled=True, opacity=0.95)
        .encode(
            x=x,
            y=y,
            color=colour,
            shape=alt.Shape(
                "role:N",
                scale=alt.Scale(domain=["baseline", "treatment", "sentinel"], range=["circle", "circle", "diamond"]),
                legend=None,
            ),
            tooltip=["trial:Q", "treatment:N", "role:N", "block:Q", alt.Tooltip("value:Q", format=",.4~r", title=name)],
        )
    )
    layers.append(
        sets.chart(failed)
        .mark_text(text="×", fontSize=16, fontWeight=700, color=theme.VERMILLION)
        .encode(x=x, y=alt.value(_HEIGHT - 7), tooltip=["trial:Q", "treatment:N", "class:N"])
    )
    return alt.layer(*layers).properties(width=_ROW, height=_HEIGHT)
