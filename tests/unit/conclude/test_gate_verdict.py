"""The verdict of a gate over all its conditions, its one line, and what a build is told."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from leadline.conclude.gate import Gate, GateVerdict, change_of, verdict_of
from leadline.model.conditions import Change, Judged, judge, parse
from leadline.model.result import Interval
from leadline.planning.gating import GateRates
from leadline.report.ci import gate_document, gate_junit

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
