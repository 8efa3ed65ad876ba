"""Looks at a study on a fake host: it ends early, drops settled levels, survives interruption, and says so."""

import re
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from lab_fakes import CACHE, POOL, FakeHost, FakeSystem

from leadline.analysis.study import analyse
from leadline.checks.files.study import parse_study
from leadline.checks.plan import plan_study
from leadline.experiments.results import analysis_of
from leadline.model.conditions import State, changes_of_study, judge
from leadline.model.errors import FailureClass, TrialFailure, UsageError
from leadline.model.plan import Role
from leadline.model.record import StudyRecord, TrialState
from leadline.model.result import Verdict
from leadline.planning.looks import look, schedule
from leadline.store.lab import Store
from leadline.trial.progress import SilentWatcher
from leadline.trial.run import RunResult, StudyRun

STUDY = """\
study: looked-at
question: Does it end early?
workload: { users: 5 }
factors:
  server.pool: [10, 2]
  vm.fake_live: [10, 20]
design: { replicates: 9, looks: 3, sentinels: null }
responses: [throughput]
"""


class FakeNoise:
    """Throughput by pool and live knob with a small repeatable noise: the k-th trial has the k-th figure."""

    def __init__(self, pool: float, live: float, noise: float = 0.02, start: int = 0) -> None:
        self.pool, self.live, self.noise, self.count = pool, live, noise, start

    def __call__(self, settings: Any, host: Any) -> float:
        self.count += 1
        swing = ((self.count * 7919) % 101 - 50) / 50
        value = 100.0 * (1 + self.noise * swing)
        if settings["server.pool"] == 2:
            value *= 1 + self.pool
        if host["vm.fake_live"] == 20:
            value *= 1 + self.live
        return value


def interrupting(effect: FakeNoise, after: int) -> Any:
    """Interrupts the load that comes after so many measured trials."""

    def fail(step: str, _settings: object) -> TrialFailure | None:
        now = step == "load" and effect.count == after
        return TrialFailure(FailureClass.INTERRUPTED, "ended by SIGINT") if now else None

    return fail


def run(
    tmp_path: Path, system: FakeSystem, text: str = STUDY, elapsed: Callable[[], float] = time.monotonic
) -> tuple[RunResult, StudyRecord, Store]:
    file = parse_study(text, "fake.yaml")
    planned = plan_study(file, system.host, [POOL, CACHE])
    store = Store(tmp_path / "lab")
    study = StudyRun(file, planned, store, system.host, system, SilentWatcher(), lambda _: nullcontext(), elapsed)
    result = study.execute()
    return result, store.load(result.study_id), store


def test_a_study_whose_comparisons_are_settled_ends_at_a_look(tmp_path: Path) -> None:
    result, record, store = run(tmp_path, FakeSystem(FakeHost(), effect=FakeNoise(-0.6, 0.5)))
    assert result.complete
    assert result.stopped == "at interim analysis 1 of 3: every comparison is settled"
    assert not record.failed
    states = [trial.state for trial in record.trials]
    assert states == ["done"] * 9 + [TrialState.SKIPPED] * 18
    assert {trial.failure_message for trial in record.trials[9:]} == {result.stopped}
    assert store.unfinished(record.study) is None, "a study that ended early is complete"
    analysis = analysis_of(record)
    assert {effect.verdict for effect in analysis.responses[0].effects} == {Verdict.BETTER, Verdict.WORSE}
    assert analysis.warnings[0] == f"Not needed, 18 of 27 trials: {result.stopped}."
    assert not any("not balanced" in warning for warning in analysis.warnings)


def test_a_settled_level_is_dropped_and_the_others_go_on(tmp_path: Path) -> None:
    system = FakeSystem(FakeHost(), effect=FakeNoise(-0.6, 0.03, noise=0.04))
    result, record, _ = run(tmp_path, system)
    assert result.complete
    gone = [
        trial
        for trial in record.trials
        if trial.state == TrialState.SKIPPED and "closed at interim analysis" in trial.failure_message
    ]
    assert gone
    assert {trial.planned.treatment["server.pool"] for trial in gone} == {2}
    assert all(trial.planned.block >= 3 for trial in gone)
    assert gone[0].failure_message.startswith("closed at interim analysis 1 of 3: worse, −")
    baselines = [trial for trial in record.trials if trial.planned.role is not Role.TREATMENT]
    stopped = 3 * int(result.stopped[8]) if result.stopped else 9
    assert all(trial.state == "done" for trial in baselines if trial.planned.block < stopped)
    worse = next(each for each in analysis_of(record).responses[0].effects if each.factor == "server.pool")
    assert worse.verdict is Verdict.WORSE


def test_a_watched_study_ends_once_its_comparisons_are_settled(tmp_path: Path) -> None:
    text = STUDY.replace("looks: 3", "looks: watched")
    result, record, _ = run(tmp_path, FakeSystem(FakeHost(), effect=FakeNoise(-0.6, 0.5, noise=0.005)), text)
    assert result.stopped.endswith("of 7: every comparison is settled")
    analysis = analysis_of(record)
    assert {each.verdict for each in analysis.responses[0].effects} == {Verdict.BETTER, Verdict.WORSE}
    assert any("may be watched at any moment" in each for each in analysis.warnings)
    early = replace(record, trials=tuple(trial for trial in record.trials if trial.planned.block < 2))
    assert {each.simultaneous for each in analysis_of(early).responses[0].effects} == {None}


def test_a_watched_study_concludes_as_the_look_that_ended_it(tmp_path: Path) -> None:
    text = STUDY.replace("looks: 3", "looks: watched")
    result, record, _ = run(tmp_path, FakeSystem(FakeHost(), effect=FakeNoise(-0.6, 0.5, noise=0.005)), text)
    number = int(result.stopped.split()[3])
    blocks = schedule(record.plan, "watched")
    last = look(record.plan, record.observations(), "throughput", blocks, number, watch=True)
    concluded = {each.factor: each.simultaneous for each in analysis_of(record).responses[0].effects}
    assert {settling.comparison.factor: settling.interval for settling in last.settlings} == concluded


CONDITIONS = """\
study: conditions
question: Are all conditions decided?
workload: { users: 5 }
factors: { server.pool: [10, 2] }
design: { replicates: 30, looks: watched, sentinels: null }
responses: [throughput]
fail: ["throughput<-9%"]
"""


@pytest.mark.parametrize(("pool", "states"), [(-0.6, "broken: throughput<-9%"), (-0.03, ""), (0.3, "")])
def test_a_watched_study_ends_when_its_conditions_are_decided(tmp_path: Path, pool: float, states: str) -> None:
    """Not when it is known that there is a difference: the conditions are about the margin."""
    result, record, _ = run(tmp_path, FakeSystem(FakeHost(), effect=FakeNoise(pool, 0, noise=0.02)), CONDITIONS)
    assert result.complete
    assert re.fullmatch(rf"at interim analysis \d+ of 28: {states or 'every condition is kept'}", result.stopped)
    (judged,) = judge(record.study.conditions, changes_of_study(analysis_of(record)))
    assert judged.state is (State.BROKEN if states else State.KEPT)


def test_a_condition_at_its_margin_takes_the_whole_plan(tmp_path: Path) -> None:
    result, record, _ = run(tmp_path, FakeSystem(FakeHost(), effect=FakeNoise(-0.09, 0, noise=0.02)), CONDITIONS)
    assert (result.complete, result.stopped) == (True, "")
    (judged,) = judge(record.study.conditions, changes_of_study(analysis_of(record)))
    assert judged.state is State.UNDECIDED


def test_a_study_that_its_conditions_may_end_is_complete_when_its_budget_is_used_up(tmp_path: Path) -> None:
    text = CONDITIONS + "budget: 2m\n"
    system = FakeSystem(FakeHost(), effect=FakeNoise(-0.09, 0, noise=0.02))
    result, record, _ = run(tmp_path, system, text, count().__next__)
    assert (result.complete, result.stopped) == (True, "the budget is used up")
    assert analysis_of(record).judgement.answered
    (effect,) = analysis_of(record).responses[0].effects
    assert effect.simultaneous is not None


def test_a_study_without_effects_ends_when_nothing_can_be_settled(tmp_path: Path) -> None:
    result, record, _ = run(tmp_path, FakeSystem(FakeHost(), effect=FakeNoise(0.0, 0.0, noise=0.05)))
    assert result.complete
    assert all(each.verdict is Verdict.UNDETERMINED for each in analysis_of(record).responses[0].effects)


def test_interrupted_and_resumed_it_decides_as_one_that_was_not(tmp_path: Path) -> None:
    _, whole, _ = run(tmp_path / "whole", FakeSystem(FakeHost(), effect=FakeNoise(-0.6, 0.03, noise=0.04)))
    effect = FakeNoise(-0.6, 0.03, noise=0.04)
    for stop_at in (4, 9, 11):
        system = FakeSystem(FakeHost(), effect=effect, fail=interrupting(effect, stop_at))
        result, _, _ = run(tmp_path / "cut", system)
        assert not result.complete
    result, record, _ = run(tmp_path / "cut", FakeSystem(FakeHost(), effect=effect))
    assert result.complete
    assert [(trial.state, trial.failure_message) for trial in record.trials] == [
        (trial.state, trial.failure_message) for trial in whole.trials
    ]


def test_looks_widen_the_intervals_of_a_study_that_ran_to_its_end(tmp_path: Path) -> None:
    text = STUDY.replace("looks: 3, ", "")
    effect = FakeNoise(0.04, 0.05, noise=0.05)
    _, plain, _ = run(tmp_path / "plain", FakeSystem(FakeHost(), effect=effect), text)
    effect = FakeNoise(0.04, 0.05, noise=0.05)
    result, looked, _ = run(tmp_path / "looked", FakeSystem(FakeHost(), effect=effect))
    assert not result.stopped
    other = analysis_of(looked).responses[0].effects
    one = analyse(plain.plan, plain.observations(), plain.study.responses).responses[0].effects
    for before, after in zip(one, other, strict=True):
        assert before.simultaneous is not None
        assert after.simultaneous is not None
        assert after.percent == before.percent
        assert after.interval == before.interval
        assert after.simultaneous.low < before.simultaneous.low
        assert after.simultaneous.high > before.simultaneous.high


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (
            "looks: 3",
            "looks: 12",
            "fake.yaml:7: design: 12 interim analyses need 12 blocks, and this plan has 9; set looks to 9",
        ),
        (
            "looks: 3",
            "looks: 3, switchback: { slot: 5s }",
            "fake.yaml:7: design: interim analyses of slots need factors that are all changed live, "
            "and server.pool changes",
        ),
    ],
)
def test_looks_that_cannot_be_are_refused_before_anything_starts(
    tmp_path: Path, old: str, new: str, words: str
) -> None:
    system = FakeSystem(FakeHost())
    with pytest.raises(UsageError) as error:
        run(tmp_path, system, STUDY.replace(old, new))
    assert words in str(error.value)
    assert system.calls == []
