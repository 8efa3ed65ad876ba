"""``load --against``: this load compared with an earlier one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from leadline.api.loads import Change, Comparison, Load, compare, comparison_document, read_load
from leadline.cli.output import print_json, say
from leadline.model.errors import UsageError

_COLUMNS = ("", "before", "now", "change", "95 %, all together", "")


def comparing(directory: Path, out: Path) -> Callable[[bool], None]:
    """What compares the results in ``out`` with those in ``directory``, which are read now, and prints it (as JSON).
    Raises UsageError.
    """
    before: Load = read_load(directory)
    if directory.resolve() == out.resolve():
        raise UsageError(f"--against {directory}: the new results would take its place; name another --out")

    def tell(as_json: bool) -> None:
        found = compare(before, read_load(out))
        if as_json:
            print_json(comparison_document(found))
        else:
            say(*table(found))

    return tell


def table(found: Comparison) -> list[str]:
    """Lines: a row for each measure, then what else differs."""
    rows = [list(_COLUMNS), *(_row(change) for change in found.changes)]
    widths = [max(len(row[at]) for row in rows) for at in range(len(_COLUMNS))]
    lines = [f"against {found.before}, {found.seconds[0]} s before and {found.seconds[1]} s now:"]
    for row in rows:
        cells = [cell.rjust(width) for cell, width in zip(row[1:-1], widths[1:-1], strict=True)]
        lines.append("  ".join((row[0].ljust(widths[0]), *cells, row[-1])).rstrip())
    lines += [f"differs: {sentence}" for sentence in found.differs]
    return [*lines, "these are two runs: other instances of the server may differ by more than the intervals say"]


def _row(change: Change) -> list[str]:
    name = {"throughput": "throughput/s", "p999": "p99.9 ms"}.get(change.measure, f"{change.measure} ms")
    name = "errors" if change.measure == "errors" else name
    figures = [_figure(value, change.unit) for value in (change.before, change.now)]
    if change.change is None or change.low is None or change.high is None:
        return [name, *figures, "-", "", change.reason]
    unit = "points" if change.unit == "share" else "%"
    digits = 2 if change.unit == "share" else 1
    verdict = "not distinguishable"
    if change.distinguishable:
        verdict = "higher" if change.change > 0 else "lower"
    interval = f"[{change.low:+.{digits}f}, {change.high:+.{digits}f}]"
    return [name, *figures, f"{change.change:+.{digits}f} {unit}", interval, verdict]


def _figure(value: float | None, unit: str) -> str:
    if value is None:
        return "-"
    return f"{value:.2%}" if unit == "share" else f"{value:.2f}" if unit == "ms" else f"{value:.1f}"
