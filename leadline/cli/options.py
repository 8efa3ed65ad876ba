"""Options that several commands share."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from leadline.cli.output import say
from leadline.model.conditions import Change, Condition, Judged, exit_code, judge, parse
from leadline.model.errors import UsageError, quoted
from leadline.model.judgement import NO_ANSWER_CODE


def _directory(given: str | Path) -> Path:
    """Raises UsageError for a lab that no directory can be, and for a name that no file of a service can hold."""
    if not str(given):
        raise UsageError("--lab '': name a directory; . is this one")
    if not str(given).isprintable():
        raise UsageError(f"--lab {quoted(str(given))}: the path contains unprintable characters")
    path = Path(given)
    if os.path.isdir(path):  # noqa: PTH112 - false where it cannot be looked at
        return path  # which may be read where it cannot be written
    try:
        return output_directory(path)
    except UsageError as error:
        raise UsageError(f"--lab {error}; name a directory, or one that is to be made") from None


def output_file(given: str | Path) -> Path:
    """A file that can be written, in a folder that is there. Raises UsageError; nothing is written yet."""
    path = Path(given)
    with _refusing(given):
        target = Path(os.path.realpath(path))
        if target.is_dir() or str(given).endswith("/") or not str(given):
            raise UsageError(f"{quoted(str(given), 200)} is a directory: name a file")
        if not os.path.lexists(target):
            if not target.parent.is_dir():
                raise UsageError(f"{quoted(str(given), 200)} cannot be written: there is no folder {target.parent}")
            _try(target.parent)
        elif target.is_file():
            target.open("ab").close()
        elif not os.access(target, os.W_OK):  # a pipe or a device, which opening would wait for
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    return path


def output_directory(given: str | Path) -> Path:
    """A directory that files can be written to, or that can be made. Raises UsageError; nothing is made yet."""
    path = Path(given)
    with _refusing(given):
        if not str(given):
            raise UsageError("'' is no directory; . is this one")
        target = Path(os.path.realpath(path))
        above = next(parent for parent in (target, *target.parents) if os.path.lexists(parent))
        if not above.is_dir():
            raise UsageError(f"{quoted(str(given), 200)} cannot be written: {above} is no directory")
        _try(above)
    return path


@contextmanager
def _refusing(given: str | Path) -> Iterator[None]:
    try:
        with suppress(FileNotFoundError, NotADirectoryError):
            Path(given).stat()  # tells of names that no file can have
        yield
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "no file can have this name"
        raise UsageError(f"{quoted(str(given), 200)} cannot be written: {reason}") from None


def _try(directory: Path) -> None:
    """Root may write where no file can be made (``/proc``), so one is made; it has no name."""
    with tempfile.TemporaryFile(dir=directory):
        pass


def file_option(help_text: str, *names: str) -> Any:
    """An option of a file that a command writes; a place where it cannot is refused before any work."""
    return typer.Option(*names, parser=output_file, metavar="<path>", help=help_text)


def directory_option(help_text: str) -> Any:
    """The same of a directory."""
    return typer.Option(parser=output_directory, metavar="<path>", help=help_text)


LabOption = Annotated[
    Path,
    typer.Option(
        "--lab",
        envvar="LEADLINE_LAB",
        parser=_directory,
        metavar="<path>",
        help="The lab: where studies and trials are kept.",
    ),
]
VerboseOption = Annotated[
    bool, typer.Option("--verbose", "-v", help="Also print notes on noise, drift, ranks and models, as the report has.")
]
JsonOption = Annotated[
    bool, typer.Option("--json", help="One JSON document on standard output (docs/reference/json.md).")
]
CountOption = Annotated[
    bool,
    typer.Option("--count", help="Count instructions, system calls and page faults in a guest, exactly, and no time."),
]
HostOption = Annotated[
    str,
    typer.Option("--host", metavar="HOST", help="Another host than this one: ssh:NAME (docs/guides/remote-hosts.md)."),
]
SetOption = Annotated[
    list[str] | None, typer.Option("--set", help="Change a key of the study: --set workload.users=20")
]
FactorOption = Annotated[
    list[str] | None,
    typer.Option("--factor", help="Add or replace a factor: --factor jvm.heap=256m,1g; one level holds it"),
]
BudgetOption = Annotated[str | None, typer.Option(help="Wall time after which no trial is started: 30m")]
DisposableOption = Annotated[bool, typer.Option("--disposable", help="This host may hang: allow dangerous levels.")]
SimulateOption = Annotated[
    Path | None,
    typer.Option(metavar="TRUTH", help="Run on a simulated host with this truth file, in virtual time."),
]
StudyArgument = Annotated[
    str, typer.Argument(help="A study or tuning in the lab: its name (the newest), its number, name@number.")
]


FailOption = Annotated[
    list[str] | None,
    typer.Option(
        "--fail",
        metavar="<condition>",
        help="Fail (exit code 1) where the simultaneous interval proves it: cpu>3%, p99>10%, throughput<-5%; "
        "may be repeated.",
    ),
]


class Undecided(StrEnum):
    """What becomes of a condition whose interval holds both."""

    PASS = "pass"
    FAIL = "fail"


UndecidedOption = Annotated[Undecided, typer.Option(help="Where the interval holds both: pass, or fail (exit code 4).")]


@dataclass(frozen=True)
class Failing:
    """The conditions of a command."""

    conditions: tuple[Condition, ...] = ()
    undecided_fails: bool = True

    @classmethod
    def of(cls, fail: Sequence[str] | None, undecided: Undecided, responses: Collection[str]) -> Failing:
        """Raises UsageError for a condition on another response."""
        return cls(parse(fail or (), responses), undecided is Undecided.FAIL)

    def judge(self, changes: Sequence[Change]) -> tuple[Judged, ...]:
        return judge(self.conditions, changes)

    def code(self, answered: bool, judged: Sequence[Judged]) -> int:
        """4 without an answer, 1 where a condition is broken, 4 where one is undecided, unless that passes."""
        return exit_code(judged, self.undecided_fails) if answered else NO_ANSWER_CODE


def say_conditions(judged: Sequence[Judged]) -> None:
    """A line for each."""
    say(*(row.line for row in judged))


def conditions_document(judged: Sequence[Judged]) -> dict[str, Any]:
    """As JSON types; empty without conditions."""
    return {"conditions": [row.document() for row in judged]} if judged else {}
