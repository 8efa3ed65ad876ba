"""``leadline``: exit codes 0 done, 1 the study failed, 2 usage, 3 the host could not be put back, 128 + the number of a
signal that ended it.
"""

from __future__ import annotations

import signal
import sys
from typing import Annotated

import typer

import leadline
from leadline.api.process import one_blas_thread, usual_mask
from leadline.cli.endings import ended_by_signals, last_to_the_end
from leadline.cli.lazy import LazyCommands
from leadline.cli.output import errors
from leadline.model.errors import LeadlineError, shortened

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
    errors.print(text, soft_wrap=True)
