"""What a gate says of a change: a verdict over all its conditions, and how often such a gate errs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from leadline.conclude.answer import SIMULATED
from leadline.conclude.counted import NOTE, Counted
from leadline.model.conditions import Condition, Judged, State, changes_of_study, harm_of, judge
from leadline.model.record import StudyRecord, TrialState
from leadline.model.result import PROCESS_RESPONSES, StudyAnalysis
from leadline.model.units import format_duration, rounded, signed
from leadline.planning.gating import GateRates, differences, gate_rates


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
