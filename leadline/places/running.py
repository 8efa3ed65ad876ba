"""A stack without a study: up, left running, down."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from leadline.checks.files.stack import check_java, is_stack_file, read_stack
from leadline.checks.files.study import find_study
from leadline.host.local import LocalHost
from leadline.host.textfile import expanded
from leadline.model.errors import UsageError, nearest, quoted, shortened
from leadline.model.knob import Catalogue, Level
from leadline.model.study import Mode, StackChoice
from leadline.stack.assembly import Stack
from leadline.stack.options import StackOptions
from leadline.stack.registry import applications_on, not_a_knob, stack_catalogue
from leadline.stack.running import require_none_running, save_running, stop_running
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
