"""What a pool of hosts is to the run of a study: it starts jobs, says how they stand, and ends them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol

from leadline.model.errors import LeadlineError

JOB, OUTPUT = "job.json", "output.txt"  # in a job's directory: what is to be run, what it said


class PoolSilentError(LeadlineError):
    """The pool does not answer now; its jobs may go on."""


class JobState(StrEnum):
    WAITING = "waiting"
    RUNNING = "running"
    ENDED = "ended"  # by itself: what it handed in is in its directory
    LOST = "lost"  # with its host, or killed


@dataclass(frozen=True)
class JobStatus:
    """``host``: where it runs or ran, empty while it waits; ``why``: it waits or was lost."""

    state: JobState
    host: str = ""
    why: str = ""


class HostState(StrEnum):
    FREE = "free"
    BUSY = "busy"
    DRAINED = "drained"  # it is given no job
    DOWN = "down"


@dataclass(frozen=True)
class PoolHost:
    """``why``: it is drained or down, or who uses it."""

    name: str
    state: HostState
    why: str = ""


@dataclass(frozen=True)
class Wish:
    """What a job asks of its host: the ``kernel`` that runs there, which ``host``, ``after`` which job's end."""

    kernel: str = ""
    host: str = ""
    after: str = ""


@dataclass(frozen=True)
class Looked:
    """How the hosts of a pool stand before a run, and how many of them run a block ``at_once``."""

    pool: str
    hosts: Sequence[PoolHost]
    at_once: int

    def lines(self) -> list[str]:
        return [f"host {host.name}: {host.state}{f': {host.why}' if host.why else ''}" for host in self.hosts]

    def document(self) -> dict[str, Any]:
        """As JSON types."""
        return {"name": self.pool, "at_once": self.at_once, "hosts": [asdict(host) for host in self.hosts]}


class Pool(Protocol):
    """Hosts of one kind. A job is a directory with its ``job.json``; it ends once ``end.json`` is there, too."""

    name: str
    outlives: bool  # whether its jobs go on where leadline here has ended
    pause: float  # seconds between two looks at it

    @property
    def kernels(self) -> Sequence[str]:
        """Releases that a job can ask for."""

    def hosts(self) -> list[PoolHost]:
        """How each host stands now. Raises PoolSilentError."""

    def look(self, job: Mapping[str, Any]) -> list[PoolHost]:
        """How each host stands for a job of this kind (``leadline.pool.job.Job``); changes nothing. Raises
        PoolSilentError.
        """

    def room(self, jobs: int) -> int:
        """How many more jobs than these would start now. Raises PoolSilentError."""

    def usable(self) -> bool:
        """Whether any host may be given a job, now or later."""

    def submit(self, directory: Path, title: str, wish: Wish) -> str:
        """Start a job, or have it wait for a host; its name in the pool. Raises LeadlineError."""

    def states(self, names: Collection[str]) -> Mapping[str, JobStatus]:
        """Of these jobs. Raises PoolSilentError."""

    def cancel(self, name: str) -> None:
        """End a job in order: it puts its host back and hands in what it has."""

    def drain(self, host: str, why: str) -> None:
        """Give this host no more jobs of this run."""

    def close(self) -> None:
        """Let go of what the pool holds here."""


def last_line(text: str) -> str:
    """That is not empty; of nothing: empty."""
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")


def takes_jobs(host: PoolHost) -> bool:
    """Now or later."""
    return host.state in (HostState.FREE, HostState.BUSY)


def without_hosts(pool: str, hosts: Sequence[PoolHost]) -> str:
    """Why none of a pool's hosts can be given a job."""
    told = [f"{host.name} is {host.state}: {host.why or 'no reason is known'}" for host in hosts]
    return f"no host of {pool} can take a block: {'; '.join(told) or 'it has none'}"
