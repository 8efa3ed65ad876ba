"""``load``."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, get_args

import typer

from leadline.api.loads import (
    OUT,
    Limits,
    Range,
    check_drivers,
    find_preset,
    load_page,
    of_url,
    option_value,
    preset_options,
    read_bound,
    read_drivers,
    run_scenario,
    run_together,
    scenario_schema,
)
from leadline.cli.options import file_option, output_directory
from leadline.model.errors import LeadlineError, UsageError
from leadline.model.workload import GeneratorName

_FINEST = 0.001  # resolution of rates: nine bisections of a factor of 1.5


def register(app: typer.Typer) -> None:
    """Add this module's command."""
    app.command(
        epilog="Example: leadline load brokerage-classic --url http://127.0.0.1:8080/brokerage --users 20",
        # No -h: `-Jhost=...` of another tool would be taken for one.
        context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": ["--help"]},
    )(load)


def load(
    context: typer.Context,
    scenario: Annotated[str | None, typer.Argument(help="A scenario, built in or a file, or a URL.")] = None,
    schema: Annotated[bool, typer.Option("--schema", help="Print the JSON schema of a scenario file.")] = False,
    drivers: Annotated[
        str | None,
        typer.Option(
            help="Several drivers: a YAML file, or as in `local,ssh user@host` (docs/guides/several-drivers.md)."
        ),
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="With --drivers: only check whether every host can be used.")
    ] = False,
    find_knee: Annotated[
        bool, typer.Option("--find-knee", help="Search for the highest load that keeps the limits.")
    ] = False,
    limit_p99: Annotated[
        str | None,
        typer.Option(help="With --find-knee: 99th percentile of the response time (default 1s, none beside --limit)."),
    ] = None,
    limit: Annotated[
        list[str] | None,
        typer.Option("--limit", help="With --find-knee: a response time, as p90=2s or buy:p90=2s; may be repeated."),
    ] = None,
    limit_errors: Annotated[
        str | None, typer.Option(help="Share of failed transactions beyond which the run fails (default 1%).")
    ] = None,
    fail: Annotated[
        list[str] | None,
        typer.Option(
            metavar="<condition>",
            help="The run fails on it (exit code 1): p99>200ms, errors>0.1%, throughput<100; may be repeated.",
        ),
    ] = None,
    against: Annotated[
        Path | None,
        typer.Option(
            metavar="<path>",
            help="Compare with the results of an earlier load, with intervals; without a scenario, those in --out.",
        ),
    ] = None,
    alternate: Annotated[
        tuple[str, str] | None,
        typer.Option(
            metavar="<url> <url>",
            help="Load two servers in turns, in slots of 5 s, and compare them; --steady is all slots together.",
        ),
    ] = None,
    html: Annotated[
        Path | None,
        file_option("Write a report of the load, one HTML file; without a scenario, of the results in --out."),
    ] = None,
    first: Annotated[float, typer.Option("--from", min=0.001, max=1e8, help="With --find-knee: the first load.")] = 10,
    to: Annotated[float, typer.Option("--to", max=1e8, help="With --find-knee: the highest load.")] = 100_000,
    step_factor: Annotated[float, typer.Option(min=1.05, max=100, help="With --find-knee: from stair to stair.")] = 1.5,
    resolution: Annotated[str, typer.Option(help="With --find-knee: bisect until this close.")] = "5%",
    repeats: Annotated[
        int, typer.Option(min=0, max=1000, help="With --find-knee: runs beside the limit, for its interval.")
    ] = 8,
    budget: Annotated[
        str | None, typer.Option(help="With --find-knee: begin no step that would end later than this.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="With --find-knee: say how long the search takes, and run nothing.")
    ] = False,
    preset: Annotated[
        str | None, typer.Option(help="Load in the shape of a known tool: fixed-rate, many-users, browser, ...")
    ] = None,
    generator: Annotated[
        str | None,
        typer.Option(help=f"Run another generator on its own script: {', '.join(get_args(GeneratorName))}."),
    ] = None,
    options: Annotated[
        str | None, typer.Option("--options", help="With --generator: words for the tool, split as a shell does.")
    ] = None,
    program: Annotated[
        str | None, typer.Option("--program", help="With --generator: where the tool is, if not on the PATH.")
    ] = None,
    json: Annotated[
        bool,
        typer.Option("--json", help="With --find-knee, --generator, --against or --alternate: the result as JSON."),
    ] = False,
) -> None:
    """Load a server and sum up how it did.

    `leadline load http://HOST/PATH` gets one URL: 10 users for 10 s, or --users, --rate, --duration.
    Further options are leadline-load's, above all --url, --users, --rate with --arrivals, --ramp-up, --steady,
    --ramp-down, --var and --out (docs/reference/load.md).
    """
    if schema:
        typer.echo(scenario_schema(), nl=False)
        return
    if check and drivers is not None:
        _check(drivers)
        return
    output_directory(option_value("--out", [scenario or "", *context.args], OUT))
    failing = [word for condition in fail or () for word in ("--fail", condition)]
    tell = None
    out = Path(option_value("--out", [scenario or "", *context.args], OUT))
    if scenario is not None and scenario.startswith(("http://", "https://")):
        if generator is not None or preset is not None:
            raise UsageError("a URL alone has neither --generator nor --preset: name a script or a scenario")
        context.args[:] = of_url(scenario, context.args)
        scenario = "url"
    if alternate is not None:
        from leadline.cli.commands.load_against import alternating

        alternating(scenario, alternate, [*context.args, *failing], json)
        return
    reading = generator is None and (scenario is None or scenario.startswith("-"))
    if html is not None and against is None and reading:
        _refuse_run([scenario or "", *context.args], {"--fail": fail, "--limit-errors": limit_errors, "--json": json})
        typer.echo(load_page(out, html))
        return
    if against is not None:
        from leadline.cli.commands.load_against import comparing

        tell = comparing(against, out)
        if reading:
            _refuse_run([scenario or "", *context.args], {"--fail": fail, "--limit-errors": limit_errors})
            tell(json)
            if html is not None:
                load_page(out, html)
            return
        if json:
            raise UsageError("--json belongs to a comparison without a run: name --against and --out alone")
    page = None if html is None else partial(load_page, out, html)
    if generator is not None:
        from leadline.cli.commands.load_generator import run

        arguments = list(context.args)
        if scenario is not None and scenario.startswith("-"):  # no script: the parser took the first option for it
            arguments.insert(0, scenario)
            scenario = None
        foreign_options = {"--options": options, "--program": program}
        arguments += [f"{name}={value}" for name, value in foreign_options.items() if value is not None]
        bounds = [] if limit_errors is None else ["--limit-errors", limit_errors]
        _end(run(generator, scenario, arguments, [*bounds, *failing], json), tell, page)
        return
    if scenario is None or scenario.startswith("-"):
        raise UsageError("no scenario given: a built-in name or a YAML file, see docs/reference/load.md")
    arguments = [*context.args, *failing]
    if limit_p99 is not None and not find_knee:
        raise UsageError(
            f"--limit-p99 belongs to --find-knee: write --fail 'p99>{limit_p99}', or limits in the scenario"
        )
    if limit_errors is not None and not find_knee:
        arguments += ["--limit-errors", limit_errors]
    if preset is not None:
        from leadline.cli.output import errors

        errors.print(f"preset {preset}: {find_preset(preset).equivalence}")

        arguments = preset_options(preset, scenario, arguments, searching=find_knee)
    if json and not find_knee:
        raise UsageError(
            "--json belongs to --find-knee and --generator; a run writes summary.json (--progress json: its seconds)"
        )
    if drivers is not None:
        passed = run_together(scenario, arguments, read_drivers(drivers), typer.echo)
        _end(130 if passed is None else int(not passed), tell, page)
        return
    if find_knee:
        if not first <= to:
            raise UsageError(f"--to {to:g} is below --from {first:g}")
        whole = "closed" in (argument.removeprefix("--arrivals=") for argument in arguments)
        limited = tuple(read_bound(text) for text in limit or ())
        p99 = None if limited and limit_p99 is None else _milliseconds("--limit-p99", limit_p99 or "1s")
        limits = Limits(p99, _share("--limit-errors", limit_errors or "1%"), limited)
        loads = Range(first, to, step_factor, _share("--resolution", resolution), whole)
        if not whole and loads.resolution < _FINEST:
            raise UsageError(f"--resolution {resolution}: rates have no next one, so give at least {_FINEST:.1%}")
        seconds = math.inf if budget is None else _milliseconds("--budget", budget) / 1000
        from leadline.cli.commands.load_knee import forecast, run_search

        if dry_run:
            forecast(arguments, loads, repeats, seconds, json)
        else:
            run_search(scenario, arguments, limits, loads, repeats, seconds, json)
        return
    code = run_scenario(scenario, arguments)
    if code < 0:
        raise LeadlineError(f"leadline-load was ended by signal {-code}")
    _end(code, tell, page)


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


def _end(code: int, tell: Callable[[bool], None] | None, page: Callable[[], Path] | None) -> None:
    """The comparison and the report where they are wanted and the run was done; ends with ``code``, whose reason was
    told, unless 0.
    """
    if code in (0, 1):
        if tell is not None:
            tell(False)
        if page is not None:
            typer.echo(f"report: {page()}")
    if code:
        raise typer.Exit(code)


def _check(drivers: str) -> None:
    for line in check_drivers(read_drivers(drivers)):
        typer.echo(line)


def _milliseconds(option: str, text: str) -> float:
    from leadline.model.units import parse_duration

    try:
        milliseconds = 1000 * parse_duration(text)
    except ValueError as error:
        raise UsageError(f"{option}: {error}") from None
    if milliseconds <= 0:
        raise UsageError(f"{option} {text} must be longer than 0")
    return milliseconds


def _share(option: str, text: str) -> float:
    from leadline.model.units import parse_share

    try:
        share = parse_share(text)
    except ValueError as error:
        raise UsageError(f"{option}: {error}") from None
    if share == 1:
        raise UsageError(f"{option}: {text} is all; write less than 100%")
    return share
