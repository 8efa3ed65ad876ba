"""Conditions of ``--fail``: one grammar, and what a simultaneous interval says of them."""

from __future__ import annotations

import pytest

from leadline.analysis.soak import Drift, Series, Soak
from leadline.api.comparing import changes_of_soak
from leadline.conclude.soak import SoakAnswer
from leadline.model.conditions import SOAK_RESPONSES, Change, exit_code, judge, parse
from leadline.model.errors import UsageError
from leadline.model.result import Interval
from leadline.model.study import Study

RESPONSES = ("throughput", "p99", "cpu_per_transaction")


@pytest.mark.parametrize(
    ("text", "response", "margin"),
    [
        ("cpu>3%", "cpu_per_transaction", 3.0),
        ("p99 > +10%", "p99", 10.0),
        ("p99>=.5%", "p99", 0.5),
        ("throughput<-5%", "throughput", 5.0),
        ("throughput<0%", "throughput", 0.0),
    ],
)
def test_a_condition_names_a_harm(text: str, response: str, margin: float) -> None:
    (condition,) = parse([text], RESPONSES)
    assert (condition.response, condition.margin) == (response, margin)


@pytest.mark.parametrize(
    ("keys", "cpu"),
    [
        ({}, "cpu_per_transaction"),
        ({"design": {"switchback": {}}}, "steady_cpu_per_transaction"),
        ({"design": {"rotation": {}, "replicates": 2}}, "steady_cpu_per_transaction"),
        ({"design": {"switchback": {}}, "responses": ["p50", "cpu_per_transaction"]}, "cpu_per_transaction"),
    ],
)
def test_cpu_is_the_studys_without_the_compiler_in_slots(keys: dict[str, object], cpu: str) -> None:
    study = Study.model_validate({"study": "s", "question": "?", "factors": {"vm.swappiness": [1, 2]}, **keys})
    (condition,) = parse(["cpu>3%"], study.responses)
    assert condition.response == cpu


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("p99", "no condition; write cpu>3%, p99>10% or throughput<-5%"),
        (">3%", "no condition"),
        ("p98>3%", "'p98' is not measured here; did you mean p99?"),
        ("wall>3%", "there are throughput, p99, cpu_per_transaction"),
        ("p99>200ms", "'200ms' is no change in percent of the baseline; write p99>5%"),
        ("p99>x%", "write p99>5%"),
        ("p99<10%", "it names the harm, not what is wanted; write p99>10%"),
        ("throughput<5%", "write throughput<-5%"),
        ("throughput>5%", "write throughput<-5%"),
        ("p99>-5%", "write p99>5%"),
    ],
)
def test_another_text_is_refused_with_what_to_write(text: str, told: str) -> None:
    with pytest.raises(UsageError) as error:
        parse([text], RESPONSES)
    assert told in str(error.value)
    assert str(error.value).startswith(f"--fail '{text}'")


def test_a_limit_of_a_load_stands_beside_changes() -> None:
    parsed = parse(["p99>200ms", "errors>0.1%", "throughput<100/s", "p99>10%"], RESPONSES, limits=True)
    assert [condition.margin for condition in parsed] == [None, None, None, 10.0]
    for text, told in (
        ("p99<200ms", "write p99>200ms"),
        ("p99>fast", "write p99>200ms"),
        ("eror>1%", "did you mean"),
    ):
        with pytest.raises(UsageError, match=told):
            parse([text], (*RESPONSES, "errors"), limits=True)


def change(low: float | None, high: float = 0.0, *, failed: bool = False, response: str = "p99") -> Change:
    if low is None:
        return Change(response, "x=2", None, None, "too few", failed)
    return Change(response, "x=2", (low + high) / 2, Interval(low, high))


@pytest.mark.parametrize(
    ("found", "state", "code", "passing"),
    [
        (change(10.1, 12.0), "broken", 1, 1),
        (change(9.9, 12.0), "undecided", 4, 0),
        (change(-3.0, 10.0), "kept", 0, 0),
        (change(-30.0, -20.0), "kept", 0, 0),
        (change(None), "undecided", 4, 0),
        (change(None, failed=True), "broken", 1, 1),
        (change(10.1, 12.0, response="p90"), "undecided", 4, 0),
    ],
)
def test_only_an_interval_beyond_the_margin_breaks(found: Change, state: str, code: int, passing: int) -> None:
    judged = judge(parse(["p99>10%"], RESPONSES), [found])
    assert [row.state for row in judged] == [state]
    assert state in judged[0].line
    assert (exit_code(judged), exit_code(judged, undecided_fails=False)) == (code, passing)


def test_harm_of_throughput_is_its_fall() -> None:
    (condition,) = parse(["throughput<-5%"], RESPONSES)
    states = [
        judge([condition], [change(low, high, response="throughput")])[0].state
        for low, high in ((-9, -6), (-9, -4), (-4, 9), (6, 9))
    ]
    assert states == ["broken", "undecided", "kept", "kept"]


@pytest.mark.parametrize(
    ("percent", "low", "high", "state"),
    [(20.0, 4.0, 16.0, "broken"), (20.0, 0.0, 20.0, "undecided"), (-1.0, -2.0, 0.0, "kept"), (2.0, 0.5, 1.5, "kept")],
)
def test_a_trend_of_a_soak_is_a_change_over_the_run(percent: float, low: float, high: float, state: str) -> None:
    """``low`` and ``high`` are a day; the run changed by ``percent``, which is their middle."""
    drift = Drift(
        Series("memory of server (start 1)", "MiB", (), ()), "degrading", "", (low + high) / 2, low, high, percent
    )
    other = Drift(Series("threads", "", (), ()), "degrading", "", 1.0, 0.5, 1.5, 50.0)
    answer = SoakAnswer(Soak("degrading", (drift, other)), (), (), 1.0, 1.0, 1, 0)
    (judged,) = judge(parse(["memory>5%"], SOAK_RESPONSES), changes_of_soak(answer))
    assert judged.state.value == state
