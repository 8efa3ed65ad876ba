"""Exact counts of programs: changes over layouts, and the verdict that they give a gate."""

from __future__ import annotations

import pytest

from leadline.conclude.gate import Counted, Counts, GateVerdict, counted_gate
from leadline.model.conditions import parse
from leadline.report.ci import gate_markdown

BASE = 1_000_000


def counted(*instructions: int) -> Counted:
    """Of one program against another, by layout; the second opens a file more."""
    runs = []
    for layout, figure in enumerate(instructions):
        runs.append(Counts(0, layout, {"instructions": BASE, "syscalls": 2, "syscalls.read": 2}))
        runs.append(Counts(1, layout, {"instructions": figure, "syscalls": 3, "syscalls.read": 2, "syscalls.open": 1}))
    return Counted(("old", "new"), tuple(runs))


@pytest.mark.parametrize(
    ("instructions", "answer", "verdict"),
    [
        ((1_005_000, 1_004_000), "more instructions (+0.45 % [+0.4, +0.5])", GateVerdict.REGRESSION),
        ((1_001_000, 999_000), "no difference beyond 0.25 % of instructions", GateVerdict.UNCHANGED),
        ((1_001_000, 1_004_000), "not clear by layouts (+0.25 % [+0.1, +0.4])", GateVerdict.UNDECIDED),
        ((994_000, 995_000), "fewer instructions (−0.55 % [−0.6, −0.5])", GateVerdict.IMPROVEMENT),
    ],
)
def test_a_change_is_one_in_every_layout(instructions: tuple[int, ...], answer: str, verdict: GateVerdict) -> None:
    counts = counted(*instructions)
    assert answer in counts.answer()
    gate = counted_gate(counts, parse(["instructions>0.25%"], ["instructions"]), "old", "new", 9.0)
    assert gate.verdict is verdict
    assert gate.line.endswith("(2 layouts in 9s)")
    assert "new against old, 2 layouts." in gate_markdown(gate, "")


def test_the_table_names_what_differs_and_what_is_not_seen() -> None:
    lines = list(counted(1_005_000, 1_005_000).lines())
    assert "  instructions               1,000,000       1,005,000  +0.5 % [+0.5, +0.5]" in lines
    assert "  page_faults                        0               0  –" in lines
    assert "  system calls that differ in every layout: open 0 → 1" in lines
    assert "caches, branch prediction and waiting are not in it" in lines[-1]
    assert list(Counted(("old",), counted(1).runs[:1]).lines())[2] == "  instructions               1,000,000"
