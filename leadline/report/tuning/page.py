"""Writes a tuning's report: one HTML file as a study's (``leadline.report.page``)."""

from __future__ import annotations

from pathlib import Path

from leadline.report import words
from leadline.report.charts.theme import Figure, marked
from leadline.report.page import render_page, write_page
from leadline.report.tuning.bars import bars_figure, measured_bars, published_bars
from leadline.report.tuning.interactions import interactions_figure, steps_figure
from leadline.report.tuning.over_modes import over_modes_figure
from leadline.report.tuning.view import TuningView, change_text, spread_text
from leadline.report.tuning.waterfall import waterfall


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
