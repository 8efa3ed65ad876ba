"""Rotations: plans, what is refused, and the life of a block on a fake host and system."""

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lab_fakes import CACHE, HEAP, POOL, STATEMENTS, FakeHost, FakeSystem, failing

from leadline.checks.files.study import parse_study
from leadline.checks.plan import plan_study
from leadline.design.make import plan_from_json, plan_to_json
from leadline.design.profiling import profiled
from leadline.experiments.confirm import best_settings, confirmation_study
from leadline.experiments.results import analysis_of
from leadline.layouts import measured, phases_of
from leadline.layouts.check import check_plan
from leadline.model.design import Rotation
from leadline.model.errors import FailureClass, TrialFailure, UsageError
from leadline.model.knob import Level
from leadline.model.plan import Plan
from leadline.model.record import StudyRecord
from leadline.places.simulated import SimulatedTestbed, parse_truth, simulate_observations
from leadline.places.testbed import RunOptions
from leadline.store.lab import Store
from leadline.trial.lifecycle import STEPS
from leadline.trial.progress import SilentWatcher
from leadline.trial.run import ATTEMPTS, RunResult, StudyRun
from leadline.trial.system import LoadOutcome, OnLoad

STUDY = """\
study: side
question: does it?
workload: { users: 5, ramp_up: 9s, steady: 22s }
factors:
  server.pool: [10, 2]
  server.cache: [true, false]
settings: { jvm.heap: 256m }
design: { replicates: 3, rotation: { slot: 4s } }
responses: [throughput]
"""
LIVE = STUDY.replace("server.cache: [true, false]", "server.statements: [10, 0]\n  vm.fake_live: [10, 20]")
ALIKE = LIVE.replace("  server.pool: [10, 2]\n", "").replace("slot: 4s", "slot: 4s, instances: 3")
IDLE_BOUND = Rotation().idle
KNOBS = [POOL, CACHE, HEAP, STATEMENTS]


def plan_of(text: str = STUDY) -> Plan:
    return plan_study(parse_study(text, "side.yaml"), FakeHost(), KNOBS).plan


def run(tmp_path: Path, system: FakeSystem, text: str = STUDY, **options: Any) -> tuple[RunResult, Store]:
    file = parse_study(text, "side.yaml")
    planned = plan_study(file, system.host, KNOBS)
    store = Store(tmp_path / "lab")
    study = StudyRun(
        *(file, planned, store, system.host, system, SilentWatcher(), lambda _: nullcontext()),
        **options,
    )
    return study.execute(), store


# plans


def test_each_round_gives_every_instance_one_slot_and_turns_follow_without_gaps() -> None:
    plan = plan_of()
    check_plan(plan)
    blocks = plan.together
    assert [len(block) for block in blocks] == [3, 3, 3]
    for block in blocks:
        turns = sorted(
            ((turn, trial.position) for trial in block for turn in trial.turns), key=lambda one: one[0].begin
        )
        assert turns[0][0].begin == 0
        assert all(one.end == other.begin for (one, _), (other, _) in itertools.pairwise(turns))
        for at in range(0, len(turns), 3):
            assert len({position for _, position in turns[at : at + 3]}) == 3
        for trial in block:
            assert sum(turn.seconds for turn in trial.turns if turn.warm_up) == 9
            assert [turn.seconds for turn in trial.turns if not turn.warm_up] == [4.0] * 5
            assert all(end - begin == 3 for begin, end in measured(trial.turns, 1.0))
        assert phases_of(block) == (27, 60)
    assert plan_from_json(plan_to_json(plan)) == plan
    assert "Rotation: 3 instances side by side, 5 slots of 4s each after 9s of load to warm up" in plan.notes[0]
    assert "The steady state is 20s instead of 22s: whole slots." in plan.notes


def test_who_follows_whom_is_even() -> None:
    plan = plan_of(STUDY.replace("steady: 22s", "steady: 240s"))
    for block in plan.together:
        order = [at for _, at in sorted((turn.begin, at) for at, trial in enumerate(block) for turn in trial.turns)]
        pairs = Counter(itertools.pairwise(order))
        assert all(one != other for one, other in pairs)
        assert max(pairs.values()) - min(pairs.values()) <= 6
        assert len(pairs) == 6


def test_several_instances_of_a_treatment_in_a_block() -> None:
    plan = plan_of(STUDY.replace("slot: 4s", "slot: 4s, instances: 2").replace("replicates: 3", "replicates: 4"))
    check_plan(plan)
    assert [len(block) for block in plan.together] == [6, 6]
    for block in plan.together:
        assert set(Counter(trial.treatment.key for trial in block).values()) == {2}
        assert len({trial.seed for trial in block}) == 1


HOST = STUDY.replace("server.cache: [true, false]", "vm.fake_live: [10, 20]").replace(
    "replicates: 3, rotation: { slot: 4s }", "replicates: 6, rotation: { slot: 4s, host: between-rotations }"
)


def test_factors_of_the_host_have_one_level_in_a_rotation_and_every_stretch_has_all() -> None:
    plan = plan_of(HOST)
    check_plan(plan)
    blocks = plan.together
    assert [len(block) for block in blocks] == [2] * 6
    levels = [{trial.treatment["vm.fake_live"] for trial in block} for block in blocks]
    assert all(len(level) == 1 for level in levels)
    assert [levels[at] | levels[at + 1] for at in (0, 2, 4)] == [{10, 20}] * 3
    assert {trial.treatment["server.pool"] for trial in blocks[0]} == {10, 2}
    assert any("Between rotations: vm.fake_live" in note for note in plan.notes)
    assert plan_from_json(plan_to_json(plan)) == plan


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("replicates: 6", "replicates: 4", "4 rotations for 2 combinations of levels of vm.fake_live; they need"),
        ("replicates: 6", "replicates: 7", "say 8 replicates"),
        ("  server.pool: [10, 2]\n", "", "all factors are of the whole host"),
    ],
)
def test_factors_of_the_host_that_cannot_be_compared_are_refused(old: str, new: str, words: str) -> None:
    assert old in HOST
    with pytest.raises(UsageError) as error:
        plan_of(HOST.replace(old, new))
    assert words in str(error.value)


def test_sentinels_that_are_asked_for_are_said_to_be_left_out() -> None:
    said = "No sentinels are added: every block of a rotation holds the baseline."
    assert said in plan_of(STUDY.replace("replicates: 3", "replicates: 3, sentinels: 2")).notes
    assert said not in plan_of().notes


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("replicates: 3", "replicates: 1", "side.yaml:8: design.rotation: one instance of a treatment cannot be told"),
        ("slot: 4s", "slot: 4500ms", "side.yaml:8: design.rotation.slot is 4.5s, but responses are kept for whole"),
        ("slot: 4s", "slot: 4s, wash_out: 4s", "wash_out 4s leaves no whole second of a slot of 4s; say 3s or less"),
        ("steady: 22s", "steady: 7s", "side.yaml:3: workload.steady of 7s is too short for 2 slots of 4s; say 8s"),
        ("slot: 4s", "slot: 1s", "design.rotation.slot"),
        ("users: 5", "profile: '0s:1,9s:5'", "workload.profile: the load of design.rotation comes in slots"),
        ("replicates: 3,", "replicates: 4, blocks: latin,", "design.blocks latin orders trials one after the other"),
        ("replicates: 3,", "replicates: 3, switchback: { slot: 5s },", "are two layouts; keep one"),
        (
            "slot: 4s",
            "slot: 4s, instances: 4",
            "side.yaml:8: design.rotation.instances: 4 replicates are to stand side",
        ),
        ("slot: 4s", "slot: 4s, instances: 4", "side by side, and the design has 3; say 3 or less"),
        ("slot: 4s", "slot: 4s, warm_up_slot: 10s", "warm_up_slot 10s is longer than workload.ramp_up; say 9s or less"),
        ("256m", "2g", "3 instances at once need about 7680m of memory"),
        ("256m", "2g", "take 2 at a time by `blocks: incomplete, block_size: 2`"),
        ("design:", "reset: { database: keep }\ndesign:", "instances side by side have data of their own"),
    ],
)
def test_what_cannot_stand_side_by_side_is_refused_with_file_and_line(old: str, new: str, words: str) -> None:
    assert old in STUDY
    with pytest.raises(UsageError) as error:
        plan_of(STUDY.replace(old, new))
    assert words in str(error.value)


@pytest.mark.parametrize(("text", "slots"), [(STUDY, 0), (LIVE, 5)])
def test_what_memory_cannot_hold_runs_one_by_one_where_the_study_says_so(text: str, slots: int, tmp_path: Path) -> None:
    text = text.replace("256m", "4g").replace("slot: 4s", "slot: 4s, otherwise: one-by-one")
    plan = plan_of(text)
    check_plan(plan)
    assert plan.layout != "rotation"
    told = [note for note in plan.notes if note.startswith("No rotation: ")]
    assert [note.partition(" instances")[0] for note in told] == [f"No rotation: {2 if slots else 3}"]
    assert {len(trial.slots) for trial in plan.trials} == {3 if slots else 0}
    system = FakeSystem(FakeHost(), effect=lambda s, _h: 100.0 + int(s["server.pool"]))
    result, store = run(tmp_path, system, text)
    assert result.complete
    effects = analysis_of(store.load(result.study_id)).responses[0].effects
    effect = next(each for each in effects if each.factor == "server.pool")
    assert effect.percent == pytest.approx(100 * (102 / 110 - 1), abs=0.01)
    fits = text.replace("4g", "256m")
    assert plan_of(fits) == plan_of(fits.replace(", otherwise: one-by-one", ""))


# runs


def number_of(directory: Path) -> int:
    """Of the trial whose attempt has this directory."""
    return int(directory.parent.name)


def block_of(record: StudyRecord, directory: Path) -> int:
    return next(trial.planned.block for trial in record.trials if trial.id == number_of(directory))


def test_a_block_is_started_together_and_every_trial_has_its_own_steps_and_levels(tmp_path: Path) -> None:
    system = FakeSystem(FakeHost(), effect=lambda s, _h: 100.0 + int(s["server.pool"]))
    result, store = run(tmp_path, system)
    record = store.load(result.study_id)
    assert result.complete
    for trial in record.trials:
        assert trial.state == "done", trial.failure_message
        assert tuple(step.name for step in trial.steps) == STEPS
        assert trial.responses["throughput"] == 100.0 + int(trial.planned.treatment["server.pool"])
    for block in range(3):
        ran = [trial for trial in record.trials if trial.planned.block == block]
        loads = [next(step for step in trial.steps if step.name == "load") for trial in ran]
        ready = [next(step for step in trial.steps if step.name == "start-observers") for trial in ran]
        assert max(step.ended or 0 for step in ready) <= min(step.started for step in loads)
        audits = [next(step for step in trial.steps if step.name == "audit") for trial in ran]
        assert max(step.ended or 0 for step in loads) <= min(step.started for step in audits)


def test_live_factors_change_in_slots_inside_instances_and_the_others_between_them() -> None:
    plan = plan_of(LIVE)
    check_plan(plan)
    assert plan_from_json(plan_to_json(plan)) == plan
    assert [len(block) for block in plan.together] == [2, 2, 2]
    for trial in plan.trials:
        own = [turn for turn in trial.turns if not turn.warm_up]
        assert [(slot.begin + 18, slot.seconds) for slot in trial.slots] == [(turn.begin, 4.0) for turn in own]
        assert len({slot.treatment["server.pool"] for slot in trial.slots}) == 1
        assert len({slot.treatment.key for slot in trial.slots}) == len(trial.slots) == 3
    for block in plan.together:
        assert {trial.treatment["server.pool"] for trial in block} == {10, 2}
    said = "\n".join(plan.notes)
    assert "In slots inside an instance: server.statements, vm.fake_live; between instances: server.pool." in said
    assert "vm.fake_live: of the whole host, so what a level leaves behind meets another instance's slot" in said
    assert "between instances: nothing, they are alike" in "\n".join(plan_of(ALIKE).notes)
    assert [len(block) for block in plan_of(ALIKE).together] == [3]
    with pytest.raises(UsageError, match=r"side\.yaml:8: design\.rotation: all factors are live"):
        plan_of(ALIKE.replace(", instances: 3", ""))
    with pytest.raises(
        UsageError, match=r"side\.yaml:3: workload\.steady of 9s is too short for 3 slots of 4s; say 12s"
    ):
        plan_of(LIVE.replace("steady: 22s", "steady: 9s"))
    with pytest.raises(UsageError, match=r"blocks incomplete is of trials, but server\.statements changes in slots"):
        plan_of(LIVE.replace("replicates: 3,", "replicates: 3, blocks: incomplete, block_size: 2,"))


def by_slot(settings: Mapping[str, Level], host: Mapping[str, Level]) -> float:
    return 100.0 + int(settings["server.pool"]) + int(settings["server.statements"]) + int(host["vm.fake_live"])


def test_levels_change_in_the_slots_of_warm_instances(tmp_path: Path) -> None:
    system = FakeSystem(FakeHost(), effect=by_slot)
    result, store = run(tmp_path, system, LIVE)
    record = store.load(result.study_id)
    assert result.complete
    for trial in record.trials:
        assert trial.state == "done", trial.failure_message
        assert len(trial.slots) == 3
        for slot in trial.slots:
            assert slot.found == {name: slot.treatment[name] for name in ("server.statements", "vm.fake_live")}
            assert slot.responses["throughput"] == by_slot(slot.treatment.as_dict(), slot.treatment.as_dict())
    assert len(record.observations()) == 18
    effects = {effect.factor: effect.percent for effect in analysis_of(record).responses[0].effects}
    assert set(effects) == {"server.pool", "server.statements", "vm.fake_live"}
    assert system.host.values["vm.fake_live"] == 10


def test_a_live_level_that_is_refused_fails_its_slot_and_no_other(tmp_path: Path) -> None:
    result, store = run(tmp_path, FakeSystem(FakeHost(), effect=by_slot, deaf=True), LIVE)
    for trial in store.load(result.study_id).trials:
        assert trial.state == "done"
        first = trial.planned.slots[0].treatment["server.statements"]
        failed = {slot.index for slot in trial.slots if slot.failure is FailureClass.CONFIGURATION}
        assert failed == {slot.index for slot in trial.planned.slots if slot.treatment["server.statements"] != first}


class FakeBreakingSystem(FakeSystem):
    """Its server ends when it is given no statement cache."""

    gone = False

    def start_server(self, settings: Mapping[str, Level], directory: Path) -> float:
        self.gone = False
        return super().start_server(settings, directory)

    def apply(self, levels: Mapping[str, Level]) -> None:
        super().apply(levels)
        self.gone = self.gone or self.settings["server.statements"] == 0

    def read_back(self, knob: str) -> Level:
        if self.gone:
            raise LookupError("it is gone")
        return super().read_back(knob)

    def load(self, directory: Path, seed: int, on_load: OnLoad) -> LoadOutcome:
        if self.gone:
            raise TrialFailure(FailureClass.CONFIGURATION, "tomcat died during the trial: exit code 1")
        return super().load(directory, seed, on_load)


def test_a_level_that_ends_instances_costs_the_others_one_attempt_of_their_block(tmp_path: Path) -> None:
    result, store = run(tmp_path, FakeBreakingSystem(FakeHost(), effect=by_slot), LIVE)
    trials = store.load(result.study_id).trials
    assert [trial.state for trial in trials] == ["done"] * len(trials), trials[0].failure_message
    words = "the change of server.statements to 0 breaks the application; after it: tomcat died"
    for trial in trials:
        others = [one for one in trial.observations() if one.treatment["server.statements"] == 10]
        assert len(others) == 2
        assert all(one.responses for one in others)
        (broken,) = (slot for slot in trial.slots if slot.treatment["server.statements"] == 0)
        assert (broken.failure_message or broken.left_out).startswith(words)
    assert {trial.attempt for trial in trials if trial.planned.block} == {1}, "the level is known"


def test_an_instance_that_fails_fails_its_own_trial_and_the_others_go_on(tmp_path: Path) -> None:
    fail = failing("start-server", FailureClass.CONFIGURATION, lambda s: s.get("server.pool") == 2)
    result, store = run(tmp_path, FakeSystem(FakeHost(), fail=fail))
    record = store.load(result.study_id)
    assert result.complete
    for trial in record.trials:
        broken = trial.planned.treatment["server.pool"] == 2
        assert trial.attempt == 1
        assert trial.failure is (FailureClass.CONFIGURATION if broken else None), trial.failure_message


def test_a_failure_of_the_host_repeats_the_whole_block_a_few_times(tmp_path: Path) -> None:
    loads: list[int] = []

    def once(step: str, _settings: object) -> TrialFailure | None:
        loads.extend([1] if step == "load" else [])
        first = step == "load" and len(loads) == 2
        return TrialFailure(FailureClass.INFRASTRUCTURE, "gone") if first else None

    result, store = run(tmp_path, FakeSystem(FakeHost(), fail=once))
    record = store.load(result.study_id)
    assert result.complete
    assert [trial.attempt for trial in record.trials] == [2, 2, 2, 1, 1, 1, 1, 1, 1]
    assert all(trial.state == "done" for trial in record.trials)

    result, store = run(tmp_path, FakeSystem(FakeHost(), fail=failing("load", FailureClass.INFRASTRUCTURE)))
    assert "3 trials in a row failed as infrastructure" in result.stopped
    assert [trial.attempt for trial in store.load(result.study_id).trials[:3]] == [ATTEMPTS] * 3


def test_a_block_that_was_cut_off_runs_again_as_a_whole(tmp_path: Path) -> None:
    seen: list[str] = []

    def stop(step: str, _settings: object) -> TrialFailure | None:
        seen.append(step)
        fifth = step == "audit" and seen.count("audit") == 5
        return TrialFailure(FailureClass.INTERRUPTED, "ended by SIGINT") if fifth else None

    result, store = run(tmp_path, FakeSystem(FakeHost(), fail=stop))
    assert not result.complete
    assert "run the same command again" in result.stopped
    again, store = run(tmp_path, FakeSystem(FakeHost()))
    record = store.load(again.study_id)
    assert again.study_id == result.study_id
    assert [trial.attempt for trial in record.trials] == [1, 1, 1, 2, 2, 2, 1, 1, 1]
    assert all(trial.state == "done" for trial in record.trials)


def test_the_budget_counts_blocks(tmp_path: Path) -> None:
    result, store = run(tmp_path, FakeSystem(FakeHost()), budget=1e-6)
    assert "the budget is used up with 6 trials left" in result.stopped
    assert sum(trial.state == "done" for trial in store.load(result.study_id).trials) == 3


def test_slots_in_which_others_were_not_idle_are_left_out(tmp_path: Path) -> None:
    system = FakeSystem(FakeHost(), cpu_each=IDLE_BOUND, busy_slots=2)  # two idle instances: twice the bound
    result, store = run(tmp_path, system)
    trial = store.load(result.study_id).trials[0]
    audit = next(audit for audit in trial.audits if audit.name == "idle-instances")
    assert audit.passed
    assert "2 of 5 slots left out" in audit.detail
    assert len(system.measured) == 3

    result, store = run(tmp_path, FakeSystem(FakeHost(), cpu_each=IDLE_BOUND, busy_slots=4), give_up=1)
    trial = store.load(result.study_id).trials[0]
    assert trial.failure is FailureClass.INFRASTRUCTURE
    assert "too few slots are left" in trial.failure_message


@pytest.mark.parametrize("step", ["load", "health", "audit"])
def test_an_instance_that_fails_under_the_load_is_an_idle_one_of_the_others(tmp_path: Path, step: str) -> None:
    """It runs on beside them, and may be what makes it fail that takes their CPU."""
    fail = failing(step, FailureClass.CONFIGURATION, lambda s: s.get("server.pool") == 2)
    system = FakeSystem(FakeHost(), fail=fail, cpu_each=0.9 * IDLE_BOUND, busy_slots=1)
    result, store = run(tmp_path, system)
    record = store.load(result.study_id)
    good = [trial for trial in record.trials if trial.failure is None]
    assert len(good) == 6
    for trial in good:
        audit = next(audit for audit in trial.audits if audit.name == "idle-instances")
        assert "slot 1: idle instances used 0.45 CPUs" in audit.detail
    for directory, others in system.beside_it:
        block = {trial.id for trial in record.trials if trial.planned.block == block_of(record, directory)}
        assert {number_of(other) for other in others} == block - {number_of(directory)}


@pytest.mark.parametrize("step", ["start-server", "start-observers"])
def test_an_instance_that_fails_before_the_load_is_stopped_at_once(tmp_path: Path, step: str) -> None:
    events: list[tuple[str, object]] = []

    class Told(FakeSystem):
        def _call(self, step: str) -> None:
            events.append((step, self.settings.get("server.pool")))
            super()._call(step)

        def stop(self) -> Sequence[str]:
            events.append(("stop", self.settings.get("server.pool")))
            return super().stop()

    fail = failing(step, FailureClass.CONFIGURATION, lambda s: s.get("server.pool") == 2)
    result, store = run(tmp_path, Told(FakeHost(), fail=fail))
    failed = [trial for trial in store.load(result.study_id).trials if trial.failure is not None]
    assert len(failed) == 3
    block = events[: events.index(("load", 10))]
    assert ("stop", 2) in block
    assert ("stop", 10) not in block


def test_levels_that_come_late_shorten_their_slot(tmp_path: Path) -> None:
    _, store = run(tmp_path, FakeSystem(FakeHost(), effect=by_slot, oversleep={4: 0.6}), LIVE)
    slots = [slot for trial in store.load(store.ids()[0]).trials for slot in trial.slots]
    late = [slot for slot in slots if slot.due and slot.set_at and slot.set_at - slot.due > 0.5]
    assert len(late) == 3
    assert [slot.failure for slot in late] == [None] * 3
    for slot in late:
        assert slot.set_at is not None
        assert slot.measured_from is not None
        assert slot.measured_from >= slot.set_at - 0.05, "no second with the old levels is measured"


def test_what_somebody_else_sets_fails_the_slot_under_way(tmp_path: Path) -> None:
    def meddle(step: str) -> None:
        if step == "before turn 7":
            system.host.values["vm.fake_live"] = 55

    system = FakeSystem(FakeHost(), effect=by_slot, at_step=meddle)
    _, store = run(tmp_path, system, LIVE)
    failed = [slot for trial in store.load(store.ids()[0]).trials for slot in trial.slots if slot.failure]
    assert len(failed) == 3
    assert all("at its end vm.fake_live is 55, not" in slot.failure_message for slot in failed)


def test_slots_in_which_others_were_not_idle_have_no_part_in_the_analysis(tmp_path: Path) -> None:
    system = FakeSystem(FakeHost(), effect=by_slot, cpu_each=2 * IDLE_BOUND, busy_slots=1)
    _, store = run(tmp_path, system, LIVE)
    record = store.load(store.ids()[0])
    assert all(trial.slots[0].left_out == "idle instances used 0.50 CPUs" for trial in record.trials)
    assert len(record.observations()) == 12


def test_the_bound_of_idle_cpu_is_the_study_s(tmp_path: Path) -> None:
    system = FakeSystem(FakeHost(), cpu_each=IDLE_BOUND, busy_slots=4)
    result, store = run(tmp_path, system, STUDY.replace("slot: 4s", "slot: 4s, idle: 0.6"))
    audits = [a for trial in store.load(result.study_id).trials for a in trial.audits if a.name == "idle-instances"]
    assert len(audits) == len(store.load(result.study_id).trials)
    assert not any("left out" in audit.detail for audit in audits)


@pytest.mark.parametrize(("resting", "left"), [([0.0, 0.0, 9.0], 1), ([9.0] * 60, 0)])
def test_the_load_begins_once_the_warmed_instances_rest_or_the_longest_rest_is_over(
    tmp_path: Path, resting: list[float], left: int
) -> None:
    system = FakeSystem(FakeHost(), resting=[0.0, *resting])
    result, _ = run(tmp_path, system, STUDY)
    assert result.study_id
    assert len(system.resting) <= left


def test_idle_cpu_that_was_not_recorded_is_no_idle_cpu(tmp_path: Path) -> None:
    class Unrecorded(FakeSystem):
        def idle_cpu(
            self, directory: Path, others: Sequence[Path], windows: Sequence[tuple[float, float]]
        ) -> Sequence[float | None]:
            return [None, *(0.01 for _ in windows[1:])]

    result, store = run(tmp_path, Unrecorded(FakeHost()))
    audit = next(a for a in store.load(result.study_id).trials[0].audits if a.name == "idle-instances")
    assert "1 of 5 slots left out" in audit.detail
    assert "slot 1: the CPU of idle instances is not known" in audit.detail


def test_the_simulated_life_of_rotations_and_their_observations_agree(tmp_path: Path) -> None:
    text = """\
study: simulated
question: q
stack: { server: tomcat }
workload: { users: 40, ramp_up: 6s, steady: 16s, ramp_down: 1s }
factors: { server.http.accept_queue: [100, 20], vm.dirty_ratio: [20, 40] }
settings: { jvm.heap: 256m }
design: { replicates: 2, seed: 3, rotation: { slot: 4s } }
"""
    noise = "noise: { trials: 3%, seconds: 20%, autocorrelation: 0.9, startup: 4% }"
    effects = "effects: [{ when: { vm.dirty_ratio: 40 }, percent: { throughput: -30% } }]"
    truth = parse_truth(f"truth: {{ seed: 4, {noise}, {effects} }}", "truth")
    bed, file = SimulatedTestbed(truth, tmp_path), parse_study(text, "simulated.yaml")
    planned = bed.plan(file)
    record = bed.store.load(bed.run(file, planned, RunOptions()).study_id)
    expected = simulate_observations(planned.plan, bed.bound(file, planned), file.study.workload)
    assert [trial.failure_message for trial in record.trials if trial.failure] == []
    values: dict[int, list[float]] = {20: [], 40: []}
    for found, one in zip(record.observations(), expected, strict=True):
        assert (found.trial, found.slot, found.treatment) == (one.trial, one.slot, one.treatment)
        assert found.responses == pytest.approx(dict(one.responses))
        values[int(found.treatment["vm.dirty_ratio"])].append(found.responses["throughput"])
    assert np.mean(values[40]) == pytest.approx(0.7 * np.mean(values[20]), rel=0.2)
    first, last = min(t.started or 0 for t in record.trials), max(t.ended or 0 for t in record.trials)
    assert record.seconds_per_trial == pytest.approx((last - first) / len(record.trials), rel=0.01)
    chosen = best_settings(record, analysis_of(record), "throughput")
    confirmation = bed.plan(confirmation_study(record, chosen, "throughput", 4))
    assert [len(block) for block in confirmation.plan.together] == [2, 2, 2, 2]
    assert confirmation.plan.layout == "rotation"
    rotation = record.study.design.rotation
    assert rotation is not None
    many = record.study.design.model_copy(
        update={"replicates": 6, "rotation": rotation.model_copy(update={"instances": 5})}
    )
    wide = replace(record, study=record.study.model_copy(update={"design": many}))
    confirmation = bed.plan(confirmation_study(wide, chosen, "throughput", 3))
    assert [len(block) for block in confirmation.plan.together] == [6]


@pytest.mark.parametrize(("text", "starts"), [(LIVE, True), (LIVE + "profile: off\n", False)])
def test_profiles_are_taken_in_half_of_the_slots(tmp_path: Path, text: str, starts: bool) -> None:
    system = FakeSystem(FakeHost())
    result, store = run(tmp_path, system, text)
    record = store.load(result.study_id)
    slots = sum(len(trial.slots) for trial in record.trials)
    begun = sum(system.profiles)  # of all instances
    instances = len({position for position, _ in profiled(record.plan)})
    assert begun == (len(profiled(record.plan)) + instances if starts else 0), "one more in each, to set it up"
    assert 2 * len(profiled(record.plan)) == slots
    assert not any(system.profiles[-1:])


def test_instances_without_slots_have_a_profile_in_every_second_turn(tmp_path: Path) -> None:
    system = FakeSystem(FakeHost())
    result, store = run(tmp_path, system)
    record = store.load(result.study_id)
    assert result.complete
    turns = [sum(not turn.warm_up for turn in trial.planned.turns) for trial in record.trials]
    instances = len(record.trials)
    assert min(turns) > 2
    assert abs(2 * (sum(system.profiles) - instances) - sum(turns)) <= instances, "one more in each, to set it up"
    assert system.profiles.count(False) == system.profiles.count(True)
