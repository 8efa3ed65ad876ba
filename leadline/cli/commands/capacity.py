"""``capacity``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from leadline.api.results import load_lab
from leadline.cli.options import JsonOption, LabOption, file_option
from leadline.cli.output import print_answer, print_json, say
from leadline.model.errors import UsageError, quoted


def register(app: typer.Typer) -> None:
    """Add this module's command."""
    app.command(epilog="Example: leadline capacity load-study --predict 50,100,200")(capacity)


def capacity(
    study: Annotated[
        str, typer.Argument(help="A study that varies its load: its name (the newest), its number, name@number.")
    ],
    lab: LabOption = Path("lab"),
    predict: Annotated[
        str, typer.Option(help="Loads to predict: users, or sessions a second; those of the study and more if absent.")
    ] = "",
    pool: Annotated[str, typer.Option(help="Sizes of the study's pool to predict; its own if absent.")] = "",
    at: Annotated[
        list[str] | None,
        typer.Option("--at", help="Level of another factor: --at jvm.heap=512m; the baseline's if absent."),
    ] = None,
    cpus: Annotated[
        float | None,
        typer.Option(min=0.01, max=4096, help="CPUs of the services; those of the study's host if absent."),
    ] = None,
    out: Annotated[Path | None, file_option("Write the predictions as CSV to a file.")] = None,
    json: JsonOption = False,
) -> None:
    """Fit a queueing model to a study of load: knee, what saturates first, untested loads, error on loads left out."""
    levels = dict(_pair(text) for text in at or [])
    loads = [_number("--predict", word, 1e-3, 1e6) for word in _words(predict)]
    pools = [int(_number("--pool", word, 1, 1e5)) for word in _words(pool)]
    fit = load_lab(lab).study(study).capacity(levels, cpus, loads, pools)
    if out is not None:
        fit.write(out)
    files = [str(out)] if out is not None else []
    if json:
        print_json({**fit.document(), **({"files": files} if files else {})})
    else:
        print_answer(fit.answer)
        say(*fit.lines(), *files)


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",")] if text else []


def _number(option: str, word: str, least: float, most: float) -> float:
    try:
        number = float(word)
    except ValueError:
        raise UsageError(f"{option}: {quoted(word)} is not a number; write them as in {option} 50,100,200") from None
    if not least <= number <= most:
        near = least if not number >= least else most
        raise UsageError(f"{option}: {word} is not between {least:g} and {most:,.0f}; the nearest is {near:,.10g}")
    return number


def _pair(text: str) -> tuple[str, str]:
    name, equals, level = text.partition("=")
    if not equals or not name.strip() or not level.strip():
        raise UsageError(f"--at {quoted(text)}: write it as knob=level")
    return name.strip(), level.strip()
