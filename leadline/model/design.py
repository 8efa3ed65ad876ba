"""How the trials of a study are chosen, laid out and ordered, as a study file says it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, get_args

from pydantic import Field, model_validator

from leadline.model.bounds import DAY, Label, OrWord, RawLevel, Seed, Strict, count, duration, number
from leadline.model.errors import KeyedError
from leadline.model.guest import MOST_WORLDS, check_forks, forked

# Kinds of design: each a module of its name in leadline/design.
TreatmentsName = Literal[
    "one-at-a-time",
    "full-factorial",
    "fractional-factorial",
    "plackett-burman",
    "definitive-screening",
    "d-optimal",
    "within-each",
    "confirmation",
    "configurations",
]
DesignName = Literal[TreatmentsName, "forks"]
# Layouts: each a module of its name in leadline/layouts, but for plain and forks also a key of a design.
LayoutName = Literal["plain", "rotation", "switchback", "forks"]
_RACING = "racing was removed in 0.2.0: write one-at-a-time with `looks: watched`, or a tuning"
_DUET = "duet was removed in 0.2.0: write rotation, or switchback for levels that change in the running system"


class Switchback(Strict):
    """Live knobs change every few seconds inside one warm trial; all other factors change between trials."""

    slot: Annotated[float, duration(1, DAY)] = Field(default=10.0, description="how long one level is held")
    wash_out: Annotated[float, duration(0, DAY)] | None = Field(
        default=None, description="start of every slot that is left out; estimated from the data if absent"
    )
    order: Literal["random-blocks", "williams", "abba"] = "random-blocks"


class Rotation(Strict):
    """All trials of a block are started together, and the load goes round these warm instances in short slots."""

    slot: Annotated[float, duration(2, DAY)] = Field(default=4.0, description="how long the load stays at one instance")
    wash_out: Annotated[float, duration(0, DAY)] = Field(
        default=1.0, description="start of every slot that is left out"
    )
    instances: Annotated[int, count(100)] = Field(
        default=1, description="of each treatment side by side: so many replicates make one block"
    )
    warm_up_slot: Annotated[float, duration(1, DAY)] = Field(
        default=5.0, description="the same during the ramp-up: its load comes in cycles of load and pause"
    )
    idle: Annotated[float, number(0.01, 1_000)] = Field(
        default=0.25,
        description="CPUs that all the other instances together may use in a slot; where they use more it is left out",
    )
    otherwise: Literal["refuse", "one-by-one"] = Field(
        default="refuse", description="where memory is too small: instances run one after the other"
    )
    live: Literal["in-slots", "between-instances"] = Field(
        default="in-slots", description="where live factors differ; between-instances: as factors that need a restart"
    )
    host: Literal["as-others", "between-rotations"] = Field(
        default="as-others",
        description="where factors of the whole host differ; between-rotations: all side by side have one level",
    )


Looks = Annotated[
    Literal["watched"] | int, OrWord("watched", Annotated[int, count(1_000)], "a whole number from 1 to 1,000")
]


class Design(Strict):
    """How the trials are chosen and ordered."""

    kind: DesignName = "one-at-a-time"
    replicates: Annotated[int, count(1_000)] = 3
    blocks: Literal["by-replicate", "incomplete", "latin", "williams", "abba"] = "by-replicate"
    block_size: Annotated[int, count(1_000, least=2)] | None = Field(
        default=None, description="trials of an incomplete block"
    )
    resolution: Annotated[int, count(8, least=3)] = Field(
        default=4, description="of a fractional factorial: 3, 4, 5 ..."
    )
    foldover: bool = Field(default=False, description="add the mirror image of a two-level screening design")
    runs: Annotated[int, count(10_000, least=2)] | None = Field(
        default=None, description="treatments of a D-optimal design"
    )
    model: Literal["main-effects", "interactions"] = Field(
        default="main-effects", description="what a D-optimal design must be able to estimate"
    )
    configurations: dict[Label, dict[Label, RawLevel]] = Field(
        default_factory=dict,
        max_length=100,
        description="of the kind of this name: name: levels of the factors that are not at their baseline",
    )
    each: Label | None = Field(
        default=None, description="of within-each: the factor within each level of which the others change"
    )
    switchback: Switchback | None = None
    rotation: Rotation | None = Field(default=None, description="the trials of a block side by side, loaded in turns")
    worlds: Annotated[int, count(MOST_WORLDS)] | None = Field(
        default=None, description="of forks: guests booted with seeds of their own, each forked under every treatment"
    )
    of: TreatmentsName | None = Field(
        default=None, description="of forks: the kind of their treatments; one-at-a-time if absent"
    )
    looks: Looks = Field(
        default=1,
        description="times the study is looked at; more than one may end it early; watched: at any moment",
    )
    alpha: Annotated[float, number(1e-9, 0.5)] = Field(
        default=0.05, description="of looks: watched, the share of studies without an effect that call one"
    )
    sentinels: Annotated[int, count(10_000)] | None = Field(
        default=6,
        description="a baseline trial is added wherever more than so many trials would pass without one; null for none",
    )
    seed: Seed = 1

    @model_validator(mode="before")
    @classmethod
    def _forked(cls, design: Any) -> Any:
        if not isinstance(design, Mapping):
            return design
        if design.get("kind") == "racing":
            raise KeyedError(("kind",), _RACING)
        if design.get("duet") is not None:
            raise KeyedError(("duet",), _DUET)
        return forked({key: value for key, value in design.items() if key != "duet"})

    @model_validator(mode="after")
    def _of_its_kind(self) -> Design:
        if self.alpha != 0.05 and self.looks != "watched":
            raise KeyedError(("alpha",), "alpha is of `looks: watched`: write that, or leave alpha out")
        check_forks(self)
        return self

    @property
    def treatments(self) -> TreatmentsName:
        """The kind that chooses the treatments."""
        return (self.of or "one-at-a-time") if self.kind == "forks" else self.kind

    @property
    def layout(self) -> LayoutName:
        """How the trials stand in time."""
        if self.kind == "forks":
            return "forks"
        return next((name for name in get_args(LayoutName) if getattr(self, name, None) is not None), "plain")

    @property
    def looked_at(self) -> bool:
        """Whether there are analyses before the end that may end the study."""
        return self.looks != 1
