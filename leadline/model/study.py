"""A study: the question, the stack, the workload, the factors and the design, as read from a study file."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    WithJsonSchema,
    model_validator,
)
from pydantic.json_schema import SkipJsonSchema

from leadline.model.bounds import (
    DAY,
    HOUR,
    MEBIBYTE,
    MOST_RATE,
    MOST_USERS,
    YEAR,
    Cpus,
    FilePath,
    Label,
    OrWord,
    Seed,
    Share,
    count,
    duration,
    memory,
    number,
)
from leadline.model.command import CommandLoad
from leadline.model.disturbance import FIGURES
from leadline.model.drivers import Drivers
from leadline.model.errors import KeyedError, nearest
from leadline.model.guest import MOST_WORLDS, Guest, GuestKind, check_forks, check_guest, forked
from leadline.model.knob import ApplyCost
from leadline.model.load import filled
from leadline.model.ownstack import OrStackFile, OwnFile, named_after
from leadline.model.result import PROCESS_RESPONSES, RESPONSES
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
MOST_LEVELS = 100
RawLevel = bool | int | float | str
Levels = Annotated[list[RawLevel], Field(min_length=1, max_length=MOST_LEVELS)]
StudyName = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]*$", max_length=100)]
Question = Annotated[str, Field(min_length=1, max_length=2_000)]
Budget = Annotated[float, duration(1, YEAR)]
DeadMan = Annotated[float, duration(1, HOUR)]
ReadyTimeout = Annotated[float, duration(1, DAY)]
Equivalence = Annotated[
    Share,
    Field(gt=0, lt=1, description="a change that makes no difference: effects shown to be smaller are equivalent"),
]
# The modules of these names in leadline/host, leadline/load/generators and leadline/design are what they name.
MachineKind = Literal["local"]
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
DesignName = Literal[TreatmentsName, "racing", "forks"]
HostKind = Literal[MachineKind, GuestKind]
GeneratorName = Literal[
    "wrk",
    "httperf",
    "oha",
    "k6",
    "jmeter",
    "gatling",
]
Mode = Literal["direct", "session", "orm"]
MOST_FACTORS = 200
IN_NO_CYCLES = ("profile", "bursts", "replay", "generator")  # loads that come in no cycles
DRIVER_START = 2.0  # seconds that a cycle's driver takes to start
AFTER_WARM_UP = 5.0  # seconds of ramp-up that `auto` stands for


def _known_responses(names: list[str]) -> list[str]:
    for at, name in enumerate(names):
        if name not in RESPONSES:
            if re.fullmatch(r"p[\d.]+", name):
                hint = f"percentiles: {', '.join(known for known in RESPONSES if re.fullmatch(r'p[0-9]+', known))}"
            else:
                near = nearest(name, list(RESPONSES))
                hint = f"did you mean {near}?" if near else f"responses: {', '.join(RESPONSES)}"
            raise KeyedError((at,), f"unknown response {name!r}; {hint}")
        if name in names[:at]:
            raise KeyedError((at,), f"responses lists {name} twice")
    return names


Responses = Annotated[
    list[Annotated[str, Field(max_length=100)]], Field(min_length=1), AfterValidator(_known_responses)
]


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


def _known_covariates(names: list[str]) -> list[str]:
    for at, name in enumerate(names):
        if name not in FIGURES:
            near = nearest(name, list(FIGURES))
            hint = f"did you mean {near}?" if near else f"covariates: {', '.join(FIGURES)}"
            raise KeyedError((at,), f"unknown covariate {name!r}; {hint}")
        if name in names[:at]:
            raise KeyedError((at,), f"covariates lists {name} twice")
    return names


Covariates = Annotated[list[Annotated[str, Field(max_length=100)]], AfterValidator(_known_covariates)]


class StackChoice(_Strict):
    """Which application, server and database, in which persistence mode; ``own``: what a stack file says instead."""

    app: str = "brokerage"
    mode: Mode = "direct"
    server: str = "liberty"
    database: str = "postgres"
    host: HostKind = "local"
    java: FilePath | None = Field(default=None, description="JAVA_HOME of the server's JVM; the one found if absent")
    own: SkipJsonSchema[OwnFile | None] = None

    @model_validator(mode="before")
    @classmethod
    def _named(cls, found: Any) -> Any:
        return named_after(found)

    @property
    def title(self) -> str:
        """What runs, for people."""
        if self.own is not None:
            return f"{self.app} ({self.own.title})"
        return f"{self.app} ({self.mode}) on {self.server} with {self.database}"

    @model_validator(mode="after")
    def _own_runs_here(self) -> StackChoice:
        if self.own is not None and self.host != "local":
            raise KeyedError(("host",), f"an application of one's own runs on this host only, not on {self.host}")
        return self


def _words(options: object) -> object:
    """A list of words from one text, as a shell splits it."""
    return shlex.split(options) if isinstance(options, str) else options


class Generator(_Strict):
    """Another load generator in place of leadline-load, run on its own script (docs/guides/generators.md)."""

    name: GeneratorName
    script: FilePath | None = Field(default=None, description="the tool's own script, plan or simulation class")
    options: Annotated[list[str], BeforeValidator(_words)] = Field(
        default_factory=list, description="passed to the tool; ${url}, ${seconds} and ${seed} are filled in"
    )
    program: FilePath | None = Field(
        default=None, description="path of the tool, or its home; found on the PATH if absent"
    )


class WarmUp(_Strict):
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


class Workload(_Strict):
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
            told = f"{format_duration(self.steady)} after a ramp-up of {format_duration(self.ramp_up)}"
            raise KeyedError(("steady",), f"steady: {told} holds no whole second, which results are kept for")
        return self


class Switchback(_Strict):
    """Live knobs change every few seconds inside one warm trial; all other factors change between trials."""

    slot: Annotated[float, duration(1, DAY)] = Field(default=10.0, description="how long one level is held")
    wash_out: Annotated[float, duration(0, DAY)] | None = Field(
        default=None, description="start of every slot that is left out; estimated from the data if absent"
    )
    order: Literal["random-blocks", "williams", "abba"] = "random-blocks"


class Rotation(_Strict):
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


class Duet(_Strict):
    """Pairs of trials loaded at the same time, each on half of the CPUs; half-way through they change halves."""

    slot: Annotated[float, duration(2, DAY)] = Field(
        default=10.0, description="how long one level of a live factor is held"
    )
    wash_out: Annotated[float, duration(0, DAY)] = Field(
        default=3.0, description="left out at the start of every slot; without live factors, of each half of the load"
    )


Looks = Annotated[
    Literal["watched"] | int, OrWord("watched", Annotated[int, count(1_000)], "a whole number from 1 to 1,000")
]


class Design(_Strict):
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
    duet: Duet | None = Field(default=None, description="pairs of trials at once, each on half of the CPUs")
    worlds: Annotated[int, count(MOST_WORLDS)] | None = Field(
        default=None, description="of forks: guests booted with seeds of their own, each forked under every treatment"
    )
    of: TreatmentsName | None = Field(
        default=None, description="of forks: the kind of their treatments; one-at-a-time if absent"
    )
    looks: Looks = Field(
        default=1,
        description="times the study is looked at; more than one may end it early; of a race its rounds; watched: at "
        "any moment",
    )
    sentinels: Annotated[int, count(10_000)] | None = Field(
        default=6,
        description="a baseline trial is added wherever more than so many trials would pass without one; null for none",
    )
    seed: Seed = 1

    @model_validator(mode="before")
    @classmethod
    def _forked(cls, found: Any) -> Any:
        return forked(found)

    @model_validator(mode="after")
    def _of_its_kind(self) -> Design:
        check_forks(self)
        return self

    @property
    def treatments(self) -> TreatmentsName | Literal["racing"]:
        """The kind that chooses the treatments."""
        return (self.of or "one-at-a-time") if self.kind == "forks" else self.kind

    @property
    def beside(self) -> Rotation | Duet | None:
        """The layout in which several instances stand side by side."""
        return self.rotation or self.duet

    @property
    def looked_at(self) -> bool:
        """Whether there are analyses before the end that may end the study."""
        return self.looks != 1


class Reset(_Strict):
    """What is put back to the same state before every trial."""

    database: Literal["snapshot", "keep"] = "snapshot"
    page_cache: Literal["drop", "keep"] = "keep"
    swap: Literal["keep", "off"] = "keep"


class Placement(_Strict):
    """CPUs and memory of each role; absent means unrestricted. CPU lists as ``0,2-3``."""

    server_cpus: Cpus | None = None
    database_cpus: Cpus | None = None
    driver_cpus: Cpus | None = None
    web_cpus: Cpus | None = None
    server_memory: Annotated[int, memory(64 * MEBIBYTE)] | None = None
    database_memory: Annotated[int, memory(32 * MEBIBYTE)] | None = None
    web_memory: Annotated[int, memory(16 * MEBIBYTE)] | None = None


class Wait(_Strict):
    """Before a trial, until other programs leave the machine alone, for a bounded time."""

    quiet: Annotated[Share, Field(gt=0, lt=1)] = Field(
        default=0.1, description="of all CPUs: others, the hypervisor included, use less"
    )
    over: Annotated[float, duration(1, 600)] = Field(default=5.0, description="for so long")
    at_most: Annotated[float, duration(1, DAY)] = Field(default=60.0, description="before each trial; then it starts")

    @model_validator(mode="after")
    def _possible(self) -> Wait:
        if self.at_most < self.over:
            told = f"{format_duration(self.at_most)}, and quiet is `over` {format_duration(self.over)}"
            raise KeyedError(("at_most",), f"wait: at_most is {told}: it would never be seen")
        return self


class Repeat(_Strict):
    """A trial (of a rotation a block) that others disturbed is measured again, whatever its responses are."""

    others_cpu: Annotated[Share, Field(gt=0, lt=1)] = Field(
        default=0.25, description="of all CPUs: the mean use of others above which a trial is measured again"
    )
    steal: Annotated[Share, Field(gt=0, lt=1)] = Field(default=0.1, description="the same of the hypervisor")
    at_most: Annotated[int, count(1_000)] = Field(default=3, description="in the whole study")


class Limits(_Strict):
    """Limits on the steady state; a trial that misses ``errors`` fails, the latency limits are reported."""

    errors: Annotated[Share, Field(lt=1)] = 0.001
    p90: Annotated[float, duration(1e-6, HOUR)] | None = None
    p99: Annotated[float, duration(1e-6, HOUR)] | None = None

    @model_validator(mode="after")
    def _ordered(self) -> Limits:
        if self.p90 is not None and self.p99 is not None and self.p90 > self.p99:
            told = f"{format_duration(self.p90)}, p99 {format_duration(self.p99)}"
            raise KeyedError(("p90",), f"limits: p90 is never above p99, so its limit cannot be, either: p90 {told}")
        return self


class FirstEstimate(_Strict):
    """A setting as the study on which it was chosen had it: percent, the luck of the choice in it."""

    levels: dict[Label, RawLevel] = Field(min_length=1, max_length=100)
    percent: float
    low: float | None = None
    high: float | None = None
    shrunken: float | None = Field(default=None, description="percent, drawn towards none as far as luck goes")


class Confirms(_Strict):
    """What a confirmation study is to confirm; written by ``leadline confirm``."""

    run: str
    response: str
    settings: list[FirstEstimate] = Field(min_length=1)


def warmed_until_over(found: Mapping[str, Any]) -> Mapping[str, Any]:
    """A document whose load names no ramp-up with one that ends by rule."""
    load = found.get("workload", {})
    if not isinstance(load, Mapping):
        return found
    named = {"ramp_up", *IN_NO_CYCLES} & {key for key, value in load.items() if value is not None}
    return found if named else {**found, "workload": {**load, "ramp_up": "auto"}}


class Study(_Strict):
    """A question in a file."""

    study: StudyName = Field(description="name of the study")
    question: Question
    stack: Annotated[StackChoice, OrStackFile()] = StackChoice()
    guest: Guest | None = Field(default=None, description="the virtual machine, of `host: vm` and `host: virtual-time`")
    workload: Workload = Workload()
    command: CommandLoad | None = Field(
        default=None, description="a program timed as a whole process, in place of stack and workload"
    )
    factors: dict[Label, Levels] = Field(
        default_factory=dict,
        max_length=MOST_FACTORS,
        description="knob: levels; the first level is the baseline unless `baseline` names another",
    )
    baseline: dict[Label, RawLevel] = Field(default_factory=dict)
    settings: dict[Label, RawLevel] = Field(default_factory=dict, description="knobs held at one level throughout")
    pseudo_factors: dict[Label, Annotated[list[Label], Field(max_length=100)]] = Field(
        default_factory=dict,
        max_length=MOST_FACTORS,
        description="names with labels that change nothing: an A/A study shows what the procedure finds in noise",
    )
    pseudo_apply_costs: dict[Label, ApplyCost] = Field(
        default_factory=dict,
        description="when a pseudo-factor's labels change: live (if absent), restart and so on, as a knob's levels",
    )
    design: Design = Design()
    reset: Reset = Reset()
    placement: Placement = Placement()
    drivers: Drivers = Field(
        default_factory=list, description="hosts that bear the load together, in step; this one alone if absent"
    )
    responses: Responses = ["throughput", "p50", "p90", "p99", "cpu_per_transaction"]
    covariates: Covariates = Field(
        default_factory=list,
        description="figures of the machine in the model of every response (docs/guides/busy-machine.md)",
    )
    repeat: Repeat | None = Field(default=None, description="when a disturbed trial is measured again")
    wait: Annotated[Wait | None, BeforeValidator(lambda found: {} if found == "quiet" else found)] = Field(
        default=None, description="`quiet`, or its bounds: wait for a quiet machine before each trial"
    )
    limits: Limits = Limits()
    equivalence: Equivalence = 0.02
    confirms: Confirms | None = Field(default=None, description="what a confirmation study is to confirm")
    budget: Budget | None = None
    dead_man: DeadMan = 30.0
    ready_timeout: ReadyTimeout = 120.0
    observe: bool = True

    @model_validator(mode="before")
    @classmethod
    def _load_as_factor(cls, found: Any) -> Any:
        return filled(found)

    @model_validator(mode="before")
    @classmethod
    def _of_a_command(cls, found: Any) -> Any:
        """What a study of a command does not say itself."""
        command = found.get("command") if isinstance(found, Mapping) else None
        if not isinstance(command, Mapping):
            return found
        for key in ("stack", "workload") if found.get("observe") is not False else ():
            if key in found:
                raise KeyedError((key,), f"a study of a command has no {key}: leave out {key}, or command")
        try:
            workload = CommandLoad.model_validate(command).workload()
        except ValidationError:
            return found  # told of the key itself
        usual = {"workload": workload, "responses": ["wall", "cpu", "peak_memory"]}
        return {**usual, **found, "observe": False}

    @model_validator(mode="before")
    @classmethod
    def _warm_in_a_rotation(cls, found: Any) -> Any:
        """A rotation or a duet that names no ramp-up warms its instances until it is over."""
        if not isinstance(found, Mapping) or found.get("drivers") or found.get("observe", True) is not True:
            return found
        design = found.get("design")
        beside = isinstance(design, Mapping) and any(design.get(name) is not None for name in ("rotation", "duet"))
        return warmed_until_over(found) if beside else found

    @model_validator(mode="after")
    def _consistent(self) -> Study:
        if not self.observe and (self.covariates or self.repeat):
            key = "covariates" if self.covariates else "repeat"
            raise KeyedError((key,), f"{key} needs figures of the machine, which `observe: false` does not record")
        for name in self.pseudo_factors:
            if name in self.factors or name in self.settings:
                other = "factor" if name in self.factors else "setting"
                raise KeyedError(("pseudo_factors", name), f"{name} is a pseudo-factor and a {other}; keep one of them")
        if self.covariates and (self.design.looks != 1 or self.design.kind == "racing"):
            raise KeyedError(
                ("covariates",), "interim analyses and races know no covariates: leave them out, or use `looks: 1`"
            )
        if self.workload.warm_up and self.drivers:
            raise KeyedError(("drivers",), "a warm-up is driven from this host alone: leave drivers out, or warm_up")
        if self.workload.warm_up and self.workload.warm_up.until == "steady" and not self.observe:
            told = "a warm-up that ends by rule asks the compiler, which `observe: false` does not record"
            raise KeyedError(("workload", "warm_up"), f"{told}; say `until: cycles`")
        check_budget(self.workload, self.budget)
        check_guest(self)
        self._check_command()
        return self

    def _check_command(self) -> None:
        for at, name in enumerate(self.responses):
            if (name in PROCESS_RESPONSES) != (self.command is not None):
                if self.command is None:
                    raise KeyedError(("responses", at), f"{name} is of a program: it needs `command` in the study")
                known = ", ".join(PROCESS_RESPONSES)
                raise KeyedError(("responses", at), f"{name} is of a load; a command has {known}")
        if self.command is not None and (self.design.beside or self.design.switchback or self.design.kind == "forks"):
            raise KeyedError(
                ("design",), "a command runs alone from start to end: no switchback, rotation, duet, forks"
            )

    @property
    def time(self) -> Literal["real", "virtual"]:
        """What its seconds are: figures of the two are never compared."""
        return "virtual" if self.stack.host == "virtual-time" else "real"


def check_budget(workload: Workload, budget: float | None) -> None:
    """Raises KeyedError where not even the load of one trial fits in."""
    load = workload.before_steady + workload.steady + workload.ramp_down
    if budget is not None and load > budget:
        told = f"the load of one trial takes {format_duration(load)}"
        raise KeyedError(("budget",), f"no trial ends within the budget of {format_duration(budget)}: {told}")
