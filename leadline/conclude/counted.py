"""Programs compared by exact counts: their change in each of several layouts of memory and hash seeds.

Nothing here is chance but the layout. The interval of a change is from its least to its most over all layouts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

from leadline.model.conditions import Change
from leadline.model.result import Interval
from leadline.model.units import signed

COUNTS = ("instructions", "user_instructions", "kernel_instructions", "page_faults", "switches", "syscalls")
CALL = "syscalls."  # and the name of a system call
LAYOUTS = 5
MARGIN = 0.25  # percent of instructions within which there is no difference
OF_COUNTS = (f"instructions>{MARGIN:g}%",)  # conditions where none are given
OF_SERVERS = ("instructions>0.5%",)  # of which a JVM's start elsewhere on the disk moves 0.1 %
NOTE = (
    "Counted in a guest in virtual time, kernel included; the same layout counts the same digits. It is no time: "
    "caches, branch prediction and waiting are not in it, nor allocations that ask the kernel for nothing. "
    "JVMs run with -Xbatch: they compile in the thread that asks for it, those of servers by C1 alone."
)
_CALLS = 3  # system calls that are named


@dataclass(frozen=True)
class Counts:
    """Of one run of a command: ``COUNTS``, and each system call by ``CALL`` and its name."""

    command: int
    layout: int
    figures: Mapping[str, int]


@dataclass(frozen=True)
class Counted:
    """``runs``: every command once in every layout, or the load of a server. The first command is the baseline."""

    commands: tuple[str, ...]
    runs: tuple[Counts, ...]
    transactions: int = 0  # of a server, which were counted; 0 of programs

    @property
    def layouts(self) -> int:
        return len({run.layout for run in self.runs})

    def of(self, command: int, name: str) -> list[int]:
        """By layout."""
        runs = sorted((run for run in self.runs if run.command == command), key=lambda run: run.layout)
        return [run.figures.get(name, 0) for run in runs]

    def change(self, command: int, name: str) -> Change:
        pairs = list(zip(self.of(0, name), self.of(command, name), strict=True))
        what = self.commands[command]
        if not all(base for base, _ in pairs):
            return Change(name, what, None, None, "the baseline has none")
        percents = [100 * (figure / base - 1) for base, figure in pairs]
        return Change(name, what, median(percents), Interval(min(percents), max(percents)))

    def changes(self) -> list[Change]:
        return [self.change(at, name) for at in range(1, len(self.commands)) for name in COUNTS]

    def answer(self) -> str:
        """By instructions, a clause for each command."""
        clauses = []
        for at in range(1, len(self.commands)):
            change = self.change(at, "instructions")
            assert change.interval is not None
            low, high = change.interval.low, change.interval.high
            if low > MARGIN or high < -MARGIN:
                verdict = "more instructions" if low > 0 else "fewer instructions"
            elif low >= -MARGIN and high <= MARGIN:
                verdict = f"no difference beyond {MARGIN:g} % of instructions"
            else:
                verdict = "not clear by layouts"
            clauses.append(f"{self.commands[at]}: {verdict} ({_percent(change)}) against {self.commands[0]}")
        return "; ".join(clauses) or f"{self.of(0, 'instructions')[0]:,} instructions"

    def lines(self) -> Iterator[str]:
        """A table for each command; the figures are those of the first layout."""
        of = f"{self.transactions} transactions, in " if self.transactions else ""
        yield f"{of}{self.layouts} layouts of memory and hash seeds"
        for at in range(min(1, len(self.commands) - 1), len(self.commands)):
            yield f"{self.commands[at]}:"
            for name in COUNTS:
                row = f"  {name:20} {self.of(0, name)[0]:>15,}"
                yield row + (f" {self.of(at, name)[0]:>15,}  {_percent(self.change(at, name))}" if at else "")
            if calls := self.calls(at):
                moved = ", ".join(f"{name} {base:,} → {figure:,}" for name, base, figure in calls)
                yield f"  system calls that differ in every layout: {moved}"
        yield NOTE

    def calls(self, command: int) -> list[tuple[str, int, int]]:
        """System calls whose number differs in every layout, by how much: name, of the baseline, of the command."""
        names = {name for run in self.runs for name in run.figures if name.startswith(CALL)}
        pairs = {name: list(zip(self.of(0, name), self.of(command, name), strict=True)) for name in sorted(names)}
        rows = [
            (name.removeprefix(CALL), *sides[0])
            for name, sides in pairs.items()
            if all(base != figure for base, figure in sides)
        ]
        return sorted(rows, key=lambda row: -abs(row[2] - row[1]))[:_CALLS]

    def document(self) -> dict[str, Any]:
        """JSON types."""
        runs = [{"command": self.commands[run.command], "layout": run.layout, **run.figures} for run in self.runs]
        transactions = {"transactions": self.transactions} if self.transactions else {}
        return {"format": "leadline-counts/1", "answer": self.answer(), **transactions, "runs": runs, "note": NOTE}


def _percent(change: Change) -> str:
    if change.percent is None or change.interval is None:
        return "–"
    return f"{signed(change.percent, 3)} % [{signed(change.interval.low, 3)}, {signed(change.interval.high, 3)}]"
