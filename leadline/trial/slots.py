"""Slots of a switchback trial: levels set in the running system while the load goes on.

Every change is committed to the store before it is made, made by the knob's owner (the undo journal knows it)
and read back. A slot whose change failed, came late or did not hold is failed with its class; the others count.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile

from leadline.conclude.judgement import WOULD_WORK, too_late
from leadline.layouts import latest_change
from leadline.model.errors import Event, Evidence, FailureClass, TrialFailure, UsageError, blamed
from leadline.model.knob import Knob, Level, Owners
from leadline.model.plan import Slot, Treatment
from leadline.model.record import CAME_LATE, LoadSecond
from leadline.model.units import rounded
from leadline.store.lab import Store
from leadline.store.rows import SlotSet
from leadline.trial.progress import Watcher
from leadline.trial.system import LoadClock

BROKEN = 10.0  # seconds in which it serves nobody, a whole slot of other levels among them: it does not recover


@dataclass
class Lateness:
    """Slots of a load, of one trial or of all instances in a rotation, whose levels came too late."""

    begun: int = 0
    late: int = 0
    seconds: float = 0.0  # of the slots that have begun
    worst: float = 0.0  # seconds

    def add(self, slot: Slot, late: float, allowed: float) -> None:
        """Raises TrialFailure(interrupted) where it is no use to go on (``too_late``)."""
        self.begun, self.seconds = self.begun + 1, self.seconds + slot.seconds
        self.late, self.worst = self.late + (late > allowed), max(self.worst, late)
        if too_late(self.begun, self.late, self.seconds):
            raise TrialFailure(
                FailureClass.INTERRUPTED,
                f"{CAME_LATE}{self.late} of the first {self.begun} slots have their levels too late, by up to "
                f"{self.worst:.1f} s ({rounded(allowed, 2)} s are allowed): this machine is too busy for slots of "
                f"{slot.seconds:g} s. {WOULD_WORK}",
            )


@dataclass(frozen=True)
class Breaking:
    """Live levels that an instance of a trial did not survive: no later one is given them. ``why``: in words."""

    levels: Mapping[str, Level]
    why: str
    trial: int

    def in_(self, treatment: Treatment) -> bool:
        return all(treatment[name] == level for name, level in self.levels.items())


@dataclass
class BegunSlot:
    """What became of one slot. Moments in unix ns. ``before``: levels that were in force when it began; ``without``:
    its levels were not set, since they broke an instance: one such slot of the trial in which it was seen fails for it.
    """

    slot: Slot
    due_ns: int
    before: Mapping[str, Level] = field(default_factory=dict)
    without: Breaking | None = None
    done: SlotSet | None = None
    failure: TrialFailure | None = None
    restarts: int = 0  # of the application before it
    restarted: bool = False  # the server started the application anew after its change
    gone: bool = False  # levels can be read no more

    @property
    def end_ns(self) -> int:
        return self.due_ns + round(self.slot.seconds * 1e9)


@dataclass
class SlotChanges:
    """Makes the changes of one attempt's slots: pass ``on_slot`` to ``System.load_in_slots``, then call ``finish``.
    Where others change the host between the slots, as in a rotation: ``look``, ``begin`` and ``hold`` for each.

    Only knobs whose level differs between slots are touched; the first slot's levels must be in force already.
    """

    store: Store
    owners: Owners
    watcher: Watcher
    knobs: Mapping[str, Knob]
    trial: int
    attempt: int
    slots: Sequence[Slot]
    wash_out: float = 0.0
    restarts: Callable[[], int] = lambda: 0  # of the application inside its server, so far
    lateness: Lateness = field(default_factory=Lateness)
    usual: Mapping[str, Level] = field(default_factory=dict)  # the baseline's levels
    breaking: list[Breaking] = field(default_factory=list)  # of all trials of a run
    profile: Callable[[bool], None] = lambda _: None
    profiled: frozenset[int | None] = frozenset()  # slots with a profile
    limit: float = 1.0  # share of transactions that may fail
    begun: list[BegunSlot] = field(default_factory=list, init=False)
    changing: tuple[str, ...] = field(init=False)
    found: dict[str, Level] = field(default_factory=dict, init=False)  # as last read
    broke: BegunSlot | None = field(default=None, init=False)  # since this one nobody is served
    _sick: float = field(default=0.0, init=False)  # seconds of that
    _steady_from: float | None = field(default=None, init=False)  # seconds since the start of the load

    def __post_init__(self) -> None:
        levels = [slot.treatment.as_dict() for slot in self.slots]
        names = [name for name in levels[0] if name in self.owners] if levels else []
        self.changing = tuple(name for name in names if any(level[name] != levels[0][name] for level in levels))

    def on_slot(self, index: int, due_ns: int, clock: LoadClock) -> None:
        """End the slot before, and begin one. Raises as ``begin``."""
        self.hold()
        self.begin(index, due_ns, clock)

    def look(self) -> None:
        """What is in force before a slot that follows another instance's."""
        self.found = self._read()

    def begin(self, index: int, due_ns: int, clock: LoadClock) -> None:
        """Begin a slot: written down first, its levels set when it is due. Raises TrialFailure for what voids the
        whole trial: a lost host, journal or store, an interruption.
        """
        slot = self.slots[index]
        wanted = {name: slot.treatment[name] for name in self.changing}
        begun = BegunSlot(slot, due_ns, dict(self.found) if index else {})
        self.begun.append(begun)
        self.store.begin_slot(self.trial, self.attempt, index, due_ns, wanted)
        self.watcher.step(f"slot {index + 1} of {len(self.slots)}")
        begun.restarts = self.restarts()
        clock.sleep_until(due_ns)
        begun.without = next((breaking for breaking in self.breaking if breaking.in_(slot.treatment)), None)
        if begun.without:
            first = begun.without not in [earlier.without for earlier in self.begun if earlier is not begun]
            told = first and begun.without.trial == self.trial
            failure = blamed(Evidence(Event.REFUSED), begun.without.why) if told else None
            begun.done = SlotSet(due_ns, due_ns, dict(self.found), False, failure)
        else:
            begun.done = self._change(begun, wanted, clock)
        begun.failure = begun.done.failure
        self.store.end_slot(self.trial, self.attempt, index, begun.done)
        self.profile(index in self.profiled)  # after its levels, which must not come late
        if begun.without:
            return
        late = 0.0 if begun.restarted else (begun.done.set_at_ns - due_ns) / 1e9
        self.lateness.add(slot, late, latest_change(slot.seconds, self.wash_out))

    def finish(self) -> None:
        """After the load: the last slot's levels held to its end, and some slot counts. Raises TrialFailure."""
        self.hold()
        self.profile(False)
        self.check_some()

    @property
    def failures(self) -> list[TrialFailure]:
        """Of the slots that failed."""
        return [begun.failure for begun in self.begun if begun.failure]

    def check_some(self) -> None:
        """Raises TrialFailure where no slot counts."""
        failures = self.failures
        if failures and len(failures) == len(self.begun):
            kind = Counter(failure.failure_class for failure in failures).most_common(1)[0][0]
            first = next(failure for failure in failures if failure.failure_class is kind)
            raise TrialFailure(kind, f"every slot failed; the first such: {first.message}", first.evidence)

    def fail(self, begun: BegunSlot, failure: TrialFailure) -> None:
        """Void one slot."""
        if begun.failure is None:
            begun.failure = failure
            self.store.fail_slot(self.trial, self.attempt, begun.slot.index, failure)

    def _change(self, begun: BegunSlot, wanted: Mapping[str, Level], clock: LoadClock) -> SlotSet:
        set_from = clock.now_ns()
        if set_from >= begun.end_ns:
            late = (set_from - begun.due_ns) / 1e9
            failure = TrialFailure(FailureClass.INFRASTRUCTURE, f"it was over before it began: {late:.2f} s late")
            return SlotSet(set_from, set_from, dict(self.found), self.found == wanted, failure)
        changes = [name for name in self.changing if name not in self.found or self.found[name] != wanted[name]]
        failed: TrialFailure | None = None
        try:
            self.owners.apply({name: wanted[name] for name in changes})
        except TrialFailure as error:
            if error.failure_class is not FailureClass.CONFIGURATION and error.event != Event.LATE:
                raise
            failed = error
        except UsageError as error:  # levels that contradict each other
            failed = blamed(Evidence(Event.REFUSED), str(error))
        if changes:
            self.found = self._read()
            begun.gone = len(self.found) < len(self.changing)
            set_at = clock.now_ns()
        else:
            set_from = set_at = begun.due_ns
        wrong = self._differences(wanted)
        late = (set_at - begun.due_ns) / 1e9
        if failed is None and wrong:
            failed = blamed(Evidence(Event.REFUSED), wrong)
        allowed = latest_change(begun.slot.seconds, self.wash_out)
        begun.restarted = self.restarts() > begun.restarts
        if failed is None and late > allowed and not begun.restarted:
            text = f"its levels were in force {late:.2f} s late; {rounded(allowed, 2)} s are allowed"
            failed = TrialFailure(FailureClass.INFRASTRUCTURE, text)
        return SlotSet(set_from, set_at, dict(self.found), not wrong, failed)

    def hold(self) -> None:
        """At the end of a slot its levels are still what they were at its start; also makes ``found`` fresh."""
        expected, self.found = self.found, self._read()
        if not self.begun:
            return
        wrong = self._differences(expected)
        last = self.begun[-1]
        last.gone = last.gone or len(self.found) < len(self.changing)
        last.restarted = self.restarts() > last.restarts
        if wrong:
            # It was in force when the slot began: the level is not to blame.
            text = f"at its end {wrong}: something else on this host set it"
            self.fail(last, TrialFailure(FailureClass.INFRASTRUCTURE, text))

    def changed(self, begun: BegunSlot) -> list[str]:
        """Knobs that a slot has changed; all that change for the first one."""
        now = begun.slot.treatment
        return [name for name in self.changing if begun.before.get(name) != now[name]]

    def told(self, levels: Mapping[str, Level]) -> str:
        """A change to these levels, in words."""
        texts = [f"{name} to {self.knobs[name].format(level)}" for name, level in levels.items()]
        return f"the change of {' and '.join(texts)}"

    def see(self, second: LoadSecond) -> None:
        """A second of the load. Raises TrialFailure(workload) where the instance serves nobody any more."""
        if second.phase != "steady" or not self.begun:
            return
        if self._steady_from is None:
            self._steady_from = second.second
        at = second.second - self._steady_from
        all_ = second.throughput + second.errors
        if second.errors <= self.limit * all_ if second.throughput else not second.errors + second.in_flight:
            self.broke, self._sick = None, 0.0
            return
        if self.broke is None:
            self.broke = next(
                begun for begun in reversed(self.begun) if begun.slot.begin <= at or begun is self.begun[0]
            )
        self._sick += 1
        after = self.slots[self.broke.slot.index + 1 : self.broke.slot.index + 2]
        if self._sick > BROKEN and all(at >= slot.begin + slot.seconds for slot in after):
            text = f"more than {self.limit:.2%} of the transactions failed in each of {self._sick:.0f} seconds"
            failure = blamed(Evidence(Event.WRONG), text)
            if self._culprits(self.broke):
                raise failure

    def blame(self, failure: TrialFailure) -> TrialFailure | None:
        """What broke the instance, of the levels of the slot since which nobody is served, or of the last one; None
        where it is none of them. They are given to no instance any more.
        """
        if not self.begun or failure.failure_class not in (FailureClass.CONFIGURATION, FailureClass.WORKLOAD):
            return None
        begun = self.broke or self.begun[-1]
        levels = self._culprits(begun)
        if not levels or any(breaking.levels == levels for breaking in self.breaking):
            return None
        how = "restarts the application: not live here" if begun.restarted else "breaks the application"
        why = f"{self.told(levels)} {how}; after it: {failure.message}"
        self.breaking.append(Breaking(levels, why, self.trial))
        return blamed(Evidence(Event.REFUSED), why, failure.evidence)

    def lost(self, failure: TrialFailure) -> TrialFailure | None:
        """As ``blame``, of an instance whose turns went on after its end: it came in the slot from which on levels
        cannot be read. None where they can.
        """
        gone = list(takewhile(lambda begun: begun.gone or begun.without, reversed(self.begun)))
        self.broke = next((begun for begun in reversed(gone) if begun.gone), None)
        return self.blame(failure) if self.broke else None

    def _culprits(self, begun: BegunSlot) -> dict[str, Level]:
        """Levels of a slot that are not the baseline's, first those that no healthy slot had before; of the way back
        from some, these, where it was seen to do something.
        """
        if begun.without:
            return {}  # it was given other levels
        begun.restarted = begun.restarted or self.restarts() > begun.restarts
        earlier = [slot for slot in self.begun if slot.slot.index < begun.slot.index and slot.failure is None]
        healthy = {(name, slot.slot.treatment[name]) for slot in earlier for name in self.changing}
        now = {name: begun.slot.treatment[name] for name in self.changing}
        if begun.restarted and all(level == self.usual.get(name) for name, level in now.items()):
            return {name: level for name, level in begun.before.items() if level != self.usual.get(name)}
        now = {name: level for name, level in now.items() if level != self.usual.get(name)}
        return {name: level for name, level in now.items() if (name, level) not in healthy} or now

    def _differences(self, wanted: Mapping[str, Level]) -> str:
        return "; ".join(
            f"{name} is {self.knobs[name].format(self.found[name])}, not {self.knobs[name].format(level)}"
            if name in self.found
            else f"{name} cannot be read"
            for name, level in wanted.items()
            if self.found.get(name) != level or name not in self.found
        )

    def _read(self) -> dict[str, Level]:
        levels = {}
        for name in self.changing:
            try:
                levels[name] = self.owners.read_back(name)
            except LookupError:  # told as a difference
                continue
        return levels
