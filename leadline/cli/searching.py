"""What the searches by probes, ``bisect`` and ``knee``, print alike."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from leadline.cli.output import console, errors, print_answer, print_json, say
from leadline.model.units import format_duration


class Told(Protocol):
    """What can be printed for people and for programs."""

    def lines(self) -> list[str]: ...
    def document(self) -> dict[str, Any]: ...


class Search(Told, Protocol):
    """A search that has ended."""

    @property
    def answer(self) -> str: ...


def tell(found: Told, json: bool) -> None:
    """A dry run."""
    if json:
        print_json(found.document())
    else:
        say(*found.lines())


def say_simulated(truth: Path | None, directory: Path, json: bool) -> None:
    """Before a search that runs on a truth file."""
    if truth is not None:
        said = f"SIMULATED on {truth}: no server runs, every figure below is made up; kept in {directory}"
        say(said, to=errors if json else console)


def tell_search(
    found: Search, json: bool, name: str, probes: int, seconds: float, stopped: str, restored: Sequence[str]
) -> None:
    """What was found, what was put back, where the probes are; the answer last."""
    if json:
        print_json(found.document())
        return
    say(*found.lines(), *(f"put back: {line}" for line in restored))
    say(*([f"stopped: {stopped}"] if stopped else []))
    say(f"probes: {name}-1 to -{probes}; {format_duration(seconds)} of trials")
    print_answer(found.answer)
