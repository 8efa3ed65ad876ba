"""``load``: one driver or several, another generator, two loads compared."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, get_args
from urllib.parse import urlsplit

import typer

from leadline.api.comparing import LOAD_CHANGES, changes_of_load
from leadline.api.results import load_page
from leadline.cli.options import (
    Failing,
    Undecided,
    UndecidedOption,
    conditions_document,
    file_option,
    output_directory,
    say_conditions,
)
from leadline.cli.output import end_with, errors, print_json, say
from leadline.load.against import LoadChange, LoadComparison, compare, comparison_document, read_load, run_alternately
from leadline.load.cluster.run import check_drivers, read_drivers, run_drivers
from leadline.load.command import OUT, check_bounds, judge, of_url, run_scenario, scenario_schema
from leadline.load.driver import option_value
from leadline.load.generators.base import Job
from leadline.load.generators.run import Plan, run_generator
from leadline.load.result import read_document, read_summary
from leadline.load.scenario import find_preset, preset_options
from leadline.model.conditions import limit_example, parse
from leadline.model.errors import LeadlineError, UsageError, did_you_mean
from leadline.model.result import AtLeast
from leadline.model.units import parse_duration
from leadline.model.workload import GeneratorName

_Scenario = Annotated[str | None, typer.Argument(help="A scenario, built in or a file, or a URL.")]
_Schema = Annotated[bool, typer.Option("--schema", help="Print the JSON schema of a scenario file.")]
_Drivers = Annotated[
    str | None,
    typer.Option(help="Several drivers: a YAML file, or as in `local,ssh user@host` (docs/guides/several-drivers.md)."),
]
_Check = Annotated[bool, typer.Option("--check", help="With --drivers: only check whether every host can be used.")]
_LimitErrors = Annotated[
    str | None, typer.Option(help="Share of failed transactions beyond which the run fails (default 1%).")
]
_FailOn = Annotated[
    list[str] | None,
    typer.Option(
        metavar="<condition>",
        help="Fail (exit code 1): p99>200ms, errors>0.1%, throughput<100; beside --against or --alternate also where "
        "the interval proves a change: p99>10%, throughput<-5%; may be repeated.",
    ),
]
_Against = Annotated[
    Path | None,
    typer.Option(
        metavar="<path>",
        help="Compare with the results of an earlier load, with intervals; without a scenario, those in --out.",
    ),
]
_Alternate = Annotated[
    tuple[str, str] | None,
    typer.Option(
        metavar="<url> <url>",
        help="Load two servers in turns, in slots of 5 s, and compare them; --steady is all slots together.",
    ),
]
_Html = Annotated[
    Path | None,
    file_option("Write a report of the load, one HTML file; without a scenario, of the results in --out."),
]
_Preset = Annotated[
    str | None, typer.Option(help="Load in the shape of a known tool: fixed-rate, many-users, browser, ...")
]
_Generator = Annotated[
    str | None,
    typer.Option(help=f"Run another generator on its own script: {', '.join(get_args(GeneratorName))}."),
]
_Options = Annotated[
    str | None, typer.Option("--options", help="With --generator: words for the tool, split as a shell does.")
]
_Program = Annotated[
    str | None, typer.Option("--program", help="With --generator: where the tool is, if not on the PATH.")
]
_Json = Annotated[
    bool,
    typer.Option("--json", help="With --generator, --against or --alternate: the result as JSON."),
]


def register(app: typer.Typer) -> None:
    """Add this module's command."""
    app.command(
        epilog="Example: leadline load brokerage-classic --url http://127.0.0.1:8080/brokerage --users 20",
        # No -h: `-Jhost=...` of another tool would be taken for one.
        context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": ["--help"]},
    )(load)


def load(
    context: typer.Context,
    scenario: _Scenario = None,
    schema: _Schema = False,
    drivers: _Drivers = None,
    check: _Check = False,
    limit_errors: _LimitErrors = None,
    fail: _FailOn = None,
    undecided: UndecidedOption = Undecided.FAIL,
    against: _Against = None,
    alternate: _Alternate = None,
    html: _Html = None,
    preset: _Preset = None,
    generator: _Generator = None,
    options: _Options = None,
    program: _Program = None,
    json: _Json = False,
) -> None:
    """Load a server and sum up how it did.

    `leadline load http://HOST/PATH` gets one URL: 10 users for 10 s, or --users, --rate, --duration.
    Further options are leadline-load's, above all --url, --users, --rate with --arrivals, --ramp-up, --steady,
    --ramp-down, --var and --out (docs/reference/load.md).
    """
    if schema or (check and drivers is not None):
        typer.echo(scenario_schema(), nl=False) if schema else _check(str(drivers))
        return
    if "--find-knee" in context.args:
        raise UsageError(
            "--find-knee is gone: leadline knee searches a server that runs already, by a study with "
            "`stack: { url: URL }` (docs/guides/limits.md)"
        )
    out = output_directory(option_value("--out", words := [scenario or "", *context.args], OUT))
    limits, failing = _conditions(fail, undecided, against is not None or alternate is not None)
    own_limits = [word for limit in limits for word in ("--fail", limit)]
    if scenario is not None and scenario.startswith(("http://", "https://")):
        scenario, context.args = "url", _arguments_for(scenario, context.args, generator or preset)
    if alternate is not None:
        end_with(_alternating(scenario, alternate, [*context.args, *own_limits], failing, json))
        return
    if generator is None and (scenario is None or scenario.startswith("-")):
        of_run = {"--fail": limits, "--limit-errors": limit_errors}
        end_with(_read_results(out, against, html, words, of_run, failing, json))
        return
    afterwards = _Afterwards.of(out, against, html, failing, json)
    bounds = [] if limit_errors is None else ["--limit-errors", limit_errors]
    if generator is not None:
        foreign = {"--options": options, "--program": program}
        afterwards.end(_generate(generator, scenario, context.args, foreign, [*bounds, *own_limits], json))
        return
    assert scenario is not None
    if json:
        raise UsageError("--json belongs to --generator; a run writes summary.json (--progress json: its seconds)")
    arguments = [*context.args, *own_limits, *bounds]
    if preset is not None:
        arguments = _with_preset(preset, scenario, arguments)
    afterwards.end(_run(scenario, arguments, drivers))


def _arguments_for(url: str, arguments: Sequence[str], shape: str | None) -> list[str]:
    """The driver's arguments to get one URL. ``shape``: a generator or a preset, which a URL alone has not."""
    if shape is not None:
        raise UsageError("a URL alone has neither --generator nor --preset: name a script or a scenario")
    return of_url(url, arguments)


def _read_results(
    out: Path,
    against: Path | None,
    html: Path | None,
    words: Sequence[str],
    options_of_a_run: Mapping[str, object],
    failing: Failing,
    json: bool,
) -> int:
    """The comparison or the report of the results in ``out``, and the exit code; nothing is run."""
    if html is None and against is None:
        raise UsageError("no scenario given: a built-in name or a YAML file, see docs/reference/load.md")
    _refuse_run(words, {**options_of_a_run, **({} if against is not None else {"--json": json})})
    if against is None:
        assert html is not None
        typer.echo(load_page(out, html))
        return 0
    code = _comparing(against, out, failing)(json)
    if html is not None:
        load_page(out, html)
    return code


def _conditions(fail: Sequence[str] | None, undecided: Undecided, compared: bool) -> tuple[list[str], Failing]:
    """Limits of the load itself, which the driver judges, and conditions on its change. Raises UsageError."""
    conditions = parse(fail or (), LOAD_CHANGES, limits=True)
    changes = tuple(condition for condition in conditions if condition.margin is not None)
    if changes and not compared:
        first = changes[0]
        raise UsageError(
            f"--fail {first.text} is of a change: name what the load is compared with (--against, --alternate), "
            f"or write a limit such as {limit_example(first.response)}"
        )
    limits = [condition.text for condition in conditions if condition.margin is None]
    return limits, Failing(changes, undecided is Undecided.FAIL)


def _generate(
    generator: str,
    script: str | None,
    arguments: Sequence[str],
    foreign_options: Mapping[str, str | None],
    bounds: Sequence[str],
    json: bool,
) -> int:
    """The exit code of another generator's run. The parser takes the first option for a script where there is none."""
    words = list(arguments)
    if script is not None and script.startswith("-"):
        words.insert(0, script)
        script = None
    words += [f"{name}={value}" for name, value in foreign_options.items() if value is not None]
    return _run_generator(generator, script, words, list(bounds), json)


def _with_preset(preset: str, scenario: str, arguments: list[str]) -> list[str]:
    errors.print(f"preset {preset}: {find_preset(preset).equivalence}")
    return preset_options(preset, scenario, arguments)


def _run(scenario: str, arguments: Sequence[str], drivers: str | None) -> int:
    """The exit code of the driver, or of several."""
    if drivers is not None:
        passed = run_drivers(scenario, arguments, read_drivers(drivers), typer.echo)
        return 130 if passed is None else int(not passed)
    code = run_scenario(scenario, arguments)
    if code < 0:
        raise LeadlineError(f"leadline-load was ended by signal {-code}")
    return code


@dataclass(frozen=True)
class _Afterwards:
    """The comparison and the report that follow a run, where they are wanted."""

    compare: Callable[[bool], int] | None
    report: Callable[[], Path] | None

    @classmethod
    def of(cls, out: Path, against: Path | None, html: Path | None, failing: Failing, json: bool) -> _Afterwards:
        """Of the results in ``out``. Raises UsageError for results to compare with that are not there."""
        compare = None
        if against is not None:
            compare = _comparing(against, out, failing)
            if json:
                raise UsageError("--json belongs to a comparison without a run: name --against and --out alone")
        return cls(compare, None if html is None else partial(load_page, out, html))

    def end(self, code: int) -> None:
        """Print them, if the run was done, and end with its ``code``, whose reason was told, else the comparison's."""
        if code in (0, 1):
            compared = self.compare(False) if self.compare is not None else 0
            if self.report is not None:
                typer.echo(f"report: {self.report()}")
            code = code or compared
        end_with(code)


def _refuse_run(arguments: Sequence[str], options: Mapping[str, object]) -> None:
    """Raises UsageError for what is given of a run, where results that are there are only read."""
    options_used = [option for option, value in options.items() if value]
    rest = iter(word for word in arguments if word)
    for word in rest:
        if word == "--out":
            next(rest, "")
        elif not word.startswith("--out="):
            options_used.append(word)
    if options_used:
        raise UsageError(
            f"{options_used[0]} is of a run: name a scenario, or leave it out to read the results in --out"
        )


def _check(drivers: str) -> None:
    for line in check_drivers(read_drivers(drivers)):
        typer.echo(line)


_COLUMNS = ("change", "95 %, all together", "")
_TURNS = ("A", "B")  # names of servers that are loaded in turns


def _comparing(directory: Path, out: Path, failing: Failing) -> Callable[[bool], int]:
    """What compares the results in ``out`` with those in ``directory``, which are read now, prints it (as JSON) and
    returns the exit code. Raises UsageError.
    """
    before = read_load(directory)
    if directory.resolve() == out.resolve():
        raise UsageError(f"--against {directory}: the new results would take its place; name another --out")

    return lambda as_json: _told(compare(before, read_load(out)), failing, as_json)


def _told(
    comparison: LoadComparison, failing: Failing, as_json: bool, names: tuple[str, str] = ("before", "now")
) -> int:
    """The exit code: 4 where the comparison is refused or has no interval, else that of the conditions."""
    changes = changes_of_load(comparison)
    judged = failing.judge(changes)
    if as_json:
        print_json(comparison_document(comparison) | conditions_document(judged))
    else:
        say(*_table(comparison, names))
        say_conditions(judged)
    return failing.code(any(change.interval is not None for change in changes), judged)


def _alternating(
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
    return _told(run_alternately(scenario, urls, options), failing, as_json, _TURNS)


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def _table(found: LoadComparison, names: tuple[str, str] = ("before", "now")) -> list[str]:
    """Lines: a row for each measure, then what else differs."""
    rows = [["", *names, *_COLUMNS], *(_change_row(change, found.refused) for change in found.changes)]
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    lines = [found.refused] if found.refused else []
    turns = names == _TURNS
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


_OF_GENERATORS = ("--url", "--out", "--replace", "--options", "--program", "--ramp-up", "--steady", "--seed")


def _run_generator(name: str, script: str | None, arguments: list[str], bounds: list[str], as_json: bool) -> int:
    """Runs the tool, prints what it found and what its latencies mean; exit code 1 when the run did not pass.
    Raises UsageError, LeadlineError.
    """
    options = _generator_options(arguments)
    if "--url" not in options:
        raise UsageError("--url is missing: the server's address, e.g. --url http://127.0.0.1:9080/brokerage")
    out = Path(options.get("--out", OUT))
    ramp_up, steady = _seconds(options, "--ramp-up", "0s"), _seconds(options, "--steady", "10s")
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


def _generator_options(arguments: list[str]) -> dict[str, str]:
    options: dict[str, str] = {}
    rest = iter(arguments)
    for argument in rest:
        name, equals, value = argument.partition("=")
        if name not in _OF_GENERATORS:
            hint = did_you_mean(name, list(_OF_GENERATORS)) or "the tool's own go into --options '...'"
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


def _seconds(given: dict[str, str], name: str, otherwise: str) -> float:
    try:
        return parse_duration(given.get(name, otherwise))
    except ValueError as error:
        raise UsageError(f"{name}: {error}") from None
