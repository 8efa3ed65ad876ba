"""Product flags of a JVM as knobs, ``jvm.flag.NAME``: type, default and range as that JVM tells them.

A flag that leadline has by another name is left out: two knobs of one flag would contradict each other.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from leadline.host.java import java_says
from leadline.model.errors import nearest
from leadline.model.knob import ApplyCost, Kind, Knob, Level, Owner

PREFIX = "jvm.flag."
_ROW = re.compile(r"\s*(\w+)\s+(\w+)\s+=(.*?)\s*\{([^}]*)\}\s*\{[^}]*\}\s*")
_RANGE = re.compile(r"\s*\w+\s+(\w+)\s+\[\s*(\S+)\s+\.\.\.\s+(\S+)\s*\]")
_KINDS = {
    "bool": Kind.BOOLEAN,
    "size_t": Kind.SIZE,
    "double": Kind.NUMBER,
    "ccstr": Kind.TEXT,
    "ccstrlist": Kind.TEXT,
}


def flag_knobs(home: Path) -> Mapping[str, Knob]:
    """Every product flag of the JVM in a JAVA_HOME by the knob's name; empty where it does not tell them."""
    library = next((path for path in (home / "release", home / "bin" / "java") if path.exists()), home)
    try:
        return _flag_knobs(home, library.stat().st_mtime_ns)
    except OSError:
        return {}


@lru_cache(maxsize=8)
def _flag_knobs(home: Path, changed: int) -> Mapping[str, Knob]:  # noqa: ARG001 - a new JVM is asked again
    values, ranges = (java_says(home, f"-XX:+PrintFlags{which}").stdout for which in ("Final", "Ranges"))
    return knobs_in(values, ranges)


def knobs_in(values: str, ranges: str) -> Mapping[str, Knob]:
    """The knobs in what ``-XX:+PrintFlagsFinal`` and ``-XX:+PrintFlagsRanges`` print."""
    bounds = {match[1]: (match[2], match[3]) for line in ranges.splitlines() if (match := _RANGE.match(line))}
    knobs = {}
    for line in values.splitlines():
        match = _ROW.fullmatch(line)
        if match is not None and match[2] not in _elsewhere():
            knobs[PREFIX + match[2]] = _knob(match[1], match[2], match[3].strip(), match[4], bounds.get(match[2]))
    return knobs


def _knob(java: str, name: str, value: str, groups: str, bounds: tuple[str, str] | None) -> Knob:
    kind = _KINDS.get(java, Kind.INTEGER)
    live = "manageable" in groups.split()
    low, high = (float(bound) for bound in bounds) if bounds else (None, None)
    if kind is Kind.BOOLEAN:
        low = high = None
    return Knob(
        PREFIX + name,
        kind,
        ApplyCost.LIVE if live else ApplyCost.RESTART,
        f"Flag of this JVM ({java}, {groups})",
        _level(kind, value),
        "" if value else "empty",
        minimum=low,
        maximum=high,
        owner=Owner.JVM,
        names={"jvm": f"-XX:{'+' if kind is Kind.BOOLEAN else ''}{name}"},
        source="-XX:+PrintFlagsFinal and -XX:+PrintFlagsRanges of this JVM",
    )


def _level(kind: Kind, text: str) -> Level | None:
    if kind is Kind.TEXT:
        return text or None
    if kind is Kind.BOOLEAN:
        return text == "true"
    return float(text) if kind is Kind.NUMBER else int(text)


def level_of(knob: Knob, text: str) -> Level:
    """The level from the flag's value in a running JVM. Raises LookupError."""
    try:
        level = _level(knob.kind, text)
    except ValueError as error:
        raise LookupError(f"{knob.name}: {error}") from error
    return "" if level is None else level


def option(knob: Knob, level: Level) -> str:
    """The word of the command line that sets a level."""
    if isinstance(level, bool):
        return f"-XX:{'+' if level else '-'}{knob.name.removeprefix(PREFIX)}"
    return f"-XX:{assigned(knob.name, level)}"


def assigned(name: str, level: Level) -> str:
    """``NAME=VALUE`` as the JVM takes it."""
    text = "true" if level is True else "false" if level is False else level
    return f"{name.removeprefix(PREFIX)}={text}"


def refusal(home: Path, options: list[str]) -> str:
    """Why the JVM does not start with these options, in its own words; empty where it does."""
    try:
        done = java_says(home, *options)
    except OSError as error:
        return str(error)
    lines_said = [line.strip() for line in f"{done.stdout}\n{done.stderr}".splitlines() if line.strip()]
    problems = [
        line for line in lines_said if not line.startswith(("Error: Could not create", "Error: A fatal exception"))
    ]
    return "; ".join(problems[:2]) if done.returncode else ""


def elsewhere(name: str, known: Mapping[str, Knob]) -> str:
    """Why there is no knob ``jvm.flag.NAME``: leadline has it by another name, or the JVM has one that is like it;
    empty for other names.
    """
    if not name.startswith(PREFIX) or name in known:
        return ""
    flag = name.removeprefix(PREFIX)
    if (other_name := _elsewhere().get(flag)) is not None:
        return f"the flag {flag} is the knob {other_name} here; write that"
    near = nearest(name, list(known))
    return f"this JVM has no product flag {flag}" + (f"; did you mean {near}?" if near else "")


@lru_cache(maxsize=1)
def _elsewhere() -> Mapping[str, str]:
    """Flags that other knobs set, with the names of those."""
    from leadline.stack.servers import jvm

    knob_of_flag = {flag.name: name for name, flag in jvm.FLAG_OF.items()}
    knob_of_flag |= dict.fromkeys(jvm.COLLECTOR_FLAGS.values(), jvm.COLLECTOR.name)
    return knob_of_flag | dict.fromkeys(("UseTransparentHugePages", "UseLargePages"), jvm.LARGE_PAGES.name)
