"""A stack file: how an application of one's own is started, probed, reset, audited, and which knobs it has."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_args

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    GetJsonSchemaHandler,
    model_validator,
)
from pydantic_core import CoreSchema

from leadline.model.bounds import HOUR, FilePath, Label, Strict, count, duration
from leadline.model.errors import KeyedError, nearest, quoted
from leadline.model.knob import ApplyCost, Kind, Knob, Level, Owner

Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]*$", max_length=100)]
Raw = bool | int | float | str
Within = Annotated[float, duration(0.1, HOUR)]
COMMAND = "command"  # in place of a server's name
ServerName = Literal["liberty", "tomcat", "tomee", "wildfly"]
_OF_WAR = ("server", "context_root", "server_config", "data_source", "data", "properties")
PREFIX = "app."  # of the names of an application's own knobs
_PLACEHOLDER = re.compile(r"\$\{([^}]*)\}")
PLACEHOLDERS = ("port", "address", "folder", "directory", "java", "jvm", "args")
IN_SETTINGS = ("port", "folder", "jvm", "args", "environment")  # of a settings file's template
IN_WAR = ("port", "address", "folder", "directory")
DRIVER = "database.driver"  # path of the JDBC driver's jar
OF_DATABASE = tuple(f"database.{word}" for word in ("jdbc", "host", "port", "name", "user", "password"))
_UNITS = {
    "s": (Kind.DURATION, 1.0),
    "ms": (Kind.DURATION, 1e-3),
    "us": (Kind.DURATION, 1e-6),
    "bytes": (Kind.SIZE, 1.0),
    "KiB": (Kind.SIZE, 1024.0),
    "MiB": (Kind.SIZE, 1024.0**2),
}


def _words(command: object) -> object:
    """A list of words from one text, as a shell splits it."""
    return shlex.split(command) if isinstance(command, str) else command


def _http_path(text: str) -> str:
    if not re.fullmatch(r"/[!-~]*", text):
        raise ValueError(f"{quoted(text)} is no path below the application's address; it begins with a /: /health")
    return text


def _root(text: str) -> str:
    if not re.fullmatch(r"/[\w.-]*", text, re.ASCII):
        raise ValueError(f"{quoted(text)} is not where an application begins: write / or /name")
    return text


HttpPath = Annotated[str, AfterValidator(_http_path), Field(max_length=2_000)]
Word = Annotated[str, Field(min_length=1, max_length=4_000)]
Command = Annotated[list[Word], BeforeValidator(_words), Field(min_length=1, max_length=1_000)]


def _pattern(text: str) -> str:
    try:
        groups = re.compile(text).groups
    except re.error as error:
        raise ValueError(f"{quoted(text)} is no regular expression: {error}") from None
    if groups != 1:
        raise ValueError(f"{quoted(text)} has {groups} groups; write one, around the level: 'size=([0-9]+)'")
    return text


class ReadBack(Strict):
    """How the level in force is read from the running process. One of ``http``, ``jmx``, ``jcmd``, ``file``."""

    http: HttpPath | None = Field(default=None, description="path below the application's address, answered by 200")
    jmx: Annotated[str, Field(min_length=3, max_length=1_000)] | None = Field(
        default=None, description="name of an MBean, such as `com.zaxxer.hikari:type=Pool (main)`; with `attribute`"
    )
    jcmd: Annotated[str, Field(min_length=2, max_length=200)] | None = Field(
        default=None, description="command of the JDK's jcmd, such as `VM.system_properties`"
    )
    file: FilePath | None = Field(default=None, description="file that the application writes in its directory")
    attribute: Label | None = Field(default=None, description="of the MBean")
    key: Label | None = Field(
        default=None, description="in the response's JSON (`pool.size`), or of a line `key=value`"
    )
    pattern: Annotated[str, BeforeValidator(_pattern)] | None = Field(
        default=None, description="regular expression with one group, around the level"
    )

    @property
    def way(self) -> str:
        """The one of the four that is given."""
        return next(way for way in ("http", "jmx", "jcmd", "file") if getattr(self, way) is not None)

    @model_validator(mode="after")
    def _one_way(self) -> ReadBack:
        ways = [way for way in ("http", "jmx", "jcmd", "file") if getattr(self, way) is not None]
        if len(ways) != 1:
            told = " and ".join(ways) or "nothing"
            raise KeyedError((), f"it says {told}; write one of http, jmx, jcmd and file")
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


class OwnKnob(Strict):
    """A parameter of the application: how it is set at a start, and how it is read back."""

    summary: Annotated[str, Field(max_length=500)] = ""
    kind: Literal["integer", "number", "size", "duration", "boolean", "choice", "text"] = "integer"
    levels: Annotated[list[Label], Field(min_length=2, max_length=100)] | None = Field(
        default=None, description="of the kind choice: every level there is"
    )
    range: Annotated[list[Raw], Field(min_length=2, max_length=2)] | None = Field(
        default=None, description="the smallest and the largest level"
    )
    default: Raw | None = Field(default=None, description="the application's own; not known if absent")
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

    @model_validator(mode="after")
    def _whole(self) -> OwnKnob:
        ways = [way for way in ("argument", "environment", "system_property") if getattr(self, way) is not None]
        if len(ways) != 1:
            told = " and ".join(ways) or "nothing"
            raise KeyedError((), f"it is set by {told}; write one of argument, environment and system_property")
        if self.argument is not None and "${level}" not in self.argument:
            raise KeyedError(("argument",), f"{quoted(self.argument)} has no ${{level}}: every level would be the same")
        if self.read_back is None:
            raise KeyedError(
                (),
                "a knob without read-back: say how its level is read from the running process, such as `read_back: {"
                " http: /path, key: name }`, or by jmx, jcmd or file",
            )
        if self.live is not None and self.read_back.way != "jmx":
            raise KeyedError(("live",), f"live levels are written to an MBean, and it is read by {self.read_back.way}")
        if (self.levels is not None) != (self.kind == "choice"):
            raise KeyedError(("levels",), "`levels` are the words of the kind choice; a number has a `range`")
        if self.range is not None and self.kind in ("boolean", "choice", "text"):
            raise KeyedError(("range",), f"the kind {self.kind} has no range")
        if self.unit is not None and _UNITS[self.unit][0] != self.kind:
            raise KeyedError(("unit",), f"{self.unit} is a unit of the kind {_UNITS[self.unit][0]}, not of {self.kind}")
        knob_of("", self)
        return self


def knob_of(name: str, own: OwnKnob) -> Knob:
    """The entry of the catalogue. Raises KeyedError for bounds that are no levels."""
    bare = Knob(name, Kind(own.kind), ApplyCost.RESTART, own.summary, choices=tuple(own.levels or ()))
    bounds: list[float] = []
    for at, raw in enumerate(own.range or ()):
        try:
            bounds.append(float(bare.parse(raw)))
        except ValueError as error:
            raise KeyedError(("range", at), f"range: {error}") from None
    if bounds and bounds[0] >= bounds[1]:
        raise KeyedError(("range",), f"range: {own.range[0] if own.range else ''} is not below its other end")
    low, high = bounds or (None, None)
    ranged = Knob(bare.name, bare.kind, bare.apply_cost, bare.summary, choices=bare.choices, minimum=low, maximum=high)
    try:
        default = None if own.default is None else ranged.parse(own.default)
    except ValueError as error:
        raise KeyedError(("default",), f"default: {error}") from None
    note = "" if default is not None else "the application's own"
    means = {way: text for way in ("argument", "environment", "system_property") if (text := getattr(own, way))}
    return Knob(
        name,
        ranged.kind,
        ApplyCost.LIVE if own.live else ApplyCost.RESTART,
        own.summary or next(iter(means.values())),
        default,
        note,
        minimum=low,
        maximum=high,
        choices=ranged.choices,
        owner=Owner.APPLICATION,
        names=means,
        source="the stack file",
    )


def written(own: OwnKnob, level: Level) -> str:
    """A level as the application is given it."""
    if isinstance(level, bool):
        return "true" if level else "false"
    if own.kind in ("size", "duration"):
        return f"{float(level) / own.scale:.15g}"
    return f"{level:.15g}" if isinstance(level, float) else str(level)


def level_read(own: OwnKnob, text: str) -> Level:
    """The level that a text of the running process tells. Raises ValueError."""
    text = text.strip()
    if own.kind in ("size", "duration"):
        scaled = float(text) * own.scale
        return round(scaled) if own.kind == "size" else round(scaled, 9)
    bare: Knob = Knob("", Kind(own.kind), ApplyCost.RESTART, "")
    return bare.parse(text)


class Ready(Strict):
    """When it is up: a path below its address is answered by this status, and by a JSON object with these entries."""

    path: HttpPath = "/"
    status: Annotated[int, count(599, least=100)] = 200
    says: dict[Label, Raw] = Field(
        default_factory=dict, max_length=20, description="entries of the response's JSON: `{ status: UP }`"
    )
    within: Within | None = Field(default=None, description="from its start; the study's ready_timeout if absent")


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
    equals: Annotated[str, BeforeValidator(lambda raw: _text(raw)), Field(max_length=1_000)] | None = Field(
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
        if (self.equals is not None) != (self.command is None) and not (self.http and not self.key):
            raise KeyedError((ways[0],), f"{ways[0]} is compared with `equals`; a command tells by its exit code")
        if self.key is not None and self.http is None:
            raise KeyedError(("key",), "`key` is of the response of `http`")
        if self.equals is not None:
            try:
                terms(self.equals)
            except ValueError as error:
                raise KeyedError(("equals",), str(error)) from None
        return self


def _text(raw: object) -> object:
    return str(raw) if isinstance(raw, (int, float)) and not isinstance(raw, bool) else raw


_TERM = re.compile(r"\s*([+-]?)\s*(?:(\d+(?:\.\d+)?)|\$\{counts\.([^.}]+)\.(ok|failed)\})")


def terms(text: str) -> list[tuple[float, str, str]]:
    """A sum as factor, transaction and ``ok`` or ``failed`` of each term; both empty for a number.

    Raises ValueError.
    """
    found: list[tuple[float, str, str]] = []
    at = 0
    while at < len(text.rstrip()):
        term = _TERM.match(text, at)
        if term is None or (found and not term[1]):
            example = "`42`, `${counts.order.ok}` or `100 + ${counts.order.ok}`"
            raise ValueError(f"equals: {quoted(text)} is no sum of numbers and counts; write {example}")
        sign = -1.0 if term[1] == "-" else 1.0
        found.append((sign * float(term[2]), "", "") if term[2] else (sign, term[3], term[4]))
        at = term.end()
    if not found:
        raise ValueError("equals: it is empty")
    return found


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


class SettingsFile(Strict):
    """A file that the application reads at its start: made from a template, and put back at the end."""

    path: FilePath = Field(description="the file, such as `/etc/shop/shop.env`")
    template: FilePath = Field(description="its text with placeholders, beside the stack file")


def _database(found: object) -> object:
    return {"kind": found} if isinstance(found, str) else found


class OwnStack(Strict):
    """An application of one's own as a stack file tells it (docs/guides/own-application.md)."""

    stack: Name = Field(description="name of the application")
    command: Command | None = Field(
        default=None, description="starts it in the foreground: `java -jar shop.jar --server.port=${port}`"
    )
    attach: Attach | None = Field(
        default=None, description="in place of `command`: a process that runs, which leadline never stops"
    )
    mine: Literal[True] | None = Field(
        default=None, description="of `attach`: the process is yours to measure and to change"
    )
    war: FilePath | None = Field(
        default=None, description="in place of `command`: an archive (WAR or EAR) that `server` runs"
    )
    server: ServerName | None = Field(default=None, description="of `war`")
    context_root: Annotated[str, AfterValidator(_root), Field(max_length=200)] | None = Field(
        default=None, description="of `war`: where it begins below its address; / and the archive's name if absent"
    )
    server_config: FilePath | None = Field(
        default=None,
        description="of `war`: directory of your own configuration of the server, which is copied",
    )
    data_source: Label | None = Field(
        default=None,
        description="of `war`: the pool whose knobs are `server.datasource.`: its JNDI name; with `server_config` its "
        "name there, needed where there are several",
    )
    data: dict[Label, FilePath] = Field(
        default_factory=dict,
        max_length=20,
        description="of `war`: a directory of the server's own and the one beside this file that is copied there at "
        "every start: an embedded database, files",
    )
    properties: dict[Label, Annotated[str, BeforeValidator(_text), Field(max_length=4_000)]] = Field(
        default_factory=dict, max_length=200, description="of `war`: system properties of the server's JVM"
    )
    artifact: FilePath | None = Field(default=None, description="of `attach`: the jar that runs, for its catalogue")
    restart: Command | None = Field(
        default=None, description="of `attach`: restarts the process; without it only live knobs can be varied"
    )
    settings_file: SettingsFile | None = Field(
        default=None, description="of `attach`: what the process reads when it is restarted"
    )
    port: Annotated[int, count(65_535)] | None = Field(
        default=None, description="of an application that takes none; a free one, as ${port}, if absent"
    )
    path: Annotated[str, AfterValidator(_root), Field(max_length=200)] = Field(
        default="/", description="where it begins below its address; of a `war` that is `context_root`"
    )
    ready: Ready = Ready()
    directory: FilePath | None = Field(
        default=None, description="copied to a fresh one in which it runs, at every start; empty if absent"
    )
    environment: dict[Label, Annotated[str, BeforeValidator(_text), Field(max_length=4_000)]] = Field(
        default_factory=dict, max_length=200
    )
    java: FilePath | None = Field(default=None, description="JAVA_HOME of its JVM; the one found if absent")
    database: Annotated[OwnDatabase, BeforeValidator(_database)] = OwnDatabase()
    catalogue: Literal["spring-boot", "quarkus"] | None = Field(
        default=None, description="every property in the artifact's own metadata is a knob, `app.` before its name"
    )
    knobs: dict[Label, OwnKnob] = Field(default_factory=dict, max_length=200, description="names begin with `app.`")
    audits: list[Audit] = Field(default_factory=list, max_length=100)
    scenario: FilePath | None = Field(default=None, description="of studies that name none; beside this file")

    @property
    def java_program(self) -> bool:
        """Whether the first word of the command is the JVM itself."""
        return bool(self.command) and self.words[0].rpartition("/")[2] == "java"

    @property
    def words(self) -> list[str]:
        """Of the command, none where there is none."""
        return self.command or []

    @property
    def fixed_port(self) -> int | None:
        """A port that is the application's own."""
        return self.port or (self.attach.port if self.attach else None)

    @property
    def jvm(self) -> bool:
        """Whether options of a JVM can be given: its command is known, or the file says where they go."""
        return (
            self.war is not None
            or self.java_program
            or self.attach is not None
            or any("${jvm}" in text for _, text in self.texts())
        )

    def texts(self) -> Iterator[tuple[tuple[str | int, ...], str]]:
        """Every text with placeholders, and its key."""
        yield from ((("command", at), word) for at, word in enumerate(self.words))
        yield from ((("restart", at), word) for at, word in enumerate(self.restart or ()))
        yield from ((("environment", name), text) for name, text in self.environment.items())
        yield from ((("properties", name), text) for name, text in self.properties.items())

    @property
    def root(self) -> str:
        """Where the application begins below its address."""
        if self.war is None:
            return self.path
        stem = re.sub(r"[^\w.-]", "-", self.war.rpartition("/")[2].rpartition(".")[0], flags=re.ASCII)
        return self.context_root or f"/{stem}"

    @model_validator(mode="before")
    @classmethod
    def _data_of_its_own(cls, found: object) -> object:
        attached = isinstance(found, Mapping) and found.get("attach") is not None and "database" not in found
        return {**found, "database": "keep"} if attached and isinstance(found, Mapping) else found

    @model_validator(mode="after")
    def _one_start(self) -> OwnStack:
        ways = [way for way in ("command", "war", "attach") if getattr(self, way)]
        if len(ways) != 1:
            told = " and ".join(ways) or "nothing that runs"
            raise KeyedError((ways[1],) if ways else (), f"it says {told}; write one of command, war and attach")
        if self.attach is None:
            for name in ("mine", "artifact", "restart", "settings_file"):
                if getattr(self, name) is not None:
                    raise KeyedError((name,), f"{name} is for a process that runs already: write `attach`")
            self._check_war()
            return self
        if self.mine is None:
            told = "leadline did not start it: write `mine: true` beside it to say that it is yours to measure"
            raise KeyedError(("attach",), told)
        if self.fixed_port is None:
            raise KeyedError(("attach",), f"say by `port: 8080` where {self.attach.title} listens")
        if self.directory is not None:
            raise KeyedError(("directory",), "a process that runs already has its directory: leave it out")
        if self.database.private:
            told = f"`database: {self.database.kind}` is started with the application, and this one runs already"
            raise KeyedError(("database",), f"{told}: write keep, none, or a reset command")
        if self.catalogue is not None and self.artifact is None:
            raise KeyedError(("catalogue",), "say by `artifact: shop.jar` which file's properties they are")
        if self.restart is not None and self.attach.pid is not None:
            raise KeyedError(("restart",), "its pid is another one then: write attach by port, pid_file or unit")
        if self.settings_file is not None and self.restart is None:
            raise KeyedError(("settings_file",), "it is read at a start: write the `restart` command, too")
        if self.environment and self.settings_file is None:
            raise KeyedError(("environment",), "it is given at a start: by a settings_file with ${environment}")
        return self

    def _check_war(self) -> None:
        if self.war is None:
            for name in _OF_WAR:
                if getattr(self, name):
                    raise KeyedError((name,), f"{name} is for a server that runs an archive: write `war`")
            return
        if self.server is None:
            servers = ", ".join(get_args(ServerName))
            raise KeyedError(("war",), f"say by `server: liberty` which server runs it; there is {servers}")
        kind = self.war.rpartition(".")[2].lower()
        if kind not in ("war", "ear"):
            raise KeyedError(("war",), f"{quoted(self.war)} is no .war and no .ear; a jar is started by a `command`")
        if kind == "ear" and self.server in ("tomcat", "tomee"):
            raise KeyedError(("war",), f"{self.server} takes no EAR here; write liberty or wildfly")
        for name in ("directory", "catalogue"):
            if getattr(self, name) is not None:
                raise KeyedError((name,), f"{name} is of a command; a server has `server_config` and `data`")
        if self.path != "/":
            raise KeyedError(("path",), "of a `war` the key is `context_root`")
        if self.data_source is not None and self.server_config is None and not self.database.private:
            told = "there is no pool: write `database: postgres` or mariadb, or the `server_config` that has it"
            raise KeyedError(("data_source",), told)
        for place in self.data:
            if place.startswith("/") or ".." in place.split("/"):
                told = f"{quoted(place)} is not below the server's own directory: write it without / at its beginning"
                raise KeyedError(("data", place), told)
        for name, knob in self.knobs.items():
            if knob.argument is not None:
                told = "a server takes no arguments: set it by environment or system_property"
                raise KeyedError(("knobs", name, "argument"), told)

    @property
    def _known(self) -> list[str]:
        """Placeholders that it may use."""
        own = IN_WAR if self.war is not None else PLACEHOLDERS
        of_war = (DRIVER,) if self.war is not None else ()
        return [*own, *((*OF_DATABASE, *of_war) if self.database.private else ())]

    @model_validator(mode="after")
    def _consistent(self) -> OwnStack:
        known = self._known
        for path, text in self.texts():
            for name in _PLACEHOLDER.findall(text):
                if name not in known:
                    raise KeyedError(path, unknown_placeholder(name, known, self.database.kind))
        if self.war is None and self.fixed_port is None and not any("${port}" in text for _, text in self.texts()):
            raise KeyedError(
                ("command",),
                "nothing takes the port: write ${port} where the command or the environment says it, such as"
                " --server.port=${port}, or `port: 8080` for an application with one of its own",
            )
        if not self.jvm and (lost := [name for name, knob in self.knobs.items() if knob.system_property]):
            raise KeyedError(("knobs", lost[0]), "a system property needs a JVM: write ${jvm} where its options go")
        for name, knob in self.knobs.items():
            if not name.startswith(PREFIX) or name == PREFIX:
                raise KeyedError(("knobs", name), f"{quoted(name)}: name it app.{name.rpartition('.')[2] or 'name'}")
            if knob.read_back and knob.read_back.way in ("jmx", "jcmd") and not self.jvm:
                told = f"{knob.read_back.way} needs a JVM: write ${{jvm}} where its options go"
                raise KeyedError(("knobs", name, "read_back"), told)
        if self.catalogue is not None and not self.jvm:
            raise KeyedError(("catalogue",), "levels are read in the JVM: write ${jvm} where its options go")
        names = [audit.name for audit in self.audits]
        for at, audit in enumerate(self.audits):
            if audit.name in names[:at]:
                raise KeyedError(("audits", at, "name"), f"two audits are called {audit.name}")
            if audit.sql is not None and not self.database.private:
                told = "sql is asked of leadline's own database: write `database: postgres` or mariadb"
                raise KeyedError(("audits", at, "sql"), f"{told}, or take http or command")
        return self


def placeholders(text: str) -> list[str]:
    """Names of the placeholders in a text."""
    return _PLACEHOLDER.findall(text)


def unknown_placeholder(name: str, known: Sequence[str], database: str = "none") -> str:
    """What is told of a placeholder that is not known."""
    if name in OF_DATABASE:
        return f"${{{name}}} is of leadline's own database, and `database` is {database}: write postgres or mariadb"
    near = nearest(name, list(known))
    hint = f"did you mean ${{{near}}}?" if near else f"there is {', '.join(f'${{{each}}}' for each in known)}"
    return f"unknown placeholder ${{{name}}}; {hint}"


def filled(text: str, values: Mapping[str, str]) -> str:
    """A text with its placeholders filled in; ``values`` has them all."""
    return _PLACEHOLDER.sub(lambda found: values[found[1]], text)


def named_after(found: object) -> object:
    """A study's `stack` that a stack file was read into: application, server and database are called as in the file."""
    own = found.get("own") if isinstance(found, Mapping) else None
    content = own.get("content") if isinstance(own, Mapping) else None
    if not isinstance(found, Mapping) or not isinstance(content, Mapping):
        return found
    database = content.get("database", "keep" if content.get("attach") else "none")
    kind = database.get("kind", "none") if isinstance(database, Mapping) else database
    java = {"java": content["java"]} if content.get("java") is not None else {}
    server = content.get("server") or COMMAND
    return {**java, **found, "app": content.get("stack"), "server": server, "database": kind}


@dataclass(frozen=True)
class OrStackFile:
    """An annotation for the schema of editors: in place of the keys the name of a stack file may stand."""

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {"anyOf": [{"type": "string", "description": "a stack file"}, dict(handler(schema))]}


class OwnFile(Strict):
    """A stack file as a study holds it: ``file`` is where it was read from, its contents are those of that time."""

    file: str
    content: OwnStack

    @property
    def title(self) -> str:
        """Where it is told, and what becomes of its data."""
        told = {
            "none": "",
            "keep": ", its data are never put back",
            "command": ", its data put back by a command",
        }
        kind = self.content.database.kind
        return f"{self.file.rpartition('/')[2]}{told.get(kind, f' with {kind}')}"
