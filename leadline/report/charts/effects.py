"""The forest plot: every effect on one response, ranked, with both intervals."""

from __future__ import annotations

from typing import Any

import altair as alt

from leadline.model.record import StudyRecord
from leadline.model.result import Effect, ResponseAnalysis, Verdict
from leadline.report import words
from leadline.report.charts.theme import GREY, VERDICTS, DataSets, Figure, figure

_WIDTH = 560
_SHAPES = ["triangle-up", "triangle-down", "square", "circle", "cross"]  # in the order of the verdicts
_LINEAR = 10.0  # percent up to which a wide axis stays linear
_TICKS = (-100, -50, -20, -10, 0, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000)


def effects(record: StudyRecord, analysis: ResponseAnalysis) -> Figure | None:
    """None where the response has no effects."""
    rows = [_row(record, effect) for effect in analysis.effects]
    if not rows:
        return None
    kind = words.kind_of(analysis.response)
    x, wide = _axis(rows)
    order = [row["label"] for row in rows]
    y = alt.Y("label:N", sort=order, title=None, axis=alt.Axis(labelLimit=330, grid=False, domain=False, ticks=False))
    colour = alt.Color("verdict:N", scale=alt.Scale(domain=list(VERDICTS), range=list(VERDICTS.values())), legend=None)
    sets = DataSets()
    estimated = [row for row in rows if row["percent"] is not None]
    rows_ = sets.chart(estimated)
    tip = [alt.Tooltip("label:N", title="setting"), alt.Tooltip("text:N", title="change"), "trials:N", "verdict:N"]
    layers: list[Any] = []
    if analysis.luck:
        gain = analysis.luck.gain_95 if kind.higher_is_better else -analysis.luck.gain_95
        layers.append(
            sets.chart([{"a": min(0.0, gain), "b": max(0.0, gain)}])
            .mark_rect(color=GREY, opacity=0.22, clip=True)
            .encode(x=alt.X("a:Q", **x), x2="b:Q")
        )
    layers += [
        sets.chart([{"zero": 0}]).mark_rule(color="#353b43", strokeWidth=1.2).encode(x=alt.X("zero:Q", **x)),
        rows_.mark_rule(strokeWidth=1.4).encode(x=alt.X("wide_low:Q", **x), x2="wide_high:Q", y=y, color=colour),
        rows_.mark_rule(strokeWidth=5, opacity=0.5).encode(x=alt.X("low:Q", **x), x2="high:Q", y=y, color=colour),
        rows_.mark_point(size=58, filled=True, opacity=1).encode(
            x=alt.X("percent:Q", **x),
            y=y,
            color=colour,
            shape=alt.Shape(
                "verdict:N",
                scale=alt.Scale(domain=list(VERDICTS), range=_SHAPES),
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
    return figure(f"effects-{analysis.response}", f"Effects on {analysis.response}", caption, chart, sets=sets)


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
    row |= {
        "low": plain.low if plain else effect.percent,
        "high": plain.high if plain else effect.percent,
        "wide_low": wide.low if wide else effect.percent,
        "wide_high": wide.high if wide else effect.percent,
    }
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
