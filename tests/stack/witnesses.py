"""What shows that a database's knobs are at work: a figure of the running server under each of two levels."""

import os
import resource
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

import pytest

from leadline.model.knob import Level
from leadline.stack.base import Database

MATRIX = os.environ.get("LEADLINE_MATRIX") == "1"  # whether the longer tests run
Server = TypeVar("Server", bound=Database)


def matrix(reason: str) -> pytest.MarkDecorator:
    """A mark of the longer tests; ``reason``, which is printed, says what they need."""
    return pytest.mark.skipif(not MATRIX, reason=f"{reason}: LEADLINE_MATRIX=1 runs it")


@dataclass(frozen=True)
class Witness(Generic[Server]):
    """``holds`` of the figures under ``levels``; ``under``: other levels that it needs."""

    levels: tuple[Level, Level]
    measure: Callable[[Server], Any]
    holds: Callable[[Any, Any], bool]
    under: dict[str, Level] = field(default_factory=dict)
    longer: bool = False  # runs with LEADLINE_MATRIX=1 only


def wait_for(condition: Callable[[], bool], seconds: float = 30) -> bool:
    deadline = time.monotonic() + seconds
    while not (met := condition()) and time.monotonic() < deadline:
        time.sleep(0.02)
    return met


@contextmanager
def little_address_space(size: int = 4 << 30) -> Iterator[None]:
    """Processes that start here cannot map much over ``size`` bytes, whatever vm.overcommit_memory is."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def until(condition: Callable[[], object], seconds: float, what: str) -> None:
    """Fails with ``what`` where the condition does not come true in time."""
    assert wait_for(lambda: bool(condition()), seconds), what


def to_run(witnesses: Mapping[str, Witness[Server]]) -> Iterator[tuple[str, Witness[Server]]]:
    """All of them, or without the longer ones, which is printed."""
    for name, witness in witnesses.items():
        if MATRIX or not witness.longer:
            yield name, witness
    if not MATRIX:
        print("witnesses marked longer run with LEADLINE_MATRIX=1")


def without_effect(witnesses: Mapping[str, Witness[Server]], found: Mapping[str, list[Any]]) -> dict[str, list[Any]]:
    """The figures under both levels of each knob whose witness does not hold."""
    return {name: figures for name, figures in found.items() if not witnesses[name].holds(*figures)}


def over_two_starts(
    database: Server, witnesses: Mapping[str, Witness[Server]], configure: Callable[[dict[str, Level]], None]
) -> dict[str, list[Any]]:
    """Each knob's figures: all first levels at work in one start, all second levels in the next."""
    found: dict[str, list[Any]] = {name: [] for name in witnesses}
    for number in range(2):
        configure({name: each.levels[number] for name, each in witnesses.items()})
        database.start()
        database.wait_ready(60)
        for name, witness in witnesses.items():
            found[name].append(witness.measure(database))
        assert database.stop()
    return found


def statements_are_told(database: Database, run: Callable[[Any, str], object], lists: str) -> None:
    """Of a database that was configured for a profile: without literals, while they are tracked. ``lists``: how one of
    literals is shown.
    """
    database.start()
    database.wait_ready(60)
    run(database, "SELECT balance FROM account WHERE id = 11")
    assert not database.statements()
    database.track(True)
    until(lambda: _calls(database, run), 10, "statements are not told")
    before = _calls(database, run)
    for number in (3, 4):
        run(database, f"SELECT id FROM account WHERE balance = {number} AND id IN (1, {number})")
    calls = _calls(database, run)
    texts = [text for text in calls if calls[text] - before.get(text, 0) == 2 and "account" in text.lower()]
    expected = f"select id from account where balance = ? and id in ({lists})"
    assert [text.lower().replace("`", "") for text in texts] == [expected]
    assert database.statements()[f"ms\t{texts[0]}"] > 0
    database.track(False)
    assert not database.statements()
    database.stop()


def _calls(database: Database, run: Callable[[Any, str], object]) -> dict[str, float]:
    """Of statements, with some that are asked here, so that there are any."""
    run(database, "SELECT 1 AS nothing")
    figures = database.statements()
    return {name.partition("\t")[2]: calls for name, calls in figures.items() if name.startswith("calls")}
