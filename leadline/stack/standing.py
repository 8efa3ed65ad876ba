"""A stack that outlives the command that started it (``leadline up``), and its end by another (``leadline down``).

Its processes are in the host's undo journal too, so ``leadline restore`` ends them as well.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from leadline.host import procfs
from leadline.host.privilege import write_private
from leadline.model.errors import LeadlineError, UsageError
from leadline.stack.assembly import Stack

_FILE = "up.json"
_GRACE = {"web": 10.0, "server": 30.0, "database": 20.0}


@dataclass(frozen=True)
class StandingProcess:
    """``start`` in clock ticks since boot tells it from a later process of the same number; ``stop`` is the signal
    that ends it in order.
    """

    role: str
    pid: int
    start: int
    stop: int = signal.SIGTERM

    def alive(self) -> bool:
        found = procfs.read_stat(self.pid)
        return found is not None and found.start == self.start and found.alive


@dataclass(frozen=True)
class Standing:
    """What ``LAB/up.json`` says of a stack that is up, in the order of its start."""

    stack: str
    url: str
    processes: tuple[StandingProcess, ...]
    database: Mapping[str, str | int]
    directory: str
    boot: str

    def alive(self) -> bool:
        """Whether any of its processes runs."""
        return self.boot == procfs.boot_id() and any(process.alive() for process in self.processes)


def load_standing(lab: Path) -> Standing | None:
    """The stack that is up in this lab, None if there is none. Raises LeadlineError for a damaged file."""
    path = lab / _FILE
    try:
        raw = json.loads(path.read_text())
        processes = tuple(StandingProcess(**process) for process in raw.pop("processes"))
        return Standing(processes=processes, **raw)
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise LeadlineError(f"{path} cannot be read ({error}); run leadline restore, then remove it") from error


def require_none_standing(lab: Path) -> None:
    """Raises UsageError while a stack is up in this lab."""
    standing = load_standing(lab)
    if standing is not None and standing.alive():
        raise UsageError(f"{standing.stack} is up at {standing.url}; run leadline down first")


def save_standing(stack: Stack, lab: Path, directory: Path) -> Standing:
    """Write down a stack that ``Stack.up`` has started, so that another process can stop it."""
    processes = []
    for role, process in stack.processes().items():
        found = procfs.read_stat(process.pid)
        stop = stack.database.stop_signal if role == "database" else signal.SIGTERM
        processes.append(StandingProcess(role, process.pid, found.start if found else 0, int(stop)))
    endpoint = stack.endpoint()
    choice = stack.choice
    standing = Standing(
        stack=f"{choice.app} ({choice.mode}) on {choice.server} and {choice.database}",
        url=stack.url(),
        processes=tuple(processes),
        database=asdict(endpoint),
        directory=str(directory.absolute()),
        boot=procfs.boot_id(),
    )
    path = lab / _FILE
    work = path.with_suffix(".tmp")
    write_private(work, json.dumps(asdict(standing), indent=2))  # it holds the database's password
    with work.open("rb") as stream:
        os.fsync(stream.fileno())
    work.replace(path)
    return standing


def stop_standing(lab: Path, progress: Callable[[str], None] = lambda _: None) -> list[str]:
    """Stop the stack that is up in this lab, last started first; returns a line for each process, none when nothing
    is up. The caller restores the host after it, which closes the journal. Raises PermissionError.
    """
    standing = load_standing(lab)
    if standing is None:
        return []
    lines = []
    for process in reversed(standing.processes):
        if standing.boot != procfs.boot_id() or not process.alive():
            lines.append(f"{process.role}: not running any more")
            continue
        progress(f"stopping the {process.role}")
        grace = _GRACE.get(process.role, 10.0)
        procfs.send(process.pid, process.stop, process.start)
        if _ended(process, grace):
            lines.append(f"{process.role}: stopped")
            continue
        procfs.send(process.pid, signal.SIGKILL, process.start)
        _ended(process, 10.0)
        lines.append(f"{process.role}: killed after {grace:g} s")
    (lab / _FILE).unlink(missing_ok=True)
    return lines


def _ended(process: StandingProcess, timeout: float) -> bool:
    end = time.monotonic() + timeout
    while process.alive():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True
