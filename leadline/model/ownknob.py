"""Parameters of an application of one's own: how a stack file has them set and read back."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from leadline.model.bounds import FilePath, Label, RawLevel, Strict
from leadline.model.errors import KeyedError, quoted
from leadline.model.knob import ApplyCost, Kind, Knob, Level, Owner

PREFIX = "app."  # of the names of an application's own knobs
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
            ways_text = " and ".join(ways) or "nothing"
            raise KeyedError((), f"it says {ways_text}; write one of http, jmx, jcmd and file")
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
            ways_text = " and ".join(ways) or "nothing"
            raise KeyedError((), f"it is set by {ways_text}; write one of argument, environment and system_property")
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
