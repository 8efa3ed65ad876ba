"""A study: the question, the stack, the workload, the factors and the design, as read from a study file."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from leadline.model.units import parse_duration, parse_share, parse_size

Seconds = Annotated[float, BeforeValidator(parse_duration)]
Share = Annotated[float, BeforeValidator(parse_share)]
Bytes = Annotated[int, BeforeValidator(parse_size)]
Arrivals = Annotated[
    Literal["closed", "constant", "poisson"],
    BeforeValidator(lambda word: "poisson" if word == "open" else word),
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


class Workload(_Strict):
    """What the driver does. ``users`` drive closed arrivals, ``rate`` (sessions a second) open ones.

    ``arrivals: open`` is short for ``poisson``.
    """

    scenario: str = "brokerage-classic"
    arrivals: Arrivals = "closed"
    users: int | None = Field(default=None, gt=0)
    rate: float | None = Field(default=None, gt=0)
    load_units: int = Field(default=1, gt=0, description="scales the data: accounts, instruments, holdings")
    ramp_up: Seconds = 10.0
    steady: Seconds = 30.0
    ramp_down: Seconds = 2.0
    max_sessions: int = Field(default=1000, gt=0, description="hard cap on sessions in flight")
    timeout: Seconds = 10.0
    variables: dict[str, RawLevel] = Field(
        default_factory=dict, description="parameters of the scenario, such as `think: 100ms`"
    )


class Design(_Strict):
    """How the trials are chosen and ordered."""

    kind: Literal["one-at-a-time", "full-factorial"] = "one-at-a-time"
    replicates: int = Field(default=3, ge=1)
    blocks: Literal["by-replicate"] = "by-replicate"
    sentinels: int | None = Field(default=6, ge=1, description="a sentinel after every so many trials; null for none")
    seed: int = 1


class Reset(_Strict):
    """What is put back to the same state before every trial."""

    database: Literal["snapshot", "keep"] = "snapshot"
    page_cache: Literal["drop", "keep"] = "keep"
    swap: Literal["keep", "off"] = "keep"


class Placement(_Strict):
    """CPUs and memory of each role; absent means unrestricted. CPU lists as ``0,2-3``."""

    server_cpus: str | None = None
    database_cpus: str | None = None
    driver_cpus: str | None = None
    server_memory: Bytes | None = None
    database_memory: Bytes | None = None


class Limits(_Strict):
    """Limits on the steady state; a trial that misses ``errors`` fails, the latency limits are reported."""

    errors: Share = 0.001
    p90: Seconds | None = None
    p99: Seconds | None = None


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
    design: Design = Design()
    reset: Reset = Reset()
    placement: Placement = Placement()
    responses: list[str] = ["throughput", "p50", "p90", "p99", "cpu_per_transaction"]
    limits: Limits = Limits()
    budget: Seconds | None = None
    dead_man: Seconds = 30.0
    ready_timeout: Seconds = 120.0
    observe: bool = True
