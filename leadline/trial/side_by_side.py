"""A block of a rotation: instances prepared one after the other, loaded in turns, finished one after the other.

An instance that fails fails its own trial; the others go on, and its turns stay empty. A block of which an instance
failed as infrastructure is run again as a whole, and so is one that was cut off: its trials share their time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from leadline.design.profiling import in_turn
from leadline.layouts import idle_cpus, measured, wash_out_of
from leadline.model.errors import FailureClass, TrialFailure
from leadline.model.plan import PlannedTrial
from leadline.model.record import AuditRecord
from leadline.trial.lifecycle import Attempt, TrialRunner
from leadline.trial.slots import Lateness, SlotChanges
from leadline.trial.system import InTurns, LoadClock, LoadOutcome
from leadline.trial.warmup import warm_up

_FEWEST = 0.5  # share of its slots that a trial needs
_AT_REST = 0.5  # of the bound of idle CPU: what all instances together use where none has work left
_LOOK, _LONGEST_REST = 2, 30  # seconds between two looks, and in all


def run_block(
    runner: TrialRunner, trials: Sequence[tuple[int, PlannedTrial]], announce: Callable[[PlannedTrial], None]
) -> list[TrialFailure | None]:
    """One attempt of all trials of a block, as (number in the store, trial); the failure of each, if any.

    ``announce`` is called before a trial is prepared. Whatever happens, services are stopped and the rows are closed.
    """
    attempts: list[Attempt] = []
    systems = [runner.system.beside(number) for number in range(len(trials))]
    try:
        for (trial, planned), system in zip(trials, systems, strict=True):
            announce(planned)
            attempts.append(runner.begin(trial, planned, system))
            if len(attempts) == 1:
                attempts[0].go(attempts[0].wait)
            attempts[-1].go(attempts[-1].prepare)
            _stop_failed(attempts[-1:])
        for attempt in attempts:
            attempt.go(attempt.observe)
        warm_up(runner, attempts)
        _stop_failed(attempts)
        _rest([attempt for attempt in attempts if attempt.failure is None])
        loaded = [attempt for attempt in attempts if attempt.failure is None]
        changes = _Slots(loaded)
        _load(runner, loaded, changes)
        for attempt in loaded:
            attempt.go(attempt.unobserve)
        if any(attempt.failure is None for attempt in loaded):
            _keep_recordings(loaded)
        for attempt in loaded:
            attempt.go(attempt.finish)
        for attempt in loaded:
            others = [attempt_.directory for attempt_ in loaded if attempt_ is not attempt]
            attempt.go(partial(_measure, attempt, others))
        runner.again(attempts)
    finally:
        with runner.interruption.shield():
            for system in systems:
                system.stop()
    for attempt in attempts:
        attempt.close()
    return [attempt.failure for attempt in attempts]


def _stop_failed(attempts: Sequence[Attempt]) -> None:
    """The others need not run beside what is left of them."""
    for attempt in attempts:
        if attempt.failure is not None:
            with attempt.runner.interruption.shield():
                attempt.system.stop()


def _keep_recordings(attempts: Sequence[Attempt]) -> None:
    """Those that failed under the load ran beside the others all the same: what they used is read with the rest."""
    for attempt in attempts:
        if attempt.failure is not None:
            with attempt.runner.interruption.shield():
                attempt.runner.warn_once(attempt.system.stop_observers())
                attempt.runner.warn(attempt.system.collect(attempt.directory))


def _rest(attempts: Sequence[Attempt]) -> None:
    """Without load, until the compilers and what else works after a warm-up have done so, or for the longest rest."""
    if not attempts:
        return
    runner = attempts[0].runner
    bound = _AT_REST * idle_cpus(runner.study.design)
    with attempts[0].failing():
        for _ in range(_LONGEST_REST // _LOOK):
            before = sum(attempt.system.cpu_seconds() for attempt in attempts)
            for _ in range(_LOOK):
                runner.interruption.check()
                runner.host.busy(1.0)
            if sum(attempt.system.cpu_seconds() for attempt in attempts) - before <= bound * _LOOK:
                return


def _load(runner: TrialRunner, running: Sequence[Attempt], changes: _Slots) -> None:
    if not running:
        return
    steps = []
    outcomes: Sequence[LoadOutcome | TrialFailure] = ()
    loads = [
        InTurns(attempt.system, attempt.directory, attempt.planned.seed, attempt.planned.turns) for attempt in running
    ]
    first = running[0]
    with first.failing():
        runner.interruption.check()
        steps = [runner.store.begin_step(attempt.trial, attempt.number, "load") for attempt in running]
        runner.watcher.step("load")
        outcomes = runner.system.load_in_turns(loads, runner.watcher.load, changes.on_turn)
        changes.finish()
        for step in steps:
            runner.store.end_step(step)
    for attempt, outcome in zip(running, outcomes, strict=False):
        if isinstance(outcome, TrialFailure):
            broken = attempt.changes.lost(outcome) if attempt.changes else None
            attempt.failure = attempt.failure or broken or outcome
        else:
            attempt.outcome = outcome
    for attempt in running[1:]:
        attempt.failure = attempt.failure or (first.failure if not outcomes else None)


class _Slots:
    """Begins and ends the slots of a block's instances in their turns, where live levels change in them; and, in turns
    without slots, profiles.
    """

    def __init__(self, attempts: Sequence[Attempt]) -> None:
        self._attempts = attempts
        turns, lateness = [], Lateness()
        for attempt in self._attempts:
            attempt.change_in_slots(lateness)
            warm_up = sum(turn.warm_up for turn in attempt.planned.turns)
            turns += [(turn, attempt, number - warm_up) for number, turn in enumerate(attempt.planned.turns)]
        self._turns = sorted(turns, key=lambda one: one[0].begin)
        self._now: list[SlotChanges] = []
        self._before: list[SlotChanges] = []  # had their turn, and may still have a profile taken
        self._sampled: Sequence[Attempt] = []  # without slots, with a profile taken
        self._begun = -1.0

    def on_turn(self, index: int, due_ns: int, clock: LoadClock) -> None:
        """Raises TrialFailure for what voids the whole block: a lost host, journal or store, an interruption."""
        turn, attempt, number = self._turns[index]
        if turn.begin > self._begun:  # others may begin with it
            self._hold()
            self._begun = turn.begin
        if attempt.changes is not None and number >= 0:
            self._now.append(attempt.changes)
            attempt.changes.look()
            attempt.changes.begin(number, due_ns, clock)
            self._rest()
        elif attempt.changes is None:
            here = number >= 0 and attempt.has_profile and in_turn(attempt.planned.position, number)
            self._sample([attempt] if here else [])

    def _hold(self) -> None:
        for changes in self._now:
            changes.hold()
        self._before, self._now = self._now, []

    def _rest(self) -> None:
        for changes in self._before:
            if all(changes is not other for other in self._now):
                changes.profile(False)
        self._before = []

    def _sample(self, attempts: Sequence[Attempt]) -> None:
        """Have profiles of these taken, and of no other any more."""
        for attempt in attempts:
            attempt.system.profile(True)
        for attempt in self._sampled:
            if all(attempt is not other for other in attempts):
                attempt.system.profile(False)
        self._sampled = attempts

    def finish(self) -> None:
        """After the load: the last slot's levels held; what each instance, and the host, has now."""
        self._hold()
        self._rest()
        self._sample([])
        for attempt in self._attempts:
            if attempt.changes is not None:
                attempt.changes.look()
                attempt.now_at(attempt.changes.found)


def _measure(attempt: Attempt, others: Sequence[Path]) -> None:
    """Responses over the instance's own turns, without those in which the others were not idle, and of
    its slots.
    """
    windows = measured(attempt.planned.turns, wash_out_of(attempt.runner.study.design))
    with attempt.step("measure"):
        gone = _not_idle(attempt, others, windows)
        windows_ = [window for at, window in enumerate(windows) if at not in gone]
        measure_turns = attempt.system.recording.measure_turns(attempt.directory, attempt.startup, windows_)
        if attempt.changes is not None:
            from leadline.trial.slotmeasure import measure_turn_slots  # its libraries take seconds to load

            study = attempt.runner.study
            recording, directory = attempt.system.recording, attempt.directory
            steady = measure_turn_slots(attempt.changes, recording, study, directory, gone, others)
            attempt.changes.check_some()
            measure_turns = replace(measure_turns, steady=steady)
        attempt.keep(measure_turns, others)


def _not_idle(attempt: Attempt, others: Sequence[Path], windows: Sequence[tuple[float, float]]) -> dict[int, str]:
    """Windows in which the others were not idle, and why they are left out; audited. Raises TrialFailure where too many
    are.
    """
    bound = idle_cpus(attempt.runner.study.design)
    used = attempt.system.recording.idle_cpu(attempt.directory, others, windows)
    idle = [math.nan if cpu is None else cpu for cpu in used]
    gone = {
        at: f"idle instances used {cpu:.2f} CPUs" if math.isfinite(cpu) else "the CPU of idle instances is not known"
        for at, cpu in enumerate(idle)
        if not cpu <= bound
    }
    audit = _audit(idle, gone, bound)
    attempt.runner.store.add_audits(attempt.trial, attempt.number, [audit])
    if not audit.passed:
        remedy = "warm the instances longer if they still compile (workload.ramp_up: auto)"
        raise TrialFailure(FailureClass.INFRASTRUCTURE, f"too few slots are left: {audit.detail}; {remedy}")
    return gone


def _audit(idle: Sequence[float], gone: Mapping[int, str], bound: float) -> AuditRecord:
    slots = len(idle)
    idle_known = [cpu for cpu in idle if math.isfinite(cpu)] or [math.nan]
    mean = sum(idle_known) / len(idle_known)
    detail = f"in its slots the idle instances used {mean:.3f} CPUs on average, {max(idle_known):.3f} at most"
    if gone:
        slots_text = "; ".join(f"slot {at + 1}: {why}" for at, why in sorted(gone.items())[:5])
        detail += f"; {len(gone)} of {slots} slots left out (bound {bound:g} CPUs): {slots_text}"
    return AuditRecord("idle-instances", len(gone) <= (1 - _FEWEST) * slots, detail)
