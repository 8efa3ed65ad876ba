"""The verdict of a gate over all its conditions, its one line, and what a build is told.

Exact counts of programs: changes over layouts, and the verdict that they give a gate.
"""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from leadline.conclude.gate import Counted, Counts, Gate, GateVerdict, change_of, counted_gate, verdict_of
from leadline.model.conditions import Change, Judged, judge, parse
from leadline.model.result import Interval
from leadline.planning.gating import GateRates
from leadline.report.ci import gate_document, gate_junit, gate_markdown

RESPONSES = ("throughput", "p99", "cpu_per_transaction")
CPU, THROUGHPUT = parse(["cpu>3%", "throughput<-5%"], RESPONSES)


def change(response: str, low: float, high: float) -> Change:
    return Change(response, "build=head", (low + high) / 2, Interval(low, high))


def judged(cpu: tuple[float, float], throughput: tuple[float, float] = (-1.0, 1.0)) -> tuple[Judged, ...]:
    return judge([CPU, THROUGHPUT], [change("cpu_per_transaction", *cpu), change("throughput", *throughput)])


@pytest.mark.parametrize(
    ("cpu", "throughput", "verdict"),
    [
        ((3.1, 9.0), (-1.0, 1.0), GateVerdict.REGRESSION),
        ((1.0, 2.9), (-1.0, 1.0), GateVerdict.UNCHANGED),
        ((2.0, 4.0), (-1.0, 1.0), GateVerdict.UNDECIDED),
        ((3.1, 9.0), (-9.0, 1.0), GateVerdict.REGRESSION),
        ((-9.0, -3.1), (-9.0, 1.0), GateVerdict.UNDECIDED),
        ((-9.0, -2.0), (-1.0, 1.0), GateVerdict.IMPROVEMENT),
        ((-2.9, -2.0), (-1.0, 1.0), GateVerdict.UNCHANGED),
        ((-9.0, 2.0), (-1.0, 1.0), GateVerdict.UNCHANGED),
        ((-1.0, 1.0), (2.0, 9.0), GateVerdict.IMPROVEMENT),
        ((-1.0, 1.0), (-9.0, -6.0), GateVerdict.REGRESSION),
    ],
)
def test_a_verdict_is_over_all_conditions(
    cpu: tuple[float, float], throughput: tuple[float, float], verdict: GateVerdict
) -> None:
    assert verdict_of(judged(cpu, throughput)) is verdict


def test_without_a_figure_nothing_is_decided_and_a_head_that_fails_does_harm() -> None:
    assert verdict_of(()) is GateVerdict.UNDECIDED
    (lost,) = judge([CPU], [])
    assert (verdict_of([lost]), change_of(lost)) == (GateVerdict.UNDECIDED, "cpu_per_transaction was not measured")
    (failed,) = judge([CPU], [Change("cpu_per_transaction", "build=head", None, None, "", failed=True)])
    assert (verdict_of([failed]), change_of(failed)) == (
        GateVerdict.REGRESSION,
        "cpu_per_transaction: every trial failed",
    )


def gate(cpu: tuple[float, float], rates: GateRates | None = None) -> Gate:
    return Gate("main", "change", judged(cpu), rates, 7, 20, 83.4)


def test_one_line_says_the_verdict_and_what_it_rests_on() -> None:
    assert gate((3.1, 9.0)).line == (
        "regression: cpu_per_transaction +6.05 % [+3.1, +9], harm of more than 3 %; "
        "throughput 0 % [−1, +1], no harm of more than 5 % (7 of 20 blocks in 1m23s)"
    ).replace(" 0 %", " +0 %")


def test_the_error_rate_is_a_sentence() -> None:
    rates = GateRates(0.0031, 0.12, ((CPU, 5.0, 0.917), (THROUGHPUT, 10.0, 1.0)), (1.234, 0.5), 7, 20)
    assert gate((3.1, 9.0), rates).error_rate == (
        "On a machine like this one, of 100 pull requests without a change less than 1 would fail and 12 stay "
        "undecided; a harm of 5 % of cpu_per_transaction is found in 92, a harm of 10 % of throughput is found in 100. "
        "Simulated: this plan of 20 blocks with the noise of 7 (differences vary by cpu_per_transaction 1.2 %, "
        "throughput 0.5 %)."
    )
    assert gate((3.1, 9.0)).error_rate == "Too few blocks to tell how often this gate errs."
    assert gate_document(gate((3.1, 9.0), rates))["rates"]["found"][0] == {
        "condition": "cpu>3%",
        "harm_percent": 5.0,
        "share": 0.917,
    }


@pytest.mark.parametrize(("fails", "element"), [(True, "error"), (False, "skipped")])
def test_a_build_is_told_each_condition(fails: bool, element: str) -> None:
    suite = ElementTree.fromstring(gate_junit(gate((2.0, 4.0)), fails)).find("testsuite")
    assert suite is not None
    assert [case.get("name") for case in suite.findall("testcase")] == ["cpu>3%", "throughput<-5%"]
    assert suite.find(f"testcase[@name='cpu>3%']/{element}") is not None
    assert suite.find("testcase[@name='throughput<-5%']/system-out") is not None
    assert (suite.get("failures"), suite.get("errors"), suite.get("skipped")) == (
        "0",
        str(int(fails)),
        str(int(not fails)),
    )


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
