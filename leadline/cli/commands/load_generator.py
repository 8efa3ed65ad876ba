"""``leadline load`` beside a single load: another generator, an earlier load to compare with, load within limits."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from urllib.parse import urlsplit

import typer

from leadline.api.comparing import changes_of_load
from leadline.cli.options import Failing, conditions_document, say_conditions
from leadline.cli.output import console, errors, print_json, say
from leadline.cli.output import errors as to_stderr
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
from leadline.load.driver import option_value
from leadline.load.generators.base import Job
from leadline.load.generators.run import Plan, run_generator
from leadline.load.knee import Found, LoadLimits, LoadStep, Range, steps_at_most
from leadline.load.knee_run import find_knee, knee_document
from leadline.load.result import read_document, read_summary
from leadline.model.errors import UsageError, did_you_mean
from leadline.model.judgement import NO_ANSWER_CODE
from leadline.model.result import AtLeast
from leadline.model.units import format_duration, parse_duration

_RAMP_UP, _STEADY, _RAMP_DOWN = "2s", "10s", "0s"  # of each run, unless given


def forecast(options: list[str], loads: Range, repeats: int, budget_s: float, as_json: bool) -> None:
    """Says how long the search takes at most."""
    times = (("--ramp-up", _RAMP_UP), ("--steady", _STEADY), ("--ramp-down", _RAMP_DOWN))
    seconds = 0.0
    for option, default in times:
        try:
            seconds += parse_duration(option_value(option, ["", *options], default))
        except ValueError as error:
            raise UsageError(f"{option}: {error}") from None
    steps, single = steps_at_most(loads, repeats)
    most = min((2 * steps + single) * seconds, budget_s)
    if as_json:
        document = {"steps": steps, "repeats": single, "seconds_per_run": seconds, "seconds_at_most": most}
        print_json(document)
        return
    say(
        f"at most {steps} steps of one or two runs, and {single} repeats; a run takes {format_duration(seconds)} "
        "and what is in flight at its end",
        f"at most {format_duration(most)} if the load found is confirmed"
        + (", by the budget" if most == budget_s else "; --budget bounds it"),
    )


def run_search(
    scenario: str, options: list[str], limits: LoadLimits, loads: Range, repeats: int, budget_s: float, as_json: bool
) -> None:
    """Searches and tells; exit code 4 where no load kept the limits or the budget ended the search."""
    unit = "users" if loads.whole else "/s"

    def tell(step: LoadStep) -> None:
        (to_stderr if as_json else console).print(_limit_row(step, unit), soft_wrap=True)

    knee = find_knee(scenario, options, limits, loads, tell, repeats, budget_s)
    if as_json:
        arrivals = "closed" if loads.whole else option_value("--arrivals", options, "poisson")
        print_json(knee_document(knee, arrivals, limits))
    else:
        say(*_conclusion(knee, unit))
    if knee.highest is None or knee.limited_by == "budget":
        raise typer.Exit(NO_ANSWER_CODE)


def _number(value: float | None, form: str = ".1f") -> str:
    return "-" if value is None else format(value, form)


def _limit_row(step: LoadStep, unit: str) -> str:
    verdict = "confirmed" if step.kept and step.confirms else "kept" if step.kept else "broken"
    verdict += f" ({', '.join(step.broken)})" if step.broken else ""
    verdict += "" if step.sure else ", in doubt"
    verdict += ", the driver was the limit" if step.driver_limit else ""
    p99, rate, errors = step.p99_ms, step.throughput, step.errors
    tail = AtLeast(p99.value) if p99.value is not None and "p99" in step.at_least else p99.value
    return (
        f"{step.load:10.1f} {unit}  ok {_number(rate.value)}/s [{_number(rate.low)}, {_number(rate.high)}]  "
        f"p99 {_number(tail, '.2f')} ms [{_number(p99.low, '.2f')}, {_number(p99.high, '.2f')}]  "
        f"errors {_number(errors.value, '.2%')} [{_number(errors.low, '.2%')}, {_number(errors.high, '.2%')}]  "
        f"{verdict}"
    )


def _conclusion(found: Found, unit: str) -> list[str]:
    above = "" if found.lowest_failed is None else f", below {found.lowest_failed:.1f}"
    confirmed = ", confirmed by a run of its own" if found.confirmation is not None else ""
    highest = "none" if found.highest is None else f"{found.highest:.1f} {unit}{above}{confirmed}"
    lines = [f"highest load that keeps the limits: {highest} (limit: {found.limited_by}; {found.reason})"]
    if found.limit is not None:
        limit = found.limit
        lines.append(
            f"load at the limit: {limit.load:.1f} {unit} [{_number(limit.low)}, {_number(limit.high)}], "
            f"95 % interval from {limit.probes} runs near it"
        )
        if limit.drift is not None and limit.drift_p is not None and limit.drift_p < 0.05:
            lines.append(
                f"the system drifted: this load changed by {limit.drift:+.1%} from the first to the last of them"
            )
    if found.gave_out is not None:
        lines.append(f"what gave out first: {found.gave_out}")
    if found.knee.value is not None:
        lines.append(f"knee: {found.knee.value:.1f} {unit} [{found.knee.low:.1f}, {found.knee.high:.1f}]")
    return lines


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
