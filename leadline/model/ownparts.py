"""Parts of a stack file: when an application is up, its data, its audits, what it attaches to, its containers."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema, model_validator

from leadline.model.bounds import HOUR, FilePath, Label, RawLevel, Strict, count, duration
from leadline.model.errors import KeyedError, quoted
from leadline.model.knob import ApplyCost, Kind, Knob, Level, Owner, Risk

PREFIX = "app."  # of the names of an application's own knobs
OF_HOST = "host."  # of the names of declared settings of the kernel
_WAYS = ("argument", "environment", "system_property", "sysctl", "file")
_UNITS = {
    "s": (Kind.DURATION, 1.0),
    "ms": (Kind.DURATION, 1e-3),
    "us": (Kind.DURATION, 1e-6),
    "bytes": (Kind.SIZE, 1.0),
    "KiB": (Kind.SIZE, 1024.0),
    "MiB": (Kind.SIZE, 1024.0**2),
}


def _http_path(text: str) -> str:
    if not re.fullmatch(r"/[!-~]*", text):
        raise ValueError(f"{quoted(text)} is no path below the application's address; it begins with a /: /health")
    return text


HttpPath = Annotated[str, AfterValidator(_http_path), Field(max_length=2_000)]


def _expression(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"{quoted(text)} is no regular expression: {error}") from None
    return text


def _pattern(text: str) -> str:
    groups = re.compile(_expression(text)).groups
    if groups != 1:
        raise ValueError(f"{quoted(text)} has {groups} groups; write one, around the level: 'size=([0-9]+)'")
    return text


_READ_WAYS = ("http", "jmx", "jcmd", "file", "environ")


class ReadBack(Strict):
    """How the level in force is read from the running process. One of ``http``, ``jmx``, ``jcmd``, ``file``,
    ``environ``.
    """

    http: HttpPath | None = Field(default=None, description="path below the application's address, answered by 200")
    jmx: Annotated[str, Field(min_length=3, max_length=1_000)] | None = Field(
        default=None, description="name of an MBean, such as `com.zaxxer.hikari:type=Pool (main)`; with `attribute`"
    )
    jcmd: Annotated[str, Field(min_length=2, max_length=200)] | None = Field(
        default=None, description="command of the JDK's jcmd, such as `VM.system_properties`"
    )
    file: FilePath | None = Field(default=None, description="file that the application writes in its directory")
    environ: Label | None = Field(
        default=None, description="a variable that its process was started with: `MALLOC_ARENA_MAX`"
    )
    attribute: Label | None = Field(default=None, description="of the MBean")
    key: Label | None = Field(
        default=None, description="in the response's JSON (`pool.size`), or of a line `key=value`"
    )
    pattern: Annotated[str, BeforeValidator(_pattern)] | None = Field(
        default=None, description="regular expression with one group, around the level"
    )

    @property
    def way(self) -> str:
        """The one that is given."""
        return next(way for way in _READ_WAYS if getattr(self, way) is not None)

    @model_validator(mode="after")
    def _one_way(self) -> ReadBack:
        ways = [way for way in _READ_WAYS if getattr(self, way) is not None]
        if len(ways) != 1:
            ways_text = " and ".join(ways) or "nothing"
            raise KeyedError((), f"it says {ways_text}; write one of http, jmx, jcmd, file and environ")
        if (self.attribute is not None) != (self.way == "jmx"):
            raise KeyedError(("attribute",), "`attribute` names what is read of an MBean, and only of one (jmx)")
        if self.key is not None and self.pattern is not None:
            raise KeyedError(("pattern",), "it has a key and a pattern; keep one of them")
        if self.way in ("jcmd", "file") and self.key is None and self.pattern is None:
            raise KeyedError((self.way,), f"{self.way} gives a text: say by `key` or `pattern` where the level stands")
        return self


class Live(Strict):
    """What is done after the MBean's attribute has been written, so that what runs follows it."""

    invoke: Annotated[str, Field(min_length=3, max_length=1_000)] = Field(description="name of an MBean")
    operation: Label = Field(description="of it, without parameters: `softEvictConnections`")


def _named_levels(raw: object) -> object:
    """Name -> what is written, of a list of levels or a mapping from names to levels."""
    levels = {level: level for level in raw} if isinstance(raw, list) else raw
    return {_text(name): _said(level) for name, level in levels.items()} if isinstance(levels, dict) else levels


def _said(level: object) -> object:
    return str(level).lower() if isinstance(level, bool) else _text(level)


def _text(raw: object) -> object:
    return str(raw) if isinstance(raw, (int, float)) and not isinstance(raw, bool) else raw


# Files whose levels cannot be put back, or that are no settings.
_NEVER = (
    (r"/proc/sys/kernel/(modules_disabled|kexec_load_disabled|unprivileged_bpf_disabled|yama/ptrace_scope)", "one way"),
    (r"/proc/sys/net/ipv[46]/(ip_forward|conf/[^/]+/(forwarding|disable_ipv6))", "it changes others, which stay so"),
    (r"/proc/sys/vm/(drop_caches|compact_memory)", "it is a command"),
    (r"/proc/sys/kernel/(sysrq|modprobe|core_pattern|poweroff_cmd|hotplug|panic.*)", "it names what the kernel runs"),
    (r"/proc/sys/fs/binfmt_misc/.*|/sys/(power|firmware|kernel/(debug|tracing|security)|fs)/.*", "it is no setting"),
    (r"/sys/.*/(delete|remove|rescan|reset|uevent|(un)?bind|probe|(new|remove)_id|online|eject|state)", "a command"),
)


def _sysctl(text: str) -> str:
    if not re.fullmatch(r"\w[\w-]*(\.\w[\w-]*)+", text, re.ASCII):
        raise ValueError(
            f"{quoted(text)} is no name of a sysctl, such as net.core.somaxconn; others are named by `file`"
        )
    return _setting(text, f"/proc/sys/{text.replace('.', '/')}")


def _setting(text: str, path: str = "") -> str:
    path = path or text
    if not re.fullmatch(r"/(proc/sys|sys)(/(?!\.{1,2}(/|$))[^/\s]+)+", path):
        raise ValueError(f"{quoted(text)} is no file below /proc/sys or /sys, which alone are put back after a crash")
    for pattern, why in _NEVER:
        if re.fullmatch(pattern, path):
            raise ValueError(f"{quoted(text)} is never set: {why}")
    return text


class OwnKnob(Strict):
    """A parameter of the application: how it is set at a start, and how it is read back; or a setting of the kernel,
    which a study may declare, too.
    """

    summary: Annotated[str, Field(max_length=500)] = ""
    service: Label | None = Field(
        default=None, description="one of `services`, which has it; the application if absent"
    )
    kind: Literal["integer", "number", "size", "duration", "boolean", "choice", "text", "vector"] = "integer"
    levels: (
        Annotated[
            dict[Label, Annotated[str, Field(max_length=4_000)]],
            BeforeValidator(_named_levels),
            Field(min_length=2, max_length=100),
            WithJsonSchema({"type": ["array", "object"]}),
        ]
        | None
    ) = Field(default=None, description="of the kind choice: every level there is; with names, `{ EJB: 0, direct: 1 }`")
    range: Annotated[list[RawLevel], Field(min_length=2, max_length=2)] | None = Field(
        default=None, description="the smallest and the largest level"
    )
    default: RawLevel | None = Field(default=None, description="the application's own; not known if absent")
    unit: Literal["s", "ms", "us", "bytes", "KiB", "MiB"] | None = Field(
        default=None, description="in which a duration or a size is written and read back; s and bytes if absent"
    )
    argument: Annotated[str, Field(max_length=4_000)] | None = Field(
        default=None, description="word at the end of the command: `--server.tomcat.threads.max=${level}`"
    )
    environment: Annotated[str, Field(max_length=4_000)] | None = Field(
        default=None, description="variable of the environment: `POOL_SIZE`, or with its text `POOL=${level}x`"
    )
    system_property: Annotated[str, Field(max_length=4_000)] | None = Field(
        default=None, description="system property of the JVM, as `environment`"
    )
    sysctl: Annotated[str, AfterValidator(_sysctl), Field(max_length=200)] | None = Field(
        default=None,
        description="setting of the kernel, such as `net.core.somaxconn`; the knob's name begins with host.",
    )
    file: Annotated[str, AfterValidator(_setting), Field(max_length=500)] | None = Field(
        default=None, description="the same by its file below /proc/sys or /sys"
    )
    risk: Literal["safe", "caution", "dangerous"] | None = Field(
        default=None, description="dangerous: only on a host that is marked disposable; caution if absent, of a setting"
    )
    read_back: ReadBack | None = None
    live: Literal[True] | Live | None = Field(
        default=None,
        description="the attribute of `jmx` is also written, so that the level changes while the application runs; "
        "with `invoke` and `operation` an operation follows",
    )

    @property
    def scale(self) -> float:
        """Seconds or bytes of one ``unit``."""
        return _UNITS[self.unit][1] if self.unit else 1.0

    @property
    def of_host(self) -> bool:
        """Whether it is a setting of the kernel."""
        return self.sysctl is not None or self.file is not None

    @property
    def path(self) -> str:
        """The file of a setting of the kernel."""
        return self.file or f"/proc/sys/{(self.sysctl or '').replace('.', '/')}"

    def misnamed(self, name: str) -> str:
        """Why ``name`` is no name for it; empty for one that is."""
        prefix = OF_HOST if self.of_host else PREFIX
        wrong = not name.startswith(prefix) or name == prefix
        return f"{quoted(name)}: name it {prefix}{name.rpartition('.')[2] or 'name'}" if wrong else ""

    @model_validator(mode="before")
    @classmethod
    def _choice_of_levels(cls, raw: Any) -> Any:
        return {"kind": "choice", **raw} if isinstance(raw, Mapping) and raw.get("levels") is not None else raw

    @model_validator(mode="after")
    def _whole(self) -> OwnKnob:
        ways = [way for way in _WAYS if getattr(self, way) is not None]
        if len(ways) != 1:
            ways_text = " and ".join(ways) or "nothing"
            raise KeyedError((), f"it is set by {ways_text}; write one of {', '.join(_WAYS)}")
        if self.argument is not None and "${level}" not in self.argument:
            raise KeyedError(("argument",), f"{quoted(self.argument)} has no ${{level}}: every level would be the same")
        if self.levels is not None and len(set(self.levels.values())) < len(self.levels):
            raise KeyedError(("levels",), "two names have one level: what is read back would not tell which it is")
        if self.of_host:
            for key in ("read_back", "live", "service"):
                if getattr(self, key) is not None:
                    raise KeyedError(
                        (key,), f"a setting of the kernel is live and is read from its file: leave {key} out"
                    )
        elif self.kind == "vector":
            raise KeyedError(("kind",), "a vector is of a sysctl or file: write text")
        elif self.read_back is None:
            raise KeyedError(
                (),
                "a knob without read-back: say how its level is read from the running process, such as `read_back: {"
                " http: /path, key: name }`, or by jmx, jcmd, file or environ",
            )
        if self.live is not None and self.read_back is not None and self.read_back.way != "jmx":
            raise KeyedError(("live",), f"live levels are written to an MBean, and it is read by {self.read_back.way}")
        if (self.levels is not None) != (self.kind == "choice"):
            raise KeyedError(("levels",), "`levels` are the words of the kind choice; a number has a `range`")
        if self.range is not None and self.kind in ("boolean", "choice", "text", "vector"):
            raise KeyedError(("range",), f"the kind {self.kind} has no range")
        if self.unit is not None and _UNITS[self.unit][0] != self.kind:
            raise KeyedError(("unit",), f"{self.unit} is a unit of the kind {_UNITS[self.unit][0]}, not of {self.kind}")
        knob_of("", self)
        return self


def knob_of(name: str, own: OwnKnob) -> Knob:
    """The entry of the catalogue. Raises KeyedError for bounds that are no levels."""
    levels = own.levels or {}
    bare = Knob(name, Kind(own.kind), ApplyCost.RESTART, own.summary, choices=tuple(levels), values=levels)
    bounds: list[float] = []
    for at, raw in enumerate(own.range or ()):
        try:
            bounds.append(float(bare.parse(raw)))
        except ValueError as error:
            raise KeyedError(("range", at), f"range: {error}") from None
    if bounds and bounds[0] >= bounds[1]:
        raise KeyedError(("range",), f"range: {own.range[0] if own.range else ''} is not below its other end")
    low, high = bounds or (None, None)
    ranged = replace(bare, minimum=low, maximum=high)
    try:
        default = None if own.default is None else ranged.parse(own.default)
    except ValueError as error:
        raise KeyedError(("default",), f"default: {error}") from None
    means = {way: text for way in _WAYS if (text := getattr(own, way))}
    return replace(
        ranged,
        apply_cost=ApplyCost.LIVE if own.live or own.of_host else ApplyCost.RESTART,
        summary=own.summary or next(iter(means.values()), ""),
        default=default,
        default_note="" if default is not None else "the kernel's" if own.of_host else "the application's own",
        risk=Risk(own.risk or (Risk.CAUTION if own.of_host else Risk.SAFE)),
        owner=Owner.HOST if own.of_host else Owner.APPLICATION,
        names=means,
        source="the study or its stack file" if own.of_host else "the stack file",
    )


def written(own: OwnKnob, level: Level) -> str:
    """A level as the application is given it."""
    if own.levels is not None:
        return own.levels[str(level)]
    if isinstance(level, bool):
        return "true" if level else "false"
    if own.kind in ("size", "duration"):
        return f"{float(level) / own.scale:.15g}"
    return f"{level:.15g}" if isinstance(level, float) else str(level)


def level_read(own: OwnKnob, text: str) -> Level:
    """The level that a text of the running process tells; a text that is no level of a choice as it is. Raises
    ValueError.
    """
    text = text.strip()
    if own.levels is not None:
        return next((name for name, level in own.levels.items() if level == text), text)
    if own.kind in ("size", "duration"):
        scaled = float(text) * own.scale
        return round(scaled) if own.kind == "size" else round(scaled, 9)
    bare: Knob = Knob("", Kind(own.kind), ApplyCost.RESTART, "")
    return bare.parse(text)


def _words(command: object) -> object:
    """A list of words from one text, as a shell splits it."""
    return shlex.split(command) if isinstance(command, str) else command


Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]*$", max_length=100)]
Within = Annotated[float, duration(0.1, HOUR)]
Word = Annotated[str, Field(min_length=1, max_length=4_000)]
Command = Annotated[list[Word], BeforeValidator(_words), Field(min_length=1, max_length=1_000)]
Text = Annotated[str, BeforeValidator(_text)]


def _port(text: str) -> str:
    if not re.fullmatch(r"[1-9]\d{0,4}|\$\{port[^}]*\}", text):
        raise ValueError(f"{quoted(text)} is no port: write its number, ${{port}}, or ${{port.name}} for one more")
    return text


PortText = Annotated[Text, AfterValidator(_port)]


class Ready(Strict):
    """When it is up: a path below its address is answered by this status, and by a JSON object with these entries; or
    one of ``tcp``, ``command``, ``log``.
    """

    path: HttpPath = "/"
    port: PortText | None = Field(
        default=None, description="another one, on which `path` begins at /: `${port.admin}`, 9990"
    )
    tcp: PortText | None = Field(
        default=None, description="a port that takes a connection: `${port}`, `${port.admin}`, 5672"
    )
    command: Command | None = Field(default=None, description="ends with exit code 0; `${port}` is filled in")
    log: Annotated[str, Field(min_length=1, max_length=1_000), AfterValidator(_expression)] | None = Field(
        default=None, description="regular expression of a line that it prints"
    )
    status: Annotated[int, count(599, least=100)] = 200
    says: dict[Label, RawLevel] = Field(
        default_factory=dict, max_length=20, description="entries of the response's JSON: `{ status: UP }`"
    )
    within: Within | None = Field(
        default=None,
        description="from its start; if absent the ready_timeout of the study, four times that while it is at work",
    )

    @model_validator(mode="after")
    def _one_way(self) -> Ready:
        ways = [way for way in ("tcp", "command", "log") if getattr(self, way) is not None]
        usual: dict[str, Any] = {
            "path": "/",
            "port": None,
            "status": 200,
            "says": {},
        }  # also what a lab has of a file that says none
        ways += [key for key, value in usual.items() if ways and getattr(self, key) != value][:1]
        if len(ways) > 1:
            raise KeyedError((ways[1],), f"it says {' and '.join(ways)}; write one of path, tcp, command and log")
        return self

    def texts(self) -> list[tuple[tuple[str | int, ...], str]]:
        """Those with placeholders, and their keys."""
        ports = [((key,), text) for key in ("port", "tcp") if (text := getattr(self, key)) is not None]
        return [*ports, *((("command", at), word) for at, word in enumerate(self.command or ()))]


class OwnTls(Strict):
    """HTTPS of the application's own: what is trusted there, and what is shown where it asks who the client is."""

    ca: FilePath = Field(description="PEM file: the server's own certificate, or those of authorities")
    client_certificate: FilePath | None = Field(default=None, description="PEM file, for mutual TLS")
    client_key: FilePath | None = Field(
        default=None, description="PEM file without a password; in the certificate's if absent"
    )

    @property
    def client(self) -> list[str]:
        """The file of the certificate and that of its key; one file may be both."""
        return [name for name in (self.client_certificate, self.client_key) if name is not None]

    @model_validator(mode="after")
    def _whole(self) -> OwnTls:
        if self.client_key is not None and self.client_certificate is None:
            raise KeyedError(("client_key",), "it is the key of a certificate: write client_certificate, too")
        return self


class Stop(Strict):
    """How it ends: SIGTERM, and SIGKILL after this time."""

    within: Within | None = Field(default=None, description="30 s, or as long as its start took, if absent")


class OwnDatabase(Strict):
    """Where its data are, and how each trial gets the same ones."""

    kind: Literal["none", "postgres", "mariadb", "command", "keep"] = Field(
        default="none",
        description="none: it has no data beside its directory; postgres, mariadb: leadline's own, put back to a "
        "snapshot before each trial; command: its own, put back by `reset`; keep: its own, never put back",
    )
    sql: Annotated[list[FilePath], Field(max_length=100)] = Field(
        default_factory=list, description="files that are run on the empty database, in order"
    )
    first_start: bool = Field(
        default=False, description="the application is started once before the snapshot: migrations, own seed data"
    )
    reset: Command | None = Field(default=None, description="of the kind command: run before each trial, while stopped")
    within: Within = Field(default=60.0, description="the reset command, and each SQL file, ends")

    @property
    def private(self) -> bool:
        return self.kind in ("postgres", "mariadb")

    @model_validator(mode="after")
    def _of_its_kind(self) -> OwnDatabase:
        for name in ("sql", "first_start"):
            if getattr(self, name) and not self.private:
                raise KeyedError((name,), f"{name} is for leadline's own database: write `kind: postgres` or mariadb")
        if (self.reset is not None) != (self.kind == "command"):
            raise KeyedError(("reset",), "`kind: command` and its `reset` command come together")
        return self


class Audit(Strict):
    """A check of the work after a run. One of ``sql``, ``http``, ``command``."""

    name: Name
    sql: Annotated[str, Field(min_length=1, max_length=10_000)] | None = Field(
        default=None, description="one statement, whose first column of the first row is compared"
    )
    http: HttpPath | None = Field(default=None, description="path below the address; its JSON's `key` is compared")
    command: Command | None = Field(default=None, description="passes with exit code 0")
    key: Label | None = Field(default=None, description="of the response's JSON: `orders.count`")
    equals: Annotated[Text, Field(max_length=1_000)] | None = Field(
        default=None, description="a number, or a sum over the driver's counts: `100 + ${counts.order.ok}`"
    )
    within: Within = 60.0

    @property
    def counted(self) -> bool:
        """Whether it holds the data against what leadline's own driver counted."""
        words = [self.equals or "", *(self.command or ())]
        return any("${counts." in word for word in words)

    @model_validator(mode="after")
    def _one_way(self) -> Audit:
        ways = [way for way in ("sql", "http", "command") if getattr(self, way) is not None]
        if len(ways) != 1:
            raise KeyedError((), f"it says {' and '.join(ways) or 'nothing'}; write one of sql, http and command")
        if (self.equals is not None) != ("command" not in ways) and not (self.http and not self.key):
            raise KeyedError((ways[0],), f"{ways[0]} is compared with `equals`; a command tells by its exit code")
        if self.key is not None and self.http is None:
            raise KeyedError(("key",), "`key` belongs to `http`")
        if self.equals is not None:
            try:
                terms(self.equals)
            except ValueError as error:
                raise KeyedError(("equals",), str(error)) from None
        return self


_TERM = re.compile(r"\s*([+-]?)\s*(?:(\d+(?:\.\d+)?)|\$\{counts\.([^.}]+)\.(ok|failed)\})")


def terms(text: str) -> list[tuple[float, str, str]]:
    """A sum as factor, transaction and ``ok`` or ``failed`` of each term; both empty for a number.

    Raises ValueError.
    """
    terms: list[tuple[float, str, str]] = []
    at = 0
    while at < len(text.rstrip()):
        term = _TERM.match(text, at)
        if term is None or (terms and not term[1]):
            example = "`42`, `${counts.order.ok}` or `100 + ${counts.order.ok}`"
            raise ValueError(f"equals: {quoted(text)} is no sum of numbers and counts; write {example}")
        sign = -1.0 if term[1] == "-" else 1.0
        terms.append((sign * float(term[2]), "", "") if term[2] else (sign, term[3], term[4]))
        at = term.end()
    if not terms:
        raise ValueError("equals: it is empty")
    return terms


class Attach(Strict):
    """A process that runs already, by one of ``port``, ``pid``, ``pid_file``, ``unit``."""

    port: Annotated[int, count(65_535)] | None = Field(default=None, description="on which it listens")
    pid: Annotated[int, count(1 << 22)] | None = Field(default=None, description="its number; with `port` of the file")
    pid_file: FilePath | None = Field(default=None, description="that holds its number; with `port` of the file")
    unit: Label | None = Field(default=None, description="of systemd; with `port` of the file")

    @property
    def title(self) -> str:
        """How it is named: `port 8080`."""
        return next(f"{way.replace('_', ' ')} {named}" for way, named in self.model_dump().items() if named is not None)

    @model_validator(mode="after")
    def _one_way(self) -> Attach:
        ways = [way for way, named in self.model_dump().items() if named is not None]
        if len(ways) != 1:
            raise KeyedError(
                (), f"it says {' and '.join(ways) or 'nothing'}; write one of port, pid, pid_file and unit"
            )
        return self


class Compose(Strict):
    """A service of a compose file, which leadline starts with those that it depends on, as a project of its own."""

    file: FilePath = Field(default="compose.yaml", description="the compose file")
    service: Label = Field(description="of the compose file: the one that is varied and measured")
    command: Command = Field(
        default=["docker", "compose"], description="what reads compose files: `docker-compose`, `podman-compose`"
    )

    @property
    def engine(self) -> str:
        """The program that knows the containers themselves, `docker` of `docker-compose`."""
        return self.command[0].rpartition("/")[2].partition("-")[0]


class SettingsFile(Strict):
    """A file that the application reads at its start: made from a template, and put back at the end."""

    path: FilePath = Field(description="the file, such as `/etc/shop/shop.env`")
    template: FilePath = Field(description="its text with placeholders, beside the stack file")
