"""Spring Boot's properties as knobs, from the configuration metadata that the application's own jar carries.

Boot takes a misspelt or removed property without a word, so names are checked here and levels are read back from the
beans of the running application (``SpringBeans`` of the agent).
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from leadline.host.received import member, zipped
from leadline.model.errors import UsageError
from leadline.model.knob import ApplyCost, Kind, Knob, Level, Owner
from leadline.model.ownparts import PREFIX
from leadline.model.received import ReceivedError, from_json, reading
from leadline.model.units import parse_duration, parse_size
from leadline.stack.own.parameters import Catalogue, level_of

__all__ = ["OPTION", "catalogue", "level_of", "value"]

OPTION = "--"  # before NAME=VALUE, at the end of the command

_METADATA = "META-INF/spring-configuration-metadata.json"
_INSIDE = ("", "BOOT-INF/classes/")
_TOMCAT = "server.tomcat."
_HIKARI = "spring.datasource.hikari."
# HikariConfigMXBean: what the running pool takes; the others are sealed at its start.
_LIVE = ("connection-timeout", "idle-timeout", "max-lifetime", "maximum-pool-size", "minimum-idle")
# HikariConfig's own defaults, milliseconds; the metadata have none.
_DEFAULTS: Mapping[str, Level] = {
    "connection-timeout": 30_000,
    "idle-timeout": 600_000,
    "max-lifetime": 1_800_000,
    "maximum-pool-size": 10,
}
_KINDS = {
    "java.lang.Integer": Kind.INTEGER,
    "java.lang.Long": Kind.INTEGER,
    "java.lang.Short": Kind.INTEGER,
    "java.lang.Boolean": Kind.BOOLEAN,
    "java.lang.Double": Kind.NUMBER,
    "java.lang.Float": Kind.NUMBER,
    "java.time.Duration": Kind.DURATION,
    "org.springframework.util.unit.DataSize": Kind.SIZE,
}
# AbstractProtocol's own, as SpringBeans sets them in the running connector
_OF_TOMCAT = ("max-connections", "threads.max", "threads.min-spare")
_LARGEST = 256 << 20  # bytes of a library
_FREE = re.compile(r"java\.util\.(Map|Properties)\b")  # names below it are the application's


def catalogue(jar: Path) -> Catalogue:
    """Raises UsageError for a jar that has no metadata."""
    try:
        status = jar.stat()
    except OSError as error:
        raise UsageError(f"{jar} cannot be read: {error.strerror}") from None
    return _catalogue(jar, status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=4)
def _catalogue(jar: Path, changed: int, size: int) -> Catalogue:  # noqa: ARG001 - a new file is read again
    knobs: dict[str, Knob] = {}
    removed: dict[str, str] = {}
    free: set[str] = set()
    try:
        with reading(str(jar)):
            for entry in _entries(jar):
                name, kind = str(entry.get("name", "")), str(entry.get("type", ""))
                deprecation = entry.get("deprecation") or {}
                if deprecation.get("level") == "error":
                    instead = deprecation.get("replacement")
                    hint = f"; write {instead}" if instead else ""
                    removed[name] = f"{name} was removed{hint}"
                elif _FREE.match(kind):
                    free.add(name)
                elif name:
                    knobs[PREFIX + name] = _knob(name, kind, entry)
    except ReceivedError as error:
        raise UsageError(f"{jar}: its configuration metadata cannot be read: {error.why}") from error
    if not knobs:
        raise UsageError(f"{jar} has no {_METADATA}: it is no fat jar of Spring Boot")
    return Catalogue(dict(sorted(knobs.items())), removed, frozenset(free))


def _entries(jar: Path) -> Iterator[dict[str, Any]]:
    with zipped(jar, str(jar)) as outer:
        names = set(outer.namelist())
        for name in (f"{inside}{_METADATA}" for inside in _INSIDE):
            if name in names:
                yield from from_json(member(outer, name)).get("properties", [])
        for name in sorted(names):
            if name.startswith("BOOT-INF/lib/") and name.endswith(".jar"):
                with zipped(io.BytesIO(member(outer, name, _LARGEST)), name) as inner:
                    if _METADATA in inner.namelist():
                        yield from from_json(member(inner, _METADATA)).get("properties", [])


def _knob(name: str, java: str, entry: Mapping[str, Any]) -> Knob:
    kind = _KINDS.get(java, Kind.TEXT)
    setting = name.removeprefix(_HIKARI)
    pool = setting != name
    default = _default(kind, entry.get("defaultValue", _DEFAULTS.get(setting) if pool else None))
    old = entry.get("deprecation") or {}
    sentences = [str(entry.get("description", "")).split(". ")[0].rstrip(".")]
    if old or entry.get("deprecated"):
        sentences.append(f"deprecated{': write ' + str(old['replacement']) if old.get('replacement') else ''}")
    live = setting in _LIVE if pool else name.removeprefix(_TOMCAT) in _OF_TOMCAT and name.startswith(_TOMCAT)
    return Knob(
        PREFIX + name,
        kind,
        ApplyCost.LIVE if live else ApplyCost.RESTART,
        "; ".join(filter(None, sentences)) or java.rpartition(".")[2],
        default,
        "" if default is not None else "as the application has it",
        minimum=_least(kind),
        owner=Owner.APPLICATION,
        names={"Spring Boot": f"{name} ({java.rpartition('.')[2]})"},
        source="the jar's configuration metadata",
    )


def _least(kind: Kind) -> float | None:
    return 0 if kind in (Kind.DURATION, Kind.SIZE) else None


def _default(kind: Kind, raw: Any) -> Level | None:
    try:
        if raw is None or isinstance(raw, list):
            return None
        if kind is Kind.DURATION:
            return parse_duration(raw if not str(raw).isdigit() else f"{raw}ms")
        if kind is Kind.SIZE:
            return parse_size(str(raw).removesuffix("B") or raw)
        return Knob("", kind, ApplyCost.RESTART, "").parse(raw)
    except ValueError:
        return None


def value(knob: Knob, level: Level) -> str:
    """A level as Spring Boot takes it."""
    text = str(level)
    if isinstance(level, bool):
        text = "true" if level else "false"
    elif knob.kind is Kind.DURATION:
        text = f"{round(float(level) * 1e6)}us"
    elif knob.kind is Kind.SIZE:
        text = f"{level}B"
    return text
