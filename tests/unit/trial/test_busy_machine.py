"""A machine that is not quiet: disturbed trials are measured again, and trials wait, both bounded and counted."""

from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

import pytest
from lab_fakes import CACHE, POOL, FakeHost, FakeSystem

from leadline.checks.files.study import parse_study
from leadline.checks.plan import cost, plan_study, worst_cost
from leadline.model.disturbance import MachineUse
from leadline.model.errors import FailureClass, TrialFailure, UsageError
from leadline.model.knob import ApplyCost, Kind, Knob
from leadline.model.record import QUIET
from leadline.places.simulated import SimulatedTestbed, parse_truth
from leadline.places.testbed import RunOptions
from leadline.store.lab import Store
from leadline.trial.lifecycle import excess
from leadline.trial.progress import SilentWatcher
from leadline.trial.run import RunResult, StudyRun

STUDY = """\
study: busy
question: does it?
workload: { users: 5, ramp_up: 2s, steady: 20s, ramp_down: 1s }
factors: { server.pool: [10, 2] }
design: { replicates: 3, sentinels: null }
responses: [throughput]
"""
REPEAT = STUDY + "repeat: { others_cpu: 25%, at_most: 4 }\n"
LOUD = MachineUse({"others_cpu": 0.6, "steal": 0.0}, {"make": 0.5, "cc1": 0.1})


class Uses(FakeSystem):
    """A fake system whose machine is used by others as listed, one after the other; quiet after that."""

    def __post_init__(self) -> None:
        self.coming: list[MachineUse] = []

    def machine_use(
        self, directory: Path, stretches: Sequence[Sequence[tuple[float, float]]], beside: Sequence[Path] = ()
    ) -> Sequence[MachineUse | None]:
        return [self.coming.pop(0) if self.coming else MachineUse({"others_cpu": 0.01}) for _ in stretches]


class Told(SilentWatcher):
    """Keeps the messages."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def message(self, text: str) -> None:
        self.said.append(text)


def run(tmp_path: Path, system: FakeSystem, text: str, watcher: SilentWatcher | None = None) -> tuple[RunResult, Store]:
    file = parse_study(text, "fake.yaml")
    planned = plan_study(file, system.host, [POOL, CACHE])
    store = Store(tmp_path / "lab")
    study = StudyRun(*(file, planned, store, system.host, system, watcher or Told(), lambda _: nullcontext()))
    return study.execute(), store


def test_a_disturbed_trial_is_measured_again_and_counted(tmp_path: Path) -> None:
    system, told = Uses(FakeHost()), Told()
    system.coming = [LOUD, LOUD]
    result, store = run(tmp_path, system, REPEAT, told)
    record = store.load(result.study_id)
    assert result.complete
    assert [trial.attempt for trial in record.trials] == [3, 1, 1, 1, 1, 1]
    assert [trial.repeats for trial in record.trials] == [2, 0, 0, 0, 0, 0]
    assert record.repeats == 2
    assert record.trials[0].state == "done"
    assert record.trials[0].machine == MachineUse({"others_cpu": 0.01})
    again = [line for line in told.said if line.startswith("measured again")]
    assert again[0] == ("measured again, 3 more may be: others_cpu (make, cc1) was 60%, the study allows 25%")


def test_the_bound_on_repeats_holds_and_the_last_figures_stay(tmp_path: Path) -> None:
    system = Uses(FakeHost())
    system.coming = [LOUD] * 20
    result, store = run(tmp_path, system, REPEAT)
    record = store.load(result.study_id)
    assert result.complete
    assert record.repeats == 4
    assert sum(trial.attempt for trial in record.trials) == 6 + 4
    assert all(trial.state == "done" and trial.machine == LOUD for trial in record.trials)


def test_without_the_key_nothing_is_measured_again(tmp_path: Path) -> None:
    system = Uses(FakeHost())
    system.coming = [LOUD] * 20
    result, store = run(tmp_path, system, STUDY)
    assert [trial.attempt for trial in store.load(result.study_id).trials] == [1] * 6


def test_repeats_are_counted_across_an_interruption(tmp_path: Path) -> None:
    system = Uses(FakeHost())
    system.coming = [LOUD] * 3
    calls = iter(range(100))

    def cut(step: str, _settings: object) -> TrialFailure | None:
        return TrialFailure(FailureClass.INTERRUPTED, "cut") if step == "reset" and next(calls) == 3 else None

    system.fail = cut
    result, store = run(tmp_path, system, REPEAT)
    assert not result.complete
    assert store.load(result.study_id).repeats == 3
    system.coming = [LOUD] * 10
    result, store = run(tmp_path, system, REPEAT)
    assert result.complete
    assert store.load(result.study_id).repeats == 4


def test_the_rule_looks_at_the_machine_alone() -> None:
    bounds = {"others_cpu": 0.25, "steal": 0.1}
    assert not excess(None, bounds)
    assert not excess(MachineUse({"others_cpu": 0.25, "steal": 0.1}), bounds)
    assert excess(MachineUse({"others_cpu": 0.0, "steal": 0.2}), bounds).startswith("steal was 20%")


TRUTH = "truth: { seed: 3, neighbour: { name: make, share: 80%, busy: 20s, idle: 20s } }"
WAITS = STUDY + "wait: { quiet: 10%, over: 3s, at_most: 40s }\n"


def simulated(tmp_path: Path, text: str) -> tuple[Store, RunResult]:
    knobs = [Knob("server.pool", Kind.INTEGER, ApplyCost.RESTART, "pool", default=10, minimum=0)]
    bed = SimulatedTestbed(parse_truth(TRUTH, "t"), tmp_path, service_knobs=knobs, host=[])
    file = parse_study(text, "s.yaml")
    return bed.store, bed.run(file, bed.plan(file), RunOptions())


def test_trials_wait_for_a_quiet_machine_and_say_what_came_of_it(tmp_path: Path) -> None:
    store, result = simulated(tmp_path, WAITS)
    steps = [step for trial in store.load(result.study_id).trials for step in trial.steps if step.name == QUIET]
    assert len(steps) == 6
    lengths = [(step.ended or 0.0) - step.started for step in steps]
    assert all(3 <= length <= 40 for length in lengths)
    assert max(lengths) > 3
    assert all(step.detail.startswith(("quiet after ", "not quiet after 40 s")) for step in steps)


def test_a_rotation_waits_once_a_block_and_repeats_the_block(tmp_path: Path) -> None:
    rotation = "  rotation: { slot: 4s, instances: 1 }\n"
    text = WAITS.replace("design: { replicates: 3, sentinels: null }\n", "design:\n  replicates: 2\n" + rotation)
    text = text.replace("steady: 20s", "steady: 40s") + "repeat: { others_cpu: 5%, at_most: 1 }\n"
    store, result = simulated(tmp_path, text)
    record = store.load(result.study_id)
    assert result.complete
    assert record.repeats == 1
    assert {trial.attempt for trial in record.trials if trial.planned.block == 0} == {2}
    for trial in record.trials:
        first = trial.planned.position == min(
            one.planned.position for one in record.trials if one.planned.block == trial.planned.block
        )
        assert any(step.name == QUIET for step in trial.steps) == first


def test_the_worst_case_is_told_before_the_run() -> None:
    knobs = [Knob("server.pool", Kind.INTEGER, ApplyCost.RESTART, "pool", default=10, minimum=0)]
    for text, extra in ((STUDY, 0.0), (WAITS, 6 * 40.0), (REPEAT, 4 * 45.0)):
        file = parse_study(text, "s.yaml")
        plan = SimulatedTestbed(parse_truth(TRUTH, "t"), Path(), service_knobs=knobs, host=[]).plan(file).plan
        assert worst_cost(file.study, plan) - cost(file.study, plan) == pytest.approx(extra)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("covariates: [other_cpu]", "unknown covariate 'other_cpu'; did you mean others_cpu?"),
        ("covariates: [steal, steal]", "covariates lists steal twice"),
        ("wait: { over: 30s, at_most: 10s }", "it would never be seen"),
        ("repeat: { others_cpu: 25%, at_mots: 3 }", "did you mean at_most?"),
        ("covariates: [steal]\nobserve: false", "covariates needs figures of the machine"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(line: str, why: str) -> None:
    with pytest.raises(UsageError, match=r"s.yaml:\d+: ") as error:
        parse_study(STUDY + line + "\n", "s.yaml")
    assert why in str(error.value)


def test_interim_analyses_know_no_covariates() -> None:
    text = STUDY.replace("replicates: 3, sentinels: null", "replicates: 6, looks: 2") + "covariates: [others_cpu]\n"
    with pytest.raises(UsageError, match="know no covariates"):
        parse_study(text, "s.yaml")


def test_wait_quiet_is_short_for_its_bounds() -> None:
    found = parse_study(STUDY + "wait: quiet\n", "s.yaml").study.wait
    assert found is not None
    assert (found.quiet, found.over, found.at_most) == (0.1, 5.0, 60.0)
