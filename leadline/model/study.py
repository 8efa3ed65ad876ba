"""A study: the question, the stack, the workload, the factors and the design, as read from a study file."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema, model_validator

from leadline.model.drivers import Drivers
from leadline.model.knob import ApplyCost
from leadline.model.shapes import PresetName, check_addresses, check_bursts, check_profile, expand, http_word
from leadline.model.units import parse_duration, parse_share, parse_size

Seconds = Annotated[float, BeforeValidator(parse_duration)]
Share = Annotated[float, BeforeValidator(parse_share)]
Bytes = Annotated[int, BeforeValidator(parse_size)]
Arrivals = Annotated[
    Literal["closed", "constant", "poisson", "replay"],
    BeforeValidator(lambda word: "poisson" if word == "open" else word),
]
Http = Annotated[
    Literal["auto", "1.1", "2"],
    BeforeValidator(http_word),
    WithJsonSchema({"enum": ["auto", 1.1, "1.1", 2, "2"], "default": "auto"}),
]
Cpus = Annotated[
    str,  # one CPU alone is a number to YAML
    BeforeValidator(lambda found: str(found) if isinstance(found, int) and not isinstance(found, bool) else found),
]
RawLevel = bool | int | float | str


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class StackChoice(_Strict):
    """Which application, server and database, in which persistence mode."""

    app: str = "brokerage"
    mode: Literal["direct", "session", "orm"] = "direct"
    server: str = "liberty"
    database: str = "postgres"
    host: str = "local"
    java: str | None = Field(default=None, description="JAVA_HOME of the server's JVM; the one found if absent")


def _words(options: object) -> object:
    """A list of words from one text, as a shell splits it."""
    return shlex.split(options) if isinstance(options, str) else options


class Generator(_Strict):
    """Another load generator in place of leadline-load, run on its own script (docs/generators.md)."""

    name: Literal["wrk", "httperf", "oha", "k6", "jmeter", "gatling"]
    script: str | None = Field(default=None, description="the tool's own script, plan or simulation class")
    options: Annotated[list[str], BeforeValidator(_words)] = Field(
        default_factory=list, description="passed to the tool; ${url}, ${seconds} and ${seed} are filled in"
    )
    program: str | None = Field(default=None, description="path of the tool, or its home; found on the PATH if absent")


class Workload(_Strict):
    """What the driver does. ``users`` drive closed arrivals, ``rate`` (sessions a second) open ones.

    ``arrivals: open`` is short for ``poisson``. ``profile``, ``bursts`` and ``replay`` as the driver's options of
    these names (docs/load.md).
    """

    scenario: str = "brokerage-classic"
    preset: PresetName | None = Field(default=None, description="a load in the shape of a known tool")
    arrivals: Arrivals = "closed"
    users: int | None = Field(default=None, gt=0)
    rate: float | None = Field(default=None, gt=0)
    clients: int | None = Field(default=None, gt=0, description="of the preset clients-threads")
    threads: int | None = Field(default=None, gt=0, description="of each client of the preset clients-threads")
    profile: Annotated[str | None, BeforeValidator(check_profile)] = Field(
        default=None, description="rate or users over time, instead of them: `0s:10,60s:100`"
    )
    bursts: Annotated[str | None, BeforeValidator(check_bursts)] = Field(
        default=None, description="open arrivals only while on: `2s/3s`, `random:2s/3s`"
    )
    replay: str | None = Field(default=None, description="file of recorded arrival times, for `arrivals: replay`")
    speed: float = Field(default=1.0, ge=1e-3, le=1e3, description="how fast a recording is played")
    source_address: Annotated[str | None, BeforeValidator(check_addresses)] = Field(
        default=None, description="addresses to connect from, in turn: `127.0.0.2-127.0.0.9`"
    )
    http: Http = Field(
        default="auto",
        description="auto (1.1, over TLS what the server prefers), 1.1, or 2 (without TLS with prior knowledge)",
    )
    requests_per_connection: int | None = Field(
        default=None, gt=0, lt=2**32, description="a connection is closed after so many; 1 is one for each request"
    )
    connections: Literal["session", "shared"] = Field(
        default="session",
        description="session: each has its own; shared: a pool of all, as behind a proxy (HTTP/1.1 unless `http: 2`)",
    )
    max_connections: int | None = Field(
        default=None, gt=0, le=1_000_000, description="of `connections: shared`: most at once; requests wait for one"
    )
    generator: Annotated[
        Generator | None, BeforeValidator(lambda found: {"name": found} if isinstance(found, str) else found)
    ] = Field(default=None, description="another load generator: its name, or name, script, options, program")
    cpu_latency: Seconds | None = Field(
        default=None,
        ge=0,
        le=1,
        description="while load is driven no CPU of that host enters an idle state that takes longer to leave; 0: none",
    )
    grid: Seconds | None = Field(
        default=None,
        ge=1e-6,
        le=1,
        description="starts are planned at multiples of this, so that several share a wake-up of the driver",
    )
    load_units: int = Field(default=1, gt=0, description="scales the data: accounts, instruments, holdings")
    ramp_up: Seconds = 10.0
    steady: Seconds = 30.0
    ramp_down: Seconds = 2.0
    max_sessions: int = Field(default=1000, gt=0, description="hard cap on sessions in flight")
    timeout: Seconds = 10.0
    variables: dict[str, RawLevel] = Field(
        default_factory=dict, description="parameters of the scenario, such as `think: 100ms`"
    )

    @model_validator(mode="before")
    @classmethod
    def _preset(cls, found: Any) -> Any:
        return expand(found) if isinstance(found, Mapping) else found


class Switchback(_Strict):
    """Live knobs change every few seconds inside one warm trial; all other factors change between trials."""

    slot: Seconds = Field(default=10.0, gt=0, description="how long one level is held")
    wash_out: Seconds | None = Field(
        default=None, ge=0, description="start of every slot that is left out; estimated from the data if absent"
    )
    order: Literal["random-blocks", "williams", "abba"] = "random-blocks"


class Design(_Strict):
    """How the trials are chosen and ordered."""

    kind: Literal[
        "one-at-a-time",
        "full-factorial",
        "fractional-factorial",
        "plackett-burman",
        "definitive-screening",
        "d-optimal",
        "racing",
        "confirmation",
        "configurations",
    ] = "one-at-a-time"
    replicates: int = Field(default=3, ge=1)
    blocks: Literal["by-replicate", "incomplete", "latin", "williams", "abba"] = "by-replicate"
    block_size: int | None = Field(default=None, ge=2, description="trials of an incomplete block")
    resolution: int = Field(default=4, ge=3, le=8, description="of a fractional factorial: 3, 4, 5 ...")
    foldover: bool = Field(default=False, description="add the mirror image of a two-level screening design")
    runs: int | None = Field(default=None, ge=2, description="treatments of a D-optimal design")
    model: Literal["main-effects", "interactions"] = Field(
        default="main-effects", description="what a D-optimal design must be able to estimate"
    )
    configurations: dict[str, dict[str, RawLevel]] = Field(
        default_factory=dict,
        description="of the kind of this name: name: levels of the factors that are not at their baseline",
    )
    switchback: Switchback | None = None
    looks: int = Field(
        default=1,
        ge=1,
        description="times the study is looked at; more than one may end it early; of a race its rounds",
    )
    sentinels: int | None = Field(
        default=6,
        ge=1,
        description="a baseline trial is added wherever more than so many trials would pass without one; null for none",
    )
    seed: int = 1


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
    server_memory: Bytes | None = None
    database_memory: Bytes | None = None
    web_memory: Bytes | None = None


class Limits(_Strict):
    """Limits on the steady state; a trial that misses ``errors`` fails, the latency limits are reported."""

    errors: Share = 0.001
    p90: Seconds | None = None
    p99: Seconds | None = None


class FirstEstimate(_Strict):
    """A setting as the study on which it was chosen had it: percent, the luck of the choice in it."""

    levels: dict[str, RawLevel] = Field(min_length=1)
    percent: float
    low: float | None = None
    high: float | None = None
    shrunken: float | None = Field(default=None, description="percent, drawn towards none as far as luck goes")


class Confirms(_Strict):
    """What a confirmation study is to confirm; written by ``leadline confirm``."""

    run: str
    response: str
    settings: list[FirstEstimate] = Field(min_length=1)


class Study(_Strict):
    """A question in a file."""

    study: str = Field(pattern=r"^[a-z0-9][a-z0-9-]*$", description="name of the study")
    question: str
    stack: StackChoice = StackChoice()
    workload: Workload = Workload()
    factors: dict[str, list[RawLevel]] = Field(
        default_factory=dict,
        description="knob: levels; the first level is the baseline unless `baseline` names another",
    )
    baseline: dict[str, RawLevel] = Field(default_factory=dict)
    settings: dict[str, RawLevel] = Field(default_factory=dict, description="knobs held at one level throughout")
    pseudo_factors: dict[str, list[str]] = Field(
        default_factory=dict,
        description="names with labels that change nothing: an A/A study shows what the procedure finds in noise",
    )
    pseudo_apply_costs: dict[str, ApplyCost] = Field(
        default_factory=dict,
        description="when a pseudo-factor's labels change: live (if absent), restart and so on, as a knob's levels",
    )
    design: Design = Design()
    reset: Reset = Reset()
    placement: Placement = Placement()
    drivers: Drivers = Field(
        default_factory=list, description="hosts that bear the load together, in step; this one alone if absent"
    )
    responses: list[str] = ["throughput", "p50", "p90", "p99", "cpu_per_transaction"]
    limits: Limits = Limits()
    equivalence: Share = Field(
        default=0.02,
        gt=0,
        lt=1,
        description="a change that makes no difference: effects shown to be smaller are equivalent",
    )
    confirms: Confirms | None = Field(default=None, description="what a confirmation study is to confirm")
    budget: Seconds | None = None
    dead_man: Seconds = 30.0
    ready_timeout: Seconds = 120.0
    observe: bool = True
