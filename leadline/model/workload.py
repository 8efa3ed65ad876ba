"""What the load driver, or another generator, does in a trial, as a study file says it."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema, model_validator

from leadline.model.bounds import (
    DAY,
    HOUR,
    MOST_RATE,
    MOST_USERS,
    FilePath,
    Label,
    RawLevel,
    Strict,
    count,
    duration,
    number,
)
from leadline.model.errors import KeyedError
from leadline.model.knob import Kind, Knob, Level
from leadline.model.shapes import PresetName, check_addresses, check_bursts, check_profile, expand, http_word
from leadline.model.units import format_duration

Arrivals = Annotated[
    Literal["closed", "constant", "poisson", "replay"],
    BeforeValidator(lambda word: "poisson" if word == "open" else word),
]
Http = Annotated[
    Literal["auto", "1.1", "2"],
    BeforeValidator(http_word),
    WithJsonSchema({"enum": ["auto", 1.1, "1.1", 2, "2"], "default": "auto"}),
]
GeneratorName = Literal[
    "wrk",
    "httperf",
    "oha",
    "k6",
    "jmeter",
    "gatling",
    "lines",
]
IN_NO_CYCLES = ("profile", "bursts", "replay", "generator")  # loads that come in no cycles
DRIVER_START = 2.0  # seconds that a cycle's driver takes to start
AFTER_WARM_UP = 5.0  # seconds of ramp-up that `auto` stands for


def _words(options: object) -> object:
    """A list of words from one text, as a shell splits it."""
    return shlex.split(options) if isinstance(options, str) else options


class Generator(Strict):
    """Another load generator in place of leadline-load, run on its own script (docs/guides/generators.md)."""

    name: GeneratorName
    script: FilePath | None = Field(default=None, description="the tool's own script, plan or simulation class")
    options: Annotated[list[str], BeforeValidator(_words)] = Field(
        default_factory=list, description="passed to the tool; ${url}, ${seconds} and ${seed} are filled in"
    )
    program: FilePath | None = Field(
        default=None, description="path of the tool, or its home; found on the PATH if absent"
    )


class WarmUp(Strict):
    """Load before that of a trial, in cycles of load and, where wanted, pause."""

    load: Annotated[float, duration(2, DAY)] = Field(default=10.0, description="of each cycle and instance")
    pause: Annotated[float, duration(0, HOUR)] = Field(default=0.0, description="after it, without any load")
    cycles: Annotated[int, count(1_000)] = Field(default=12, description="at most, or with `until: cycles` exactly")
    until: Literal["steady", "cycles"] = Field(
        default="steady", description="steady: over once a cycle is no faster than those before and the compiler rests"
    )

    def seconds(self, instances: int, cycles: int) -> float:
        """Load and pauses of so many cycles, with so many instances loaded in turns."""
        return cycles * (self.load * instances + self.pause)


def _auto(found: object) -> dict[str, Any] | object:
    """``ramp_up: auto`` is short for a warm-up that ends by rule, and a ramp-up in which the users come back."""
    if not isinstance(found, Mapping) or found.get("ramp_up") != "auto":
        return found
    return {"warm_up": {}, **found, "ramp_up": AFTER_WARM_UP}


class Workload(Strict):
    """What the driver does. ``users`` drive closed arrivals, ``rate`` (sessions a second) open ones.

    ``arrivals: open`` is short for ``poisson``. ``profile``, ``bursts`` and ``replay`` as the driver's options of
    these names (docs/reference/load.md).
    """

    scenario: FilePath = "brokerage-classic"
    preset: PresetName | None = Field(default=None, description="a load in the shape of a known tool")
    arrivals: Arrivals = "closed"
    users: Annotated[int, count(MOST_USERS)] | None = None
    rate: Annotated[float, number(1e-3, MOST_RATE)] | None = None
    clients: Annotated[int, count(MOST_USERS)] | None = Field(default=None, description="of the preset clients-threads")
    threads: Annotated[int, count(MOST_USERS)] | None = Field(
        default=None, description="of each client of the preset clients-threads"
    )
    profile: Annotated[str | None, BeforeValidator(check_profile)] = Field(
        default=None, description="rate or users over time, instead of them: `0s:10,60s:100`"
    )
    bursts: Annotated[str | None, BeforeValidator(check_bursts)] = Field(
        default=None, description="open arrivals only while on: `2s/3s`, `random:2s/3s`"
    )
    replay: FilePath | None = Field(default=None, description="file of recorded arrival times, for `arrivals: replay`")
    speed: Annotated[float, number(1e-3, 1e3)] = Field(default=1.0, description="how fast a recording is played")
    source_address: Annotated[str | None, BeforeValidator(check_addresses)] = Field(
        default=None, description="addresses to connect from, in turn: `127.0.0.2-127.0.0.9`"
    )
    http: Http = Field(
        default="auto",
        description="auto (1.1, over TLS what the server prefers), 1.1, or 2 (without TLS with prior knowledge)",
    )
    requests_per_connection: Annotated[int, count(2**32 - 1)] | None = Field(
        default=None, description="a connection is closed after so many; 1 is one for each request"
    )
    connections: Literal["session", "shared"] = Field(
        default="session",
        description="session: each has its own; shared: a pool of all, as behind a proxy (HTTP/1.1 unless `http: 2`)",
    )
    max_connections: Annotated[int, count(1_000_000)] | None = Field(
        default=None, description="of `connections: shared`: most at once; requests wait for one"
    )
    generator: Annotated[
        Generator | None, BeforeValidator(lambda found: {"name": found} if isinstance(found, str) else found)
    ] = Field(default=None, description="another load generator: its name, or name, script, options, program")
    cpu_latency: Annotated[float, duration(0, 1)] | None = Field(
        default=None,
        description="while load is driven no CPU of that host enters an idle state that takes longer to leave; 0: none",
    )
    grid: Annotated[float, duration(1e-6, 1)] | None = Field(
        default=None,
        description="starts are planned at multiples of this, so that several share a wake-up of the driver",
    )
    load_units: Annotated[int, count(1_000)] = Field(
        default=1, description="scales the data: accounts, instruments, holdings"
    )
    ramp_up: Annotated[
        float,
        duration(0, DAY),
        WithJsonSchema({"type": ["string", "number"], "examples": ["20s", "auto"], "default": 10.0}),
    ] = 10.0
    warm_up: WarmUp | None = Field(default=None, description="load before that of the trial (`ramp_up: auto`)")
    steady: Annotated[float, duration(1, 7 * DAY)] = 30.0
    ramp_down: Annotated[float, duration(0, DAY)] = 2.0
    max_sessions: Annotated[int, count(MOST_USERS)] = Field(default=1000, description="hard cap on sessions in flight")
    timeout: Annotated[float, duration(1e-3, HOUR)] = 10.0
    variables: dict[Label, RawLevel] = Field(
        default_factory=dict, max_length=100, description="parameters of the scenario, such as `think: 100ms`"
    )

    @model_validator(mode="before")
    @classmethod
    def _preset(cls, found: Any) -> Any:
        return _auto(expand(found)) if isinstance(found, Mapping) else found

    @property
    def before_steady(self) -> float:
        """Seconds before the steady state of one trial, at most."""
        return self.ramp_up + self.warm_up_seconds()

    def warm_up_seconds(self, instances: int = 1) -> float:
        """The longest that a warm-up takes, with so many instances loaded in turns."""
        warm = self.warm_up
        return warm.seconds(instances, warm.cycles) + warm.cycles * (self.ramp_down + DRIVER_START) if warm else 0.0

    @property
    def warming(self) -> Workload:
        """The load of one cycle of the warm-up."""
        assert self.warm_up is not None
        return self.model_copy(update={"ramp_up": 0.0, "steady": self.warm_up.load, "warm_up": None})

    @model_validator(mode="after")
    def _of_this_driver(self) -> Workload:
        for name in IN_NO_CYCLES if self.warm_up else ():
            if getattr(self, name) is not None:
                raise KeyedError(
                    (name,), f"a warm-up is load of `users` or `rate`: leave {name} out, or warm_up and `ramp_up: auto`"
                )
        return self

    @model_validator(mode="after")
    def _whole_second(self) -> Workload:
        if math.floor(self.ramp_up + self.steady) <= math.ceil(self.ramp_up):
            durations = f"{format_duration(self.steady)} after a ramp-up of {format_duration(self.ramp_up)}"
            raise KeyedError(("steady",), f"steady: {durations} holds no whole second, which results are kept for")
        return self


def warmed_until_over(found: Mapping[str, Any]) -> Mapping[str, Any]:
    """A document whose load names no ramp-up with one that ends by rule."""
    load = found.get("workload", {})
    if not isinstance(load, Mapping):
        return found
    named = {"ramp_up", *IN_NO_CYCLES} & {key for key, value in load.items() if value is not None}
    return found if named else {**found, "workload": {**load, "ramp_up": "auto"}}


def check_budget(workload: Workload, budget: float | None) -> None:
    """Raises KeyedError where not even the load of one trial fits in."""
    load = workload.before_steady + workload.steady + workload.ramp_down
    if budget is not None and load > budget:
        duration = f"the load of one trial takes {format_duration(load)}"
        raise KeyedError(("budget",), f"no trial ends within the budget of {format_duration(budget)}: {duration}")


USERS, RATE = "load.users", "load.rate"
OPEN = ("poisson", "constant")  # arrivals with a rate
_OF = {USERS: "users", RATE: "rate"}  # key of the workload


def is_load(name: str) -> bool:
    """Whether a factor or setting of this name is the load's."""
    return name.startswith("load.")


def filled(study: Any) -> Any:
    """A study that varies or sets its users or its rate needs none in its workload: there the baseline's stand."""
    if not isinstance(study, Mapping):
        return study
    load = study.get("workload", {})
    if not isinstance(load, Mapping):
        return study
    arrivals = expand(load).get("arrivals", "closed")
    rates = {"closed": (USERS,), **dict.fromkeys((*OPEN, "open"), (RATE,))}.get(
        arrivals if isinstance(arrivals, str) else "", ()
    )
    levels = {_OF[name]: _level(study, name) for name in rates if load.get(_OF[name]) is None}
    more = {key: level for key, level in levels.items() if level is not None}
    return {**study, "workload": {**load, **more}} if more else study


def load_at(load: Workload, levels: Mapping[str, Level], knobs: Iterable[Knob]) -> Workload:
    """The load with these levels of its own ``knobs``; other names are left alone."""
    changed: dict[str, Any] = {}
    variables: dict[str, Level] = {}
    for knob in knobs:
        if knob.name not in levels or not is_load(knob.name):
            continue
        key, level = knob.name.partition(".")[2], levels[knob.name]
        if knob.name in _OF:
            changed[key] = level
        else:
            variables[key] = _seconds(float(level)) if knob.kind is Kind.DURATION else level
    if variables:
        changed["variables"] = {**load.variables, **variables}
    return load.model_copy(update=changed) if changed else load


def _seconds(level: float) -> str:
    """As a driver reads it, exactly to the nanosecond."""
    return f"{level:.9f}".rstrip("0").rstrip(".") + "s"


def _level(study: Mapping[str, Any], name: str) -> int | float | None:
    """The baseline's level, where it is a number that the workload could have."""
    tables = [study.get(table) for table in ("baseline", "settings", "factors")]
    for table in tables:
        raw = table.get(name) if isinstance(table, Mapping) else None
        for level in raw if isinstance(raw, list) else [raw]:
            if isinstance(level, int | float) and not isinstance(level, bool) and level > 0:
                return level if name == RATE or level == int(level) else None
    return None
