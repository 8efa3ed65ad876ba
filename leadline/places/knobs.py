"""Every knob of this host and of the programs, or those of one server or database; and a stack
without a study: up, left running, down.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import get_args

from leadline.catalogue import default_of, load
from leadline.checks.files.stack import check_java, is_stack_file, read_stack
from leadline.checks.files.study import find_study
from leadline.host.java import find_java
from leadline.host.local import LocalHost
from leadline.host.textfile import expanded
from leadline.load.knobs import GENERAL
from leadline.model.errors import UsageError, nearest, quoted, shortened
from leadline.model.knob import Catalogue, Knob, Level, Machine, Owner
from leadline.model.ownparts import OF_HOST
from leadline.model.study import Mode, StackChoice
from leadline.stack import registry
from leadline.stack.assembly import Stack
from leadline.stack.options import StackOptions
from leadline.stack.registry import APPLICATIONS, DATABASES, SERVERS, applications_on, not_a_knob, stack_catalogue
from leadline.stack.running import require_none_running, save_running, stop_running
from leadline.stack.servers.jvm import PREFIX as FLAGS
from leadline.stack.servers.jvm import flag_knobs
from leadline.stack.web.common import KNOBS as WEB_KNOBS
from leadline.stack.web.common import chosen
from leadline.store.labfile import services_of


@dataclass(frozen=True)
class RunningStack:
    """``seconds`` from the server's start to its first correct response; ``trusted``: the certificate's file with TLS;
    ``login``: how a person logs in, empty where nobody does.
    """

    stack: str
    url: str
    seconds: float
    logs: Path
    trusted: Path | None
    login: str


def start(
    choice: StackChoice, settings: Sequence[str], lab: Path, port: int, progress: Callable[[str], None]
) -> RunningStack:
    """Start a stack with ``knob=level`` settings and leave it running; ``port`` 0 takes a free one.

    Raises UsageError, also while another is up in this lab, and LeadlineError.
    """
    if choice.own is not None and choice.own.content.attach is not None:
        raise UsageError(f"{choice.own.file} attaches to a process that is up already; nothing is started or stopped")
    if choice.own is not None and (compose := choice.own.content.compose) is not None:
        raise UsageError(f"{choice.own.file}: its containers are started by {' '.join(compose.command)} up")
    host = LocalHost()
    levels = settings_of(choice, settings)
    lab.mkdir(parents=True, exist_ok=True)
    with host.lease():
        require_none_running(lab, host)
        name = f"{choice.server}-{choice.mode}"
        web = chosen(levels)
        options = StackOptions(http_port=port, web_servers=[web] if web else [])
        stack = Stack(choice, host, services_of(lab) / f"up-{name}", options)
        stack.provision(progress)
        stack.prepare_data(progress)
        directory = lab / "up" / f"{name}-{int(time.time())}"
        stack.reset_data(directory)
        seconds = stack.up(levels, directory)
        saved = save_running(stack, host, lab, directory)
        certificate, trusted = stack.certificate(), None
        if certificate is not None:
            trusted = directory / "logs" / "tls.crt"
            trusted.write_text(certificate)
    return RunningStack(saved.stack, saved.url, seconds, directory, trusted, stack.application.login())


def choice_of(stack: str) -> StackChoice:
    """The stack of ``SERVER/MODE`` or of a study. Raises UsageError."""
    if is_stack_file(stack):
        stack_read = read_stack(expanded(stack))
        check_java(stack_read)
        return StackChoice.model_validate({"own": stack_read.model_dump(mode="json", exclude_unset=True)})
    try:
        return find_study(stack).study.stack
    except UsageError:
        server, _, mode = stack.partition("/")
        modes = get_args(Mode)
        if mode and mode not in modes:
            near = nearest(mode, list(modes))
            hint = f"; did you mean {near}?" if near else ""
            raise UsageError(f"{quoted(stack)}: no mode {quoted(mode)}, there is {', '.join(modes)}{hint}") from None
        chosen = {"server": server, "mode": mode or "direct"}
        apps = applications_on(server)
        return StackChoice.model_validate({**chosen, "app": apps[0]} if apps else chosen)


def settings_of(choice: StackChoice, assignments: Sequence[str]) -> dict[str, Level]:
    """Levels of ``--set knob=level``. Raises UsageError."""
    machine = LocalHost().machine()
    catalogue = Catalogue(knob.on(machine) for knob in stack_catalogue(choice))
    settings = {}
    for assignment in assignments:
        name, _, value = assignment.partition("=")
        if name not in catalogue and (why := not_a_knob(choice, name)):
            raise UsageError(f"--set {shortened(assignment, 100)}: {why}")
        try:
            settings[name] = catalogue.get(name).accept(value, disposable=False)
        except ValueError as error:
            raise UsageError(f"--set {shortened(assignment, 100)}: {error}") from None
    return settings


def stop(lab: Path) -> list[str]:
    """Stop the stack that ``start`` left running and put the host back; a line for each thing, none where none is up.

    Raises LeadlineError, RestoreError.
    """
    host = LocalHost()
    with host.lease():
        return [*stop_running(lab, host), *host.restore()]


def machine() -> Machine:
    """What limits of knobs depend on, of this host."""
    return LocalHost().machine()


def asks_flags(pattern: str) -> bool:
    """Whether a pattern of names asks for the flags of a JVM, of which there are hundreds."""
    return pattern.startswith(FLAGS.rstrip("."))


def flags() -> list[Knob]:
    """The product flags of the first JVM of this host. Raises UsageError where there is none."""
    return list(flag_knobs(find_java()).values())


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
