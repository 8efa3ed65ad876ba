"""What every program of the stack is between its start and its stop: a context, a process, a log; live changes; how
it is stopped and how it ended, what a log says, digests of directories.
"""

from __future__ import annotations

import hashlib
import re
import signal
import time
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import ClassVar, Generic, TypeVar

from leadline.host.base import PROC, Files, Host, Process, ProcessSpec
from leadline.host.files import oom_kills, rows, works_in
from leadline.host.signals import LOG, OomKill
from leadline.host.signals import oom_kills as logged_oom_kills
from leadline.model.errors import (
    SIGKILL,
    Event,
    Evidence,
    LeadlineError,
    Memory,
    Part,
    blamed,
    unanswered,
)
from leadline.model.knob import ApplyCost, AtStart, Knob, Level
from leadline.stack.probe import PROMPT

LOOPBACK = "127.0.0.1"


class QueryError(Exception):
    """A database cannot be reached or refuses."""


def ended(process: Process, timeout: float) -> bool:
    """Wait up to ``timeout`` seconds for the end of a process; whether it came."""
    end = time.monotonic() + timeout
    while process.alive():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def runs_in(files: Files, pid_file: Path, directory: Path) -> int | None:
    """The process that ``pid_file`` names in its first line, if it works in ``directory``."""
    try:
        pid = int(pid_file.read_text().split("\n", 1)[0])
    except (OSError, ValueError):
        return None
    return pid if works_in(files, pid, directory) else None


def text_from(path: Path, offset: int, most: int = 4_000_000) -> str:
    """What was written to a log from ``offset`` on, its last ``most`` bytes if it is longer; empty without a file."""
    try:
        with path.open("rb") as stream:
            stream.seek(max(offset, stream.seek(0, 2) - most))
            return stream.read().decode(errors="replace").strip()
    except FileNotFoundError:
        return ""


def tail(path: Path, lines: int) -> str:
    try:
        return "\n".join(path.read_text(errors="replace").splitlines()[-lines:])
    except FileNotFoundError:
        return ""


def directory_digest(directory: Path) -> str:
    """SHA-256 over names and contents of all files below ``directory``."""
    total = hashlib.sha256()
    for path in sorted(directory.rglob("*")):
        total.update(str(path.relative_to(directory)).encode() + b"\0")
        if path.is_file():
            with path.open("rb") as stream:
                total.update(hashlib.file_digest(stream, "sha256").digest())
    return total.hexdigest()


_MOST = 0.5  # share of the machine's memory that makes its lack a process's own doing
_ASKED = re.compile(
    r"received (?:smart|fast|immediate) shutdown request"  # PostgreSQL
    r"|\(initiated by: |[Nn]ormal shutdown"  # MariaDB
    r"|\(SIG(?:TERM|QUIT|INT)\) received from"  # nginx
    r"|caught SIG(?:TERM|WINCH|INT)"  # httpd
    r"|\bCWWKE0055I\b"  # Open Liberty
)
# A process of a service that another of it has outlived: process and signal, or an exit code above 128.
_LOST = re.compile(
    r"\(PID (?P<backend>\d+)\) was terminated by signal (?P<signal>\d+)"  # PostgreSQL
    r"|worker process (?P<worker>\d+) exited on signal (?P<number>\d+)"  # nginx
    r"|child pid (?P<child>\d+) exit signal .*?\((?P<of_child>\d+)\)"  # httpd
    r"|[Ww]orker \((?P<current>\d+)\) exited with code (?P<code>1[2-9]\d)\b"  # HAProxy
    r"|(?P<told>terminating connection due to administrator command)"  # PostgreSQL, a backend that had SIGTERM
)


_RESTART = re.compile(
    r"\bCWWKZ0009I\b"  # Open Liberty: the application has stopped
    r"|Reloading Context with name"  # Tomcat, TomEE
    r"|\bWFLYSRV0009\b"  # WildFly: undeployed
    r"|\bWFLYUT0022\b"  # WildFly: its web context is unregistered
)


def restarts(words: str) -> int:
    """How often a server says that it took its application away while it ran on."""
    return len(_RESTART.findall(words))


def of_process(
    files: Files, process: Process, words: str, ready: bool, members: Collection[int] = (), oom_before: int = 0
) -> Evidence:
    """Of one that is gone. ``words``: what it said; ``members``: processes that it had; ``oom_before``: the kernel's
    count of those it killed for want of memory when the stack was started.
    """
    code = process.exit_code()
    killed = Evidence(Event.ENDED, exit_code=code).signal == SIGKILL
    memory = starved(files, {process.pid, *members}, oom_before) if killed else Memory.NOT_SHORT
    evidence = Evidence(Event.ENDED, exit_code=code, ready=ready, asked=bool(_ASKED.search(words)), memory=memory)
    return replace(evidence, sender=LOG.sender({process.pid, *members}))


def stopped(files: Files, pids: Collection[int]) -> int | None:
    """The first of these processes that a signal keeps from running; None where all may run."""
    stats = files.read_many([f"{PROC}/{pid}/stat" for pid in pids])
    for path, content in stats.items():
        if content.rpartition(b")")[2].split()[:1] == [b"T"]:
            return int(path.split("/")[2])
    return None


def held(pid: int, part: Part = Part.SERVICE) -> Evidence:
    """Of one that a signal keeps from running."""
    return Evidence(Event.STOPPED, part, sender=LOG.sender([pid], [signal.SIGSTOP]))


def lost_members(files: Files, words: str, oom_before: int) -> Iterator[tuple[int, Evidence]]:
    """Processes of a service that ended under it, by its own words; 0 for one whose number it does not tell, and for
    the service itself that was asked to end.
    """
    if _ASKED.search(words):
        yield 0, Evidence(Event.ENDED, ready=True, asked=True)
    for match in _LOST.finditer(words):
        if match["told"]:
            yield 0, Evidence(Event.ENDED, Part.MEMBER, exit_code=-15, ready=True)
            continue
        pid = next(int(match[name]) for name in ("backend", "worker", "child", "current") if match[name])
        number = next(int(match[name]) for name in ("signal", "number", "of_child", "code") if match[name])
        code = number if match["code"] else -number
        evidence = Evidence(Event.ENDED, Part.MEMBER, exit_code=code, ready=True)
        if evidence.signal == SIGKILL:
            evidence = replace(evidence, memory=starved(files, {pid}, oom_before))
        evidence = replace(evidence, sender=LOG.sender([pid]))
        yield pid, evidence


def starved(files: Files, pids: Collection[int], oom_before: int) -> Memory:
    """Whether the kernel killed one of these for want of memory, and whose memory it was."""
    if oom_kills(files) <= oom_before:
        return Memory.NOT_SHORT
    logged = logged_oom_kills()
    ours = [kill for kill in logged if kill.pid in pids]
    if not ours:
        # Another process's, or a log that this user may not read.
        return Memory.NOT_SHORT if logged else Memory.OWN
    return _of(files, ours[-1])


def _of(files: Files, kill: OomKill) -> Memory:
    if kill.group:
        return Memory.LIMIT if kill.in_group_of_leadline else Memory.OTHERS
    usable = _figure(files, "meminfo", "MemTotal:") - _figure(files, "sys/vm/min_free_kbytes", "")
    return Memory.OWN if kill.resident_bytes >= _MOST * usable * 1024 else Memory.OTHERS


def _figure(files: Files, name: str, key: str) -> int:
    """Kibibytes."""
    lines = [line.split() for line in rows(files, f"{PROC}/{name}")]
    return next((int(words[1] if key else words[0]) for words in lines if not key or words[0] == key), 0)


_C = TypeVar("_C")
_PATIENCE = 10.0  # seconds until a live change counts as not made, at least


class Started(ABC, Generic[_C]):
    """The shared part of services; ``_C``: what ``configure`` is given."""

    title: ClassVar[str]

    def __init__(self) -> None:
        self._context: _C | None = None
        self._process: Process | None = None
        self._started = 0.0
        self._took: float | None = None  # seconds to the first right answer of this start
        self._log_from = 0  # earlier starts may have written to the same file

    @property
    def context(self) -> _C:
        """Raises LeadlineError before ``configure``."""
        if self._context is None:
            raise LeadlineError(f"{self.title} has not been configured")
        return self._context

    @property
    def process(self) -> Process:
        """Raises LookupError unless it has been started."""
        if self._process is None:
            raise LookupError(f"{self.title} has not been started")
        return self._process

    @property
    @abstractmethod
    def log(self) -> Path:
        """Where its output goes."""

    def launch(self, host: Host, spec: ProcessSpec) -> Process:
        """Start it; what it says from now on is ``words``."""
        self._log_from = self.log.stat().st_size if self.log.exists() else 0
        if self._process is not None:  # it has ended by itself: its files are this user's again
            self._process.stop()
        self._started, self._took = time.monotonic(), None
        self._process = host.start(spec)
        return self._process

    def is_ready(self) -> float:
        """It answers as it should: seconds since its start."""
        self._took = time.monotonic() - self._started
        return self._took

    @property
    def prompt(self) -> float:
        """Seconds that an answer may take: as long as its start took, or has taken so far, since a first request may
        compile a page.
        """
        return max(PROMPT, time.monotonic() - self._started if self._took is None else self._took)

    @property
    def patience(self) -> float:
        """Seconds until a live change counts as not made: one may start an application anew."""
        return max(_PATIENCE, 2 * (self._took or 0.0))

    def words(self) -> str:
        """What it said since the start."""
        return text_from(self.log, self._log_from)


class Changing(Started[_C], AtStart):
    """Those that own knobs, of which some can be changed while they run (apply cost live)."""

    @abstractmethod
    def knobs(self) -> Sequence[Knob]: ...

    @abstractmethod
    def read_back(self, name: str) -> Level:
        """See ``leadline.model.knob.KnobOwner``."""

    @abstractmethod
    def change(self, levels: Mapping[str, Level]) -> None:
        """Have what runs take these live levels. Raises TrialFailure, UsageError."""

    def apply(self, levels: Mapping[str, Level]) -> None:
        """Change live knobs of what runs, and wait until all are read back."""
        knobs = {knob.name: knob for knob in self.knobs()}
        if fixed := {name: level for name, level in levels.items() if knobs[name].apply_cost is not ApplyCost.LIVE}:
            super().apply(fixed)
        self.change(levels)
        deadline = time.monotonic() + self.patience
        while wrong := self._other(levels):
            if not self.process.alive():
                end = Evidence(Event.ENDED, exit_code=self.process.exit_code(), ready=True)
                raise blamed(end, f"{self.title} died while its levels were changed: {end.how}", self.words()[-4_000:])
            if time.monotonic() > deadline:
                level_texts = {name: knobs[name].format(levels[name]) for name in wrong}
                differences = ", ".join(f"{name} {level_texts[name]} ({why})" for name, (why, _) in wrong.items())
                # One that answers, and has another level, has not taken it.
                late = any(event is Event.LATE for _, event in wrong.values())
                event = Event.LATE if late else Event.REFUSED
                raise blamed(Evidence(event), f"{self.title} did not take {differences}")
            time.sleep(0.01)

    def _other(self, levels: Mapping[str, Level]) -> dict[str, tuple[str, Event]]:
        """What is read back in place of these levels, where it is not them, and how that counts."""
        other: dict[str, tuple[str, Event]] = {}
        for name, level in levels.items():
            try:
                if (back := self.read_back(name)) != level:
                    other[name] = (f"it has {back}", Event.REFUSED)
            except LookupError as error:
                other[name] = (str(error), unanswered(error))
        return other
