"""``load``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, get_args

import typer

from leadline.api.comparing import LOAD_CHANGES
from leadline.api.results import load_page
from leadline.cli.options import Failing, Undecided, UndecidedOption, file_option, output_directory
from leadline.cli.output import end_with
from leadline.load.cluster.command import check as check_drivers
from leadline.load.cluster.command import read_drivers
from leadline.load.cluster.command import run as run_together
from leadline.load.command import OUT, of_url, run_scenario, scenario_schema
from leadline.load.driver import option_value
from leadline.load.scenario import find_preset, preset_options
from leadline.model.conditions import limit_example, parse
from leadline.model.errors import LeadlineError, UsageError
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
        from leadline.cli.commands.load_generator import alternating

        end_with(alternating(scenario, alternate, [*context.args, *own_limits], failing, json))
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
    from leadline.cli.commands.load_generator import comparing

    code = comparing(against, out, failing)(json)
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
    from leadline.cli.commands.load_generator import run

    words = list(arguments)
    if script is not None and script.startswith("-"):
        words.insert(0, script)
        script = None
    words += [f"{name}={value}" for name, value in foreign_options.items() if value is not None]
    return run(generator, script, words, list(bounds), json)


def _with_preset(preset: str, scenario: str, arguments: list[str]) -> list[str]:
    from leadline.cli.output import errors

    errors.print(f"preset {preset}: {find_preset(preset).equivalence}")
    return preset_options(preset, scenario, arguments)


def _run(scenario: str, arguments: Sequence[str], drivers: str | None) -> int:
    """The exit code of the driver, or of several."""
    if drivers is not None:
        passed = run_together(scenario, arguments, read_drivers(drivers), typer.echo)
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
            from leadline.cli.commands.load_generator import comparing

            compare = comparing(against, out, failing)
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
