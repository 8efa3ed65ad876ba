"""Quarkus's properties as knobs, from the configuration model that the jars of its extensions carry.

Quarkus warns of a name that it does not know and goes on, and what is fixed when the application is built cannot be
changed at a start: both are refused here. Levels are read back in the running JVM (``QuarkusBeans`` of the agent).
"""

from __future__ import annotations

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
from leadline.model.units import parse_size
from leadline.stack.own import parameters as shared
from leadline.stack.own.parameters import Catalogue

OPTION = "-D"  # before NAME=VALUE, as an option of the JVM
_MODEL = "META-INF/quarkus-config-doc/quarkus-config-model.json"
_WORDS = "META-INF/quarkus-config-doc/quarkus-config-javadoc.json"
_POOL = "quarkus.datasource.jdbc."
# AgroalConnectionPoolConfiguration: what the running pool takes.
_LIVE = ("acquisition-timeout", "max-size", "min-size")
_KINDS = {
    "int": Kind.INTEGER,
    "long": Kind.INTEGER,
    "java.lang.Integer": Kind.INTEGER,
    "java.lang.Long": Kind.INTEGER,
    "java.util.OptionalInt": Kind.INTEGER,
    "java.util.OptionalLong": Kind.INTEGER,
    "boolean": Kind.BOOLEAN,
    "java.lang.Boolean": Kind.BOOLEAN,
    "float": Kind.NUMBER,
    "double": Kind.NUMBER,
    "java.lang.Double": Kind.NUMBER,
    "java.time.Duration": Kind.DURATION,
    "io.quarkus.runtime.configuration.MemorySize": Kind.SIZE,
}
_SECONDS = {"ms": 1e-3, "": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_LONGEST_SUMMARY = 200


def catalogue(artifact: Path) -> Catalogue:
    """Of ``quarkus-app/quarkus-run.jar``, whose extensions lie in ``lib`` beside it. Raises UsageError."""
    try:
        return _catalogue(artifact, artifact.stat().st_mtime_ns)
    except OSError as error:
        raise UsageError(f"{artifact} cannot be read: {error.strerror}") from None


@lru_cache(maxsize=4)
def _catalogue(artifact: Path, changed: int) -> Catalogue:  # noqa: ARG001 - a new file is read again
    knobs: dict[str, Knob] = {}
    fixed: dict[str, str] = {}
    patterns: list[re.Pattern[str]] = []
    try:
        with reading(str(artifact)):
            for item, words in _items(artifact.parent / "lib"):
                name = str(item["path"]["property"])
                paths = [name, *(str(path["property"]) for path in item.get("additionalPaths", []))]
                patterns += [_pattern(path) for path in paths if '"' in path]
                if '"' in name:
                    continue
                if str(item.get("type", "")).startswith("java.util.Map"):
                    patterns.append(re.compile(rf"{re.escape(name)}\..+"))
                elif item["phase"] == "RUN_TIME":
                    knobs[PREFIX + name] = _knob(name, item, words)
                else:
                    fixed[name] = (
                        f"{name} is fixed when the application is built; set it in its application.properties and build"
                    )
    except ReceivedError as error:
        raise UsageError(f"{artifact}: the configuration model of Quarkus cannot be read: {error.why}") from error
    if not knobs:
        directory = artifact.parent / "lib"
        if any(directory.rglob("*quarkus-core-*.jar")):
            raise UsageError(
                f"{artifact}: its release of Quarkus brings no list of its properties ({_MODEL}): leave `catalogue` "
                "out, and declare those that you vary under `knobs`"
            )
        raise UsageError(f"{artifact}: no jar in {directory} has {_MODEL}: it is no fast-jar of Quarkus")
    return Catalogue(dict(sorted(knobs.items())), fixed, frozenset(), tuple(patterns))


def _items(folder: Path) -> Iterator[tuple[dict[str, Any], str]]:
    """Properties with their first sentence."""
    for path in sorted(folder.rglob("*.jar")):
        with zipped(path, str(path)) as jar:
            names = set(jar.namelist())
            if _MODEL not in names:
                continue
            words = from_json(member(jar, _WORDS)).get("elements", {}) if _WORDS in names else {}
            for root in from_json(member(jar, _MODEL))["configRoots"]:
                for item in _flat(root):
                    sentences = words.get(f"{item.get('sourceType')}.{item.get('sourceElementName')}", {})
                    yield item, _sentence(str(sentences.get("description", "")))


def _flat(section: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for item in section.get("items", []):
        if "items" in item:
            yield from _flat(item)
        elif "phase" in item and "path" in item:
            yield item


def _sentence(text: str) -> str:
    plain = re.sub(r"<[^>]*>|\{@\w+ ([^}]*)\}", r"\1", " ".join(text.split()))
    return plain.split(". ")[0].rstrip(".")[:_LONGEST_SUMMARY]


def _pattern(path: str) -> re.Pattern[str]:
    """A name of which each part in quotation marks stands for one of the application's own."""
    parts = re.split(r'"[^"]*"', path)
    return re.compile(r'("[^"]+"|[^."]+)'.join(map(re.escape, parts)))


def _knob(name: str, item: Mapping[str, Any], words: str) -> Knob:
    kind = _KINDS.get(str(item.get("type", "")), Kind.TEXT)
    values = (item.get("enumAcceptedValues") or {}).get("values") or {}
    choices = tuple(str(value.get("configValue", value_)) for value_, value in values.items())
    kind = Kind.CHOICE if choices else kind
    default = _default(kind, item.get("defaultValue"))
    live = name.startswith(_POOL) and name.removeprefix(_POOL) in _LIVE
    sentences = [words or name, "deprecated" if item.get("deprecation") else ""]
    return Knob(
        PREFIX + name,
        kind,
        ApplyCost.LIVE if live else ApplyCost.RESTART,
        "; ".join(filter(None, sentences)),
        default,
        "" if default is not None else "as the application has it",
        minimum=0 if kind in (Kind.DURATION, Kind.SIZE) else None,
        step=0.001 if kind is Kind.DURATION else None,
        choices=choices,
        owner=Owner.APPLICATION,
        names={"Quarkus": f"{name} ({str(item.get('type', '')).rpartition('.')[2]})"},
        source="the configuration model in the jars of Quarkus",
    )


def _default(kind: Kind, raw: object) -> Level | None:
    try:
        return None if raw is None else _parsed(kind, str(raw))
    except ValueError:
        return None


def _parsed(kind: Kind, text: str) -> Level:
    """A level as Quarkus writes it. Raises ValueError."""
    if kind is Kind.DURATION:
        return duration(text)
    if kind is Kind.SIZE:
        return parse_size(text)
    if kind is Kind.CHOICE:
        return text.lower().replace("_", "-")
    return Knob("", kind, ApplyCost.RESTART, "").parse(text)


def duration(text: str) -> float:
    """Seconds of ``5S``, ``30M``, ``250ms``, ``10`` or ISO 8601's ``PT1M30S``. Raises ValueError."""
    word = text.strip().lower()
    if word.startswith("pt"):
        parts = re.fullmatch(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s)?", word[2:])
        if parts is None or not any(parts.groups()):
            raise ValueError(f"{text} is no duration")
        return sum(float(part or 0) * factor for part, factor in zip(parts.groups(), (3600, 60, 1), strict=True))
    match = re.fullmatch(r"(\d+)\s*(ms|s|m|h|d|)", word)
    if match is None:
        raise ValueError(f"{text} is no duration")
    return round(float(match[1]) * _SECONDS[match[2]], 9)


def value(knob: Knob, level: Level) -> str:
    """A level as Quarkus takes it."""
    if isinstance(level, bool):
        return "true" if level else "false"
    return f"{round(float(level) * 1000)}ms" if knob.kind is Kind.DURATION else str(level)


def level_of(knob: Knob, told: object) -> Level:
    """The level from Agroal's pool or from a text of the configuration. Raises LookupError."""
    if not isinstance(told, str) or knob.kind not in (Kind.DURATION, Kind.SIZE, Kind.CHOICE):
        return shared.level_of(knob, told)
    try:
        return _parsed(knob.kind, told)
    except ValueError as error:
        raise LookupError(f"{knob.name}: {error}") from error
