"""A tuning: settings tried one step after the other, each kept if it is confirmed, in every mode of the application."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator
from pydantic.json_schema import SkipJsonSchema

from leadline.model import study
from leadline.model.bounds import DAY, FilePath, Label, RawLevel, Seed, Strict, count, duration, number
from leadline.model.design import Rotation
from leadline.model.errors import KeyedError, did_you_mean
from leadline.model.ownstack import OrStackFile, OwnFile, named_after
from leadline.model.workload import Workload, check_budget, warmed_until_over

MODE = "app.mode"  # the knob that a tuning of several modes varies


class TuningStack(Strict):
    """As a study's stack; the mode is the tuning's."""

    app: str = "brokerage"
    server: str = "liberty"
    database: str = "postgres"
    host: study.MachineKind = "local"
    java: FilePath | None = Field(default=None, description="JAVA_HOME of the server's JVM; the one found if absent")
    own: SkipJsonSchema[OwnFile | None] = None

    @property
    def choice(self) -> study.StackChoice:
        """As the studies of its steps have it, without the mode."""
        return study.StackChoice(**dict(self))

    @property
    def title(self) -> str:
        """What runs, for people, without the modes."""
        return f"{self.app} ({self.own.title})" if self.own else f"{self.app} on {self.server} with {self.database}"

    @model_validator(mode="before")
    @classmethod
    def _named(cls, found: Any) -> Any:
        return named_after(found)


class Step(Strict):
    """Knobs that move together: the first level of each is the untuned one, the others are candidates, in step."""

    name: study.StudyName
    levels: dict[Label, study.Levels] = Field(
        min_length=1, max_length=50, description="knob: untuned level, candidates"
    )
    modes: list[study.Mode] | None = Field(
        default=None, min_length=1, description="where it is tried; everywhere if absent"
    )
    elsewhere: dict[Label, RawLevel] = Field(
        default_factory=dict, description="levels in modes where it is not tried; the untuned ones if absent"
    )
    steady: Annotated[float, duration(1, 7 * DAY)] | None = Field(
        default=None, description="of its trials; the workload's if absent"
    )
    rotation: Rotation | None = Field(default=None, description="keys that differ from the tuning's rotation")
    why: str = ""

    @property
    def candidates(self) -> int:
        return len(next(iter(self.levels.values()))) - 1

    @model_validator(mode="after")
    def _in_step(self) -> Step:
        counts = {knob: len(levels) for knob, levels in self.levels.items()}
        for knob, levels in counts.items():
            if levels < 2:
                raise KeyedError(("levels", knob), f"{knob} needs its untuned level and at least one candidate")
        if len(set(counts.values())) > 1:
            problem = ", ".join(f"{knob} {levels}" for knob, levels in counts.items())
            raise KeyedError(
                ("levels",),
                f"the knobs of step {self.name} move together, so they have as many levels each ({problem})",
            )
        for knob in self.elsewhere:
            if knob not in self.levels:
                hint = did_you_mean(knob, list(self.levels)) or f"it moves {', '.join(self.levels)}"
                raise KeyedError(
                    ("elsewhere", knob), f"elsewhere names {knob}, which step {self.name} does not move; {hint}"
                )
        rows = list(zip(*self.levels.values(), strict=True))
        for at, row in enumerate(rows):
            if any(_same(row, other) for other in rows[:at]):
                problem = ", ".join(map(str, row))
                raise KeyedError(("levels",), f"step {self.name} lists the level {problem} twice")
        return self


def _same(one: tuple[RawLevel, ...], other: tuple[RawLevel, ...]) -> bool:
    return all(a == b and type(a) is type(b) for a, b in zip(one, other, strict=True))


class Blocks(Strict):
    """Blocks of trials; in each block every configuration that is compared runs once, in random order."""

    step: Annotated[int, count(100, least=2)] = Field(
        default=3, description="of a step: the best so far against the candidates, in every mode"
    )
    confirm: Annotated[int, count(100, least=0)] = Field(
        default=3,
        description="fresh ones for a chosen candidate; 0: the last comparison, which then has every rung, confirms",
    )
    compare: Annotated[int, count(100, least=2)] = Field(
        default=4, description="of the last comparison: untuned against tuned, all modes"
    )
    rungs: bool = Field(
        default=True, description="with `confirm: 0`: every rung between untuned and tuned is compared, too"
    )

    @property
    def every_rung(self) -> bool:
        return self.rungs and not self.confirm

    @model_validator(mode="after")
    def _enough(self) -> Blocks:
        if self.confirm == 1:
            raise KeyedError(("confirm",), "confirm is 0, or two blocks and more: one block does not tell the noise")
        return self


class FactorialDesign(Strict):
    """The steps of each mode again, as two-level factors of one design, which shows their interactions."""

    kind: Literal["full-factorial", "fractional-factorial", "plackett-burman"] = "fractional-factorial"
    resolution: Annotated[int, count(8, least=3)] = 5
    foldover: bool = False
    replicates: Annotated[int, count(1_000, least=2)] = 2
    of: Literal["kept", "all"] = Field(default="kept", description="which steps; all: at their best candidate")

    @model_validator(mode="after")
    def _of_the_kind(self) -> FactorialDesign:
        if "resolution" in self.model_fields_set and self.kind != "fractional-factorial":
            raise KeyedError(("resolution",), f"{self.kind} has no resolution; fractional-factorial has it")
        if self.foldover and self.kind == "full-factorial":
            raise KeyedError(("foldover",), "full-factorial has no foldover; it has every combination already")
        return self


class PublishedBar(Strict):
    """A published result: performance before tuning relative to the reference mode, and the gain by all tuning."""

    untuned: Annotated[float, number(1e-9, 1e12)]
    gain: Annotated[float, number(-100, 1e6), BeforeValidator(lambda raw: _percent(raw))] = Field(description="percent")


class Published(Strict):
    """A published result that the report draws beside, by the same code."""

    source: study.Question
    bars: dict[study.Mode, PublishedBar] = Field(min_length=1)


def _percent(raw: object) -> object:
    """``169%`` and 169 are the same."""
    return raw.strip().removesuffix("%") if isinstance(raw, str) else raw


class Tuning(Strict):
    """A sequence of steps in a file."""

    tuning: study.StudyName = Field(description="name of the tuning")
    question: study.Question
    stack: Annotated[TuningStack, OrStackFile()] = TuningStack()
    modes: list[study.Mode] = Field(default=["orm"], min_length=1, description="the first is the reference of the bars")
    workload: Workload = Workload()
    steps: list[Step] = Field(min_length=1, max_length=100, description="in the order in which they are tried")
    skip: list[str] = Field(default_factory=list, description="names of steps that are left out")
    keep: Literal["confirmed"] = "confirmed"
    blocks: Blocks = Blocks()
    rotation: Rotation | None = Field(default=None, description="the trials of a block side by side, loaded in turns")
    factorial: FactorialDesign | None = None
    settings: dict[Label, RawLevel] = Field(default_factory=dict, description="knobs held at one level throughout")
    published: Published | None = None
    reset: study.Reset = study.Reset()
    placement: study.Placement = study.Placement()
    responses: study.Responses = Field(default=["throughput", "p50", "p90", "p99", "cpu_per_transaction"])
    limits: study.Limits = study.Limits()
    equivalence: study.Equivalence = 0.02
    seed: Seed = 1
    budget: study.Budget | None = None
    dead_man: study.DeadMan = 30.0
    ready_timeout: study.ReadyTimeout = 120.0
    observe: bool = True

    @model_validator(mode="before")
    @classmethod
    def _warm_in_a_rotation(cls, found: Any) -> Any:
        """As in a study."""
        rotates = isinstance(found, Mapping) and found.get("rotation") is not None
        return warmed_until_over(found) if rotates and found.get("observe", True) is True else found

    def rotation_of(self, step: str) -> Rotation | None:
        """How the trials of a step's parts are laid out."""
        rotation = next((step_.rotation for step_ in self.steps if step_.name == step), None)
        if self.rotation is None or rotation is None:
            return self.rotation
        return self.rotation.model_copy(update={key: getattr(rotation, key) for key in rotation.model_fields_set})

    def shares_slots(self, step: Step) -> bool:
        """Whether the trials of a step have the load and the slots of the tuning."""
        return self.rotation is not None and step.rotation is None and step.steady is None

    def workload_of(self, step: str) -> Workload:
        """The load of a step's parts."""
        steady = next((step_.steady for step_ in self.steps if step_.name == step), None)
        return self.workload if steady is None else self.workload.model_copy(update={"steady": steady})

    @model_validator(mode="after")
    def _consistent(self) -> Tuning:
        check_budget(self.workload, self.budget)
        for at, step in enumerate(self.steps):
            if step.rotation is not None and self.rotation is None:
                raise KeyedError(
                    ("steps", at, "rotation"), f"step {step.name} has keys of a rotation, and the tuning has none"
                )
        if len(set(self.modes)) < len(self.modes):
            raise KeyedError(("modes",), f"modes lists one twice: {', '.join(self.modes)}")
        names = [step.name for step in self.steps]
        if len(set(names)) < len(names):
            at = next(at for at, name in enumerate(names) if name in names[:at])
            raise KeyedError(("steps", at), f"two steps are named {names[at]}")
        for at, name in enumerate(self.skip):
            if name not in names:
                hint = did_you_mean(name, names) or f"the steps are {', '.join(names)}"
                raise KeyedError(("skip", at), f"skip names {name}, which is no step; {hint}")
        owner: dict[str, str] = {}
        for at, step in enumerate(self.steps):
            for knob in () if step.name in self.skip else step.levels:
                path = ("steps", at, "levels", knob)
                if knob in owner:
                    problem = f"{knob} is in the steps {owner[knob]} and {step.name}; keep it in one of them"
                    raise KeyedError(path, problem)
                if knob in self.settings:
                    raise KeyedError(path, f"{knob} is held under settings and moved by the step {step.name}")
                if knob == MODE:
                    raise KeyedError(path, f"{MODE} is no knob of a step: name the modes under `modes`")
                owner[knob] = step.name
        if MODE in self.settings:
            raise KeyedError(("settings", MODE), f"{MODE} is not set: name the mode under `modes`")
        return self
