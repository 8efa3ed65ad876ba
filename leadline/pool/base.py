"""What a pool is asked by the run of a study: its hosts, and blocks that it runs as jobs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Protocol


class JobState(StrEnum):
    WAITING = "waiting"  # for a host
    RUNNING = "running"
    ENDED = "ended"  # by itself: what it wrote is there, or will be soon
    GONE = "gone"  # cut off, or nobody knows of it


@dataclass(frozen=True)
class Job:
    """A block at work. ``why``: what a pool says of a state that is not as it should be."""

    state: JobState
    host: str = ""
    why: str = ""


@dataclass(frozen=True)
class HostState:
    """``drained``: why it gets no blocks; empty for one that does. ``state``: in the pool's own words."""

    name: str
    state: str
    drained: str = ""


class Pool(Protocol):
    """Hosts that run blocks. Every method raises LeadlineError for a pool that does not answer."""

    name: str  # as in --pool

    def hosts(self) -> Sequence[HostState]:
        """All of them, in their order; those that this pool drained itself say why."""

    def check(self) -> None:
        """Raises UsageError for a pool that cannot be used here."""

    def room(self, running: int, drained: Collection[str]) -> int:
        """How many more blocks it should be given beside the ``running`` ones."""

    def choose(self, drained: Collection[str]) -> str:
        """The host that is to have the next block; empty where the pool decides that itself."""

    def start(self, directory: Path, token: str, host: str, drained: Collection[str]) -> str:
        """Have ``leadline pool work DIRECTORY`` run on the host; the job's name."""

    def jobs(self, asked: Mapping[str, Path]) -> Mapping[str, Job]:
        """The state of each token's job; its directory is given."""

    def end(self, token: str, directory: Path, kill: bool = False) -> None:
        """Have a job end in order, or at once. Nothing for one that is gone."""
