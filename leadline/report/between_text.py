"""Two runs, and a history, in lines of text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from leadline.conclude.between import Between, History, Moved
from leadline.report.words import change_interval, moment, number, signed, value_interval

_MOVED = ("", "first", "second", "change", "95 % interval", "all comparisons", "verdict")
_HISTORY = ("run", "started", "value", "95 % interval", "")


def between_lines(found: Between) -> list[str]:
    """A table for each response, then what differs, then what the intervals do not hold."""
    lines = [f"{found.first} and {found.second}: what moved"]
    for response in dict.fromkeys(row.response for row in found.moved):
        rows = [row for row in found.moved if row.response == response]
        lines += ["", response, *_table([_MOVED, *(_cells(row) for row in rows)])]
    lines += ["", *(f"Differs: {sentence}" for sentence in found.differs)]
    lines.append(
        "The intervals hold the noise within each run. What else changes between two days is not in them: the history "
        "of several runs shows it."
    )
    return lines


def history_lines(found: History) -> list[str]:
    """A row for each run, changes between them, and what differed from the run before."""
    starts = {change.at: change for change in found.changes}
    rows: list[Sequence[str]] = [_HISTORY]
    for at, point in enumerate(found.points):
        mark = "" if at not in starts else f"changed here, p {starts[at].p_value:.3f}"
        rows.append((point.run, moment(point.started), number(point.value), value_interval(point.interval), mark))
    lines = [f"{found.study}: {found.response}, {found.what}" + (f", in {found.unit}" if found.unit else "")]
    lines += _table(rows)
    for point in found.points:
        lines += [f"{point.run} differs: {sentence}" for sentence in point.differs]
    return lines


def _cells(row: Moved) -> Sequence[str]:
    unit = " %" if row.unit == "%" else ""
    figures = [number(value) + (unit if value is not None else "") for value in (row.first, row.second)]
    if row.ratio is None:
        return (row.what, *figures, "–", "", "", f"{row.verdict}: {row.reason}")
    intervals = (change_interval(row.ratio.interval), change_interval(row.ratio.simultaneous))
    return (row.what, *figures, f"{signed(row.ratio.percent)} %", *intervals, row.verdict)


def _table(rows: Iterable[Sequence[str]]) -> list[str]:
    """Columns: the first and the last to the left, the others to the right."""
    lines = list(rows)
    widths = [max(len(row[at]) for row in lines) for at in range(len(lines[0]))]
    return [
        "  "
        + "  ".join(
            cell.ljust(width) if at in (0, len(row) - 1) else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in lines
    ]
