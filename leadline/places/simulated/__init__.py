"""A simulated server and host in virtual time: a study whose truth is known.

``read_truth(path)`` reads a truth file; ``SimulatedTestbed`` runs whole studies on it with the real
store; ``simulate_observations(plan, truth, workload, seed)`` yields the observations alone, thousands of trials a
second; ``rates(...)`` tells how often the analysis of such studies is right.
docs/concepts/simulation.md explains the model.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import nullcontext
from functools import cached_property
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from ruamel.yaml.comments import CommentedMap

from leadline.catalogue import load
from leadline.checks.files.study import StudyFile
from leadline.checks.plan import Planned, plan_study
from leadline.checks.subject import study_catalogue
from leadline.host.knobs import every_knob
from leadline.host.textfile import read_text
from leadline.model.errors import UsageError, did_you_mean, quoted, shortened, wanted
from leadline.model.knob import Knob
from leadline.model.ownparts import knob_of
from leadline.model.record import StudyRecord
from leadline.model.yamltext import Places, line_of, load_yaml, plain
from leadline.places.simulated.host import SimulatedHost
from leadline.places.simulated.model import Model, Truth, bound
from leadline.places.simulated.observations import Rates, host_name, host_of_block, rates, simulate_observations
from leadline.places.simulated.system import SimulatedSystem
from leadline.places.simulated.timing import EPOCH, VirtualClock, taken
from leadline.places.testbed import RunOptions
from leadline.store.lab import Store
from leadline.trial.progress import SilentWatcher, Watcher
from leadline.trial.run import RunResult, StudyRun

# Truth files: YAML to a Truth, every error with file, line, what is wrong and the nearest valid choice.


def read_truth(path: Path) -> Truth:
    """A truth file. Raises UsageError."""
    return parse_truth(read_text(path), str(path))


def parse_truth(text: str, source: str) -> Truth:
    """A Truth from YAML text: its one key is ``truth``. Raises UsageError with ``source:line``."""
    tree = load_yaml(text, source)
    if not isinstance(tree, CommentedMap) or "truth" not in tree:
        raise UsageError(f"{source}:1: a truth file is a mapping that starts with `truth:`")
    for key in tree:
        if key != "truth":
            raise UsageError(
                f"{source}:{line_of(tree, [key])}: unknown key {quoted(key)}; a truth file has the one key truth"
            )
    try:
        return Truth.model_validate(plain(tree["truth"], Places(source, tree)) or {})
    except ValidationError as error:
        raise UsageError("\n".join(dict.fromkeys(_sentences(error, tree, source)))) from error


def _sentences(error: ValidationError, tree: CommentedMap, source: str) -> list[str]:
    sentences = []
    for problem in error.errors():
        path: list[str | int] = ["truth", *problem["loc"]]
        place = f"{source}:{line_of(tree, path)}"
        name = ".".join(shortened(str(part)) for part in path)
        if problem["type"] == "extra_forbidden":
            keys = _keys_at(problem["loc"][:-1])
            hint = did_you_mean(str(path[-1]), keys) or f"keys here: {', '.join(keys)}"
            sentences.append(f"{place}: unknown key {quoted(str(path[-1]))}; {hint}")
        elif problem["type"] == "missing":
            sentences.append(f"{place}: the key {name!r} is missing")
        else:
            text = shortened(json.dumps(problem["input"], default=str))
            sentences.append(f"{place}: {name}: {wanted(problem)} (found {text})")
    return sentences


def _keys_at(path: Sequence[str | int]) -> list[str]:
    model: Any = Truth
    for part in path:
        if isinstance(part, int):
            continue
        fields = getattr(model, "model_fields", {})
        field_name = next((field for name, field in fields.items() if part in (name, field.alias)), None)
        if field_name is None:
            return []
        model = next(
            (kind for kind in (field_name.annotation, *get_args(field_name.annotation)) if _is_model(kind)),
            field_name.annotation,
        )
    return [field.alias or name for name, field in getattr(model, "model_fields", {}).items()]


def _is_model(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)


# Keys of the workload that change what arrives when, and why the model has nothing to offer for them.
_NOT_SIMULATED = {
    "generator": "no other load generator runs in a simulation: leave it out, and write `users` or `rate`",
    "replay": "the simulated server has one load throughout, no recording: write `arrivals: poisson` and `rate`",
    "profile": "the simulated server has one load throughout, no profile: write `users` or `rate`",
    "bursts": "the simulated server has one load throughout, no bursts: leave it out; `rate` is then that of all time",
}


def check_simulated(file: StudyFile) -> None:
    """Raises UsageError for a load that the model cannot bear, at its line."""
    workload = file.study.workload
    for key, why in _NOT_SIMULATED.items():
        if getattr(workload, key) is not None:
            raise UsageError(f"{file.where(('workload', key))}: workload.{key}: {why}")
    if workload.arrivals == "replay":
        raise UsageError(f"{file.where(('workload', 'arrivals'))}: {_NOT_SIMULATED['replay']}")
    if file.study.drivers:
        raise UsageError(
            f"{file.where(('drivers',))}: a simulation has one driver (`driver.capacity` of the truth file says what "
            "it can do): leave `drivers` out"
        )


class SimulatedTestbed:
    """A host where every knob can be set, with a known truth and one clock; every attempt draws noise of its own.

    ``lab`` should hold simulated studies only. Knobs that are None are those of every host, guests too, and of each
    study's stack.
    ``source`` is the name of the truth's file in messages.
    """

    def __init__(
        self,
        truth: Truth,
        lab: Path,
        watcher: Watcher | None = None,
        disposable: bool = False,
        service_knobs: Sequence[Knob] | None = None,
        host: Sequence[Knob] | None = None,
        source: str = "truth",
    ) -> None:
        self.watcher = watcher or SilentWatcher()
        self.disposable = disposable
        self.directory = lab
        self._truth, self._source = truth, source
        self._service_knobs = service_knobs
        self._host_knobs = [*every_knob(), *load("guest").values()] if host is None else list(host)
        self._clock = VirtualClock()
        self._origin, self._attempts = EPOCH, 0
        self.host = SimulatedHost(self._host_knobs, self._clock)

    @cached_property
    def store(self) -> Store:
        return Store(self.directory, now=self._clock.now)

    def knobs(self, file: StudyFile) -> list[Knob]:
        names = {knob.name for knob in self._host_knobs}
        if declared := [knob_of(name, knob) for name, knob in file.study.host_knobs.items() if name not in names]:
            self._host_knobs += declared
            self.host = SimulatedHost(self._host_knobs, self._clock)
        return study_catalogue(file) if self._service_knobs is None else list(self._service_knobs)

    def now(self) -> float:
        """Unix seconds of virtual time."""
        return self._clock.now()

    def bound(self, file: StudyFile, planned: Planned) -> Truth:
        """The truth of this study. Raises UsageError where it names what the study or the catalogue does not know."""
        knobs = {knob.name: knob for knob in (*self._host_knobs, *self.knobs(file))}
        return bound(self._truth, planned.plan.factors, knobs, self._source)

    def plan(self, file: StudyFile, idle_settings: bool = False) -> Planned:
        """Raises UsageError as planning on a real host does, and for a load that is not simulated."""
        check_simulated(file)
        knobs = self.knobs(file)
        return plan_study(file, self.host, knobs, self.disposable, idle_settings)

    def run(self, file: StudyFile, planned: Planned, options: RunOptions) -> RunResult:
        """Raises UsageError as ``bound`` and ``plan``."""
        check_simulated(file)
        bound = self.bound(file, planned)
        before, existing = 0, options.go_on
        if existing is None and not options.fresh:
            existing = self.store.unfinished(file.study)
        if existing is not None:
            record = self.store.load(existing)
            before = _attempts([record])
            if options.go_on is None:
                self.resume(record.created, [record])
        knobs = {knob.name: knob for knob in (*self._host_knobs, *self.knobs(file))}
        baseline = {factor.name: factor.baseline for factor in planned.plan.factors if not factor.pseudo}

        def others(moment: float) -> float:
            return float(taken(bound, bound.seed, moment - self._origin, [(0.0, {})], 1)[0])

        host = SimulatedHost(self._host_knobs, self._clock, bound.silent, baseline, others)
        host_of = host_of_block(bound)
        hosts = {trial.seed: at for trial in planned.plan.trials if (at := host_of(trial.block)) is not None}
        system = SimulatedSystem(
            *(file.study, bound, host, knobs), kept=baseline, origin=self._origin, attempts=self._attempts, hosts=hosts
        )
        self.store.claims.host_of = lambda block: host_name(host_of(block))
        run = StudyRun(
            *(file, planned, self.store, host, system, self.watcher, lambda _: nullcontext(), self._clock.now),
            budget=options.budget,
            give_up=options.give_up,
            opened=options.opened,
            part=options.part,
        )
        result = run.execute(options.fresh, options.go_on)
        self._attempts += _attempts([self.store.load(result.study_id)]) - before
        return result

    def resume(self, created: float, studies: Sequence[StudyRecord]) -> None:
        """Sets the clock to where they left off."""
        trials = [trial for study in studies for trial in study.trials]
        moments = [moment for trial in trials for moment in (trial.started, trial.ended) if moment is not None]
        self._clock.sleep_until(round(max([created, *moments]) * 1e9))
        self._origin, self._attempts = created, _attempts(studies)


def _attempts(studies: Sequence[StudyRecord]) -> int:
    return sum(trial.attempt for study in studies for trial in study.trials)


__all__ = [
    "Model",
    "Rates",
    "SimulatedTestbed",
    "Truth",
    "bound",
    "parse_truth",
    "rates",
    "read_truth",
    "simulate_observations",
]
