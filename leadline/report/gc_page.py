"""GC logs as a page (what happened first, panels over time, distributions, logs against each other) and as Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import Any

import polars as pl

from leadline.gcanalysis.against import UNITS, Difference
from leadline.gcanalysis.events import GcLog
from leadline.gcanalysis.summary import Durations, GcSummary, durations
from leadline.model.units import rounded
from leadline.observe.gc import tabulate
from leadline.observe.gclog.report import (
    LogFigures,
    Logs,
    cells,
    change_text,
    difference_text,
    figure_rows,
    render,
    verdict_text,
)
from leadline.report import series, words
from leadline.report.charts import latency as latency_chart
from leadline.report.charts import trial as trial_chart
from leadline.report.charts.theme import Figure
from leadline.report.charts.trial import GC_PANELS, Source
from leadline.report.latency import Histogram, counted
from leadline.report.page import render_page, write_page
from leadline.report.words import escaped, markdown_table

_POINTS = 400  # a line; of two JVMs side by side half as many
_CURVES = 10  # logs in one chart
_UPTIME = 1e9  # s; more is a wall clock, of a log without uptime


@dataclass(frozen=True)
class Entry:
    """One JVM of a log. ``table``: its series by uptime; ``side``: "A", or "B" of the logs A is compared with."""

    label: str
    side: str
    figures: GcSummary
    text: str
    table: pl.DataFrame
    bounds: tuple[float, float]
    operations: dict[str, tuple[Durations, float]]  # with the longest time to reach them, ms
    pauses: Histogram


def entries_of(log: GcLog, figures: LogFigures) -> list[Entry]:
    """One for each JVM of a log."""
    return [
        _entry(name, figures.side, log.of(number) if figures.parts else log, part)
        for number, (name, part) in enumerate(figures.jvms)
    ]


def _shortened(entries: Sequence[Entry]) -> list[Entry]:
    """With labels that leave out the folder, where they still differ then."""
    short = [replace(entry, label=PurePath(entry.label).name) for entry in entries]
    return short if len({entry.label for entry in short}) == len(short) else list(entries)


def _entry(label: str, side: str, log: GcLog, figures: GcSummary) -> Entry:
    frame = pl.DataFrame() if log.timeless else tabulate(log, None).frame()
    bounds = (log.jvms[0].first, log.jvms[0].last) if log.jvms else (0.0, 0.0)
    stops = log.safepoints
    operations = {
        operation: (durations(stops["total_ms"][own]), float(stops["reaching_ms"][own].max()))
        for operation, own in stops.groups("operation").items()
    }
    longest = dict(sorted(operations.items(), key=lambda item: -item[1][0].sum_ms))
    return Entry(label, side, figures, render(figures), frame, bounds, longest, counted(log.pauses["ms"]))


def build(logs: Logs, shown: Sequence[Entry], out: Path, kept: Path | None = None) -> Path:
    """Write the self-contained page of ``logs`` with their JVMs ``shown``. Raises OSError."""
    shown = _shortened(shown)
    entries = dict(enumerate(shown))
    named = {key: entry.label for key, entry in entries.items()}
    series_of = series.within(
        [key for key, entry in entries.items() if entry.table.width],
        lambda key, points: _series(entries[key], points),
        _POINTS if len(entries) == 1 else _POINTS // 2,
    )
    chosen = _chosen(shown, [key for key in series_of if series_of[key]["panels"]])
    margin = max((of["span"] for of in series_of.values()), default=0.0) / 50
    panels = trial_chart.views(GC_PANELS, series_of, chosen, named, since="the log began", margin=margin)
    compared, differing = logs.compared, logs.differing
    drawn = [figure for figure in _figures(shown) if figure is not None]
    text = render_page(
        "gc.html.j2",
        {figure.name: figure.spec for figure in drawn},
        kept,
        panels=panels,
        margin=margin,
        trials={
            str(key): {"label": named[key], "series": of, "sentences": _sentences(entries[key])}
            for key, of in series_of.items()
        },
        title=named[0] if len(named) == 1 else f"{len(logs.logs)} logs",
        simulated=False,
        entries=shown,
        answer=_answer(shown, compared, differing),
        compared=compared,
        differing=differing,
        difference_text=difference_text,
        change_text=change_text,
        verdict_text=verdict_text,
        units=UNITS,
        choices=[{"id": key, "label": named[key]} for key in series_of],
        chosen=chosen,
        views=panels,
        sentences={key: _sentences(entries[key]) for key in series_of},
        drawn=drawn,
        w=words,
    )
    return write_page(text, out)


def _series(entry: Entry, points: int) -> dict[str, Any]:
    def rows_of(source: Source) -> pl.DataFrame | None:
        rows = entry.table.filter((pl.col("metric") == source.metric) & pl.col("value").is_finite()).sort("time_ns")
        return rows if rows.height else None

    return series.compact_rows(rows_of, entry.bounds, points, GC_PANELS)


def _chosen(entries: Sequence[Entry], keys: Sequence[int]) -> tuple[int, ...]:
    """The first of each side; of one service the first two."""
    a, b = ([key for key in keys if entries[key].side == side] for side in "AB")
    return tuple(a[:1] + b[:1] if b else a[:2])


def _figures(entries: Sequence[Entry]) -> list[Figure | None]:
    shown = {entry.label: entry for entry in entries[:_CURVES]}
    return [
        latency_chart.pause_curve({label: entry.pauses for label, entry in shown.items() if entry.pauses.total}),
        latency_chart.mutator_utilisation({label: entry.figures.mmu for label, entry in shown.items()}),
    ]


def _answer(entries: Sequence[Entry], compared: Sequence[Difference], differing: dict[str, list[Difference]]) -> str:
    """The first thing to know, in one sentence."""
    told = [one for one in compared if one.verdict]
    if compared:
        return (
            f"Against A, B has {', '.join(map(difference_text, told))}."
            if told
            else "No difference between A and B is distinguishable from noise."
        )
    if differing:
        name, apart = next(iter(differing.items()))
        return f"{name} differs from the others: {', '.join(map(difference_text, apart))}."
    found = [(entry, entry.figures.findings[0]) for entry in entries if entry.figures.findings]
    if found:
        entry, finding = found[0]
        who = f"{entry.label}: " if len(entries) > 1 else ""
        return f"{who}{finding.name}: {finding.sentence}."
    return "Nothing stands out: no finding."


def _sentences(entry: Entry) -> dict[str, str]:
    """By the panel's name; how a long log was thinned."""
    figures, counts = entry.figures, entry.table.group_by("metric").len() if entry.table.width else None
    most = max(counts["len"].to_list(), default=0) if counts is not None else 0
    thinned = (
        " Of neighbours the longest is drawn, of the heap the least and the most, each at its own time."
        if most > _POINTS
        else ""
    )
    share = f", {100 * figures.share:.2f} % of the time" if figures.share is not None else ""
    pauses = (
        f"{words.plural(figures.pauses.count, 'pause')}, {words.number(figures.pauses.max_ms)} ms the longest{share}."
    )
    late = 1 <= entry.bounds[0] < _UPTIME
    begins = f" The log begins {words.number(entry.bounds[0])} s after its JVM." if late else ""
    sentences = {"gc": pauses + begins + thinned}
    if figures.safepoints.count:
        points = figures.safepoints
        sentences["safepoints"] = (
            f"{words.plural(points.count, 'stop')}, {words.number(points.sum_ms)} ms in all, "
            f"{words.number(points.max_ms)} ms the longest, with the time to reach them."
        )
    return sentences


def gc_markdown(logs: Logs) -> str:
    """Of each log findings and figures, then how they differ."""
    parts = [part for log in logs.logs for part in _log(log.name, log.whole)]
    for name, differences in logs.differing.items():
        parts.append(f"- **{escaped(name)}** differs from the others: {', '.join(map(difference_text, differences))}")
    if logs.compared:
        parts += ["## Change from A to B", _against(logs.compared)]
    return "\n\n".join(parts) + "\n"


def _log(name: str, figures: GcSummary) -> Iterator[str]:
    yield f"## {escaped(name)}"
    told = [f"- warning: {escaped(text)}" for text in figures.warnings]
    told += [
        f"- **{finding.name}**: {escaped(finding.sentence)}. {escaped(finding.meaning)}" for finding in figures.findings
    ]
    if told:
        yield "\n".join(told)
    yield markdown_table(("figure", ""), list(figure_rows(figures)), "ll")
    for title, groups in (("kind", figures.by_kind), ("cause", figures.by_cause)):
        if groups:
            rows = [[group, *cells(values)] for group, values in groups.items()]
            yield markdown_table((title, "count", "sum ms", "p50", "p99", "max"), rows, "lrrrrr")


def _against(differences: Sequence[Difference]) -> str:
    rows = [
        [
            f"{one.figure}, {UNITS[one.figure]}",
            rounded(one.a, 4),
            rounded(one.b, 4),
            change_text(one),
            verdict_text(one),
        ]
        for one in differences
    ]
    return markdown_table(("figure", "A", "B", "change, 95 %", "verdict"), rows, "lrrll")
