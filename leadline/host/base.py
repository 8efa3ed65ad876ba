"""What a host is to the layers above it: they touch a machine through it alone (``tests/unit/test_layers.py``)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from subprocess import CompletedProcess
from typing import Protocol, TypedDict, Unpack

from leadline.host.procfs import Mount
from leadline.model.knob import Knob, KnobOwner, Level, Machine

PROC, SYS = "/proc", "/sys"  # where the kernel keeps its files, for ``Files``
HERE = "here"  # ``PlannedHost.where`` of this machine
Completed = CompletedProcess[str]


class RunOptions(TypedDict, total=False):
    """How a program is run: seconds it may take, all of its environment, its directory, a session of its own."""

    timeout: float | None
    env: Mapping[str, str] | None
    cwd: Path | None
    start_new_session: bool


class Ability(StrEnum):
    """What a host may be unable to do."""

    MEMORY_LIMIT = "memory limit"
    MEMORY_SHARES = "memory.high and memory.swap.max"
    CPU_LIMIT = "CPU limit"
    DROP_PAGE_CACHE = "drop the page cache"
    SWAP_OFF = "switch swap off"
    CPU_LATENCY = "bound the CPUs' idle states"


@dataclass(frozen=True)
class ProcessSpec:
    """A process to start. Standard output and error go to ``output``; it leads a process group of its own."""

    name: str  # "server", "database", "driver": unique among the running ones
    argv: Sequence[str]
    output: Path
    env: Mapping[str, str] = field(default_factory=dict)  # added to the host's own
    cwd: Path | None = None
    cpus: str | None = None  # "0,2-3"
    limits: Mapping[str, float] = field(default_factory=dict)  # leadline.host.files.GROUP_LIMITS, OPEN_FILES
    input: bool = False  # standard input is a pipe: `write`, `close_input`
    # where leadline is root: as a user of its own without capabilities (leadline.host.privilege)
    unprivileged: bool = True
    owns: Sequence[Path] = ()  # files and directories that are that user's while it runs
    reads: Sequence[Path] = ()  # others that it must reach, through directories that are closed to it
    realtime: bool = False  # may take the lowest real-time priority
    latency: bool = False  # gets /dev/cpu_dma_latency open
    key: Path | None = None  # gets this file open, which only root may read


@dataclass(frozen=True)
class ProcessMark:
    """What tells a process from a later one of the same number: its start in clock ticks since the boot of this id."""

    pid: int
    start: int
    boot: str


class Process(Protocol):
    """A started process group."""

    @property
    def name(self) -> str: ...
    @property
    def pid(self) -> int: ...
    def alive(self) -> bool: ...
    def exit_code(self) -> int | None: ...
    def signal(self, number: int) -> None:
        """Signal the leader only."""

    def write(self, data: bytes) -> None:
        """To its standard input, where the spec asks for one; nothing happens when it has ended."""

    def close_input(self) -> None:
        """End its standard input."""

    def stop(self, grace: float = 10.0) -> bool:
        """SIGTERM to the group, SIGKILL after ``grace`` seconds. True if it ended without SIGKILL."""

    def cpu_seconds(self) -> tuple[float, float]:
        """User and system CPU of the whole group so far, ended children included where the kernel tells."""

    def pids(self) -> list[int]:
        """All live processes of the group."""


class Files(Protocol):
    """Files of a host by their paths there, those of its kernel among them."""

    def read(self, path: str | Path) -> str:
        """The text of a file. Raises OSError."""

    def read_many(self, paths: Iterable[str]) -> Mapping[str, bytes]:
        """Files by their paths, in one exchange with the host; those that cannot be read are left out."""

    def names(self, directory: str | Path) -> Sequence[str]:
        """What a directory holds; nothing where there is none."""

    def link(self, path: str | Path) -> str:
        """Where a symbolic link points. Raises OSError."""

    def cpu_ns(self, pid: int) -> int | None:
        """Nanoseconds of CPU that a process has used, its ended threads too; None where that cannot be asked."""


class HostKnobs(Protocol):
    """A family of host parameters: one small module each, registered in ``leadline.host.knobs.FAMILIES``."""

    def knobs(self) -> Sequence[Knob]: ...
    def read(self, knob: Knob) -> Level:
        """Today's level. Raises LookupError where this kernel has no such parameter."""

    def write(self, knob: Knob, level: Level) -> None:
        """Set it. Raises PermissionError or OSError."""

    def path(self, knob: Knob) -> Path:
        """The file that holds it (what the undo journal restores)."""


class PlannedHost(Protocol):
    """A host as the plan of a study sees it; a guest that no trial has booted yet, too."""

    @property
    def name(self) -> str: ...
    @property
    def where(self) -> str:
        """``HERE``, or `on NAME`."""

    def knobs(self) -> Sequence[Knob]: ...
    def file_system_lacks(self, kind: str) -> str:
        """Why no file system of this kind, or with this I/O scheduler, can be made there; empty if it can."""

    def cpus(self) -> Sequence[int]:
        """Numbers of the CPUs that may be used."""

    def machine(self) -> Machine:
        """What limits of knobs depend on."""

    def writable(self, name: str) -> str:
        """Empty if the knob can be set here and may act, else the reason: not root, read-only, no swap."""


class Elsewhere:
    """What hosts have in common that are not this machine."""

    name: str

    @property
    def where(self) -> str:
        return f"on {self.name}"

    def file_system_lacks(self, _kind: str) -> str:
        return f"{self.where} leadline has disk, tmpfs and ramdisk only; take one of them"


class TrialHost(PlannedHost, KnobOwner, Protocol):
    """A host as the life of a trial sees it, a simulated one too."""

    def held(self) -> AbstractContextManager[object]:
        """Hold the host's lease for the block: nobody else takes it between the studies of one run. Raises
        LeadlineError: the host is in use.
        """

    def guard(self, dead_man: float) -> AbstractContextManager[object]:
        """Hold the host's lease for the block, with a watchdog that restores the host where leadline ends or is silent
        for so many seconds. Raises LeadlineError: the host is in use, or cannot be watched.
        """

    def apply(self, levels: Mapping[str, Level]) -> None:
        """Journal each original (synced to disk), write, read back; raises TrialFailure(configuration) when the
        value read differs from the one set, UsageError for a dangerous level on a host not marked disposable.
        """

    def busy(self, seconds: float) -> float:
        """Share of all CPUs that everybody but leadline itself uses in the next seconds; steal counts as used."""

    def drop_page_cache(self) -> None: ...

    def swap_off(self) -> None: ...

    def restore(self) -> Sequence[str]:
        """Undo every open entry of the journal, newest first, verify each; returns what was done.
        Raises RestoreError naming what could not be put back.
        """

    def temporary(self) -> Mapping[str, tuple[str, str]]:
        """What was made or switched off for a time since the last call, by ``mount PATH``, ``directory PATH`` or
        ``swap NAME``: how it stood before (``gone``, ``on``) and how it stands now (also ``there``, ``off``).
        """

    def facts(self) -> Mapping[str, str]:
        """What a reader needs to repeat a study: kernel, CPU model and count, memory, file systems, THP, ..."""


class Host(TrialHost, Protocol):
    """A machine on which services run: ``local`` today (``leadline.host.registry``); ssh and vm implement the same."""

    @property
    def files(self) -> Files: ...
    def start(self, spec: ProcessSpec) -> Process:
        """Journal the intent, start it, return at once. Raises FileNotFoundError, OSError."""

    def mark(self, process: Process) -> ProcessMark:
        """What another leadline needs to know it by."""

    def runs(self, mark: ProcessMark) -> bool:
        """Whether that process is alive."""

    def end(self, mark: ProcessMark, number: int, grace: float) -> bool:
        """Signal that process, kill it after ``grace`` seconds. True if it ended without. Raises PermissionError."""

    def run(self, argv: Sequence[str], beside: int, reads: Iterable[Path] = (), **how: Unpack[RunOptions]) -> Completed:
        """A program to its end, as the user of process ``beside``; ``reads``: what it must reach.

        Raises OSError: TimeoutError after ``timeout`` seconds.
        """

    def give(self, path: Path, pid: int) -> None:
        """Make a file the user's of a started process."""

    def free_port(self) -> int:
        """A port of 127.0.0.1 that nothing listens on just now."""

    def port_taken(self, port: int) -> str:
        """Why 127.0.0.1:``port`` cannot be listened on, in the kernel's words; empty if it can."""

    def lacks(self, ability: Ability) -> str:
        """Why this host cannot do something, empty if it can."""

    def promise(self, kind: str, target: str, original: object, **data: object) -> str:
        """Journal what ``restore`` puts back in a process that leadline did not start (``leadline.host.undo``);
        returns the entry's id. Raises TrialFailure(infrastructure), ValueError.
        """

    def keep_promise(self, identity: str) -> str:
        """Put that back now; returns what was done. Raises RestoreError."""

    def private_tree(self, path: Path) -> None:
        """Journal, then make a directory for this user only, which ``restore`` removes with all in it.
        Raises FileExistsError, OSError, TrialFailure(infrastructure).
        """

    def remove_tree(self, path: Path) -> None:
        """Remove what ``private_tree`` made, if it is there; what cannot be removed is left to ``restore``."""

    def ram_disk(self, path: Path, size: int) -> str:
        """Journal, then mount a RAM disk of ``size`` bytes, ext4, at ``path / "store"``, for this user only; returns
        what it is made of. ``restore`` unmounts it and frees its memory. Raises FileExistsError, OSError,
        TrialFailure: ``configuration`` where none can be made, ``infrastructure``.
        """

    def file_system(self, path: Path, size: int, kind: str, options: str = "", over: Path | None = None) -> str:
        """As ``ram_disk``, a file system of this kind in a file on a disk (ext4, xfs, btrfs), on the kernel's own RAM
        disk (brd), or an overlay over a copy of ``over``; mounted with these options.
        """

    def set_scheduler(self, path: Path, scheduler: str) -> None:
        """Journal, then set the I/O scheduler of the block device that holds ``path``. Raises LookupError where it has
        none to choose, TrialFailure(configuration) where the kernel refuses it.
        """

    def scheduler(self, path: Path) -> str:
        """The I/O scheduler of the block device that holds ``path``. Raises LookupError where it has none."""

    def file_system_lacks(self, kind: str) -> str:
        """Why no file system of this kind, or with this I/O scheduler, can be made here; empty if it can."""

    def mounted(self, path: Path) -> Mount:
        """What holds ``path``, with its options. Raises LookupError."""

    def place_of(self, path: Path) -> str:
        """Whether ``path`` lies on a ``disk``, a ``tmpfs`` or a ``ramdisk``. Raises LookupError."""

    def remove_ram_disk(self, path: Path) -> None:
        """Remove what ``ram_disk`` or ``file_system`` made, if it is there; the rest is left to ``restore``."""
