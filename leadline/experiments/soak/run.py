"""A soak: one trial without factors whose load lasts for hours or days, and which goes on where it was cut off.

Each attempt of the trial is a stretch: the stack is started, loaded until the record is full, audited and stopped.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from leadline.checks.files.stack import is_stack_file
from leadline.checks.files.study import StudyFile, find_study, option_of, parse_study
from leadline.checks.plan import Planned
from leadline.conclude.soak import SoakAnswer, conclude_soak
from leadline.experiments.soak.record import FILE, LOOKS, Alarms, SoakRecord, Watch, evened, read_record
from leadline.experiments.soak.system import SoakSystem
from leadline.host.base import TrialHost
from leadline.host.textfile import expanded
from leadline.load.scenario import built_in_scenarios, find_scenario
from leadline.model.design import Design
from leadline.model.errors import FailureClass, UsageError, did_you_mean, quoted
from leadline.model.plan import Plan, PlannedTrial, Role
from leadline.model.record import LoadSecond, TrialRecord
from leadline.model.soak import LOG_BYTES, LONGEST, SHORTEST, SoakTimes
from leadline.model.units import format_duration, parse_duration
from leadline.places.testbed import LocalTestbed
from leadline.store.lab import Store
from leadline.trial.lifecycle import MINIMUM_FREE
from leadline.trial.progress import Watcher
from leadline.trial.run import StudyRun

USERS = 10  # where nothing says how much load
_PSEUDO = "soak"
_QUESTION = "Does the stack degrade under a long load?"
_ONCE = ("profile", "bursts", "replay", "generator", "speed")  # of a load: told for one run of the driver


def soak_times(text: str) -> SoakTimes:
    """Raises UsageError."""
    try:
        seconds = parse_duration(text)
    except ValueError as error:
        raise UsageError(f"{option_of('--for', text)}: {error}") from None
    if not SHORTEST <= seconds <= LONGEST:
        sentence = f"a soak lasts {format_duration(SHORTEST)} to {LONGEST / 86400:.0f} days"
        raise UsageError(f"{option_of('--for', text)}: {sentence}")
    return SoakTimes.of(float(round(seconds)))


def soak_file(subject: str, overrides: Sequence[str] = ()) -> StudyFile:
    """The study of a scenario on its default stack, of a stack file, or of a study's baseline. Raises UsageError."""
    loaded = any(re.match(r"workload\.(users|rate|preset|clients)\b", override.strip()) for override in overrides)
    load = "" if loaded else f"users: {USERS}, "
    if is_stack_file(subject):
        name = _slug(expanded(subject).name.split(".")[0])
        text = f"study: {name}\nquestion: {_QUESTION}\nstack: {expanded(subject).absolute()}\n"
        return parse_study(f"{text}workload: {{ {load}ramp_up: 10s }}\n{_PSEUDO_FACTOR}", subject, overrides)
    scenario = _scenario(subject)
    if scenario is not None:
        app = "dealership" if scenario.stem.startswith("dealership") else "brokerage"
        text = f"study: {_slug(scenario.stem)}\nquestion: {_QUESTION}\nstack: {{ app: {app} }}\n"
        word = subject if subject in built_in_scenarios() else str(scenario)
        workload = f"workload: {{ scenario: {word}, {load}ramp_up: 10s }}\n"
        return parse_study(text + workload + _PSEUDO_FACTOR, subject, overrides)
    try:
        return find_study(subject, overrides)
    except UsageError as error:
        if "no study file" not in str(error):
            raise
        hint = did_you_mean(subject, [*built_in_scenarios()]) or f"scenarios: {', '.join(built_in_scenarios())}"
        sentence = f"{quoted(subject, 200)} is no scenario, stack file or study; {hint}"
        raise UsageError(sentence) from None


_PSEUDO_FACTOR = f"pseudo_factors: {{ {_PSEUDO}: [a, b] }}\n"


def _scenario(subject: str) -> Path | None:
    if subject in built_in_scenarios():
        return find_scenario(subject)
    path = expanded(subject)
    if not path.is_file():
        return None
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    return find_scenario(subject) if re.search(r"^transactions:", text, re.MULTILINE) else None


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "soak"


@dataclass(frozen=True)
class SoakPlan:
    """What would be run. ``left_out``: factors whose baseline cannot be set here."""

    file: StudyFile
    planned: Planned
    times: SoakTimes
    left_out: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.file.study.study

    def lines(self, directory: Path) -> list[str]:
        """The dry run."""
        study, times = self.file.study, self.times
        load = study.workload
        how = f"{load.users} users" if load.users is not None else f"{load.rate:g} sessions a second"
        settings_text = ", ".join(
            f"{name} = {self.planned.knobs[name].format(level)}" for name, level in self.planned.settings.items()
        )
        return [
            f"soak {self.name}: {study.stack.title}, {load.scenario}, {how}, {format_duration(times.seconds)} of load",
            *([f"settings: {settings_text}"] if settings_text else []),
            *(f"left out: {reason}" for reason in self.left_out),
            f"checkpoint every {format_duration(times.segment)}, intervals of {format_duration(times.interval)}; after "
            "a day by the hour",
            f"interim verdict for alarms every {format_duration(times.seconds / LOOKS)}",
            f"leadline's own files take at most {times.bytes_bound / 2**20:.0f} MiB, and each log of the stack "
            f"{1.5 * LOG_BYTES / 2**20:.0f} MiB; what the stack itself stores is watched, not bounded: the soak ends "
            f"below {MINIMUM_FREE >> 20} MiB of free disk",
            f"kept in {directory}",
            *self.planned.warnings,
        ]


def plan_soak(file: StudyFile, times: SoakTimes, place: LocalTestbed) -> SoakPlan:
    """One trial of the study's baseline. Raises UsageError with file and line."""
    study = file.study
    if not study.under_load or study.stack.url is not None:
        does = "times a command" if study.command else "loads a server that runs already"
        raise UsageError(f"{file.source}: a soak needs a stack that it starts, and {study.study} {does}")
    if study.drivers:
        raise UsageError(f"{file.where(('drivers',))}: a soak is driven from this host alone: leave drivers out")
    for key in _ONCE:
        if getattr(study.workload, key) not in (None, 1.0):
            raise UsageError(f"{file.where(('workload', key))}: a soak has the same load throughout: leave {key} out")
    whole = place.plan(file)
    on_host = {name: place.host.writable(name) for name in whole.of_host}
    levels = {name: level for name, level in whole.plan.baseline.as_dict().items() if not name.startswith("load.")}
    pseudo = {factor.name for factor in whole.plan.factors if factor.pseudo}
    left_out = tuple(f"{name}: {on_host[name]}" for name in levels if on_host.get(name))
    levels_ = {name: level for name, level in levels.items() if name not in pseudo and not on_host.get(name)}
    workload = study.workload.model_copy(update={"warm_up": None, "steady": 60.0, "ramp_down": 0.0})
    model_copy = study.model_copy(
        update={
            "study": study.study if study.study.startswith("soak-") else f"soak-{study.study}"[:100],
            "settings": {**study.settings, **levels_},
            "factors": {},
            "baseline": {},
            "pseudo_factors": {_PSEUDO: ["a", "b"]},
            "pseudo_apply_costs": {},
            "design": Design(),
            "workload": workload,
            "covariates": [],
            "repeat": None,
            "wait": None,
            "confirms": None,
            "budget": None,
            "observe": True,
        }
    )
    soak_study = replace(file, study=model_copy)
    planned = place.plan(soak_study)
    trial = PlannedTrial(0, 0, 0, Role.BASELINE, planned.plan.baseline, planned.plan.seed)
    plan = Plan(planned.plan.kind, planned.plan.seed, planned.plan.factors, (trial,))
    return SoakPlan(soak_study, replace(planned, plan=plan), times, left_out)


@dataclass(frozen=True)
class SoakEnded:
    """``number``: of the soak in its folder of the lab. ``restored``: what was put back; ``stopped``: why it ended
    before its time.
    """

    number: int
    answer: SoakAnswer
    record: SoakRecord
    restored: Sequence[str] = ()
    stopped: str = ""


@dataclass
class SoakRun:
    """Runs a soak on this host, or goes on with it."""

    plan: SoakPlan
    place: LocalTestbed
    alarms: Alarms
    number: int = field(default=0, init=False)

    def execute(self, fresh: bool = False) -> SoakEnded:
        """Raises as ``StudyRun.execute``."""
        store, message = self.place.store, self.place.watcher.message
        watch = Watch(self.alarms, self.plan.file.study.limits.errors, message)
        without = self.plan.file.study.model_copy(update={"profile": "off"})
        system = SoakSystem(without, self.place.host, store.directory, watch)

        def opened(number: int) -> None:
            self.number = number
            system.record = self._record(store, number)
            self._recover(store, number, system)

        host: TrialHost = self.place.host
        watcher = _SoakWatcher(self.place.watcher, self.plan.times)
        run = StudyRun(
            *(self.plan.file, self.plan.planned, store, host, system, watcher, self.place.host.guard), opened=opened
        )
        ended = run.execute(fresh)
        answer = answer_of(store, ended.study_id)
        return SoakEnded(ended.study_id, answer, system.record, ended.restored, ended.stopped)

    def _record(self, store: Store, number: int) -> SoakRecord:
        path = record_path(store, number)
        try:
            record = read_record(path)
        except FileNotFoundError:
            return SoakRecord(path, self.plan.times)
        record.times = replace(record.times, seconds=self.plan.times.seconds)
        return record

    def _recover(self, store: Store, number: int, system: SoakSystem) -> None:
        """What a leadline that was cut off had measured since its last checkpoint."""
        record, trial = system.record, store.load_trial(number, 0)
        if record.begun == 0 or trial.directory is None:
            return
        recover = system.recover(trial.directory, record.begun - 1)
        self.place.watcher.message(
            f"soak {number} goes on: {format_duration(record.measured)} of {format_duration(record.times.seconds)} are "
            f"measured{f', {recover} intervals of them recovered from raw files' if recover else ''}"
        )


def record_path(store: Store, number: int) -> Path:
    return store.directory / "records" / str(number) / FILE


def answer_of(store: Store, number: int) -> SoakAnswer:
    """The verdict on what there is of a soak. Raises UsageError where nothing was measured."""
    try:
        record = read_record(record_path(store, number))
    except FileNotFoundError:
        raise UsageError(f"soak {number} has measured nothing yet") from None
    failure = failure_of(store.load_trial(number, 0))
    return conclude_soak(record.intervals, evened(record.intervals), record.times, record.ends, failure, record.notes)


def failure_of(trial: TrialRecord) -> str:
    """What ended it before its time; an interruption is no failure."""
    if trial.failure in (None, FailureClass.INTERRUPTED):
        return ""
    return f"{trial.failure_message} ({trial.failure.value if trial.failure else ''})"


class _SoakWatcher:
    """Tells of a soak what a watcher tells of trials."""

    def __init__(self, watcher: Watcher, times: SoakTimes) -> None:
        self._watcher, self._times = watcher, times

    def message(self, text: str) -> None:
        self._watcher.message(text)

    def study(self, study_id: int, plan: Plan, done: int, seconds_left: float) -> None:  # noqa: ARG002
        self.message(f"soak {study_id}: {format_duration(self._times.seconds)} of load")

    def trial(self, planned: PlannedTrial, attempt: int, label: str, seconds_left: float) -> None:  # noqa: ARG002
        self.message("starting the stack" if attempt == 1 else f"starting the stack again (attempt {attempt})")

    def step(self, name: str) -> None:
        self._watcher.step(name)

    def load(self, second: LoadSecond) -> None:
        self._watcher.load(second)

    def trial_ended(self, record: TrialRecord) -> None:
        if record.failure:
            self.message(f"ended ({record.failure.value}): {record.failure_message}")
