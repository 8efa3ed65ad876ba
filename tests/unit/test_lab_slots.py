"""Switchback trials on a fake host and system: plans, changes, failures of single slots, what the analysis gets."""

from __future__ import annotations

import math
import os
import signal
import time
from collections import Counter
from contextlib import nullcontext
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hdrh.histogram import HdrHistogram
from lab_fakes import CACHE, POOL, FakeClock, FakeHost, FakeSystem

from leadline.design import plan_from_json, plan_problems, plan_to_json
from leadline.design.carryover import CarryOver, abba, random_blocks, williams, williams_square
from leadline.design.switchback import assumed_wash_out, steady_seconds, switchback_plan
from leadline.lab.measure import measure_windows, seconds
from leadline.lab.pacing import Pacer
from leadline.lab.planning import cost, plan_study
from leadline.lab.progress import SilentWatcher
from leadline.lab.run import RunResult, StudyRun
from leadline.lab.slotmeasure import remeasure, slot_series
from leadline.lab.store import Store
from leadline.lab.studyfile import parse_study
from leadline.lab.system import LoadClock, SecondSeries, Window
from leadline.lab.washout import settled_wash_out
from leadline.load.driver import responses_between, responses_in_windows, started_unix_ns
from leadline.model.errors import FailureClass, TrialFailure, UsageError
from leadline.model.knob import ApplyCost, Level
from leadline.model.plan import Factor, Plan, Role, Slot, Treatment
from leadline.model.record import TrialRecord
from leadline.model.study import Design, Switchback, Workload

STUDY = """\
study: live
question: does it?
workload: { users: 5, ramp_up: 1s, steady: 65s }
factors:
  vm.fake_live: [10, 20, 30]
design: { replicates: 2, switchback: { slot: 5s } }
responses: [throughput]
"""
LIVE = Factor("vm.live", (10, 20, 30), 10, apply_cost=ApplyCost.LIVE)
LABEL = Factor("label", ("a", "b"), "a", pseudo=True, apply_cost=ApplyCost.LIVE)
RESTART = Factor("server.pool", (10, 2), 10)
KERNEL = Factor("kernel", ("old", "new"), "old", apply_cost=ApplyCost.KERNEL)


def plan(*factors: Factor, steady: float = 120, **keys: Any) -> Plan:
    switchback = {key: keys.pop(key) for key in ("slot", "wash_out", "order") if key in keys}
    design = Design(switchback=Switchback(**{"slot": 5, **switchback}), **keys)
    return switchback_plan(factors or (LIVE,), design, Workload(users=5, ramp_up=1, steady=steady))


# plans


def test_every_block_of_slots_holds_every_treatment_once() -> None:
    made = plan(LIVE, LABEL, replicates=3)
    assert plan_problems(made) == ()
    wanted = {Treatment.of({"vm.live": live, "label": label}) for live, label in [(10, "a"), (20, "a"), (30, "a")]}
    wanted.add(Treatment.of({"vm.live": 10, "label": "b"}))
    for trial in made.trials:
        assert steady_seconds(trial) == 120
        assert trial.treatment == trial.slots[0].treatment
        for block in range(6):
            assert {slot.treatment for slot in trial.slots[4 * block : 4 * block + 4]} == wanted
    assert made.trials[0].slots != made.trials[1].slots
    assert plan(LIVE, LABEL, replicates=3) == made
    assert plan(LIVE, LABEL, replicates=3, seed=2).trials != made.trials
    assert plan_from_json(plan_to_json(made)) == made


def test_the_full_factorial_crosses_the_live_factors() -> None:
    made = plan(LIVE, LABEL, kind="full-factorial")
    assert len({slot.treatment for slot in made.trials[0].slots}) == 6


@pytest.mark.parametrize("order", [random_blocks, williams])
@pytest.mark.parametrize(
    ("treatments", "blocks", "trials"), [(2, 10, 2), (3, 8, 3), (5, 12, 4), (7, 20, 3), (12, 5, 5)]
)
@pytest.mark.parametrize("seed", range(5))
def test_who_follows_whom_is_nearly_even(order: Any, treatments: int, blocks: int, trials: int, seed: int) -> None:
    carry = CarryOver(treatments)
    for row in order(treatments, blocks, trials, seed):
        assert len(row) == treatments * blocks
        carry.add(None, row)
    pairs = [carry.pairs[a][b] for a in range(treatments) for b in range(treatments) if a != b]
    assert max(pairs) - min(pairs) <= 4
    assert max(carry.first) - min(carry.first) <= math.ceil(trials / treatments) + 1
    if treatments > 3:
        assert sum(carry.pairs[a][a] for a in range(treatments)) <= (trials * blocks) // 8


@pytest.mark.parametrize("treatments", range(2, 12))
def test_williams_squares_have_every_ordered_pair_equally_often(treatments: int) -> None:
    rows = williams_square(treatments)
    pairs = Counter(pair for row in rows for pair in pairwise(row))
    each = 1 if treatments % 2 == 0 else 2
    assert pairs == {(a, b): each for a in range(treatments) for b in range(treatments) if a != b}
    for place in range(treatments):
        assert Counter(row[place] for row in rows) == dict.fromkeys(range(treatments), each)


def test_two_treatments_in_random_blocks_are_no_fixed_cycle() -> None:
    orders = {tuple(random_blocks(2, 12, 1, seed)[0]) for seed in range(20)}
    assert len(orders) > 10
    assert all({row[at : at + 2] for at in range(0, 24, 2)} == {(0, 1), (1, 0)} for row in orders)


@pytest.mark.parametrize("seed", range(4))
def test_abba_cancels_a_straight_drift(seed: int) -> None:
    for row in abba(2, 4, 3, seed):
        for at in range(0, 8, 4):
            assert row[at : at + 4] in ([0, 1, 1, 0], [1, 0, 0, 1])
    one, other = abba(2, 4, 2, seed)
    assert {one[0], other[0]} == {0, 1}


def test_other_factors_change_between_trials() -> None:
    made = plan(LIVE, RESTART, replicates=2, sentinels=None)
    assert [len({slot.treatment["server.pool"] for slot in trial.slots}) for trial in made.trials] == [1] * 4
    assert Counter((t.block, t.treatment["server.pool"], t.role.value) for t in made.trials) == {
        (block, level, role): 1 for block in (0, 1) for level, role in ((10, "baseline"), (2, "treatment"))
    }
    assert {trial.plot for trial in made.trials} == {None}
    with_sentinels = plan(LIVE, RESTART, replicates=1, sentinels=3)
    assert with_sentinels.trials[0].role is not Role.TREATMENT
    assert with_sentinels.trials[-1].role is not Role.TREATMENT


def test_levels_dearer_than_a_restart_make_whole_plots() -> None:
    made = plan(LIVE, RESTART, KERNEL, kind="full-factorial", replicates=3, steady=60)
    plots: dict[int | None, set[Level]] = {}
    for trial in made.trials:
        plots.setdefault(trial.plot, set()).add(trial.treatment["kernel"])
    assert len(plots) == 6
    assert all(len(kernels) == 1 for kernels in plots.values())
    assert [trial.plot for trial in made.trials] == sorted(trial.plot or 0 for trial in made.trials)


@pytest.mark.parametrize(
    ("factors", "keys", "words"),
    [
        ((LIVE,), {"steady": 14}, "too short for one block of 3 slots of 5s: it takes 15s"),
        ((LIVE,), {"steady": 15, "replicates": 1}, "cannot tell a drift from an effect; set design.replicates to 2"),
        ((RESTART,), {}, "needs a factor that can be changed in the running system"),
        ((LIVE,), {"kind": "plackett-burman"}, "plackett-burman takes two levels of every factor"),
        ((LIVE,), {"blocks": "latin"}, "design.switchback.order, one of random-blocks, williams, abba"),
        ((LIVE,), {"order": "abba"}, "abba takes two slot treatments, here are 3"),
        ((LABEL,), {"order": "abba", "steady": 15}, "one block of 4 slots of 5s: it takes 20s"),
        ((LIVE,), {"slot": 2.5}, "say 2s or 3s"),
        ((LIVE,), {"slot": 1}, "the shortest slot is 2s"),
        ((LIVE,), {"wash_out": 4.5}, "leaves no whole second of a slot of 5s; say 4s or less"),
        ((LIVE, RESTART), {"replicates": 1, "sentinels": None}, "one trial of each level of server.pool"),
        ((LIVE,), {"slot": 2, "steady": 400_000}, "slots, more than 100,000"),
    ],
)
def test_a_plan_that_cannot_be_says_what_would_do(factors: Any, keys: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError) as error:
        plan(*factors, **keys)
    assert words in str(error.value)


def test_damaged_slots_are_found() -> None:
    made = plan(LIVE, RESTART)
    first = made.trials[0]

    def damaged(**changes: Any) -> tuple[str, ...]:
        return plan_problems(replace(made, trials=(replace(first, **changes), *made.trials[1:])))

    assert "has no slots" in damaged(slots=())[0]
    assert "without gaps" in damaged(slots=first.slots[:3] + first.slots[4:])[0]
    assert "does not start at the levels" in damaged(treatment=made.trials[0].slots[1].treatment)[0]
    assert "hold every treatment once" in damaged(slots=(first.slots[1], *first.slots[1:]))[-1]
    other = Treatment.of({"vm.live": 10, "server.pool": 2 if first.treatment["server.pool"] == 10 else 10})
    slots = (*first.slots[:-1], replace(first.slots[-1], treatment=other))
    assert any("cannot be changed live" in problem for problem in damaged(slots=slots))


def test_the_wash_out_is_a_third_of_the_slot_unless_given() -> None:
    assert assumed_wash_out(Switchback(slot=6)) == 2
    assert assumed_wash_out(Switchback(slot=60)) == 3
    assert assumed_wash_out(Switchback(slot=60, wash_out=0)) == 0


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
    remeasure(store, store.load(result.study_id), system, 3.0)
    after = store.load(result.study_id).trials[0]
    for old, new in zip(before.slots, after.slots, strict=True):
        assert new.due is not None
        assert new.measured_from == pytest.approx(new.due + 3, abs=1e-3)
        assert (new.measured_until, new.responses, new.failure) == (old.measured_until, old.responses, old.failure)
    assert all(one.seconds == pytest.approx(2, abs=1e-3) for one in after.observations())


@pytest.mark.parametrize(("constant", "expected"), [(0.0, 5 / 3), (1.4, 3.0)])
def test_the_wash_out_is_estimated_at_the_end_of_a_run(tmp_path: Path, constant: float, expected: float) -> None:
    """Planted: each slot goes from the level before to its own, exponentially with the time constant given."""

    class FakeCarryingSystem(FakeSystem):
        def seconds(self, directory: Path) -> SecondSeries:
            begins, throughput = [], []
            noise = np.random.default_rng(5).normal(0, 0.3, 1000)
            for index, (slot, value) in enumerate(zip(self.slots, self.held, strict=True)):
                before = self.held[index - 1] if index else value
                for second in range(int(slot.seconds)):
                    left = math.exp(-(second + 0.5) / constant) if constant else 0.0
                    begins.append(FakeClock.START / 1e9 + slot.begin + second)
                    throughput.append(value + (before - value) * left + noise[len(begins)])
            latency = [1000 / value for value in throughput]
            return SecondSeries(begins, {"throughput": throughput, "mean": latency, "p50": latency, "p99": latency})

    result, store = run(tmp_path, FakeCarryingSystem(FakeHost(), effect=live_level), STUDY.replace("65s", "3m"))
    record = store.load(result.study_id)
    settled = settled_wash_out(record)
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
    assert settled_wash_out(record) is None
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
    assert trial.slots[5].matches


def test_a_change_that_comes_late_fails_its_slot_and_no_other(tmp_path: Path) -> None:
    text = STUDY.replace("replicates: 2", "replicates: 1")
    (trial,) = trials(tmp_path, FakeSystem(FakeHost(), effect=live_level, oversleep={3: 0.6, 6: 0.4, 8: 5.2}), text)
    failed = {slot.index: slot.failure_message for slot in trial.slots if slot.failure}
    assert set(failed) == {3, 8}
    assert "0.60 s late; 0.5 s are allowed" in failed[3]
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


def test_a_trial_in_which_every_slot_failed_is_failed(tmp_path: Path) -> None:
    result, store = run(tmp_path, FakeSystem(FakeHost(), oversleep=dict.fromkeys(range(1000), 6.0)))
    trial = store.load(result.study_id).trials[0]
    assert trial.failure is FailureClass.INFRASTRUCTURE
    assert "every slot failed; the first such: it was over before it began" in trial.failure_message
    assert [one.responses for one in trial.observations()] == [{}]


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


# planning from a file


def test_the_plan_of_a_file_has_slots_and_their_cost() -> None:
    file = parse_study(STUDY, "live.yaml")
    planned = plan_study(file, FakeHost(), [POOL, CACHE])  # type: ignore[arg-type]
    assert [len(trial.slots) for trial in planned.plan.trials] == [12, 12]
    assert cost(file.study, planned.plan, overhead=20) == 2 * (20 + 1 + 60 + 2)
    assert "12 slots a trial, 4 blocks of 3 treatments" in planned.plan.notes[0]
    assert any("The steady state is 1m instead of 1m5s" in note for note in planned.plan.notes)


def test_a_refusal_names_file_and_line() -> None:
    file = parse_study(STUDY.replace("65s", "10s"), "live.yaml")
    with pytest.raises(UsageError) as error:
        plan_study(file, FakeHost(), [POOL, CACHE])  # type: ignore[arg-type]
    assert str(error.value).startswith("live.yaml:6: workload.steady of 10s is too short")


def test_a_host_that_forbids_the_live_knobs_is_told_of() -> None:
    file = parse_study(STUDY.replace("  vm.fake_live", "  server.pool: [10, 2]\n  vm.fake_live"), "live.yaml")
    with pytest.raises(UsageError) as error:
        plan_study(file, FakeHost("only root may write it"), [POOL, CACHE])  # type: ignore[arg-type]
    assert "design.switchback needs a factor that can be changed in the running system" in str(error.value)
    assert "vm.fake_live is left out: only root may write it" in str(error.value)


# the driver's files and the clock


class FakeDriverFiles:
    """Rows and response log as the driver writes them: ``tps[i]`` transactions of ``10 + i`` ms in second i."""

    START = 1_700_000_000_123_456_789

    def __init__(self, directory: Path, tps: list[int]) -> None:
        directory.mkdir(parents=True)
        lines = ["#[Histogram log format version 1.3]\n"]
        rows = ["time_ns,second,phase,transaction,ok,failed,response_mean_ms,response_p50_ms,response_p99_ms,"]
        rows[0] += "service_mean_ms,in_flight,skipped\n"
        for second, count in enumerate(tps):
            time_ns = self.START + second * 1_000_000_000
            ms = f"{10 + second}.0," * 4 if count else ",,,,"
            rows.append(f"{time_ns},{second},steady,all,{count},1,{ms}3,0\n")
            if count:
                histogram = HdrHistogram(64, 3_600_000_000_000, 3)
                histogram.record_value((10 + second) * 1_000_000, count)
                lines.append(f"Tag=look,{second}.000,1.000,1.0,{histogram.encode().decode()}\n")
        (directory / "response.hlog").write_text("".join(lines))
        (directory / "seconds.csv").write_text("".join(rows))


def test_windows_of_a_run_are_read_at_once(tmp_path: Path) -> None:
    FakeDriverFiles(tmp_path / "driver", [10, 20, 30, 0, 50, 60])
    asked = [(0.0, 2.0), (0.5, 3.0), (1.2, 1.9), (3.0, 4.0), (4.0, 6.0)]
    found = responses_in_windows(tmp_path / "driver", asked)
    assert [one and one.count for one in found] == [30, 50, None, 0, 110]
    assert found[4] == responses_between(tmp_path / "driver", 4.0, 6.0)
    assert found[1] is not None
    assert found[1].errors == pytest.approx(2 / 52)


def test_windows_are_measured_by_unix_time(tmp_path: Path) -> None:
    FakeDriverFiles(tmp_path / "driver", [10, 20, 30, 0, 50, 60])
    start = FakeDriverFiles.START / 1e9
    found = measure_windows(
        tmp_path, [Window(start, start + 2), Window(start + 2.5, start + 4), Window(start + 4, start + 6)]
    )
    assert [one.responses.get("throughput") for one in found] == [15.0, None, 55.0]
    assert found[1].reason == "no transaction succeeded"
    assert found[1].window.begin == pytest.approx(start + 3)
    assert all(math.isfinite(value) for one in found for value in one.responses.values())
    series = seconds(tmp_path)
    assert series.begins[2] == pytest.approx(start + 2)
    assert list(series.values["throughput"]) == [10, 20, 30, 0, 50, 60]
    assert math.isnan(series.values["mean"][3])


def test_the_pacer_follows_the_driver_and_notices_a_set_clock(tmp_path: Path) -> None:
    assert started_unix_ns(tmp_path / "driver") is None
    slots = [Slot(index, 2.0 * index, 2.0, Treatment(())) for index in range(3)]
    calls: list[tuple[int, int]] = []

    def on_slot(index: int, due_ns: int, clock: LoadClock) -> None:
        calls.append((index, due_ns))

    pacer = Pacer(tmp_path / "driver", 0.0, slots, on_slot)
    assert pacer.pace(0.2) == 0.2
    FakeDriverFiles(tmp_path / "driver", [1])
    with pytest.raises(TrialFailure) as error:
        pacer.pace(0.2)
    assert "the host's clock was set" in str(error.value)

    text = (tmp_path / "driver" / "seconds.csv").read_text()
    pacer = Pacer(tmp_path / "driver", 0.0, slots, on_slot)
    now = time.time_ns()
    (tmp_path / "driver" / "seconds.csv").write_text(text.replace(str(FakeDriverFiles.START), str(now)))
    assert pacer.pace(0.2) == 0.2
    assert calls == [(0, now)]
    with pytest.raises(TrialFailure) as error:
        pacer.check_complete()
    assert "after 1 of 3 slots" in str(error.value)
