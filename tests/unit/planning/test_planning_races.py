"""Races through the lab: who leaves, where the freed trials go, resuming, what is refused, what a saved plan is."""

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
from lab_fakes import CACHE, POOL, FakeHost, FakeSystem
from test_planning_looks import interrupting

from leadline.conclude.stopping import course_of
from leadline.design import check_plan, make_plan, plan_from_json, plan_problems, plan_to_json
from leadline.design.racing import lay_out
from leadline.lab.planning import plan_study
from leadline.lab.progress import SilentWatcher
from leadline.lab.results import analysis_of
from leadline.lab.run import RunResult, StudyRun
from leadline.lab.store import Store
from leadline.lab.studyfile import parse_study
from leadline.model.design import Design
from leadline.model.errors import FailureClass, TrialFailure, UsageError
from leadline.model.plan import Factor
from leadline.model.record import StudyRecord, TrialState
from leadline.planning.course import course

STUDY = """\
study: raced
question: Which size is best?
workload: { users: 5 }
factors:
  server.pool: [10, 2, 3, 4, 20]
design: { kind: racing, replicates: 8, looks: 4 }
responses: [throughput]
"""


class FakeField:
    """Throughput by size of the pool; the k-th trial has the k-th of a repeatable noise."""

    def __init__(self, gains: dict[int, float], noise: float = 0.02) -> None:
        self.gains, self.noise, self.count = gains, noise, 0

    def __call__(self, settings: object, _host: object) -> float:
        self.count += 1
        assert isinstance(settings, dict)
        swing = ((self.count * 7919) % 101 - 50) / 50
        return 100.0 * (1 + self.gains.get(settings["server.pool"], 0.0)) * (1 + self.noise * swing)


class RecordingWatcher(SilentWatcher):
    def __init__(self) -> None:
        self.messages: list[str] = []

    def message(self, text: str) -> None:
        self.messages.append(text)


def run(
    tmp_path: Path, system: FakeSystem, text: str = STUDY, watcher: SilentWatcher | None = None
) -> tuple[RunResult, StudyRecord, Store]:
    file = parse_study(text, "raced.yaml")
    planned = plan_study(file, system.host, [POOL, CACHE])
    store = Store(tmp_path / "lab")
    study = StudyRun(file, planned, store, system.host, system, watcher or SilentWatcher(), lambda _: nullcontext())
    result = study.execute()
    return result, store.load(result.study_id), store


def test_the_race_ends_with_the_best_alone_and_says_who_left_when(tmp_path: Path) -> None:
    watcher = RecordingWatcher()
    effect = FakeField({2: -0.5, 3: -0.4, 4: 0.4})
    result, record, store = run(tmp_path, FakeSystem(FakeHost(), effect=effect), watcher=watcher)
    assert result.complete
    assert not record.failed
    assert result.stopped.startswith("the race is over: server.pool=4 is the best after round")
    assert any(
        "server.pool=2 left the race: worse than the best with the race's confidence after round 1 of 4" in m
        for m in watcher.messages
    )
    assert any(trial.state == TrialState.SKIPPED for trial in record.trials)
    analysis = analysis_of(record)
    assert analysis.answer.startswith("Race: server.pool=4 is the best")
    assert sum("left the race" in warning for warning in analysis.warnings) == 4
    assert store.unfinished(record.study) is None


def test_freed_trials_go_to_the_levels_that_run_on(tmp_path: Path) -> None:
    result, record, _ = run(tmp_path, FakeSystem(FakeHost(), effect=FakeField({2: -0.5, 3: -0.4, 4: 0.012}, 0.03)))
    assert result.complete
    done = [trial.planned.treatment["server.pool"] for trial in record.trials if trial.state == "done"]
    assert done.count(2) == done.count(3) == 3
    assert done.count(4) > 8, "more than its eight replicates"
    found = course_of(record)
    assert len(found.plan.trials) == 40
    check_plan(record.plan)
    assert not found.over
    assert "Race: undecided after round 4" in analysis_of(record).answer


def test_interrupted_and_resumed_it_decides_as_one_that_was_not(tmp_path: Path) -> None:
    gains = {2: -0.5, 3: -0.4, 4: 0.012}
    _, whole, _ = run(tmp_path / "whole", FakeSystem(FakeHost(), effect=FakeField(gains, 0.03)))
    effect = FakeField(gains, 0.03)
    for stop_at in (4, 13):
        system = FakeSystem(FakeHost(), effect=effect, fail=interrupting(effect, stop_at))
        assert not run(tmp_path / "cut", system)[0].complete
    result, record, _ = run(tmp_path / "cut", FakeSystem(FakeHost(), effect=effect))
    assert result.complete
    assert result.study_id == 1
    assert record.plan == whole.plan
    assert [trial.state for trial in record.trials] == [trial.state for trial in whole.trials]


def test_a_level_that_never_runs_leaves_and_the_race_goes_on(tmp_path: Path) -> None:
    def broken(step: str, settings: object) -> TrialFailure | None:
        bad = step == "start-server" and isinstance(settings, dict) and settings.get("server.pool") == 3
        return TrialFailure(FailureClass.CONFIGURATION, "does not start") if bad else None

    system = FakeSystem(FakeHost(), effect=FakeField({2: -0.5, 4: 0.3}), fail=broken)
    result, record, _ = run(tmp_path, system)
    assert result.complete
    assert any("server.pool=3 left the race: none of its 3 trials" in each for each in analysis_of(record).warnings)
    assert result.stopped.startswith("the race is over: server.pool=4")


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("replicates: 8, looks: 4", "replicates: 2", "raced.yaml:6: design: a race needs 3 or more replicates"),
        ("looks: 4", "looks: 8", "raced.yaml:6: design: 8 rounds of a race need 9 replicates"),
        ("looks: 4", "switchback: { slot: 5s }", "factor that can be changed in the running system"),
        ("looks: 4", "blocks: latin", "raced.yaml:6: design: a race makes its own blocks"),
    ],
)
def test_races_that_cannot_be_are_refused(tmp_path: Path, old: str, new: str, words: str) -> None:
    with pytest.raises(UsageError) as error:
        run(tmp_path, FakeSystem(FakeHost()), STUDY.replace(old, new))
    assert words in str(error.value)


def test_a_plan_of_any_stage_can_be_saved_read_back_and_checked() -> None:
    factors = [Factor("pool", (1, 2, 3, 4), 1)]
    plan = make_plan(factors, Design(kind="racing", replicates=4))
    field = [trial.treatment for trial in plan.trials[:4]]
    baseline = plan.baseline
    assert course(plan, [], "throughput", 3).plan == plan
    some = [baseline, *[each for each in field if each != baseline][:1]]
    stage = lay_out(plan, [field, field, some, some, some, some])
    for each in (plan, stage):
        assert plan_from_json(plan_to_json(each)) == each
        assert plan_problems(each) == ()
    back = replace(stage, trials=lay_out(plan, [field, some, field]).trials)
    assert "block 2 holds a treatment that had left the race" in plan_problems(back)


def test_the_store_refuses_another_plan_for_trials_that_have_begun(tmp_path: Path) -> None:
    _, record, store = run(tmp_path, FakeSystem(FakeHost(), effect=FakeField({4: 0.4})))
    other = make_plan(record.plan.factors, Design(kind="racing", replicates=8, seed=77))
    with pytest.raises(ValueError, match="must keep the trials that have begun"):
        store.replan(record.id, other)
