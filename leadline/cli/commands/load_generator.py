"""``leadline load`` beside a single load: another generator, an earlier load to compare with."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from urllib.parse import urlsplit

from leadline.api.comparing import changes_of_load
from leadline.cli.options import Failing, conditions_document, say_conditions
from leadline.cli.output import errors, print_json, say
from leadline.load.against import (
    LoadChange,
    LoadComparison,
    MeasuredLoad,
    compare,
    comparison_document,
    read_load,
    run_alternately,
)
from leadline.load.command import OUT, check_bounds, judge, of_url
from leadline.load.generators.base import Job
from leadline.load.generators.run import Plan, run_generator
from leadline.load.result import read_document, read_summary
from leadline.model.errors import UsageError, did_you_mean
from leadline.model.result import AtLeast
from leadline.model.units import parse_duration

_COLUMNS = ("change", "95 %, all together", "")
TURNS = ("A", "B")  # names of servers that are loaded in turns


def comparing(directory: Path, out: Path, failing: Failing) -> Callable[[bool], int]:
    """What compares the results in ``out`` with those in ``directory``, which are read now, prints it (as JSON) and
    returns the exit code. Raises UsageError.
    """
    before: MeasuredLoad = read_load(directory)
    if directory.resolve() == out.resolve():
        raise UsageError(f"--against {directory}: the new results would take its place; name another --out")

    return lambda as_json: _tell(compare(before, read_load(out)), failing, as_json)


def _tell(
    comparison: LoadComparison, failing: Failing, as_json: bool, names: tuple[str, str] = ("before", "now")
) -> int:
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


def table(found: LoadComparison, names: tuple[str, str] = ("before", "now")) -> list[str]:
    """Lines: a row for each measure, then what else differs."""
    rows = [["", *names, *_COLUMNS], *(_change_row(change, found.refused) for change in found.changes)]
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


def _change_row(change: LoadChange, refused: str) -> list[str]:
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


_OPTIONS = ("--url", "--out", "--replace", "--options", "--program", "--ramp-up", "--steady", "--seed")


def run(name: str, script: str | None, arguments: list[str], bounds: list[str], as_json: bool) -> int:
    """Runs the tool, prints what it found and what its latencies mean; exit code 1 when the run did not pass.
    Raises UsageError, LeadlineError.
    """
    options = _given(arguments)
    if "--url" not in options:
        raise UsageError("--url is missing: the server's address, e.g. --url http://127.0.0.1:9080/brokerage")
    out = Path(options.get("--out", OUT))
    ramp_up, steady = _time(options, "--ramp-up", "0s"), _time(options, "--steady", "10s")
    seed = options.get("--seed", "1")
    if not seed.isdecimal():
        raise UsageError(f"--seed {seed}: not a whole number")
    try:
        words = shlex.split(options.get("--options", ""))
    except ValueError as error:
        raise UsageError(f"--options {options['--options']}: {str(error).lower()}") from None
    job = Job(
        options["--url"], out.resolve() / "raw", ramp_up + steady, int(seed), script, words, options.get("--program")
    )
    cut = steady if "--steady" in options and name not in ("wrk", "httperf") else None
    plan = Plan(name, job, out, ramp_up, cut, "--replace" in options)
    check_bounds(bounds)
    with redirect_stdout(sys.stderr):
        run_generator(plan)
    passed, text = judge(out, bounds)
    note = read_summary(out).generator
    if as_json:
        errors.print(text, end="", soft_wrap=True)
        print_json(read_document(out))
    else:
        say(text.rstrip("\n"))
        for line in (note.sentence, note.missing) if note is not None else ():
            if line:
                say(line)
    return int(not passed)


def _given(arguments: list[str]) -> dict[str, str]:
    options: dict[str, str] = {}
    rest = iter(arguments)
    for argument in rest:
        name, equals, value = argument.partition("=")
        if name not in _OPTIONS:
            hint = did_you_mean(name, list(_OPTIONS)) or "the tool's own go into --options '...'"
            raise UsageError(f"unknown option {name} of load --generator; {hint}")
        if name == "--replace":
            if equals:
                raise UsageError("--replace takes no value")
            options[name] = ""
            continue
        if not equals:
            value = next(rest, "")
        if not value:
            raise UsageError(f"{name} needs a value")
        options[name] = value
    return options


def _time(given: dict[str, str], name: str, otherwise: str) -> float:
    try:
        return parse_duration(given.get(name, otherwise))
    except ValueError as error:
        raise UsageError(f"{name}: {error}") from None
