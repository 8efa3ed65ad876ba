"""Every knob of this host and of the programs, or those of one server or database."""

from __future__ import annotations

from dataclasses import replace

from leadline.catalogue import default_of, load
from leadline.host.java import find_java, java_homes
from leadline.host.local import LocalHost
from leadline.load.knobs import GENERAL
from leadline.model.knob import Catalogue, Knob, Level, Machine, Owner
from leadline.model.ownparts import OF_HOST
from leadline.places.running import choice_of
from leadline.stack import registry
from leadline.stack.options import KNOBS as LIMITS
from leadline.stack.registry import APPLICATIONS, DATABASES, SERVERS
from leadline.stack.servers.jvm import PREFIX as FLAGS
from leadline.stack.servers.jvm import flag_knobs
from leadline.stack.web.common import KNOBS as WEB_KNOBS

_SHORTEST = 4  # letters of a word that flags are looked for by


def machine() -> Machine:
    """What limits of knobs depend on, of this host."""
    return LocalHost().machine()


def asks_flags(pattern: str) -> bool:
    """Whether a pattern of names asks for the flags of a JVM, of which there are hundreds."""
    return pattern.startswith(FLAGS.rstrip("."))


def flags() -> list[Knob]:
    """The product flags of the first JVM of this host. Raises UsageError where there is none."""
    return list(flag_knobs(find_java()).values())


def flags_called(name: str) -> list[Knob]:
    """Flags with that in their names (``-XX:+UseCompactObjectHeaders``, ``MaxRAMPercentage``), of the newest JVM of
    this host that has one.
    """
    word = name.removeprefix("-XX:").lstrip("+-").partition("=")[0].lower()
    homes = sorted(java_homes(), key=lambda home: -home.major) if len(word) >= _SHORTEST else []
    fitting = ([knob for knob in flag_knobs(home.path).values() if word in knob.name.lower()] for home in homes)
    return next((knobs for knobs in fitting if knobs), [])


def every_knob() -> Catalogue:
    """The knobs of this host and of every program; a generic name once, with each program's own name.

    Where programs differ in the default, it stands beside their own names.
    """
    merged: dict[str, Knob] = {knob.name: knob for knob in LocalHost().knobs()}
    for app in APPLICATIONS:
        merged |= {knob.name: knob for knob in registry.application(app).knobs()}
    programs = [
        *(registry.server(name).knobs() for name in SERVERS),
        *(registry.database(name).knobs() for name in DATABASES),
        WEB_KNOBS,
        LIMITS,
        load("guest").values(),
        GENERAL,
    ]
    for knob in (knob for program in programs for knob in program):
        widened = _widened(merged.setdefault(knob.name, knob), knob)
        if (widened.default, widened.default_note) == (knob.default, knob.default_note):
            merged[knob.name] = replace(widened, names={**widened.names, **knob.names})
        else:
            names = {**_named(widened), **_named(knob)}
            merged[knob.name] = replace(widened, default=None, default_note="", names=names)
    return Catalogue(merged.values())


def knobs_of(server: str, database: str) -> tuple[Catalogue, dict[str, list[str]]]:
    """The knobs of one server, of one database or of both; and those that only others have, with their names.

    Raises UsageError for an unknown name.
    """
    knobs: list[Knob] = []
    others: dict[str, list[str]] = {}
    if server:
        knobs += registry.server(server).knobs()
        for name in SERVERS:
            for knob in registry.server(name).knobs():
                others.setdefault(knob.name, []).append(name)
    if database:
        knobs += registry.database(database).knobs()
        for name in DATABASES:
            for knob in registry.database(name).knobs():
                others.setdefault(knob.name, []).append(name)
    names = {knob.name for knob in knobs}
    return Catalogue(knobs), {name: owners for name, owners in sorted(others.items()) if name not in names}


def knobs_of_stack(stack: str) -> tuple[Catalogue, LocalHost]:
    """Every knob of a stack file, a study's stack or ``SERVER/MODE``, part by part, and this host with what the file
    declares. Raises UsageError.
    """
    choice = choice_of(stack)
    host = LocalHost()
    host.declare(choice.own.content.host_knobs if choice.own else {})
    declared = [knob for knob in host.knobs() if knob.name.startswith(OF_HOST)]
    return Catalogue([*registry.stack_catalogue(choice), *declared]), host


def present(knob: Knob, host: LocalHost | None = None) -> tuple[Level, str]:
    """Today's level of a knob of this host, and why it cannot be set (empty if it can); both empty for others."""
    if knob.owner is not Owner.HOST:
        return "", ""
    host = host or LocalHost()
    try:
        return host.read_back(knob.name), host.writable(knob.name)
    except (LookupError, OSError) as error:
        return "", str(error)


def _widened(known: Knob, other: Knob) -> Knob:
    """``known`` with the range of both; a program's own range is in its own list. A level is refused by both, or none:
    what one program refuses another may have.
    """
    if known is other:
        return known
    lows, highs = (known.minimum, other.minimum), (known.maximum, other.maximum)
    minimum = None if None in lows else min(lows)  # type: ignore[type-var]
    maximum = None if None in highs else max(highs)  # type: ignore[type-var]
    relative = {name: bound for name, bound in known.relative.items() if name in other.relative}
    refused = {level: why for level, why in known.refused.items() if level in other.refused}
    return replace(known, minimum=minimum, maximum=maximum, relative=relative, refused=refused)


def _named(knob: Knob) -> dict[str, str]:
    if knob.default is None and not knob.default_note:
        return dict(knob.names)
    return {program: f"{name} (default {default_of(knob)})" for program, name in knob.names.items()}
