"""``load --against``: this load compared with an earlier one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

from leadline.api.conditions import changes_of_load
from leadline.api.loads import (
    Change,
    Comparison,
    Load,
    compare,
    comparison_document,
    of_url,
    read_load,
    run_alternately,
)
from leadline.cli.conditions import Failing, conditions_document, say_conditions
from leadline.cli.output import print_json, say
from leadline.model.errors import UsageError
from leadline.model.result import AtLeast

_COLUMNS = ("change", "95 %, all together", "")
TURNS = ("A", "B")  # names of servers that are loaded in turns


def comparing(directory: Path, out: Path, failing: Failing) -> Callable[[bool], int]:
    """What compares the results in ``out`` with those in ``directory``, which are read now, prints it (as JSON) and
    returns the exit code. Raises UsageError.
    """
    before: Load = read_load(directory)
    if directory.resolve() == out.resolve():
        raise UsageError(f"--against {directory}: the new results would take its place; name another --out")

    return lambda as_json: _tell(compare(before, read_load(out)), failing, as_json)


def _tell(comparison: Comparison, failing: Failing, as_json: bool, names: tuple[str, str] = ("before", "now")) -> int:
    """The exit code: 4 where the comparison is refused or has no interval, else that of the conditions."""
    changes = changes_of_load(comparison)
    judged = failing.judge(changes)
    if as_json:
        print_json(comparison_document(comparison) | conditions_document(judged))
    else:
        say(*table(comparison, names))
        say_conditions(judged)
    return failing.code(any(change.interval is not None for change in changes), judged)


def alternating(
    scenario: str | None, urls: tuple[str, str], options: list[str], failing: Failing, as_json: bool
) -> int:
    """Loads two servers in turns and prints how the second differs from the first; the exit code. Raises UsageError,
    LeadlineError.
    """
    if scenario is None or scenario.startswith("-"):  # no scenario: the URLs themselves are got
        options = [word for word in (scenario, *options) if word is not None]
        options = of_url(urls[0], options)
        at = options.index("--url")
        del options[at : at + 2]
        if urlsplit(urls[0])[2:4] != urlsplit(urls[1])[2:4]:
            raise UsageError("--alternate without a scenario gets the same path of both servers: name a scenario")
        urls = (_origin(urls[0]), _origin(urls[1]))
        scenario = "url"
    return _tell(run_alternately(scenario, urls, options), failing, as_json, TURNS)


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def table(found: Comparison, names: tuple[str, str] = ("before", "now")) -> list[str]:
    """Lines: a row for each measure, then what else differs."""
    rows = [["", *names, *_COLUMNS], *(_row(change, found.refused) for change in found.changes)]
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    lines = [found.refused] if found.refused else []
    turns = names == TURNS
    lines += [
        f"A is {found.before}, B is {found.now}, {found.seconds[0]} s of each, from A to B:"
        if turns
        else f"against {found.before}, {found.seconds[0]} s before and {found.seconds[1]} s now:"
    ]
    for row in rows:
        cells = [cell.rjust(width) for cell, width in zip(row[1:-1], widths[1:-1], strict=True)]
        lines.append("  ".join((row[0].ljust(widths[0]), *cells, row[-1])).rstrip())
    if turns:
        return [*lines, *found.differs, "one instance of each server: others may differ by more than the intervals say"]
    lines += [f"differs: {sentence}" for sentence in found.differs]
    return [*lines, "these are two runs: other instances of the server may differ by more than the intervals say"]


def _row(change: Change, refused: str) -> list[str]:
    name = {"throughput": "throughput/s", "p999": "p99.9 ms"}.get(change.measure, f"{change.measure} ms")
    name = "errors" if change.measure == "errors" else name
    runs = (("before", change.before), ("now", change.now))
    figures = [
        _figure(AtLeast(value) if value is not None and word in change.at_least else value, change.unit)
        for word, value in runs
    ]
    if change.change is None or change.low is None or change.high is None:
        return [name, *figures, "-", "", change.reason]
    unit = "points" if change.unit == "share" else "%"
    digits = 2 if change.unit == "share" else 1
    verdict = "not known" if refused else "not distinguishable"
    if not refused and change.distinguishable:
        verdict = "higher" if change.change > 0 else "lower"
    interval = f"[{change.low:+.{digits}f}, {change.high:+.{digits}f}]"
    return [name, *figures, f"{change.change:+.{digits}f} {unit}", interval, verdict]


def _figure(value: float | None, unit: str) -> str:
    if value is None:
        return "-"
    return f"{value:.2%}" if unit == "share" else f"{value:.2f}" if unit == "ms" else f"{value:.1f}"
