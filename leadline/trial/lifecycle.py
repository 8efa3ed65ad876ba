"""The life of one trial: every step is committed to the store before it is acted on."""

from __future__ import annotations

import math
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from leadline.design.profiling import Place, middle_half
from leadline.host.base import TrialHost
from leadline.layouts import wash_out_of
from leadline.model.disturbance import MachineUse
from leadline.model.errors import (
    Event,
    Evidence,
    FailureClass,
    LeadlineError,
    NotInPlay,
    RestoreError,
    TrialFailure,
    UsageError,
    blamed,
    unanswered,
)
from leadline.model.knob import Knob, Level, Owners
from leadline.model.plan import PlannedTrial, Treatment
from leadline.model.record import NOT_QUIET, QUIET, AuditRecord, LoadSecond, Reading, under_load
from leadline.model.study import Study
from leadline.stack.servers.files import out_of_memory
from leadline.store.lab import Store
from leadline.trial.interruption import Interruption
from leadline.trial.progress import Watcher
from leadline.trial.slots import Breaking, Lateness, SlotChanges
from leadline.trial.system import LoadOutcome, Measured, System
from leadline.trial.warmup import counted, warm_up

MINIMUM_FREE = 256 * 1024 * 1024  # bytes a trial may need: a database copy, logs, series

# In the order of a trial's life; the fault tests end leadline at each of them.
STEPS = (
    "apply",
    "reset",
    "start-database",
    "start-server",
    "read-back",
    "start-observers",
    "load",
    "stop-observers",
    "health",
    "audit",
    "read-again",
    "stop",
    "collect",
    "measure",
)


@dataclass
class TrialRunner:
    """Runs planned trials of one study on one host and system."""

    store: Store
    host: TrialHost
    system: System
    study: Study
    knobs: Mapping[str, Knob]
    settings: Mapping[str, Level]
    watcher: Watcher
    interruption: Interruption
    originals: dict[str, Level] = field(default_factory=dict, init=False)  # of this run, before its first change
    last: Attempt | None = field(default=None, init=False)
    profiled: frozenset[Place] = frozenset()  # of the study's plan
    repeats_left: int = 0  # disturbed trials that may still be measured again
    warned: set[str] = field(default_factory=set, init=False)
    breaking: list[Breaking] = field(default_factory=list, init=False)

    def run(self, trial_id: int, planned: PlannedTrial) -> TrialFailure | None:
        """One attempt. Whatever happens, services are stopped and the row is closed; returns the failure if any.

        Errors of the store itself (a full disk) propagate once services are stopped.
        """
        attempt = self.begin(trial_id, planned, self.system)
        try:
            attempt.go(attempt.wait, attempt.prepare, attempt.observe)
            warm_up(self, [attempt])
            attempt.go(attempt.load, attempt.unobserve, attempt.finish, attempt.measure)
            self.again([attempt])
        finally:
            with self.interruption.shield():
                self.system.stop()
        attempt.close()
        return attempt.failure

    def again(self, attempts: Sequence[Attempt]) -> None:
        """Trials that ran together are to be measured again where others used more than the study's rule allows. Asks
        nothing of their responses.
        """
        repeat, measured = self.study.repeat, [attempt for attempt in attempts if attempt.failure is None]
        if repeat is None or self.repeats_left <= 0:
            return
        bounds = {"others_cpu": repeat.others_cpu, "steal": repeat.steal}
        worst = max((over for attempt in measured if (over := excess(attempt.use, bounds))), default="")
        if worst:
            self.repeats_left -= 1
            for attempt in measured:
                attempt.failure = TrialFailure(FailureClass.DISTURBED, worst)

    @property
    def usual(self) -> dict[str, Level]:
        """Factors at the baseline's levels."""
        factors = self.study.factors.items()
        return {name: self.knobs[name].parse(levels[0]) for name, levels in factors if name in self.knobs}

    def begin(self, trial_id: int, planned: PlannedTrial, system: System) -> Attempt:
        """A new attempt of a trial, its row marked as running."""
        number, directory = self.store.begin_attempt(trial_id, planned.block)
        self.last = Attempt(self, system, planned, trial_id, number, directory)
        return self.last

    def verify_undone(self) -> None:
        """After the host was restored: look once more at every knob that was changed and all that was made or switched
        off for a time, beside the last trial.
        """
        readings = []
        for name, original in self.originals.items():
            back = self.host.read_back(name)
            wanted = self.format(name, original)
            readings.append(Reading(name, "undone", wanted, self.format(name, back), back == original))
        for name, (was, found_now) in self.host.temporary().items():
            readings.append(Reading(name, "undone", was, found_now, was == found_now))
        wrong = [f"{r.knob} is {r.found}, it was {r.wanted}" for r in readings if not r.matches]
        try:
            if readings and self.last is not None:
                self.store.add_readings(self.last.trial, self.last.number, readings)
        finally:
            if wrong:  # matters more than a lab that cannot be written
                raise RestoreError(f"the host was not put back: {'; '.join(wrong)}")

    def format(self, name: str, level: Level) -> str:
        """A level as its knob writes it."""
        return self.knobs[name].format(level)

    def warn(self, warnings: Sequence[str]) -> None:
        for warning in warnings:
            self.watcher.message(warning)

    def warn_once(self, warnings: Sequence[str]) -> None:
        """What is so in every trial is told in the first one."""
        self.warn([warning for warning in dict.fromkeys(warnings) if warning not in self.warned])
        self.warned.update(warnings)


def excess(use: MachineUse | None, bounds: Mapping[str, float]) -> str:
    """What of the machine's figures is above its bound, and by whom; empty for nothing."""
    figures = use.figures if use else {}
    for name, bound in bounds.items():
        if figures.get(name, 0.0) > bound:
            by = f" ({', '.join(list(use.programs)[:2])})" if use and use.programs and name == "others_cpu" else ""
            return f"{name}{by} was {figures[name]:.0%}, the study allows {bound:.0%}"
    return ""


class Attempt:
    """One attempt of one trial on ``system``: ``prepare``, ``observe``, ``load``, ``unobserve``, ``finish`` and
    ``measure`` in this order, by ``go``; then its services are stopped and ``close`` is called. Trials side by side are
    taken through these parts together (``leadline.trial.run``).
    """

    def __init__(
        self, runner: TrialRunner, system: System, planned: PlannedTrial, trial: int, number: int, directory: Path
    ) -> None:
        self.runner = runner
        self.system = system
        self.planned = planned
        self.trial = trial
        self.number = number
        self.directory = directory
        self.failure: TrialFailure | None = None
        self.owners = Owners(runner.host, *system.owners())
        self.known: dict[str, Level] = {}
        self.startup = 0.0
        self.outcome: LoadOutcome | None = None
        self.changes: SlotChanges | None = None
        self.counts: Mapping[str, Mapping[str, int]] = {}  # transactions of the warm-up
        self.warmed = ""  # how it ended
        self._suspended = 0.0
        self.use: MachineUse | None = None

    def go(self, *parts: Callable[[], None]) -> None:
        """These parts in order, unless it has failed."""
        for part in parts:
            if self.failure is None:
                with self.failing():
                    self.runner.interruption.check()
                    part()

    @contextmanager
    def failing(self) -> Iterator[None]:
        """What is raised in the body is this attempt's failure."""
        try:
            yield
        except TrialFailure as error:
            self.failure = error
        except UsageError as error:  # levels that contradict each other
            self.failure = blamed(Evidence(Event.REFUSED), str(error))
        except LeadlineError as error:
            self.failure = TrialFailure(FailureClass.INFRASTRUCTURE, str(error))
        except OSError as error:
            self.failure = TrialFailure(FailureClass.INFRASTRUCTURE, f"the host failed: {error}")

    def close(self) -> None:
        """Once its services are stopped: keep what there is, close the row."""
        runner = self.runner
        with runner.interruption.shield():
            if self.failure is not None:
                # What was recorded until the failure is kept with the trial.
                runner.warn(self.system.collect(self.directory))
                self.failure = self._short_of_memory(self.failure)
            runner.store.add_artefacts(self.trial, self.number, self.directory)
            runner.store.finish(self.trial, self.number, self.failure)

    def _short_of_memory(self, failure: TrialFailure) -> TrialFailure:
        """The failure, as one of the levels where a service says that its memory is not enough: what loads it, or an
        audit, only sees that it does not answer.
        """
        says = out_of_memory(self.directory / "logs")
        named = "OutOfMemoryError" in failure.message and failure.failure_class is FailureClass.CONFIGURATION
        if not says or named or failure.failure_class in (FailureClass.INTERRUPTED, FailureClass.DISTURBED):
            return failure
        message = f"its memory was not enough ({says}): {failure.message}"
        return blamed(Evidence(Event.REFUSED), message, failure.evidence)

    @contextmanager
    def step(self, name: str, detail: str = "") -> Iterator[None]:
        """Committed to the store before the body acts."""
        self.runner.interruption.check()  # also one that something swallowed
        step = self.runner.store.begin_step(self.trial, self.number, name, detail)
        self.runner.watcher.step(name)
        yield
        self.runner.store.end_step(step)

    def wait(self) -> None:
        """For a quiet machine, where the study says so, at most as long as it says. Nothing of the study runs yet."""
        runner, wait = self.runner, self.runner.study.wait
        if wait is None:
            return
        store, waits = runner.store, list[float]()
        step = store.begin_step(self.trial, self.number, QUIET)
        runner.watcher.step(QUIET)
        recent = math.inf
        while len(waits) < wait.at_most and not recent < wait.quiet:
            runner.interruption.check()
            waits.append(runner.host.busy(1.0))
            over = waits[-math.ceil(wait.over) :]
            recent = sum(over) / len(over) if len(over) >= wait.over else math.inf
        share = sum(waits) / len(waits) if recent == math.inf else recent
        quiet = (
            f"{'quiet' if recent < wait.quiet else NOT_QUIET} after {len(waits)} s: others use {share:.0%} of the CPUs"
        )
        store.end_step(step, quiet)
        if len(waits) > wait.over:
            runner.watcher.message(f"waited for a quiet machine: {quiet}")

    def prepare(self) -> None:
        """Levels applied, services started, all read back."""
        runner, system, directory = self.runner, self.system, self.directory
        levels = {**runner.settings, **self._first_treatment().as_dict()}
        # pseudo-factors set nothing
        self.known = {name: level for name, level in levels.items() if name in runner.knobs}
        on_host = self.owners.levels(self.known, runner.host)
        in_services = {name: level for name, level in self.known.items() if name not in on_host}
        self._check_space(directory)
        self._suspended = _suspended_seconds()
        with self.step("apply", ", ".join(f"{name}={level}" for name, level in on_host.items())):
            self._apply(on_host)
        with self.step("reset"):
            system.reset(directory, self.planned.seed)
        with self.step("start-database"):
            system.start_database(in_services, directory)
        with self.step("start-server"):
            self.startup = system.start_server(in_services, directory)
        with self.step("read-back"):
            self._read("before")

    def observe(self) -> None:
        with self.step("start-observers"):
            self.system.start_observers(self.directory)
            if self.has_profile:
                self.system.profile(True)
                if self.planned.slots or self.planned.turns or self._in_part:  # it takes longer than those under load
                    self.system.profile(False)

    def load(self) -> None:
        planned = self.planned
        with self.step("load"):
            self.change_in_slots()
            if self.changes is None:
                self.outcome = self.system.load(self.directory, planned.seed, self._on_load())
            else:
                self.outcome = self._load_in_slots(self.changes)
                self.changes.finish()
                self.now_at(self.changes.found)

    @property
    def has_profile(self) -> bool:
        """Whether a profile is taken of it, at some time."""
        return any(position == self.planned.position for position, _ in self.runner.profiled)

    @property
    def _in_part(self) -> tuple[float, float] | None:
        """Seconds of the steady phase between which a profile is taken; None where it is not a part of it."""
        alone = self.has_profile and not self.planned.turns
        return middle_half(self.runner.study.workload) if alone else None

    def _on_load(self) -> Callable[[LoadSecond], None]:
        """What is told of each second of the load; a profile begins and ends with them."""
        watch, part = self.runner.watcher.load, self._in_part
        if part is None:
            return watch
        steady: list[float] = []  # seconds of it
        switches = [(part[1], False), (part[0], True)]

        def on_load(second: LoadSecond) -> None:
            watch(second)
            if second.phase == "steady":
                steady.append(second.second)
            while switches and steady and second.second - steady[0] >= switches[-1][0]:
                self.system.profile(switches.pop()[1])

        return on_load

    def _load_in_slots(self, changes: SlotChanges) -> LoadOutcome:
        def on_load(second: LoadSecond) -> None:
            self.runner.watcher.load(second)
            changes.see(second)

        planned = self.planned
        try:
            return self.system.load_in_slots(self.directory, planned.seed, on_load, planned.slots, changes.on_slot)
        except TrialFailure as failure:
            raise changes.blame(failure) or failure from failure

    def now_at(self, levels: Mapping[str, Level]) -> None:
        """Knobs that changed under the load have these levels now."""
        self.known |= levels

    def unobserve(self) -> None:
        """The load is over. Raises TrialFailure where the machine was suspended under it."""
        if (away := _suspended_seconds() - self._suspended) > 1:
            text = f"the machine was suspended for {away:.0f} s in the middle of this trial"
            raise TrialFailure(FailureClass.INFRASTRUCTURE, text)
        with self.step("stop-observers"):
            self.runner.warn_once(self.system.stop_observers())

    def finish(self) -> None:
        """Checked, stopped, recordings collected."""
        with self.step("health"):
            self.system.health()
        with self.step("audit"):
            self._audit(self.directory, self._loaded)
        with self.step("read-again"):
            self._read("after")
        with self.step("stop"):
            self.runner.warn(self.system.stop())
        with self.step("collect"):
            self.runner.warn(self.system.collect(self.directory))

    def measure(self) -> None:
        with self.step("measure"):
            measured = self.system.recording.measure(self.directory, self.startup)
            if self.changes is not None:
                from leadline.trial.slotmeasure import measure_slots  # its libraries take seconds to load

                steady, phases = measure_slots(
                    self.changes, self.system.recording, self.runner.study, self.directory, measured.phases
                )
                measured = replace(measured, steady=steady, phases=phases)
            self.keep(measured)

    @property
    def _loaded(self) -> LoadOutcome:
        assert self.outcome is not None
        return self.outcome

    def change_in_slots(self, lateness: Lateness | None = None) -> None:
        """Levels will change under the load where the plan has slots. ``lateness``: of all that run side by side."""
        runner, slots = self.runner, self.planned.slots
        if slots:
            wash_out = wash_out_of(runner.study.design)
            self.changes = SlotChanges(
                *(runner.store, self.owners, runner.watcher, runner.knobs, self.trial, self.number, slots, wash_out),
                restarts=self.system.restarts,
                lateness=lateness or Lateness(),
                usual=runner.usual,
                breaking=runner.breaking,
                limit=runner.study.limits.errors,
                profile=self.system.profile,
                profiled=frozenset(slot for trial, slot in runner.profiled if trial == self.planned.position),
            )

    def _first_treatment(self) -> Treatment:
        """Of the first slot whose levels an instance survives, or of a trial without slots."""
        slots = (slot.treatment for slot in self.planned.slots)
        survived = (at for at in slots if not any(breaking.in_(at) for breaking in self.runner.breaking))
        return next(survived, self.planned.treatment)

    def _check_space(self, directory: Path) -> None:
        free = shutil.disk_usage(directory).free
        if free < MINIMUM_FREE:
            raise TrialFailure(
                FailureClass.INFRASTRUCTURE,
                f"{free // 2**20} MiB free at {directory}: a trial may need {MINIMUM_FREE // 2**20} MiB",
            )

    def _apply(self, levels: Mapping[str, Level]) -> None:
        runner, originals = self.runner, []
        for name in levels:
            if name not in runner.originals:
                runner.originals[name] = runner.host.read_back(name)
                level_text = runner.format(name, runner.originals[name])
                originals.append(Reading(name, "original", None, level_text, True))
        runner.store.add_readings(self.trial, self.number, originals)
        self.owners.apply(levels)

    def _read(self, phase: str) -> None:
        """Read every knob in play; one that is not at its level voids the trial."""
        runner, readings = self.runner, []
        for name, wanted in self.known.items():
            try:
                back = self.owners.read_back(name)
            except NotInPlay as why:
                readings.append(Reading(name, phase, runner.format(name, wanted), f"({why})", True))
                continue
            except LookupError as error:
                raise blamed(Evidence(unanswered(error)), f"{name} cannot be read back: {error}") from error
            readings.append(
                Reading(name, phase, runner.format(name, wanted), runner.format(name, back), back == wanted)
            )
        runner.store.add_readings(self.trial, self.number, readings)
        wrong = [f"{r.knob} is {r.found}, not {r.wanted}" for r in readings if not r.matches]
        if wrong:
            moment = "before the load" if phase == "before" else "after the load"
            raise blamed(Evidence(Event.REFUSED), f"{moment} {'; '.join(wrong)}")

    def _audit(self, directory: Path, outcome: LoadOutcome) -> None:
        counts = counted(self.counts, outcome)
        results: list[AuditRecord] = [*outcome.checks, *self.system.audit(directory, counts)]
        self.runner.store.add_audits(self.trial, self.number, results)
        failed = [audit for audit in results if not audit.passed]
        if failed:
            raise blamed(
                Evidence(Event.WRONG),
                f"audit failed: {', '.join(audit.name for audit in failed)}",
                "\n".join(f"{audit.name}: {audit.detail}" for audit in failed),
            )

    def keep(self, measured: Measured, beside: Sequence[Path] = ()) -> None:
        """Store what was measured; ``beside``: directories of trials side by side.

        Raises TrialFailure where it says that the figures are not to be used.
        """
        store, limits, outcome = self.runner.store, self.runner.study.limits, self._loaded
        sentence = f"{measured.steady.sentence} Warm-up: {self.warmed}." if self.warmed else measured.steady.sentence
        store.set_steady(self.trial, replace(measured.steady, sentence=sentence), measured.phases)
        store.add_responses(self.trial, self.number, measured.responses)
        spans = under_load(self.planned, measured.phases)
        self.use = self.system.recording.machine_use(self.directory, [spans], beside)[0]
        store.add_machine_use(self.trial, self.number, self.use)
        errors = measured.responses.get("errors", 0.0)
        if errors > limits.errors and self.changes is None:  # a slot has its own limit
            raise blamed(
                Evidence(Event.WRONG),
                f"{errors:.2%} of the transactions failed; the limit is {limits.errors:.2%}",
                str({name: dict(count) for name, count in outcome.counts.items()}),
            )
        if outcome.losses and not (self.changes is not None and self.changes.failures):
            message = f"the load failed: {outcome.losses[0]}"
            raise TrialFailure(FailureClass.WORKLOAD, message, "\n".join(outcome.losses))
        if outcome.driver_was_limit:
            why = next((line for line in outcome.evidence.splitlines() if line.startswith("limit: ")), "")
            message = "the driver was the limit, so its figures are not the server's"
            raise TrialFailure(FailureClass.BOTTLENECK, f"{message}{why.replace('limit', '', 1)}", outcome.evidence)


def _suspended_seconds() -> float:
    """How long this machine has been suspended since it was booted."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) - time.clock_gettime(time.CLOCK_MONOTONIC)
