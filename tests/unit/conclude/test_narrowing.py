"""Effects of a running study, block by block."""

import math
from dataclasses import replace

import pytest
from test_conclude import study

from leadline.conclude import narrowing as module
from leadline.conclude.bisection import sentence
from leadline.conclude.narrowing import narrowing
from leadline.model.record import StudyRecord, TrialState
from leadline.planning.bisection import Bisection, Block


def begun(record: StudyRecord, blocks: int) -> StudyRecord:
    """As it was when so many blocks were complete."""
    trials = [
        trial if trial.planned.block < blocks else replace(trial, state=TrialState.PLANNED, responses={}, started=None)
        for trial in record.trials
    ]
    return replace(record, trials=tuple(trials))


@pytest.fixture(scope="module")
def whole() -> StudyRecord:
    return study("{ when: { server.a: 20 }, percent: { p50: 60% } }", "replicates: 8, seed: 3")


def test_intervals_narrow_around_the_truth_and_end_in_the_verdict(whole: StudyRecord) -> None:
    found = narrowing(whole, "p50")
    assert found.blocks == (8, 8)
    first, second = found.comparisons
    assert (first.factor, first.level, first.verdict) == ("server.a", "20", "worse")
    assert second.verdict in ("undetermined", "equivalent")
    widths = []
    for moment in first.moments:
        assert moment.low is not None
        assert moment.high is not None
        assert moment.low < 60 < moment.high
        widths.append(moment.high - moment.low)
    assert [moment.blocks for moment in first.moments] == [3, 4, 5, 6, 7, 8]
    assert widths[-1] < widths[0] / 2


def test_what_was_seen_before_is_seen_again_as_it_was(whole: StudyRecord) -> None:
    early = narrowing(begun(whole, 5), "p50")
    assert early.blocks == (5, 8)
    assert early.comparisons[0].moments == narrowing(whole, "p50").comparisons[0].moments[:3]


def test_too_early_says_when_it_begins(whole: StudyRecord) -> None:
    found = narrowing(begun(whole, 2), "p50")
    assert not found.comparisons
    assert found.reason == "intervals begin after 3 of 8 blocks"


def test_of_many_moments_some_are_shown_and_the_last_always(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST", 4)
    assert module._spread(4) == [1, 2, 3, 4]
    assert module._spread(7) == [2, 4, 6, 7]
    assert module._spread(9) == [4, 8, 9]


def test_a_difference_that_was_measured_exactly_is_told_with_its_size() -> None:
    """The fault: -12 % between two kernels, probed exactly, was called an unknown amount that no change makes."""
    ends = Block((frozenset(), frozenset({0, 1})), (0.0, math.log(0.88)))
    usable = (frozenset[int](), frozenset({0}), frozenset({0, 1}))
    said = sentence(Bisection(2, (ends,), usable, exact=True), "p50", log=True, ordered=True, change=str)
    assert said.startswith("Not yet told which change")
    assert "the ends differ by −12 %, after 2 trials in 1 probes" in said
