"""``leadline``: exit codes 0 done, 1 the study failed, 2 usage, 3 the host could not be put back."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

import leadline
from leadline.cli.lazy import LazyCommands
from leadline.cli.output import errors
from leadline.host.threads import one_blas_thread
from leadline.model.errors import LeadlineError

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
    """The console script: one clear message for every foreseen error."""
    one_blas_thread()
    try:
        app()  # ends by SystemExit, with 2 for its own usage errors
    except LeadlineError as error:
        errors.print(f"leadline: {error}", markup=False, highlight=False, soft_wrap=True)
        evidence = getattr(error, "evidence", "")
        if evidence:
            errors.print(evidence, markup=False, highlight=False, soft_wrap=True)
        sys.exit(error.exit_code)
    except BrokenPipeError:
        # The reader of our output went away (head, less): not an error of ours.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
