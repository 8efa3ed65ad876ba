"""All trials in the order they ran, so that a drift or a bad block can be seen."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import altair as alt

from leadline.model.plan import Role
from leadline.model.record import StudyRecord, TrialState
from leadline.model.result import Interval, StudyAnalysis
from leadline.report import words
from leadline.report.charts.theme import GREY, VERMILLION, DataSets, Figure, figure, log_ticks, treatment_colour

_WIDTH, _HEIGHT = 1000, 112
_WIDEST = 4.0  # times the range of the points


def timeline(record: StudyRecord, analysis: StudyAnalysis, colours: Mapping[str, str]) -> Figure | None:
    """One row a response; None when no trial was started. ``colours``: treatment -> colour."""
    started = [trial for trial in record.trials if trial.state in (TrialState.DONE, TrialState.FAILED)]
    names = [name for name in _responses(record, analysis) if any(name in t.responses for t in started)]
    if not started or not names:
        return None
    labels = {t.id: words.trial_text(record.study, record.plan, t.planned) for t in started}
    present = set(labels.values())
    colour = treatment_colour([name for name in colours if name in present], colours)
    last = max(t.planned.position for t in record.trials) + 1
    baselines = {response.response: response.baseline_interval for response in analysis.responses}
    edges = _blocks(record)
    charts = []
    sets = DataSets()
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
        charts.append(_row(sets, name, rows, failed, edges, baselines.get(name), colour, last))
    caption = (
        f"All {len(started)} trials in the order they ran; a point is one trial. Diamonds are sentinels, × failed "
        "trials, dashed lines separate blocks; the band is the 95 % interval of the baseline mean, the grey line "
        "joins baseline and sentinel trials."
    )
    chart = alt.vconcat(*charts, spacing=14).resolve_scale(color="shared", shape="shared")
    return figure("timeline", "Trials in order", caption, chart, sets=sets)


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


def _row(
    sets: DataSets,
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
            values=log_ticks(values[0], values[-1]) if logarithmic else alt.Undefined,
        ),
    )
    layers: list[Any] = []
    if interval is not None:
        layers.append(
            sets.chart([{"low": interval.low, "high": interval.high}])
            .mark_rect(color=GREY, opacity=0.22, clip=True)
            .encode(y=alt.Y("low:Q", scale=scale), y2="high:Q")
        )
    layers.append(sets.chart(edges[1:]).mark_rule(strokeDash=[4, 3], color=GREY).encode(x=alt.X("edge:Q", scale=along)))
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
        .mark_text(text="×", fontSize=16, fontWeight=700, color=VERMILLION)
        .encode(x=x, y=alt.value(_HEIGHT - 7), tooltip=["trial:Q", "treatment:N", "class:N"])
    )
    return alt.layer(*layers).properties(width=_WIDTH, height=_HEIGHT)
