"""A stack that outlives the command that started it (``leadline up``), and its end by another (``leadline down``).

Its processes are in the host's undo journal too, so ``leadline restore`` ends them as well.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from leadline.host.base import Host, ProcessMark
from leadline.host.textfile import write_private
from leadline.model.errors import LeadlineError, UsageError
from leadline.model.received import from_json
from leadline.stack.assembly import Stack

_FILE = "up.json"
_GRACE = {"web": 10.0, "supplier": 10.0, "caller": 10.0, "server": 30.0, "database": 20.0}  # seconds


@dataclass(frozen=True)
class RunningService:
    """``stop``: the signal that ends it in order."""

    role: str
    mark: ProcessMark
    stop: int = signal.SIGTERM


@dataclass(frozen=True)
class RunningServices:
    """What ``LAB/up.json`` says of a stack that is up, in the order of its start."""

    stack: str
    url: str
    services: tuple[RunningService, ...]
    database: Mapping[str, str | int]
    directory: str


def load_running(lab: Path) -> RunningServices | None:
    """The stack that is up in this lab, None if there is none. Raises LeadlineError for a damaged file."""
    path = lab / _FILE
    try:
        raw = from_json(path.read_text())
        services = tuple(
            RunningService(mark=ProcessMark(**service.pop("mark")), **service) for service in raw.pop("services")
        )
        return RunningServices(services=services, **raw)
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise LeadlineError(f"{path} cannot be read ({error}); run leadline restore, then remove it") from error


def require_none_running(lab: Path, host: Host) -> None:
    """Raises UsageError while a stack is up in this lab."""
    running = load_running(lab)
    if running is not None and any(host.runs(service.mark) for service in running.services):
        raise UsageError(f"{running.stack} is up at {running.url}; run leadline down first")


def save_running(stack: Stack, host: Host, lab: Path, directory: Path) -> RunningServices:
    """Write down a stack that ``Stack.up`` has started, so that another process can stop it."""
    choice = stack.choice
    running = RunningServices(
        stack=choice.title,
        url=stack.url(),
        services=tuple(
            RunningService(
                role, host.mark(process), int(stack.database.stop_signal if role == "database" else signal.SIGTERM)
            )
            for role, process in stack.processes().items()
        ),
        database=asdict(stack.endpoint()),
        directory=str(directory.absolute()),
    )
    path = lab / _FILE
    work = path.with_suffix(".tmp")
    write_private(work, json.dumps(asdict(running), indent=2))  # it holds the database's password
    with work.open("rb") as stream:
        os.fsync(stream.fileno())
    work.replace(path)
    return running


def stop_running(lab: Path, host: Host, progress: Callable[[str], None] = lambda _: None) -> list[str]:
    """Stop the stack that is up in this lab, last started first; returns a line for each process, none when nothing
    is up. The caller restores the host after it, which closes the journal. Raises PermissionError.
    """
    running = load_running(lab)
    if running is None:
        return []
    lines = []
    for service in reversed(running.services):
        if not host.runs(service.mark):
            lines.append(f"{service.role}: not running any more")
            continue
        progress(f"stopping the {service.role}")
        grace = _GRACE.get(service.role, 10.0)
        ended = host.end(service.mark, service.stop, grace)
        lines.append(f"{service.role}: {'stopped' if ended else f'killed after {grace:g} s'}")
    (lab / _FILE).unlink(missing_ok=True)
    return lines
