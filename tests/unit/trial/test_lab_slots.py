"""Switchback trials on a fake host and system: changes, failures of single slots, what the analysis gets."""

from __future__ import annotations

import math
import os
import re
import signal
from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lab_fakes import CACHE, POOL, STATEMENTS, FakeClock, FakeHost, FakeSystem

from leadline.checks.files.study import parse_study
from leadline.checks.plan import plan_study
from leadline.conclude.study import conclude
from leadline.conclude.washout import settled_wash_out
from leadline.model.errors import FailureClass, TrialFailure
from leadline.model.knob import Level
from leadline.model.plan import Role, Slot
from leadline.model.record import LoadSecond, TrialRecord
from leadline.store.lab import Store
from leadline.trial.progress import SilentWatcher
from leadline.trial.run import RunResult, StudyRun
from leadline.trial.slotmeasure import remeasure, slot_series, slots_of
from leadline.trial.system import LoadClock, LoadOutcome, OnLoad, OnSlot, SecondSeries

STUDY = """\
study: live
question: does it?
workload: { users: 5, ramp_up: 1s, steady: 65s }
factors:
  vm.fake_live: [10, 20, 30]
design: { replicates: 2, switchback: { slot: 5s } }
responses: [throughput]
"""


# runs


def run(tmp_path: Path, system: FakeSystem, text: str = STUDY, **options: Any) -> tuple[RunResult, Store]:
    file = parse_study(text, "live.yaml")
    planned = plan_study(file, system.host, [POOL, CACHE])  # type: ignore[arg-type]
    store = Store(tmp_path / "lab")
    study = StudyRun(file, planned, store, system.host, system, SilentWatcher(), lambda _: nullcontext())  # type: ignore[arg-type]
    return study.execute(**options), store


def live_level(_settings: Any, host: Any) -> float:
    return 100.0 + float(host["vm.fake_live"])


def trials(tmp_path: Path, system: FakeSystem, text: str = STUDY) -> tuple[TrialRecord, ...]:
    result, store = run(tmp_path, system, text)
    return store.load(result.study_id).trials


def test_every_slot_is_set_read_back_and_measured_and_the_host_put_back(tmp_path: Path) -> None:
    system = FakeSystem(FakeHost(), effect=live_level)
    result, store = run(tmp_path, system)
    record = store.load(result.study_id)
    assert result.complete
    for trial in record.trials:
        assert trial.state == "done", trial.failure_message
        assert len(trial.slots) == 12
        for slot in trial.slots:
            wanted = slot.treatment["vm.fake_live"]
            assert slot.matches
            assert slot.found == {"vm.fake_live": wanted}
            assert slot.responses["throughput"] == 100.0 + float(str(wanted))
            assert slot.due is not None
            assert slot.set_from is not None
            assert slot.set_at is not None
            assert slot.due <= slot.set_from <= slot.set_at
            assert slot.measured_from == pytest.approx(slot.due + 5 / 3, abs=1e-3)
            assert slot.measured_until == pytest.approx(slot.due + 5, abs=1e-3)
        assert trial.steady is not None
        assert trial.steady.verdict == "steady"
        last = trial.slots[-1].treatment["vm.fake_live"]
        assert [r.found for r in trial.readings if r.phase == "after"] == [str(last)]
    assert system.host.values["vm.fake_live"] == 10
    writes = [level for name, level in system.host.writes if name == "vm.fake_live"]
    assert len(writes) >= 2 * 11  # every change but the slots that repeat a level
    undone = [r for trial in record.trials for r in trial.readings if r.phase == "undone"]
    assert [r.matches for r in undone] == [True]


def test_the_analysis_gets_one_observation_a_slot(tmp_path: Path) -> None:
    system = FakeSystem(FakeHost(), effect=live_level)
    result, store = run(tmp_path, system)
    record = store.load(result.study_id)
    found = record.observations()
    assert len(found) == 24
    assert Counter(one.treatment["vm.fake_live"] for one in found) == {10: 8, 20: 8, 30: 8}
    assert [one.slot for one in found] == [*range(12), *range(12)]
    assert all((one.role is Role.BASELINE) == (one.treatment["vm.fake_live"] == 10) for one in found)
    assert all(one.responses["throughput"] == 100.0 + float(str(one.treatment["vm.fake_live"])) for one in found)
    assert all(one.seconds == pytest.approx(10 / 3, abs=1e-3) for one in found)
    assert [one.started for one in found[:12]] == [slot.set_at for slot in record.trials[0].slots]


def test_a_slot_whose_figure_cannot_be_is_left_out(tmp_path: Path) -> None:
    system = FakeSystem(FakeHost(), effect=lambda _, host: -0.083 if host["vm.fake_live"] == 20 else 100.0)
    slots = [slot for trial in trials(tmp_path, system) for slot in trial.slots]
    assert all(bool(slot.responses) == (slot.treatment["vm.fake_live"] != 20) for slot in slots)
    assert any("throughput is -0.083" in slot.left_out for slot in slots)


def test_pseudo_factors_change_nothing_between_slots(tmp_path: Path) -> None:
    text = STUDY.replace("factors:\n  vm.fake_live: [10, 20, 30]", "pseudo_factors: { label: [a, b] }")
    system = FakeSystem(FakeHost())
    found = trials(tmp_path, system, text)
    assert system.host.writes == []
    assert all(trial.state == "done" for trial in found)
    assert Counter(slot.treatment["label"] for slot in found[0].slots) == {"a": 6, "b": 6}


def test_a_service_knob_changes_between_trials(tmp_path: Path) -> None:
    text = STUDY.replace("  vm.fake_live", "  server.pool: [10, 2]\n  vm.fake_live")
    system = FakeSystem(FakeHost(), effect=lambda s, h: live_level(s, h) + 1000 * int(s["server.pool"]))
    for trial in trials(tmp_path, system, text):
        pool = int(str(trial.planned.treatment["server.pool"]))
        assert {int(slot.responses["throughput"]) // 1000 for slot in trial.slots} == {pool}


def test_per_second_series_of_slots_are_kept(tmp_path: Path) -> None:
    trial = trials(tmp_path, FakeSystem(FakeHost(), effect=live_level))[0]
    series = slot_series(trial)
    assert [one.slot for one in series] == list(range(12))
    for one, slot in zip(series, trial.slots, strict=True):
        assert one.seconds == pytest.approx((0, 1, 2, 3, 4), abs=1e-3)
        level = 100.0 + float(str(slot.treatment["vm.fake_live"]))
        assert one.values["throughput"] == pytest.approx([level] * 5, abs=0.03)
        assert set(one.values) == {"throughput", "mean", "p50", "p99"}


def test_slots_are_measured_again_with_another_wash_out(tmp_path: Path) -> None:
    text = STUDY.replace("replicates: 2", "replicates: 1")
    system = FakeSystem(FakeHost(), effect=live_level, failing_slots={2: 0.3})
    result, store = run(tmp_path, system, text)
    before = store.load(result.study_id).trials[0]
    remeasure(store, store.load(result.study_id), system.recording, 3.0)
    after = store.load(result.study_id).trials[0]
    for old, new in zip(before.slots, after.slots, strict=True):
        assert new.due is not None
        assert new.measured_from == pytest.approx(new.due + 3, abs=1e-3)
        assert (new.measured_until, new.responses, new.failure) == (old.measured_until, old.responses, old.failure)
    assert all(one.seconds == pytest.approx(2, abs=1e-3) for one in after.observations())


class FakeCarryingSystem(FakeSystem):
    """Planted: each slot goes from the level before to its own, exponentially with ``constant`` seconds."""

    constant = 0.0

    def seconds(self, directory: Path) -> SecondSeries:
        begins, throughput = [], []
        noise = np.random.default_rng(5).normal(0, 0.3, 1000)
        for index, (slot, value) in enumerate(zip(self.slots, self.held, strict=True)):
            before = self.held[index - 1] if index else value
            for second in range(int(slot.seconds)):
                left = math.exp(-(second + 0.5) / self.constant) if self.constant else 0.0
                begins.append(FakeClock.START / 1e9 + slot.begin + second)
                throughput.append(value + (before - value) * left + noise[len(begins)])
        latency = [1000 / value for value in throughput]
        return SecondSeries(begins, {"throughput": throughput, "mean": latency, "p50": latency, "p99": latency})


def carrying(constant: float) -> FakeCarryingSystem:
    system = FakeCarryingSystem(FakeHost(), effect=live_level)
    system.constant = constant
    return system


@pytest.mark.parametrize(("constant", "expected"), [(0.0, 5 / 3), (1.4, 3.0)])
def test_the_wash_out_is_estimated_at_the_end_of_a_run(tmp_path: Path, constant: float, expected: float) -> None:
    result, store = run(tmp_path, carrying(constant), STUDY.replace("65s", "3m"))
    record = store.load(result.study_id)
    settled = settled_wash_out(record, slots_of(record))
    assert settled is not None
    assert settled.seconds == pytest.approx(expected, abs=1.01 if constant else 1e-6)
    assert settled.seconds <= 4
    assert ("No carry-over can be seen" in settled.sentence) == (constant == 0)
    for trial in record.trials:
        for slot in trial.slots:
            assert slot.due is not None
            assert slot.measured_from == pytest.approx(slot.due + settled.seconds, abs=1e-3)


def test_a_given_wash_out_is_not_estimated(tmp_path: Path) -> None:
    text = STUDY.replace("slot: 5s", "slot: 5s, wash_out: 1s").replace("replicates: 2", "replicates: 1")
    result, store = run(tmp_path, FakeSystem(FakeHost(), effect=live_level), text)
    record = store.load(result.study_id)
    assert settled_wash_out(record, slots_of(record)) is None
    assert all(one.seconds == pytest.approx(4, abs=1e-3) for one in record.observations())


def test_a_given_wash_out_that_is_too_short_is_told_with_what_would_do(tmp_path: Path) -> None:
    text = STUDY.replace("65s", "3m").replace("slot: 5s", "slot: 5s, wash_out: 1s")
    result, store = run(tmp_path, carrying(1.4), text)
    record = store.load(result.study_id)
    settled = settled_wash_out(record, slots_of(record))
    assert settled is not None
    assert settled.seconds == 1.0
    found = re.match(r"The wash-out of 1s is too short: (\d)s in slots of (\d+)s is enough\.", settled.sentence)
    assert found, settled.sentence
    assert int(found[1]) in (3, 4)
    assert int(found[2]) == 2 * int(found[1])
    assert "with a time constant of" in settled.sentence
    assert all(one.seconds == pytest.approx(4, abs=1e-3) for one in record.observations())


# what goes wrong


class FakeHostWithFault(FakeHost):
    """``fault(name, level, write)`` is asked at every write, counted from 0."""

    def __init__(self, fault: Any) -> None:
        super().__init__()
        self.fault = fault

    def set_knob(self, name: str, level: Level) -> None:
        super().set_knob(name, level)
        self.fault(self, level, len(self.writes) - 1)


def test_a_refused_level_fails_its_slots_only(tmp_path: Path) -> None:
    def refuse(host: FakeHost, level: Level, write: int) -> None:
        if level == 30 and write > 0:
            raise TrialFailure(FailureClass.CONFIGURATION, "the kernel refuses 30")

    text = STUDY.replace("replicates: 2", "replicates: 1, seed: 3")
    (trial,) = trials(tmp_path, FakeSystem(FakeHostWithFault(refuse), effect=live_level), text)
    assert trial.state == "done"
    for slot in trial.slots[1:]:
        refused = slot.treatment["vm.fake_live"] == 30
        assert (slot.failure is FailureClass.CONFIGURATION) == refused
    failed = [one for one in trial.observations() if one.failure]
    assert {one.treatment["vm.fake_live"] for one in failed} == {30}
    assert all(one.responses == {} for one in failed)


def test_a_level_that_does_not_take_fails_its_slot(tmp_path: Path) -> None:
    def swallow(host: FakeHost, level: Level, write: int) -> None:
        if write == 3:
            host.values["vm.fake_live"] = 7

    (trial, _) = trials(tmp_path, FakeSystem(FakeHostWithFault(swallow), effect=live_level))
    wrong = [slot for slot in trial.slots if slot.failure]
    assert len(wrong) == 1
    assert wrong[0].failure is FailureClass.CONFIGURATION
    assert "vm.fake_live is 7, not" in wrong[0].failure_message
    assert wrong[0].found == {"vm.fake_live": 7}
    assert wrong[0].matches is False
    assert all(slot.matches for slot in trial.slots if slot is not wrong[0])


def test_a_level_that_somebody_else_changes_fails_the_slot_under_way(tmp_path: Path) -> None:
    def meddle(step: str) -> None:
        if step == "before slot 5":
            system.host.values["vm.fake_live"] = 55

    system = FakeSystem(FakeHost(), effect=live_level, at_step=meddle)
    trial = trials(tmp_path, system)[0]
    assert [slot.index for slot in trial.slots if slot.failure] == [4]
    assert trial.slots[4].failure_message.startswith("at its end vm.fake_live is 55, not ")
    assert trial.slots[4].failure is FailureClass.INFRASTRUCTURE
    assert trial.slots[5].matches


def test_a_change_that_comes_late_fails_its_slot_and_no_other(tmp_path: Path) -> None:
    text = STUDY.replace("replicates: 2", "replicates: 1")
    (trial,) = trials(tmp_path, FakeSystem(FakeHost(), effect=live_level, oversleep={3: 2.5, 6: 0.4, 8: 5.2}), text)
    failed = {slot.index: slot.failure_message for slot in trial.slots if slot.failure}
    assert set(failed) == {3, 8}
    assert "2.50 s late; 2.2 s are allowed" in failed[3]
    assert "it was over before it began" in failed[8]
    late = trial.slots[6]
    assert late.set_at is not None
    assert late.due is not None
    assert late.set_at - late.due == pytest.approx(0.4, abs=1e-3)
    assert all(slot.failure is FailureClass.INFRASTRUCTURE for slot in trial.slots if slot.failure)


def test_errors_in_a_slot_fail_that_slot(tmp_path: Path) -> None:
    system = FakeSystem(FakeHost(), effect=live_level, errors=0.01, failing_slots={2: 0.3}, silent_slots=(4,))
    trial = trials(tmp_path, system)[0]
    assert trial.state == "done"
    assert {slot.index: slot.failure for slot in trial.slots if slot.failure} == {
        2: FailureClass.WORKLOAD,
        4: FailureClass.WORKLOAD,
    }
    assert "30.00% of the transactions failed" in trial.slots[2].failure_message
    assert trial.slots[4].failure_message == "no transaction succeeded"


def test_what_a_level_breaks_beyond_its_slot_is_its_own_finding(tmp_path: Path) -> None:
    broken = dict.fromkeys(range(3, 9), 1.0)
    trial = trials(tmp_path, FakeSystem(FakeHost(), effect=live_level, failing_slots=broken))[0]
    assert trial.state == "done"
    assert [slot.index for slot in trial.slots if slot.failure] == [3]
    assert "it broke the 5 slots after it, too" in trial.slots[3].failure_message
    assert [slot.index for slot in trial.slots if slot.left_out] == [4, 5, 6, 7, 8]
    assert trial.slots[8].left_out == "the system was not healthy at its start, since slot 4"
    assert [one.slot for one in trial.observations()] == [0, 1, 2, 3, 9, 10, 11]


class FakeBreakingSystem(FakeSystem):
    """From the moment at which the live level is 30 an instance serves nobody until it is started again; ``dies``: its
    server ends. Every instance that was started is counted by its slots.
    """

    dies = False

    def load_in_slots(
        self, directory: Path, seed: int, on_load: OnLoad, slots: Sequence[Slot], on_slot: OnSlot
    ) -> LoadOutcome:
        self.failing_slots, broken = {}, False

        def begin(index: int, due_ns: int, clock: LoadClock) -> None:
            nonlocal broken
            on_slot(index, due_ns, clock)
            broken = broken or self.host.values["vm.fake_live"] == 30
            if broken and self.dies:
                raise TrialFailure(FailureClass.CONFIGURATION, "tomcat died during the trial: exit code 1")
            self.failing_slots |= {index: 1.0} if broken else {}
            for second in range(int(slots[index].seconds)):
                rate, errors = (0.0, 9) if broken else (9.0, 0)
                on_load(LoadSecond(11 + slots[index].begin + second, "steady", rate, 3.0, errors))

        return super().load_in_slots(directory, seed, on_load, slots, begin)


def broken_by_30(trial: TrialRecord, seen: bool = True) -> None:
    """All others are measured as if 30 had not been in the plan; one slot of the trial in which that was ``seen`` fails
    for it: nobody tried the others.
    """
    assert trial.state == "done", trial.failure_message
    of_30 = [slot for slot in trial.slots if slot.treatment["vm.fake_live"] == 30]
    assert [slot.failure for slot in of_30] == [FailureClass.CONFIGURATION if seen else None, None, None, None]
    (told,) = {slot.failure_message or slot.left_out for slot in of_30}
    assert told.startswith("the change of vm.fake_live to 30 breaks the application; after it: ")
    assert len([one for one in trial.observations() if one.responses]) == 8


@pytest.mark.parametrize("dies", [True, False], ids=["its server ends", "it serves nobody"])
def test_a_level_that_breaks_the_instance_for_good_costs_the_others_one_attempt(tmp_path: Path, dies: bool) -> None:
    system = FakeBreakingSystem(FakeHost(), effect=live_level)
    system.dies = dies
    first, *others = trials(tmp_path, system)
    broken_by_30(first)
    assert first.attempt == 2
    for trial in others:
        broken_by_30(trial, seen=False)
        assert trial.attempt == 1, "the level is known, and no instance is given it"
    assert system.calls.count("start-server") == len(others) + 2


def test_a_level_that_breaks_the_instance_at_its_start_is_started_without(tmp_path: Path) -> None:
    text = STUDY.replace("replicates: 2", "replicates: 1")
    seeds = iter(range(100))
    while True:  # an order whose first slot holds it
        system = FakeBreakingSystem(FakeHost(), effect=live_level)
        place = tmp_path / str(seed := next(seeds))
        (trial,) = trials(place, system, text.replace("replicates: 1", f"replicates: 1, seed: {seed}"))
        broken_by_30(trial)
        if trial.slots[0].treatment["vm.fake_live"] == 30:
            break


def test_an_application_that_every_level_breaks_is_no_levels_fault(tmp_path: Path) -> None:
    def end(step: str) -> None:
        if step == "before slot 5":
            raise TrialFailure(FailureClass.CONFIGURATION, "tomcat died during the trial: exit code 1")

    (trial,) = trials(
        tmp_path,
        FakeSystem(FakeHost(), effect=live_level, at_step=end),
        STUDY.replace("replicates: 2", "replicates: 1"),
    )
    assert trial.state == "failed"
    assert trial.failure_message == "tomcat died during the trial: exit code 1"
    assert trial.attempt <= 3, "at most one for each level that is not the baseline's"


def test_a_system_that_was_never_healthy_fails_the_trial_and_no_slot(tmp_path: Path) -> None:
    broken = dict.fromkeys(range(-1, 12), 0.5)
    trial = trials(tmp_path, FakeSystem(FakeHost(), effect=live_level, failing_slots=broken))[0]
    assert trial.failure is FailureClass.WORKLOAD
    assert trial.failure_message.endswith("the limit is 0.10%, before any level was changed")
    (one,) = trial.observations()
    assert (one.treatment, one.slot) == (trial.planned.treatment, None)


def test_a_change_that_restarts_the_application_is_not_live(tmp_path: Path) -> None:
    text = STUDY.replace("  vm.fake_live: [10, 20, 30]", "  vm.fake_live: [10, 20]\n  server.statements: [10, 5]")

    def restart(host: FakeHost, level: Level, write: int) -> None:
        del host, level, write
        system.restarted += 1  # every change of it, not of the other knob

    system = FakeSystem(FakeHostWithFault(restart), effect=live_level)
    file = parse_study(text, "live.yaml")
    planned = plan_study(file, system.host, [POOL, CACHE, STATEMENTS])  # type: ignore[arg-type]
    store = Store(tmp_path / "lab")
    study = StudyRun(file, planned, store, system.host, system, SilentWatcher(), lambda _: nullcontext())  # type: ignore[arg-type]
    trial = store.load(study.execute().study_id).trials[0]
    failed = [slot for slot in trial.slots if slot.failure]
    assert failed
    assert {slot.treatment["vm.fake_live"] for slot in failed} == {20}
    assert {slot.failure for slot in failed} == {FailureClass.CONFIGURATION}
    told = "the change of vm.fake_live to 20 restarts the application: not live here"
    assert {slot.failure_message for slot in failed} == {told}
    back = {slot.left_out for slot in trial.slots if slot.left_out}
    assert back == {told.replace("20", "10")}, "the way back is nobody's failure"
    assert any(slot.treatment["server.statements"] == 5 and not slot.left_out for slot in trial.slots)


def test_a_run_whose_slots_come_late_ends_after_a_minute_and_offers_what_would_work(tmp_path: Path) -> None:
    result, store = run(tmp_path, FakeSystem(FakeHost(), oversleep=dict.fromkeys(range(1000), 2.5)))
    record = store.load(result.study_id)
    trial = record.trials[0]
    assert (trial.failure, trial.attempt, len(trial.slots)) == (FailureClass.INTERRUPTED, 1, 12)
    assert trial.failure_message.startswith("live levels come late: 11 of the first 12 slots")
    assert all(one.state == "planned" for one in record.trials[1:])
    assert result.stopped.startswith(trial.failure_message)
    told = conclude(record)
    assert told.answer.startswith(f"No answer: none of {len(record.trials)} trials was measured")
    assert "longer slots, fewer instances" in trial.failure_message
    assert told.judgement.remedy.endswith("--set wait=quiet")
    assert told.judgement.exit_code == 4


def test_a_lost_host_ends_the_trial_and_the_failure_belongs_to_the_slot_under_way(tmp_path: Path) -> None:
    def lose(host: FakeHost, level: Level, write: int) -> None:
        if write == 4:
            raise TrialFailure(FailureClass.INTERRUPTED, "ended by SIGINT")

    result, store = run(tmp_path, FakeSystem(FakeHostWithFault(lose), effect=live_level))
    trial = store.load(result.study_id).trials[0]
    assert trial.failure is FailureClass.INTERRUPTED
    assert trial.slots[-1].set_at is None
    assert len(trial.slots) < 12
    (one,) = trial.observations()
    assert one.failure is FailureClass.INTERRUPTED
    assert one.treatment == trial.slots[-1].treatment
    again, _ = run(tmp_path, FakeSystem(FakeHost(), effect=live_level))
    assert again.study_id == result.study_id
    after = store.load(result.study_id).trials[0]
    assert after.state == "done"
    assert after.attempt == 2
    assert len(after.slots) == 12


def test_ctrl_c_inside_a_slot_ends_the_trial_in_order(tmp_path: Path) -> None:
    def press(step: str) -> None:
        if step == "before slot 5":
            os.kill(os.getpid(), signal.SIGINT)

    system = FakeSystem(FakeHost(), effect=live_level, at_step=press)
    result, store = run(tmp_path, system)
    trial = store.load(result.study_id).trials[0]
    assert trial.failure is FailureClass.INTERRUPTED
    assert "ended by SIGINT; run the same command again to go on" in result.stopped
    assert len(trial.slots) == 5
    assert all(slot.matches and not slot.responses for slot in trial.slots)
    assert system.host.values["vm.fake_live"] == 10
    assert system.stops > 0


def test_a_service_lost_inside_a_slot_costs_no_trial(tmp_path: Path) -> None:
    lost = []

    def lose(step: str) -> None:
        if step == "before slot 7" and not lost:
            lost.append(step)
            raise TrialFailure(FailureClass.INFRASTRUCTURE, "postgres died during the trial")

    result, store = run(tmp_path, FakeSystem(FakeHost(), effect=live_level, at_step=lose))
    trial = store.load(result.study_id).trials[0]
    assert result.complete
    assert (trial.state, trial.attempt, len(trial.slots)) == ("done", 2, 12)
    assert len(trial.observations()) == 12


def test_slots_in_the_warm_up_are_left_out(tmp_path: Path) -> None:
    class FakeWarmingSystem(FakeSystem):
        def _hold(self) -> None:
            super()._hold()
            if len(self.held) <= 3:
                self.held[-1] *= 0.5

    trial = trials(tmp_path, FakeWarmingSystem(FakeHost(), effect=live_level))[0]
    assert trial.steady is not None
    assert trial.steady.verdict == "steady"
    assert trial.steady.cut == pytest.approx(15, abs=2)
    assert [slot.index for slot in trial.slots if slot.left_out] == [0, 1, 2]
    assert [one.slot for one in trial.observations()] == list(range(3, 12))
    assert [one.slot for one in slot_series(trial)] == list(range(3, 12))
