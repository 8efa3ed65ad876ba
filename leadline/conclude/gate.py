"""What a gate says of a change: a verdict over all its conditions, and how often such a gate errs.

Programs may be compared by exact counts: their change in each of several layouts of memory and hash seeds. Nothing
there is chance but the layout. The interval of a change is from its least to its most over all layouts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import median
from typing import Any

from leadline.conclude.answer import SIMULATED
from leadline.model.conditions import Change, Condition, Judged, State, changes_of_study, harm_of, judge
from leadline.model.record import StudyRecord, TrialState
from leadline.model.result import PROCESS_RESPONSES, Interval, StudyAnalysis
from leadline.model.units import format_duration, rounded, signed
from leadline.planning.gating import GateRates, differences, gate_rates

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


class GateVerdict(StrEnum):
    """In the order in which they win."""

    REGRESSION = "regression"  # a condition is broken
    UNDECIDED = "undecided"
    IMPROVEMENT = "improvement"  # no condition is broken, and a response is better by an interval not inside the margin
    UNCHANGED = "no change beyond the margin"


@dataclass(frozen=True)
class Gate:
    """A gate that has ended. ``blocks``: those that both sides completed, of the plan's ``of``; ``rates`` is None where
    they are too few to tell the noise. ``counted``: its blocks are layouts, whose counts are exact.
    """

    base: str
    head: str
    judged: tuple[Judged, ...]
    rates: GateRates | None
    blocks: int
    of: int
    seconds: float
    simulated: bool = False
    counted: bool = False

    @property
    def verdict(self) -> GateVerdict:
        return verdict_of(self.judged)

    @property
    def line(self) -> str:
        """The verdict and what it rests on, in one line."""
        took = f"{self.size} in {format_duration(round(self.seconds))}"
        simulated = SIMULATED if self.simulated else ""
        return f"{simulated}{self.verdict.value}: {'; '.join(change_of(row) for row in self.judged)} ({took})"

    @property
    def remedy(self) -> str:
        """What may decide a gate that noise left undecided, in a sentence; else empty."""
        if self.verdict is not GateVerdict.UNDECIDED:
            return ""
        if self.counted:
            return "What helps: a wider margin; the change depends on the layout of memory."
        programs = any(row.condition.response in PROCESS_RESPONSES for row in self.judged)
        exact = "`--count`, which counts the instructions of both and sees no neighbour; " if programs else ""
        return f"What helps: {exact}a longer `--budget`; a quieter machine."

    @property
    def size(self) -> str:
        return f"{self.blocks} layouts" if self.counted else f"{self.blocks} of {self.of} blocks"

    @property
    def error_rate(self) -> str:
        """How often this plan errs on this machine, in a sentence; of counts what they are."""
        if self.counted:
            return NOTE
        rates = self.rates
        if rates is None:
            return "Too few blocks to tell how often this gate errs."
        finds = [
            f"a harm of {effect:g} % of {condition.response} is found in {100 * share:.0f}"
            for condition, effect, share in rates.found
        ]
        noise = ", ".join(
            f"{row.condition.response} {rounded(size, 2)} %"
            for row, size in zip(self.judged, rates.noise, strict=False)
        )
        return (
            f"On a machine like this one, of 100 pull requests without a change {_rounded(rates.fail)} would fail and "
            f"{100 * rates.undecided:.0f} stay undecided; {', '.join(finds)}. "
            f"Simulated: this plan of {rates.of} blocks with the noise of {rates.blocks} (differences vary by {noise})."
        )


def _rounded(share: float) -> str:
    return f"{100 * share:.0f}" if share == 0 or share >= 0.005 else "less than 1"


def verdict_of(judged: Sequence[Judged]) -> GateVerdict:
    """Of all conditions together."""
    states = {row.state for row in judged}
    if State.BROKEN in states:
        return GateVerdict.REGRESSION
    if State.UNDECIDED in states or not states:
        return GateVerdict.UNDECIDED
    return GateVerdict.IMPROVEMENT if any(map(_is_better, judged)) else GateVerdict.UNCHANGED


def _is_better(row: Judged) -> bool:
    if row.change is None or row.change.interval is None or row.condition.margin is None:
        return False
    low, high = harm_of(row.condition, row.change.interval)
    return high < 0 and low < -row.condition.margin


def change_of(row: Judged) -> str:
    """``cpu +4.1 % [+3.2, +5.1], more than 3 %``."""
    change, name = row.change, row.condition.response
    if change is None:
        return f"{name} was not measured"
    if change.percent is None or change.interval is None:
        return f"{name}: {'every trial failed' if change.failed else change.reason or 'no interval'}"
    words = {
        State.BROKEN: "harm of more than",
        State.KEPT: "no harm of more than",
        State.UNDECIDED: "not known whether",
    }
    ends = f"[{signed(change.interval.low, 3)}, {signed(change.interval.high, 3)}]"
    over = " is exceeded" if row.state is State.UNDECIDED else ""
    return f"{name} {signed(change.percent, 3)} % {ends}, {words[row.state]} {row.condition.margin:g} %{over}"


def counted_gate(counted: Counted, conditions: Sequence[Condition], base: str, head: str, seconds: float) -> Gate:
    """From exact counts of two commands."""
    judged = judge(conditions, counted.changes())
    return Gate(base, head, judged, None, counted.layouts, counted.layouts, seconds, counted=True)


def gate_of(record: StudyRecord, analysis: StudyAnalysis, base: str, head: str, seconds: float) -> Gate:
    """From the study of a gate and its conclusion."""
    conditions = record.study.conditions
    of = 1 + max(trial.block for trial in record.plan.trials)
    rows = differences(record.plan, record.observations(), conditions)
    ended = [trial.planned.block for trial in record.trials if trial.state in (TrialState.DONE, TrialState.FAILED)]
    return Gate(
        base,
        head,
        judge(conditions, changes_of_study(analysis)),
        gate_rates(of, rows, conditions),
        len(set(ended)),
        of,
        seconds,
        record.simulated,
    )
