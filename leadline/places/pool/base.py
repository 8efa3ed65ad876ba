"""What a pool of hosts is to the run of a study: it starts jobs, says how they stand, and ends them; the kernel that a
job asks it for, read back where the job runs.
"""

from __future__ import annotations

import itertools
import platform
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Protocol, Self

from pydantic import Field, ValidationError, field_validator, model_validator

from leadline.checks.files.study import load_tree, sentences
from leadline.host.local import LocalHost
from leadline.host.textfile import read_text
from leadline.model.bounds import Strict
from leadline.model.errors import (
    FailureClass,
    KeyedError,
    LeadlineError,
    TrialFailure,
    UsageError,
    did_you_mean,
    quoted,
)
from leadline.model.hosts import KERNEL, SshHost, release_knob, ssh_host
from leadline.model.knob import Knob, Level
from leadline.model.plan import Plan, PlannedTrial
from leadline.model.yamltext import Places, plain

_MOST_HOSTS = 10_000
_CHOICES = "slurm, slurm:PARTITION, slurm:FILE.yaml or ssh:FILE.yaml"
Word = Annotated[str, Field(min_length=1, max_length=4096, pattern=r"^[^\x00-\x1f]+$")]


class SshHosts(Strict):
    """Hosts that are reached over SSH, each with leadline installed. ``leadline``: its program there."""

    hosts: Annotated[tuple[Word, ...], Field(min_length=1, max_length=_MOST_HOSTS)]
    leadline: Word = "leadline"

    @field_validator("hosts")
    @classmethod
    def _are_hosts(cls, hosts: tuple[str, ...]) -> tuple[str, ...]:
        for at, name in enumerate(hosts):
            try:
                _ssh(name)
            except ValueError as error:
                raise KeyedError((at,), str(error)) from None
            if name in hosts[:at]:
                raise KeyedError((at,), f"{quoted(name)} is there twice: a host runs one block at a time")
        return hosts

    @property
    def machines(self) -> tuple[SshHost, ...]:
        return tuple(map(_ssh, self.hosts))


class Partition(Strict):
    """Where Slurm runs the jobs. ``leadline``: its program on the nodes, this one's own path if absent; ``options``:
    further ones of sbatch; ``kernels``: each release that nodes can boot, with the constraint that asks for it.
    """

    partition: Word | None = None
    leadline: Word | None = None
    options: tuple[Word, ...] = ()
    kernels: Mapping[Word, Word] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _has_one_constraint(self) -> Self:
        for at, option in enumerate(self.options):
            if self.kernels and option.startswith(("--constraint", "-C")):
                raise KeyedError(
                    ("options", at),
                    f"{quoted(option)} and `kernels` are two constraints; write it there: {{6.1.0-30-amd64: 'a&b'}}",
                )
        return self


def _ssh(name: str) -> SshHost:
    host = ssh_host(name) or ssh_host(f"ssh:{name}")
    assert host is not None
    return host


def read_pool(word: str) -> SshHosts | Partition:
    """What ``--pool`` names. Raises UsageError with option, or file and line."""
    kind, _, rest = word.partition(":")
    if kind == "slurm" and not rest.endswith((".yaml", ".yml")):
        if word.endswith(":"):
            raise UsageError(f"--pool {quoted(word)} names no partition; write slurm for the usual one")
        return Partition(partition=rest or None)
    if kind not in ("slurm", "ssh"):
        hint = did_you_mean(kind, ["slurm", "ssh"]) or f"write {_CHOICES}"
        raise UsageError(f"--pool {quoted(word)}: there is no such kind of pool; {hint}")
    if not rest:
        raise UsageError(f"--pool {quoted(word)} names no file of hosts; write ssh:hosts.yaml")
    model: type[SshHosts] | type[Partition] = SshHosts if kind == "ssh" else Partition
    places = Places(rest, load_tree(read_text(Path(rest)), rest, model), {})
    try:
        return model.model_validate(plain(places.tree, places))
    except ValidationError as error:
        raise UsageError("\n".join(sentences(error, places, model))) from error


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
    """How the hosts of a pool stand before a run, and how many blocks run ``at_once``. ``roles``: what runs on each
    host of a block.
    """

    pool: str
    hosts: Sequence[PoolHost]
    at_once: int
    roles: Sequence[str] = ("driver",)

    def lines(self) -> list[str]:
        lines = [f"host {host.name}: {host.state}{f': {host.why}' if host.why else ''}" for host in self.hosts]
        if len(self.roles) > 1:
            lines.append(f"each block asks for {len(self.roles)} hosts at the same time: {', '.join(self.roles)}")
        return lines

    @property
    def over(self) -> str:
        """What the study is spread over."""
        if len(self.roles) > 1:
            return f"{self.at_once} gang{'s' if self.at_once > 1 else ''} of {len(self.roles)} hosts"
        return f"{self.at_once} host{'s' if self.at_once > 1 else ''}"

    def document(self) -> dict[str, Any]:
        """As JSON types."""
        return {
            "name": self.pool,
            "at_once": self.at_once,
            "roles": list(self.roles),
            "hosts": [asdict(host) for host in self.hosts],
        }


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
        """How each host stands for a job of this kind (``leadline.places.pool.job.PoolJob``); changes nothing. Raises
        PoolSilentError.
        """

    def gather(self, hosts: int) -> None:
        """Every job is given so many hosts at the same time from now on. Raises UsageError where it cannot be."""

    def room(self, jobs: int) -> int:
        """How many more jobs than these would start now. Raises PoolSilentError."""

    def usable(self) -> bool:
        """Whether hosts enough for a job may be given to one, now or later."""

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


def takes_jobs(host: PoolHost) -> bool:
    """Now or later."""
    return host.state in (HostState.FREE, HostState.BUSY)


def without_hosts(pool: str, hosts: Sequence[PoolHost], needed: int = 1) -> str:
    """Why a pool has not the hosts that a job needs at the same time."""
    able = [host.name for host in hosts if takes_jobs(host)]
    reasons = "; ".join(
        f"{host.name} is {host.state}: {host.why or 'no reason is known'}" for host in hosts if not takes_jobs(host)
    )
    if needed == 1:
        return f"no host of {pool} can take a block: {reasons or 'it has none'}"
    has = f"{', '.join(able)} can" if len(able) > 1 else f"only {able[0]} can" if able else "none can"
    return f"a block needs {needed} hosts of {pool} at the same time, and {has}{f'; {reasons}' if reasons else ''}"


class BootedHost(LocalHost):
    """A host whose pool has booted what the job asked for: its kernel is checked, never changed. ``kernels``: the
    releases that may be asked for, empty where the kernel is no knob.
    """

    def __init__(
        self, kernels: Sequence[str], disposable: bool = False, directories: Mapping[str, Path] | None = None
    ) -> None:
        super().__init__(disposable=disposable, directories=directories)
        self._kernels = (
            [release_knob(kernels, "The kernel of the host, as uname -r says it: its pool boots it", "scontrol(1)")]
            if kernels
            else []
        )

    def knobs(self) -> Sequence[Knob]:
        return [*super().knobs(), *self._kernels]

    def writable(self, name: str) -> str:
        return "" if name == KERNEL else super().writable(name)

    def read_back(self, name: str) -> Level:
        return platform.release() if name == KERNEL else super().read_back(name)

    def apply(self, levels: Mapping[str, Level]) -> None:
        """Also raises TrialFailure (infrastructure) where another kernel runs than the job asked for."""
        rest = dict(levels)
        wanted, runs = rest.pop(KERNEL, None), platform.release()
        if wanted not in (None, runs):
            raise TrialFailure(
                FailureClass.INFRASTRUCTURE,
                f"{platform.node()} runs kernel {runs}, the job asked its pool for {wanted}: that feature boots another"
                " kernel there, or the node was not rebooted",
            )
        super().apply(rest)


def kernel_of(trial: PlannedTrial, settings: Mapping[str, Level]) -> str:
    """That a trial is to run on; empty where any will do."""
    return str({**settings, **trial.treatment.as_dict()}.get(KERNEL, ""))


def boots(trials: Iterable[PlannedTrial], settings: Mapping[str, Level]) -> list[tuple[str, list[int]]]:
    """Trials in the order of the plan, by the boot that they share: its kernel, their positions."""
    shared = itertools.groupby(trials, lambda trial: kernel_of(trial, settings))
    return [(kernel, [trial.position for trial in group]) for kernel, group in shared]


def kernels_of(plan: Plan, settings: Mapping[str, Level]) -> list[str]:
    """All kernels that a plan's trials run on, in their first order."""
    return list(dict.fromkeys(kernel for trial in plan.trials if (kernel := kernel_of(trial, settings))))
