"""A block of a rotation: instances prepared one after the other, loaded in turns, finished one after the other.

An instance that fails fails its own trial; the others go on, and its turns stay empty. A block of which an instance
failed as infrastructure is run again as a whole, and so is one that was cut off: its trials share their time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from leadline.design.rotation import measured
from leadline.lab.lifecycle import Attempt, TrialRunner
from leadline.lab.system import InTurns, LoadClock, LoadOutcome
from leadline.model.errors import FailureClass, TrialFailure
from leadline.model.knob import Level
from leadline.model.plan import PlannedTrial, Turn
from leadline.model.record import AuditRecord

IDLE_BOUND = 0.25  # CPUs that all idle instances together may use, on average over the measured part of a slot
LATE = 0.1  # of a turn: host levels in force later than this leave it out
_FEWEST = 0.5  # share of its slots that a trial needs


@dataclass(frozen=True)
class _Turn:
    """``number`` counts an instance's own turns."""

    attempt: Attempt
    number: int
    turn: Turn


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
            attempts[-1].go(attempts[-1].prepare)
            _stop_failed(attempts[-1:])
        for attempt in attempts:
            attempt.go(attempt.observe)
        _stop_failed(attempts)
        loaded = [attempt for attempt in attempts if attempt.failure is None]
        changes = _HostLevels(loaded)
        _load(runner, loaded, changes)
        for attempt in loaded:
            attempt.go(attempt.unobserve)
        if any(attempt.failure is None for attempt in loaded):
            _keep_recordings(loaded)
        for attempt in loaded:
            attempt.go(attempt.finish)
        for attempt in loaded:
            others = [one.directory for one in loaded if one is not attempt]
            attempt.go(partial(_measure, attempt, others, changes.left_out))
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
                attempt.runner.warn(attempt.system.stop_observers())
                attempt.runner.warn(attempt.system.collect(attempt.directory))


def _load(runner: TrialRunner, running: Sequence[Attempt], changes: _HostLevels) -> None:
    if not running:
        return
    steps = []
    outcomes: Sequence[LoadOutcome | TrialFailure] = ()
    loads = [InTurns(one.system, one.directory, one.planned.seed, one.planned.turns) for one in running]
    first = running[0]
    with first.failing():
        steps = [runner.store.begin_step(one.trial, one.number, "load") for one in running]
        runner.watcher.step("load")
        outcomes = runner.system.load_in_turns(loads, runner.watcher.load, changes.on_turn)
        changes.finish()
        for step in steps:
            runner.store.end_step(step)
    for attempt, outcome in zip(running, outcomes, strict=False):
        if isinstance(outcome, TrialFailure):
            attempt.failure = attempt.failure or outcome
        else:
            attempt.outcome = outcome
    for attempt in running[1:]:
        attempt.failure = attempt.failure or (first.failure if not outcomes else None)


class _HostLevels:
    """Host knobs whose level differs between the instances of a block: set when a turn begins, read back.

    ``left_out``: why a turn does not count, by trial and its own number.
    """

    def __init__(self, attempts: Sequence[Attempt]) -> None:
        self.left_out: dict[tuple[int, int], str] = {}
        self._attempts = attempts
        turns = [
            _Turn(attempt, number, turn)
            for attempt in self._attempts
            for number, turn in enumerate(attempt.planned.turns)
        ]
        self._turns = sorted(turns, key=lambda one: one.turn.begin)
        self._now: _Turn | None = None
        self._found: dict[str, Level] = {}
        self._levels = {
            attempt.trial: attempt.owners.levels(attempt.planned.treatment.as_dict(), attempt.runner.host)
            for attempt in self._attempts
        }
        every = list(self._levels.values())
        names = every[0] if every else {}
        self._changing = [name for name in names if any(one[name] != names[name] for one in every)]

    def on_turn(self, index: int, due_ns: int, clock: LoadClock) -> None:
        """Raises TrialFailure for what voids the whole block: a lost host, journal or store, an interruption."""
        if not self._changing:
            return
        self._check_held()
        self._now = now = self._turns[index]
        attempt, runner = now.attempt, now.attempt.runner
        wanted = {name: self._levels[attempt.trial][name] for name in self._changing}
        changes = [name for name in self._changing if self._found.get(name) != wanted[name]]
        if not changes:
            return
        said = ", ".join(f"{name}={runner.format(name, wanted[name])}" for name in changes)
        step = runner.store.begin_step(attempt.trial, attempt.number, "turn", said)
        runner.watcher.step("turn")
        clock.sleep_until(due_ns)
        runner.host.apply({name: wanted[name] for name in changes})
        self._found = self._read()
        late = (clock.now_ns() - due_ns) / 1e9
        runner.store.end_step(step)
        wrong = [
            f"{name} is {self._found[name]}, not {wanted[name]}"
            for name in changes
            if self._found[name] != wanted[name]
        ]
        if wrong:
            self._leave_out(now, f"its host levels did not take: {', '.join(wrong)}")
        elif late > LATE * now.turn.seconds:
            self._leave_out(now, f"its host levels were in force {late:.2f} s late")

    def finish(self) -> None:
        """After the load: the last turn's levels held, and what the host has now."""
        if self._changing:
            self._check_held()
            for attempt in self._attempts:
                attempt.now_at(self._found)

    def _check_held(self) -> None:
        expected, self._found = self._found, self._read()
        if self._now is not None and expected != self._found:
            self._leave_out(self._now, "something else on this host changed its host levels")

    def _leave_out(self, turn: _Turn, why: str) -> None:
        self.left_out.setdefault((turn.attempt.trial, turn.number), why)

    def _read(self) -> dict[str, Level]:
        host = self._attempts[0].runner.host
        return {name: host.read_back(name) for name in self._changing}


def _measure(attempt: Attempt, others: Sequence[Path], left_out: Mapping[tuple[int, int], str]) -> None:
    """Responses over the instance's own turns, without those in which the others were not idle."""
    runner, turns = attempt.runner, attempt.planned.turns
    rotation = runner.study.design.rotation
    assert rotation is not None
    windows = measured(turns, rotation.wash_out)
    warm_up = sum(turn.warm_up for turn in turns)
    with attempt.step("measure"):
        used = attempt.system.idle_cpu(attempt.directory, others, windows)
        idle = [math.nan if cpu is None else cpu for cpu in used]
        gone = {
            at: f"idle instances used {cpu:.2f} CPUs"
            if math.isfinite(cpu)
            else "the CPU of idle instances is not known"
            for at, cpu in enumerate(idle)
            if not cpu <= IDLE_BOUND
        }
        gone |= {number - warm_up: why for (trial, number), why in left_out.items() if trial == attempt.trial}
        kept = [window for at, window in enumerate(windows) if at not in gone]
        audit = _audit(idle, {at: why for at, why in gone.items() if at >= 0}, len(windows))
        runner.store.add_audits(attempt.trial, attempt.number, [audit])
        if not audit.passed:
            raise TrialFailure(FailureClass.INFRASTRUCTURE, f"too few slots are left: {audit.detail}")
        attempt.keep(attempt.system.measure_turns(attempt.directory, attempt.startup, kept))


def _audit(idle: Sequence[float], gone: Mapping[int, str], slots: int) -> AuditRecord:
    known = [cpu for cpu in idle if math.isfinite(cpu)] or [math.nan]
    mean = sum(known) / len(known)
    detail = f"in its slots the idle instances used {mean:.3f} CPUs on average, {max(known):.3f} at most"
    if gone:
        told = "; ".join(f"slot {at + 1}: {why}" for at, why in sorted(gone.items())[:5])
        detail += f"; {len(gone)} of {slots} slots left out (bound {IDLE_BOUND:g} CPUs): {told}"
    return AuditRecord("idle-instances", len(gone) <= (1 - _FEWEST) * slots, detail)
