"""GC logs as Markdown, for an issue or a wiki."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from leadline.gcanalysis.against import UNITS, Difference
from leadline.gcanalysis.summary import GcSummary
from leadline.model.units import rounded
from leadline.observe.gclog.report import Logs
from leadline.observe.gclog.text import cells, change_text, difference_text, figure_rows, verdict_text
from leadline.report.ci import escaped, markdown_table


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
