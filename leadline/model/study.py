"""A study: the question, the stack, the workload, the factors and the design, as read from a study file."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError, model_validator
from pydantic.json_schema import SkipJsonSchema

from leadline.model import bounds
from leadline.model.command import CommandLoad
from leadline.model.conditions import Condition, parse
from leadline.model.design import Design
from leadline.model.disturbance import FIGURES
from leadline.model.errors import KeyedError, UsageError, did_you_mean
from leadline.model.guest import GUEST_KINDS, Guest, GuestKind, check_guest
from leadline.model.hosts import Drivers, OrSsh, SshHost, ssh_host
from leadline.model.knob import ApplyCost
from leadline.model.ownparts import OwnKnob
from leadline.model.ownstack import OrStackFile, OwnFile, named_after
from leadline.model.result import OF_LIMITS, PROCESS_RESPONSES, RESPONSES
from leadline.model.units import format_duration
from leadline.model.workload import Workload, check_budget, filled, warmed_until_over

MOST_LEVELS = 100
Levels = Annotated[list[bounds.RawLevel], Field(min_length=1, max_length=MOST_LEVELS)]
StudyName = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]*$", max_length=100)]
Question = Annotated[str, Field(min_length=1, max_length=2_000)]
Budget = Annotated[float, bounds.duration(1, bounds.YEAR)]
DeadMan = Annotated[float, bounds.duration(1, bounds.HOUR)]
ReadyTimeout = Annotated[float, bounds.duration(1, bounds.DAY)]
# Of CPU between two samples, as asked for. A thread's clock begins anew with each stretch, so what it uses below that
# is missed in each.
PROFILE_MS = {"light": 4, "full": 2}
# `true` and `false` as files had it.
Profiling = Annotated[
    Literal["off", "light", "full"],
    BeforeValidator(lambda found: ("off", "light")[found] if isinstance(found, bool) else found),
]
Equivalence = Annotated[
    bounds.Share,
    Field(gt=0, lt=1, description="a change that makes no difference: effects shown to be smaller are equivalent"),
]
# Kinds of host: each a module of its name in leadline/host.
MachineKind = Literal["local"]
HostKind = Literal[MachineKind, GuestKind]
HostName = Annotated[str, OrSsh(HostKind)]  # a kind, or ``ssh:NAME``
Mode = Literal["direct", "session", "orm"]
ALONE = "pages"  # what a web server alone serves
WebName = Literal["httpd", "nginx", "tomcat", "liberty", "wildfly"]
MOST_FACTORS = 200


def _known(kind: str, table: Collection[str]) -> AfterValidator:
    """Names of ``table``, each once."""

    def check(names: list[str]) -> list[str]:
        for at, name in enumerate(names):
            if name in names[:at]:
                raise KeyedError((at,), f"{kind}s lists {name} twice")
            if name not in table:
                hint = did_you_mean(name, list(table)) or f"{kind}s: {', '.join(table)}"
                percentiles = [name for name in table if re.fullmatch(r"p[0-9]+", name)]
                if percentiles and re.fullmatch(r"p[\d.]+", name):
                    hint = f"percentiles: {', '.join(percentiles)}"
                raise KeyedError((at,), f"unknown {kind} {name!r}; {hint}")
        return names

    return AfterValidator(check)


_Name = Annotated[str, Field(max_length=100)]
Responses = Annotated[list[_Name], Field(min_length=1), _known("response", RESPONSES)]
Covariates = Annotated[list[_Name], _known("covariate", FIGURES)]


OnHost = Annotated[str, OrSsh()] | None


class StackHosts(bounds.Strict):
    """Hosts over SSH by what they run; the driver runs where leadline does."""

    web: OnHost = Field(default=None, description="the web server in front; the same as application if absent")
    application: Annotated[str, OrSsh()] = Field(description="the server, its JVM; `ssh:NAME`")
    database: OnHost = Field(default=None, description="`ssh:NAME`; the same if absent")
    supplier: OnHost = Field(default=None, description="the supplier emulator of dealership; the same if absent")

    def named(self) -> dict[str, str]:
        """Role -> the host it names, in the order in which a request meets them."""
        return {role: word for role, word in self if word is not None}


HOST_ROLES = tuple(StackHosts.model_fields)


def _alone(found: Any) -> Any:
    """A study's `stack` with the rest of what `web` or `url` means."""
    if not isinstance(found, Mapping):
        return found
    meant: dict[str, Any] = {"mode": "direct", "database": "none"}
    if found.get("url") is not None:
        meant |= {"app": "url", "server": "url", "host": "local", **dict.fromkeys(("web", "hosts", "java", "own"))}
        problem, instead = "url names a server that runs already, which is loaded as it is", ""
    elif found.get("web") is not None:
        meant |= {"app": ALONE, "server": found["web"]}
        problem = "web is a web server alone, with a site of files: there is no application and no database"
        instead = ", or write web.server in settings for one in front"
    else:
        return found
    for key, value in meant.items():
        if found.get(key, value) != value:
            raise KeyedError((key,), f"{problem}; leave {key} out{instead}")
    return {**found, **meant}


def _address(text: str) -> str:
    """A URL of a server. Raises ValueError."""
    if not re.fullmatch(
        r"https?://(\[[0-9a-f:.]+\]|[\w.-]+)(:[1-9]\d{0,4})?(/[^\s?#]*)?", text, re.ASCII | re.IGNORECASE
    ):
        raise ValueError("write the address of a server, such as http://10.0.0.7:8080/shop")
    return text


class StackChoice(bounds.Strict):
    """Which application, server and database, in which persistence mode; ``own``: what a stack file says instead."""

    app: str = "brokerage"
    mode: Mode = "direct"
    server: str = "liberty"
    database: str = "postgres"
    web: WebName | None = Field(
        default=None,
        description="in place of app, mode, server and database: a web server alone, which serves a site of files",
    )
    url: Annotated[str, Field(max_length=2_000), AfterValidator(_address)] | None = Field(
        default=None, description="in place of all others: a server that runs already, which is loaded as it is"
    )
    host: HostName = Field(default="local", description="where services run; `ssh:NAME`: a host over SSH")
    hosts: StackHosts | None = Field(default=None, description="in place of `host`: hosts over SSH by role")
    java: bounds.FilePath | None = Field(
        default=None, description="JAVA_HOME of the server's JVM; the one found if absent"
    )
    own: SkipJsonSchema[OwnFile | None] = None

    @model_validator(mode="before")
    @classmethod
    def _named(cls, found: Any) -> Any:
        return _alone(named_after(found))

    @property
    def ssh(self) -> SshHost | None:
        """The host over SSH where the application runs; None where that is no such host."""
        return ssh_host(self.place)

    @property
    def ssh_hosts(self) -> dict[str, SshHost]:
        """Role -> its host over SSH: `application`, and the roles that another host has. Empty without such hosts."""
        named = self.hosts.named() if self.hosts else {"application": self.host}
        hosts = {role: host for role, word in named.items() if (host := ssh_host(word)) is not None}
        return {role: host for role, host in hosts.items() if role == "application" or host != self.ssh}

    @property
    def in_guest(self) -> bool:
        """Whether it runs in a virtual machine of leadline's own."""
        return self.host in GUEST_KINDS

    @property
    def is_here(self) -> bool:
        """Whether all of it runs on this machine itself."""
        return self.host == "local" and self.hosts is None

    @property
    def virtual(self) -> bool:
        """Whether its time is virtual: the same trial gives the same figures."""
        return self.host == "virtual-time"

    @property
    def place(self) -> str:
        """The host of its application, as a study names it."""
        return self.hosts.application if self.hosts else self.host

    @property
    def services(self) -> list[str]:
        """Those that its stack file starts beside the application, in this order."""
        return list(self.own.content.services) if self.own else []

    @property
    def title(self) -> str:
        """What runs, for people."""
        if self.own is not None:
            return f"{self.app} ({self.own.title})"
        if self.url is not None:
            return f"the server at {self.url}"
        if self.web is not None:
            return f"{self.app} on a web server alone ({self.web} unless web.server says another)"
        return f"{self.app} ({self.mode}) on {self.server} with {self.database}"

    @model_validator(mode="after")
    def _where_it_runs(self) -> StackChoice:
        if self.own is not None and self.in_guest:
            raise KeyedError(("host",), f"an application of one's own runs in no guest, and this is {self.host}")
        if self.web is not None and not self.is_here:
            raise KeyedError(("web",), "a web server alone runs on this host: leave host and hosts out")
        if self.hosts is not None and self.host != "local":
            raise KeyedError(("hosts",), f"host is {self.host} and hosts name others: leave one of them out")
        if "database" in self.ssh_hosts and self.database != "postgres":
            problem = f"on a host of its own the database is postgres, not {self.database}"
            raise KeyedError(("hosts", "database"), f"{problem}: leave `database` out of hosts")
        return self


class Reset(bounds.Strict):
    """What is put back to the same state before every trial."""

    database: Literal["snapshot", "keep"] = "snapshot"
    page_cache: Literal["drop", "keep"] = "keep"
    swap: Literal["keep", "off"] = "keep"


class Placement(bounds.Strict):
    """CPUs, memory and open files of each role; absent means unrestricted. CPU lists as ``0,2-3``."""

    server_cpus: bounds.Cpus | None = None
    database_cpus: bounds.Cpus | None = None
    driver_cpus: bounds.Cpus | None = None
    web_cpus: bounds.Cpus | None = None
    server_memory: Annotated[int, bounds.memory(64 * bounds.MEBIBYTE)] | None = None
    database_memory: Annotated[int, bounds.memory(32 * bounds.MEBIBYTE)] | None = None
    web_memory: Annotated[int, bounds.memory(16 * bounds.MEBIBYTE)] | None = None
    server_memory_high: Annotated[int, bounds.memory(16 * bounds.MEBIBYTE)] | None = None
    server_swap: Annotated[int, bounds.memory(0)] | None = None
    server_cpu_quota: Annotated[float, bounds.number(0.01, 10_000)] | None = None
    server_cpu_weight: Annotated[int, bounds.count(10_000)] | None = None
    server_open_files: Annotated[int, bounds.count(1 << 30)] | None = None

    def limits(self, role: str) -> dict[str, float]:
        """Those of a role but for its CPUs, by their names without it."""
        levels = {key.removeprefix(f"{role}_"): level for key, level in self if key.startswith(f"{role}_")}
        return {name: level for name, level in levels.items() if name != "cpus" and level is not None}


class Wait(bounds.Strict):
    """Before a trial, until other programs leave the machine alone, for a bounded time."""

    quiet: Annotated[bounds.Share, Field(gt=0, lt=1)] = Field(
        default=0.1, description="of all CPUs: others, the hypervisor included, use less"
    )
    over: Annotated[float, bounds.duration(1, 600)] = Field(default=5.0, description="for so long")
    at_most: Annotated[float, bounds.duration(1, bounds.DAY)] = Field(
        default=60.0, description="before each trial; then it starts"
    )

    @model_validator(mode="after")
    def _possible(self) -> Wait:
        if self.at_most < self.over:
            problem = f"{format_duration(self.at_most)}, and quiet is `over` {format_duration(self.over)}"
            raise KeyedError(("at_most",), f"wait: at_most is {problem}: it would never be seen")
        return self


class Repeat(bounds.Strict):
    """A trial (of a rotation a block) that others disturbed is measured again, whatever its responses are."""

    others_cpu: Annotated[bounds.Share, Field(gt=0, lt=1)] = Field(
        default=0.25, description="of all CPUs: the mean use of others above which a trial is measured again"
    )
    steal: Annotated[bounds.Share, Field(gt=0, lt=1)] = Field(default=0.1, description="the same of the hypervisor")
    at_most: Annotated[int, bounds.count(1_000)] = Field(default=3, description="in the whole study")


class Limits(bounds.Strict):
    """Limits on the steady state; a trial that misses ``errors`` fails, the latency limits are reported."""

    errors: Annotated[bounds.Share, Field(lt=1)] = 0.001
    p90: Annotated[float, bounds.duration(1e-6, bounds.HOUR)] | None = None
    p99: Annotated[float, bounds.duration(1e-6, bounds.HOUR)] | None = None

    @model_validator(mode="after")
    def _ordered(self) -> Limits:
        if self.p90 is not None and self.p99 is not None and self.p90 > self.p99:
            problem = f"{format_duration(self.p90)}, p99 {format_duration(self.p99)}"
            raise KeyedError(("p90",), f"limits: p90 is never above p99, so its limit cannot be, either: p90 {problem}")
        return self


class FirstEstimate(bounds.Strict):
    """A setting as the study on which it was chosen had it: percent, the luck of the choice in it."""

    levels: dict[bounds.Label, bounds.RawLevel] = Field(min_length=1, max_length=100)
    percent: float
    low: float | None = None
    high: float | None = None
    shrunken: float | None = Field(default=None, description="percent, drawn towards none as far as luck goes")


class Confirms(bounds.Strict):
    """What a confirmation study is to confirm; written by ``leadline confirm``."""

    run: str
    response: str
    settings: list[FirstEstimate] = Field(min_length=1)


class Study(bounds.Strict):
    """A question in a file."""

    study: StudyName = Field(description="name of the study")
    question: Question
    stack: Annotated[StackChoice, OrStackFile()] = StackChoice()
    guest: Guest | None = Field(default=None, description="the virtual machine, of `host: vm` and `host: virtual-time`")
    workload: Workload = Workload()
    command: CommandLoad | None = Field(
        default=None, description="a program timed as a whole process, in place of stack and workload"
    )
    factors: dict[bounds.Label, Levels] = Field(
        default_factory=dict,
        max_length=MOST_FACTORS,
        description="knob: levels; the first level is the baseline unless `baseline` names another",
    )
    baseline: dict[bounds.Label, bounds.RawLevel] = Field(default_factory=dict)
    settings: dict[bounds.Label, bounds.RawLevel] = Field(
        default_factory=dict, description="knobs held at one level throughout"
    )
    knobs: dict[bounds.Label, OwnKnob] = Field(
        default_factory=dict,
        max_length=MOST_FACTORS,
        description="declared settings of the kernel, `host.` before the name: a sysctl, or a file below /sys",
    )
    pseudo_factors: dict[bounds.Label, Annotated[list[bounds.Label], Field(max_length=100)]] = Field(
        default_factory=dict,
        max_length=MOST_FACTORS,
        description="names with labels that change nothing: an A/A study shows what the procedure finds in noise",
    )
    pseudo_apply_costs: dict[bounds.Label, ApplyCost] = Field(
        default_factory=dict,
        description="when a pseudo-factor's labels change: live (if absent), restart and so on, as a knob's levels",
    )
    design: Design = Design()
    reset: Reset = Reset()
    placement: Placement = Placement()
    drivers: Drivers = Field(
        default_factory=list, description="hosts that bear the load together, in step; this one alone if absent"
    )
    responses: Responses = Field(default=["throughput", "p50", "p90", "p99", "cpu_per_transaction"])
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
    fail: list[Annotated[str, Field(max_length=100)]] = Field(
        default_factory=list,
        max_length=50,
        description="conditions under which `leadline run` fails, as `--fail` has them; with `looks: watched` the "
        "study ends when the intervals decide all of them",
    )
    confirms: Confirms | None = Field(default=None, description="what a confirmation study is to confirm")
    budget: Budget | None = None
    dead_man: DeadMan = 30.0
    ready_timeout: ReadyTimeout = 120.0
    observe: bool = True
    profile: Profiling | None = Field(
        default=None,
        description="samples of what the server's JVM does, in half of the slots, or of each trial: see ``profiling``",
    )

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
    def _usual_responses(cls, found: Any) -> Any:
        """A server at a URL shows no CPU time. In slots, which are short, that of the JIT compiler is most of the noise
        and no effect of a level.
        """
        if not isinstance(found, Mapping) or "command" in found:
            return found
        stack, design = found.get("stack"), found.get("design")
        times = ["throughput", "p50", "p90", "p99"]
        if isinstance(stack, Mapping) and stack.get("url") is not None:
            return {"responses": times, **found}
        slots = isinstance(design, Mapping) and any(design.get(key) is not None for key in ("rotation", "switchback"))
        return {"responses": [*times, "steady_cpu_per_transaction"], **found} if slots else found

    @model_validator(mode="before")
    @classmethod
    def _warm_in_a_rotation(cls, found: Any) -> Any:
        """A rotation that names no ramp-up warms its instances until it is over."""
        if not isinstance(found, Mapping) or found.get("drivers") or found.get("observe", True) is not True:
            return found
        design = found.get("design")
        beside = isinstance(design, Mapping) and design.get("rotation") is not None
        return warmed_until_over(found) if beside else found

    @model_validator(mode="after")
    def _consistent(self) -> Study:
        if not self.observe and (self.covariates or self.repeat):
            key = "covariates" if self.covariates else "repeat"
            raise KeyedError((key,), f"{key} needs figures of the machine, which `observe: false` does not record")
        self._check_profile()
        self._check_knobs()
        for at, text in enumerate(self.fail):
            try:
                parse([text], self.responses)
            except UsageError as error:
                raise KeyedError(("fail", at), str(error).removeprefix("--")) from None
        for name in self.pseudo_factors:
            if name in self.factors or name in self.settings:
                other = "factor" if name in self.factors else "setting"
                raise KeyedError(("pseudo_factors", name), f"{name} is a pseudo-factor and a {other}; keep one of them")
        if self.covariates and (self.design.looked_at):
            raise KeyedError(("covariates",), "interim analyses know no covariates: leave them out, or use `looks: 1`")
        if self.workload.warm_up and self.drivers:
            raise KeyedError(("drivers",), "a warm-up is driven from this host alone: leave drivers out, or warm_up")
        if self.workload.warm_up and self.workload.warm_up.until == "steady" and not self.observe:
            problem = "a warm-up that ends by rule asks the compiler, which `observe: false` does not record"
            raise KeyedError(("workload", "warm_up"), f"{problem}; say `until: cycles`")
        check_budget(self.workload, self.budget)
        check_guest(self)
        self._check_command()
        self._check_served()
        return self

    @property
    def host_knobs(self) -> Mapping[str, OwnKnob]:
        """Settings of the kernel that the study or its stack file declares."""
        own_stack = self.stack.own
        return {**(own_stack.content.host_knobs if own_stack else {}), **self.knobs}

    def _check_knobs(self) -> None:
        for name, knob in self.knobs.items():
            if not knob.of_host:
                raise KeyedError(("knobs", name), "a study declares settings of the kernel: set it by sysctl or file")
            if wrong := knob.misnamed(name):
                raise KeyedError(("knobs", name), wrong)
        for name in self.host_knobs if not self.stack.is_here else ():
            for key in ("factors", "settings"):
                if name in getattr(self, key):
                    raise KeyedError((key, name), f"{name} is a setting of this host, and the study runs elsewhere")

    def _check_profile(self) -> None:
        if self.profile in (None, "off"):
            return
        if not self._starts_a_jvm:
            raise KeyedError(("profile",), "a profile needs a server's JVM, and this study starts none: leave it out")
        if not self.observe:
            raise KeyedError(("profile",), "a profile is a series, which `observe: false` does not record")

    @property
    def profiling(self) -> Literal["off", "light", "full"]:
        """The profile that is taken: what the file says, else ``light`` of a server's JVM that leadline itself starts,
        in no guest.
        """
        if self.profile is not None:
            return self.profile
        managed = self.stack.own is None or self.stack.own.content.managed
        return "light" if self._starts_a_jvm and managed and self.observe and not self.stack.in_guest else "off"

    @property
    def _starts_a_jvm(self) -> bool:
        stack, own = self.stack, self.stack.own
        other = own is not None and (own.content.attach is not None or not own.content.jvm)
        return self.under_load and stack.web is None and stack.url is None and not other

    def _check_served(self) -> None:
        if self.stack.url is None:
            return
        if self.design.layout in ("rotation", "forks"):
            raise KeyedError(("design",), f"the server at stack.url is not started: leave {self.design.layout} out")
        for key, limit in self.placement:
            if limit is not None and key != "driver_cpus":
                raise KeyedError(("placement", key), "leadline does not move or limit the server at stack.url")

    def _check_command(self) -> None:
        for at, name in enumerate(self.responses):
            if (name in PROCESS_RESPONSES) == self.under_load:
                if self.under_load:
                    raise KeyedError(
                        ("responses", at), f"{name} is measured for programs only: it needs `command` in the study"
                    )
                names = ", ".join(PROCESS_RESPONSES)
                raise KeyedError(("responses", at), f"{name} is measured under load only; a command has {names}")
            if name in OF_LIMITS and self.design.layout != "plain":
                problem = f"{name} is told of whole trials, and this design compares slots, turns or forks"
                raise KeyedError(("responses", at), f"{problem}: leave {name} out, or the design's part")
        if not self.under_load and self.design.layout != "plain":
            raise KeyedError(("design",), "a command runs alone from start to end: no switchback, rotation, forks")

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """Those of ``fail``."""
        return parse(self.fail, self.responses)

    @property
    def under_load(self) -> bool:
        """Whether it loads a stack; if not, it times a command."""
        return not self.command

    @property
    def time(self) -> Literal["real", "virtual"]:
        """What its seconds are: figures of the two are never compared."""
        return "virtual" if self.stack.virtual else "real"
