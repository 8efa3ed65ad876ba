"""Spring Boot's properties as knobs, from the configuration metadata that the application's own jar carries.

Boot takes a misspelt or removed property without a word, so names are checked here and levels are read back from the
beans of the running application (``SpringBeans`` of the agent).
"""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from leadline.model.errors import UsageError, nearest, quoted
from leadline.model.knob import ApplyCost, Kind, Knob, Level, Owner
from leadline.model.ownstack import PREFIX
from leadline.model.units import parse_duration, parse_size

_METADATA = "META-INF/spring-configuration-metadata.json"
_INSIDE = ("", "BOOT-INF/classes/")
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
_FREE = re.compile(r"java\.util\.(Map|Properties)\b")  # names below it are the application's


@dataclass(frozen=True)
class Catalogue:
    """``removed``: name to what is told of it. ``free``: properties with names of the application's own below them."""

    knobs: Mapping[str, Knob]
    removed: Mapping[str, str]
    free: frozenset[str]

    def misspelt(self, property_name: str) -> str:
        """Why a property that is set elsewhere has no effect: it was removed, or another of its group is like it;
        empty where it may be the application's own.
        """
        name = _canonical(property_name)
        if name in self.removed:
            return self.removed[name]
        group, _, last = name.rpartition(".")
        known = PREFIX + name in self.knobs or any(name.startswith(f"{free}.") or name == free for free in self.free)
        siblings = [own for each in self.knobs for above, _, own in [each.rpartition(".")] if above == PREFIX + group]
        near = None if known or not group else nearest(last, siblings)
        return f"there is no property {quoted(name)}; did you mean {group}.{near}?" if near else ""


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
        for entry in _entries(jar):
            name, kind = str(entry.get("name", "")), str(entry.get("type", ""))
            deprecation = entry.get("deprecation") or {}
            if deprecation.get("level") == "error":
                instead = deprecation.get("replacement")
                told = f"; write {instead}" if instead else ""
                removed[name] = f"{name} was removed{told}"
            elif _FREE.match(kind):
                free.add(name)
            elif name:
                knobs[PREFIX + name] = _knob(name, kind, entry)
    except (zipfile.BadZipFile, ValueError, AttributeError) as error:
        raise UsageError(f"{jar}: its configuration metadata cannot be read: {error}") from error
    if not knobs:
        raise UsageError(f"{jar} has no {_METADATA}: it is no fat jar of Spring Boot")
    return Catalogue(dict(sorted(knobs.items())), removed, frozenset(free))


def _entries(jar: Path) -> Iterator[dict[str, Any]]:
    with zipfile.ZipFile(jar) as outer:
        names = set(outer.namelist())
        for name in (f"{inside}{_METADATA}" for inside in _INSIDE):
            if name in names:
                yield from json.loads(outer.read(name)).get("properties", [])
        for name in sorted(names):
            if name.startswith("BOOT-INF/lib/") and name.endswith(".jar"):
                with zipfile.ZipFile(io.BytesIO(outer.read(name))) as inner:
                    if _METADATA in inner.namelist():
                        yield from json.loads(inner.read(_METADATA)).get("properties", [])


def _knob(name: str, java: str, entry: Mapping[str, Any]) -> Knob:
    kind = _KINDS.get(java, Kind.TEXT)
    own = name.removeprefix(_HIKARI)
    pool = own != name
    default = _default(kind, entry.get("defaultValue", _DEFAULTS.get(own) if pool else None))
    old = entry.get("deprecation") or {}
    told = [str(entry.get("description", "")).split(". ")[0].rstrip(".")]
    if old or entry.get("deprecated"):
        told.append(f"deprecated{': write ' + str(old['replacement']) if old.get('replacement') else ''}")
    live = pool and own in _LIVE
    return Knob(
        PREFIX + name,
        kind,
        ApplyCost.LIVE if live else ApplyCost.RESTART,
        "; ".join(filter(None, told)) or java.rpartition(".")[2],
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


def argument(knob: Knob, level: Level) -> str:
    """The word of the command that sets a level."""
    text = str(level)
    if isinstance(level, bool):
        text = "true" if level else "false"
    elif knob.kind is Kind.DURATION:
        text = f"{round(float(level) * 1e6)}us"
    elif knob.kind is Kind.SIZE:
        text = f"{level}B"
    return f"--{knob.name[len(PREFIX) :]}={text}"


def level_of(knob: Knob, told: object) -> Level:
    """The level from what a bean holds. Raises LookupError."""
    if told is None:
        raise LookupError(f"{knob.name} has no value in the running application")
    try:
        if knob.kind is Kind.DURATION:
            return round(float(str(told)), 9)
        if knob.kind is Kind.SIZE:
            return int(str(told))
        return knob.parse(told)
    except ValueError as error:
        raise LookupError(f"{knob.name}: {error}") from error


def _canonical(name: str) -> str:
    """Boot's own form of a name: ``maximumPoolSize`` is ``maximum-pool-size``."""
    return re.sub(r"(?<=[a-z0-9])([A-Z])", r"-\1", name).lower().replace("_", "-")
