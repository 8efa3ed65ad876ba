"""``command``: programs timed as whole processes."""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from leadline.cli.options import (
    CountOption,
    Failing,
    FailOption,
    JsonOption,
    Undecided,
    UndecidedOption,
    conditions_document,
    file_option,
    say_conditions,
)
from leadline.cli.output import end_with, errors, print_answer, print_json, say
from leadline.conclude.gate import COUNTS, LAYOUTS
from leadline.experiments.command_files import compared_files, document
from leadline.host.local import LocalHost
from leadline.model.conditions import changes_of_study
from leadline.model.errors import UsageError, quoted
from leadline.model.result import PROCESS_RESPONSES
from leadline.report.command_text import answer, lines
from leadline.trial.command import Command, CommandComparison, Timing, commands_of, compare


def timed_comparison(commands: Sequence[Command], how: Timing, told: Callable[[str], None]) -> CommandComparison:
    """Time the commands and compare them with the first. Raises UsageError."""
    host: Any = LocalHost()

    def drop() -> None:
        try:
            host.drop_page_cache()
        except LookupError as error:
            raise UsageError(f"--cache cold: {error}") from None

    if how.cache == "cold":
        drop()
    return compare(commands, how, drop, told)


class Order(StrEnum):
    """Orders of runs."""

    RANDOM = "random"
    ABBA = "abba"
    LATIN = "latin"
    WILLIAMS = "williams"


class Cache(StrEnum):
    """Conditions of the page cache."""

    AS_IS = "as-is"
    WARM = "warm"
    COLD = "cold"


def register(app: typer.Typer) -> None:
    """Add this module's commands."""
    app.command(epilog="Example: leadline command 'gzip -9 -k -f log' 'zstd -q -f log' --runs 20")(command)


def command(
    commands: Annotated[list[str] | None, typer.Argument(help="Commands; the first is the baseline.")] = None,
    runs: Annotated[
        int | None, typer.Option("--runs", "-r", min=1, max=100_000, help="Runs of each; 10 to 200 if absent, by time.")
    ] = None,
    warmup: Annotated[
        int, typer.Option("--warmup", "-w", min=0, max=1000, help="Runs of each before, which are not measured.")
    ] = 1,
    order: Annotated[Order, typer.Option(help="The order of the runs.")] = Order.RANDOM,
    cache: Annotated[
        Cache, typer.Option(help="cold: the page cache is dropped before each run (root); warm: said in the output.")
    ] = Cache.AS_IS,
    setup: Annotated[str, typer.Option("--setup", "-s", metavar="CMD", help="Run once before all.")] = "",
    prepare: Annotated[str, typer.Option("--prepare", "-p", metavar="CMD", help="Run before each run.")] = "",
    cleanup: Annotated[str, typer.Option("--cleanup", "-c", metavar="CMD", help="Run once after all.")] = "",
    parameter_list: Annotated[
        list[str] | None,
        typer.Option("--parameter-list", "-L", metavar="NAME=A,B", help="Values for {NAME} in the commands."),
    ] = None,
    shell: Annotated[
        bool | None, typer.Option("--shell/--no-shell", help="By sh -c; if absent, only those with signs of the shell.")
    ] = None,
    ignore_failure: Annotated[
        bool, typer.Option("--ignore-failure", "-i", help="Take every exit code for success.")
    ] = False,
    timeout: Annotated[float, typer.Option(min=0.1, max=86_400, help="Seconds after which a run is ended.")] = 600.0,
    equivalent: Annotated[
        float, typer.Option(min=0.01, max=50, help="Percent of time within which there is no difference.")
    ] = 2.0,
    seed: Annotated[int, typer.Option(min=0, max=2**62, help="Of the order.")] = 1,
    import_json: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="Compare what hyperfine or --export-json wrote; the commands of all FILEs."),
    ] = None,
    export_json: Annotated[Path | None, file_option("Write hyperfine's JSON, with all runs.")] = None,
    count: CountOption = False,
    fail: FailOption = None,
    undecided: UndecidedOption = Undecided.FAIL,
    json: JsonOption = False,
) -> None:
    """Time programs as whole processes in a mixed order and compare them, with intervals."""
    failing = Failing.of(fail, undecided, COUNTS if count else PROCESS_RESPONSES)
    if import_json is not None:
        comparison = compared_files(import_json, equivalent, ignore_failure)
    else:
        wanted = _commands(commands or [], parameter_list or [], shell)
        if count:
            end_with(_count(wanted, runs or LAYOUTS, timeout, failing, json))
            return
        how = Timing(
            runs, max(warmup, int(cache is Cache.WARM)), order.value, cache.value, seed, timeout, prepare, setup,
            cleanup, ignore_failure, equivalent,
        )  # fmt: skip
        comparison = timed_comparison(wanted, how, lambda line: say(line, to=errors))
    judged = failing.judge(changes_of_study(comparison.analysis) if comparison.analysis else ())
    if export_json is not None:
        import json as written

        export_json.write_text(written.dumps(document(comparison), indent=1) + "\n", encoding="utf-8")
    if json:
        print_json(document(comparison) | {"answer": answer(comparison)} | conditions_document(judged))
    else:
        print_answer(answer(comparison))
        say(*lines(comparison))
        say_conditions(judged)
    if comparison.interrupted:
        raise typer.Exit(128 + signal.SIGINT)
    end_with(1 if comparison.failed else failing.code(comparison.answered, judged))


def _commands(texts: Sequence[str], lists: Sequence[str], shell: bool | None) -> list[Command]:
    if not texts:
        raise UsageError("name a command: leadline command 'gzip -k -f log' 'zstd -q -f log'")
    return commands_of(texts, _lists(lists), shell)


def _count(commands: Sequence[Command], layouts: int, timeout: float, failing: Failing, json: bool) -> int:
    """Count, print, and return the exit code."""
    from leadline.experiments.counting import counted

    counts = counted(commands, layouts, LocalHost(), timeout, lambda line: say(line, to=errors))
    judged = failing.judge(counts.changes())
    if json:
        print_json(counts.document() | conditions_document(judged))
    else:
        print_answer(counts.answer())
        say(*counts.lines())
        say_conditions(judged)
    return failing.code(True, judged)


def _lists(given: Sequence[str]) -> dict[str, list[str]]:
    lists: dict[str, list[str]] = {}
    for assignment in given:
        name, equals, values = assignment.partition("=")
        if not equals or not name.isidentifier() or not values:
            raise UsageError(f"--parameter-list {quoted(assignment)}: write NAME=A,B,C")
        lists[name] = values.split(",")
    return lists
