"""``leadline``: exit codes 0 done, 1 the study failed, 2 usage, 3 the host could not be put back, 128 + the number of a
signal that ended it.
"""

from __future__ import annotations

import errno
import io
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from threading import Timer
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

import typer

import leadline
from leadline.cli.lazy import LazyCommands
from leadline.cli.output import errors
from leadline.host.process import one_blas_thread
from leadline.host.textfile import redacted, usual_mask
from leadline.model.errors import LeadlineError, printable, shortened
from leadline.trial.interruption import Interruption

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

# How a command ends: by a signal, or when nobody reads its output any more.


_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_AGAIN = 0.05  # seconds until a lost signal is sent again


class _Output(io.FileIO):
    """A standard stream that outlives its reader: what is written to a closed pipe or a lost terminal is dropped, so
    that it cuts nothing short. Any other error (a full disk) is kept in ``error`` for the end.
    """

    def __init__(self, number: int) -> None:
        super().__init__(number, "w", closefd=False)
        self.error: OSError | None = None
        self._terminal = os.isatty(number)

    def write(self, data: ReadableBuffer, /) -> int:
        try:
            return super().write(data)
        except BlockingIOError:
            raise
        except OSError as error:
            lost = error.errno == errno.EPIPE or self._terminal
            if not lost and self.error is None:
                self.error = error
            return memoryview(data).nbytes


@dataclass(frozen=True)
class Outputs:
    """The standard streams of a command."""

    streams: tuple[_Output, ...]

    def finish(self, code: int) -> int:
        """Write out what is left; the exit code, which is 1 where output was lost that somebody wanted."""
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        for stream in self.streams:
            if stream.error is not None:
                with suppress(OSError):
                    os.write(2, f"leadline: the output could not be written: {stream.error.strerror}\n".encode())
                return code or 1
        return code


class _Text(io.TextIOWrapper):
    """A stream without the secrets that are known."""

    def write(self, text: str) -> int:
        return super().write(redacted(text))


def last_to_the_end() -> Outputs:
    """Put streams that outlive their readers in the place of standard output and error. No file that is opened later
    takes the number of one that was closed: what is said to a closed standard error leads nowhere.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:  # what is opened takes the lowest free number; what is written to a closed output is an error
            os.open(os.devnull, os.O_RDONLY if number == 1 else os.O_RDWR)
    streams = []
    for name, number in (("stdout", 1), ("stderr", 2)):
        before: Any = getattr(sys, name)
        if before is not None:
            with suppress(OSError):
                before.flush()
        raw = _Output(number)
        encoding = before.encoding if before is not None else "utf-8"
        text = _Text(
            io.BufferedWriter(raw),
            encoding=encoding,
            errors="backslashreplace",  # names of files may be no text
            line_buffering=number == 2 or raw.isatty(),
        )
        setattr(sys, name, text)
        streams.append(raw)
    return Outputs(tuple(streams))


@dataclass
class FirstSignal:
    """The signal that ends a command; 0 before it came."""

    number: int = 0


@contextmanager
def ended_by_signals() -> Iterator[FirstSignal]:
    """The first of SIGINT, SIGTERM and SIGHUP ends the body in order (KeyboardInterrupt, or SystemExit with 128 and its
    number); later ones wait for that end, and all for the summary of a run that a signal has cut short. What was
    ignored when leadline began (nohup) stays ignored.
    """
    first = FirstSignal()
    ours = [number for number in _SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]

    def on_signal(number: int, _frame: FrameType | None) -> None:
        if first.number or Interruption.cut_short:
            return
        first.number = number
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        raise SystemExit(128 + number)

    def unraisable(lost: Any) -> None:
        if isinstance(lost.exc_value, KeyboardInterrupt | SystemExit):
            number, first.number = first.number, 0  # it came where nothing can be raised (a finaliser): once more
            Timer(_AGAIN, os.kill, (os.getpid(), number)).start()
        else:
            sys.__unraisablehook__(lost)

    for number in ours:
        signal.signal(number, on_signal)
    sys.unraisablehook = unraisable
    try:
        yield first
    finally:
        for number in ours:
            signal.signal(number, signal.SIG_IGN)  # nothing is left to end


app = typer.Typer(
    name="leadline",
    cls=LazyCommands,
    help="Designed experiments on every layer beneath a Java application.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(show: bool) -> None:
    if show:
        typer.echo(f"leadline {leadline.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and end.")
    ] = False,
) -> None: ...


def main() -> None:
    """The console script: one clear message for every foreseen error and every signal, its exit code the command's."""
    outputs = last_to_the_end()
    one_blas_thread()
    usual_mask()
    with ended_by_signals() as first:
        try:
            code = _run()
        except KeyboardInterrupt:  # outside of any command
            code = 128 + signal.SIGINT
        if first.number and code == 128 + first.number:
            _say(f"leadline: ended by {signal.Signals(first.number).name}")
    sys.exit(outputs.finish(code))


def _run() -> int:
    try:
        app(prog_name="leadline")
    except SystemExit as ended:  # so ends every command: 2 for a usage error of the options, 130 after Ctrl-C
        return ended.code if isinstance(ended.code, int) else 0
    except LeadlineError as error:
        _say(f"leadline: {error}")
        if evidence := getattr(error, "evidence", ""):
            _say(evidence)
        return error.exit_code
    except OSError as error:  # a full disk, no permission, no file or process to be had
        named = f": {shortened(str(error.filename), 200)}" if error.filename else ""
        _say(f"leadline: {error.strerror or error}{named}")
    except MemoryError:
        _say("leadline: there is not enough memory")
    return 1


def _say(text: str) -> None:
    errors.print("\n".join(map(printable, text.expandtabs().split("\n"))), soft_wrap=True)
