"""The host leadline itself runs on."""

from __future__ import annotations

import os
import random
import signal
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from copy import copy
from functools import partial
from pathlib import Path
from typing import Any, Unpack

from leadline.host import here, process, procfs, ramdisk, undo
from leadline.host.base import HERE, Ability, Completed, HostKnobs, Process, ProcessMark, ProcessSpec, RunOptions
from leadline.host.cgroup import lacks
from leadline.host.facts import busy, host_facts
from leadline.host.files import LocalFiles
from leadline.host.journal import UndoJournal
from leadline.host.knobs import FAMILIES
from leadline.host.knobs.files import DeclaredKnobs, FileKnobs, cannot_act, machine_of
from leadline.host.lease import Lease
from leadline.host.paths import cache_dir, state_dir
from leadline.host.privilege import give, user_of
from leadline.host.process import LocalProcess
from leadline.host.procfs import Mount, mount_of, mounts, place_of, scheduler_file
from leadline.host.undo import SWAP, TREE_MARKER, CannotUndo, active_swaps, normalise, undo_tree, write_setting
from leadline.host.watchdog import Watchdog, start_watchdog
from leadline.model.errors import FailureClass, LeadlineError, RestoreError, TrialFailure, UsageError
from leadline.model.knob import Catalogue, Knob, Level, Machine
from leadline.model.ownparts import OwnKnob
from leadline.model.places import BRD, OVERLAY, SCHEDULER

LOOPBACK = "127.0.0.1"
_OUTGOING = "/proc/sys/net/ipv4/ip_local_port_range"
_FIRST_PORT, _TRIES = 16_384, 64  # of ports that services are given
_KILLED = 10.0  # seconds that a killed process may take to end


_OF_GROUPS = {Ability.MEMORY_LIMIT: "memory", Ability.MEMORY_SHARES: "memory_high", Ability.CPU_LIMIT: "cpu_quota"}


class LocalHost:
    """Implements ``leadline.host.base.Host``.

    ``disposable``: dangerous levels are allowed. ``state``: where the journal is kept, ``state_dir()`` if
    absent. ``root`` stands for / in tests. ``directories``: places whose file system the facts tell.
    """

    def __init__(
        self,
        disposable: bool = False,
        state: Path | None = None,
        root: Path = Path("/"),
        directories: Mapping[str, Path] | None = None,
    ) -> None:
        self.disposable = disposable
        self.root = root
        self.files = LocalFiles(root)
        self._state = state if state is not None else state_dir()
        self._directories = directories
        self._families: tuple[HostKnobs, ...] = tuple(family(root) for family in FAMILIES)
        self.declare({})
        self._watchdog: Watchdog | None = None
        self._lease: Lease | None = None  # while it is held over several guarded blocks
        self._originals: dict[str, Level] = {}  # of what was set since it is watched
        self._temporary: dict[str, list[str]] = {"mount": [], "directory": [], "swap": []}
        self.journal = UndoJournal(self._state / "undo" / f"{self.name}.jsonl", root)

    @property
    def name(self) -> str:
        return "local"

    @property
    def where(self) -> str:
        return HERE

    # -- who may use it

    def lease(self) -> Lease:
        """The lease of this host, not yet taken: ``with host.lease(): ...``."""
        return Lease(self.root, self.journal.path)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the lease for all guarded blocks within. Raises HostBusyError when another leadline uses the host."""
        with self.lease() as lease:
            self._lease = lease
            try:
                yield
            finally:
                self._lease = None

    @contextmanager
    def guard(self, dead_man: float) -> Iterator[Watchdog]:
        """Hold the lease and be watched. Raises HostBusyError when another leadline uses the host, LeadlineError when
        the journal cannot be written or the watchdog does not start.
        """
        with nullcontext() if self._lease else self.lease(), self.watched(dead_man) as watchdog:
            yield watchdog

    @contextmanager
    def watched(self, dead_man: float) -> Iterator[Watchdog]:
        """Guard the block: if leadline dies or hangs in it, the watchdog restores the host.

        Restore the host inside the block: when something is left to undo at its end, the watchdog is not told that
        all is well and tries once more after the dead-man time.
        """
        self._originals.clear()
        self.journal.require_writable()
        self._watchdog = watchdog = start_watchdog(self.journal.path, dead_man, self.root, self._altered)
        try:
            yield watchdog
        finally:
            self._watchdog = None
            if self._may_be_left():
                watchdog.abandon()
            else:
                watchdog.finish()

    @contextmanager
    def apart(self, name: str, dead_man: float) -> Iterator[LocalHost]:
        """This host with a journal of this process alone, for who needs no lease: processes and directories, which end
        with the block or, when this process is gone, by a watchdog. Raises LeadlineError, RestoreError.
        """
        with watched_journal(name, dead_man) as journal:
            host = copy(self)
            host.journal = journal
            yield host

    def _may_be_left(self) -> bool:
        try:
            return bool(self.journal.left())
        except LeadlineError:  # unreadable: the watchdog tries for itself
            return True

    def _altered(self) -> list[str]:
        """What is not as it was before the guarded block, by the journal and by reading every setting back."""
        wrong = []
        try:
            wrong += [f"{entry.kind} {entry.target}" for entry in self.journal.left()]
        except LeadlineError as error:
            wrong.append(str(error))
        for name, original in self._originals.items():
            try:
                back = self.read_back(name)
            except (LookupError, OSError) as error:
                wrong.append(f"{name} cannot be read: {error}")
                continue
            if back != original:
                wrong.append(f"{name} is {back}, it was {original}")
        return wrong

    def _require_watch(self) -> None:
        """Nothing is changed any more once the watchdog is gone. Raises TrialFailure(interrupted)."""
        if self._watchdog is not None and (failure := self._watchdog.failure()):
            raise failure

    # -- processes

    def start(self, spec: ProcessSpec) -> LocalProcess:
        """See ``leadline.host.process.start``; also TrialFailure when the watchdog of this run is gone."""
        self._require_watch()
        return process.start(spec, self.journal)

    def mark(self, process: Process) -> ProcessMark:
        stat = procfs.read_stat(process.pid)
        return ProcessMark(process.pid, stat.start if stat else 0, procfs.boot_id())

    def runs(self, mark: ProcessMark) -> bool:
        stat = procfs.read_stat(mark.pid)
        return mark.boot == procfs.boot_id() and stat is not None and stat.start == mark.start and stat.alive

    def end(self, mark: ProcessMark, number: int, grace: float) -> bool:
        for signal_number, seconds in ((number, grace), (signal.SIGKILL, _KILLED)):
            procfs.send(mark.pid, signal_number, mark.start)
            until = time.monotonic() + seconds
            while self.runs(mark) and time.monotonic() < until:
                time.sleep(0.02)
            if not self.runs(mark):
                return signal_number == number
        return False

    def run(self, argv: Sequence[str], beside: int, reads: Iterable[Path] = (), **how: Unpack[RunOptions]) -> Completed:
        """See ``leadline.host.base.Host``."""
        user = user_of(beside)
        prefix = user.prefix(how.get("cwd") or Path("/"), reads) if user else ()
        return here.run([*prefix, *argv], **how)

    def give(self, path: Path, pid: int) -> None:
        give(path, pid)

    def cpus(self) -> Sequence[int]:
        return sorted(os.sched_getaffinity(0))

    def free_port(self) -> int:
        """Below those that the kernel gives to outgoing connections, where there are any: the driver's are thousands,
        and one of them could have the port before a service listens on it.
        """
        text = next(iter(self.files.read_many([_OUTGOING]).values()), b"0")
        ports = range(_FIRST_PORT, int(text.split()[0]))
        for chosen in random.SystemRandom().sample(ports, min(_TRIES, len(ports))):
            if not self.port_taken(chosen):
                return chosen
        with socket.socket() as probe:
            probe.bind((LOOPBACK, 0))
            port: int = probe.getsockname()[1]
            return port

    def port_taken(self, port: int) -> str:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as servers and databases bind
            try:
                probe.bind((LOOPBACK, port))
            except OSError as error:
                return str(error.strerror)
        return ""

    def lacks(self, ability: Ability) -> str:
        if ability in _OF_GROUPS:
            return lacks(_OF_GROUPS[ability])
        if ability is Ability.SWAP_OFF:
            able = os.geteuid() == 0
        else:
            name = "proc/sys/vm/drop_caches" if ability is Ability.DROP_PAGE_CACHE else "dev/cpu_dma_latency"
            able = os.access(self.root / name, os.W_OK)
        return "" if able else "needs root"

    # -- knobs

    def knobs(self) -> Sequence[Knob]:
        return list(self._catalogue)

    def declare(self, declared: Mapping[str, OwnKnob]) -> None:
        """Have these settings, in place of those declared before and of the catalogue's for the same files. Raises
        UsageError where two are of one file.
        """
        known = {family.path(knob): knob for family in self._families for knob in family.knobs()}
        own = DeclaredKnobs(self.root, declared, known)
        paths = [own.path(knob) for knob in own.knobs()]
        for at, knob in enumerate(own.knobs()):
            if paths[at] in paths[:at]:
                raise UsageError(f"{knob.name} and {own.knobs()[paths.index(paths[at])].name} are both {paths[at]}")
        rows = [
            (family, knob) for family in self._families for knob in family.knobs() if family.path(knob) not in paths
        ]
        rows += [(own, knob) for knob in own.knobs()]
        self._family = {knob.name: family for family, knob in rows}
        self._catalogue = Catalogue(knob for _, knob in rows)

    def machine(self) -> Machine:
        return machine_of(self.root)

    def knob_path(self, name: str) -> Path:
        """The file that holds a knob. Raises UsageError for an unknown one."""
        knob = self._catalogue.get(name)
        return self._family[knob.name].path(knob)

    def read_back(self, name: str) -> Level:
        """Today's level. Raises UsageError for an unknown knob, LookupError where this kernel lacks it."""
        knob = self._catalogue.get(name)
        return self._family[knob.name].read(knob)

    def writable(self, name: str) -> str:
        """Empty if the knob can be set here and may act, else the reason."""
        path = self.knob_path(name)
        if not path.exists():
            return f"this kernel has no {name} ({path} does not exist)"
        try:
            self.read_back(name)
        except (LookupError, OSError) as error:
            return f"{path} cannot be read: {error}" if isinstance(error, OSError) else str(error)
        if os.access(path, os.W_OK) and path.stat().st_mode & 0o222:  # root may open what no one can write
            return cannot_act(name, self.root)
        return f"{name} needs root" if os.geteuid() != 0 else f"{path} is read-only here"

    def check_level(self, name: str, raw: object) -> Level:
        """A level fit for ``set_knob``. Raises UsageError for one that is illegal, or dangerous on this host."""
        try:
            return self._catalogue.get(name).accept(raw, self.disposable)
        except ValueError as error:
            raise UsageError(f"{name}: {error}") from None

    def apply(self, levels: Mapping[str, Level]) -> None:
        """``set_knob`` for each; the scheduler of a block device first, as it sets others anew."""
        for name, level in sorted(levels.items(), key=lambda item: not item[0].endswith(".scheduler")):
            self.set_knob(name, level)

    def set_knob(self, name: str, level: Level) -> None:
        """Journal the original (synced to disk), write, read back.

        Raises UsageError (unknown, illegal, or dangerous on a host not marked disposable), TrialFailure:
        ``configuration`` when the kernel refuses or reads back another value, ``infrastructure`` when the journal
        or the file cannot be written.
        """
        self._require_watch()
        level = self.check_level(name, level)
        knob = self._catalogue.get(name)
        family = self._family[name]
        if reason := self.writable(name):
            raise TrialFailure(FailureClass.CONFIGURATION, f"{name} cannot be set: {reason}")
        text = family.text(knob, level) if isinstance(family, FileKnobs) else str(level)
        entry = self.journal.record_file(family.path(knob), text, note=name)
        if name not in self._originals:
            self._originals[name] = family.read(knob)
        try:
            family.write(knob, level)
        except PermissionError as error:
            raise TrialFailure(FailureClass.INFRASTRUCTURE, f"{name} cannot be set: {error.strerror}") from error
        except OSError as error:
            raise TrialFailure(
                FailureClass.CONFIGURATION, f"the kernel refuses {name} = {knob.format(level)}: {error.strerror}"
            ) from error
        original = family.read(knob)
        if original != level:
            self.journal.update(entry, value=normalise(family.path(knob).read_text()))
            raise TrialFailure(
                FailureClass.CONFIGURATION,
                f"{name} was set to {knob.format(level)} but reads back {knob.format(original)}",
            )

    # -- resets

    def busy(self, seconds: float) -> float:
        """Also raises OSError where /proc/stat cannot be read."""
        return busy(seconds, self.root)

    def drop_page_cache(self) -> None:
        """Write dirty data out, then free page cache, dentries and inodes. Raises LookupError without permission."""
        os.sync()
        path = self.root / "proc/sys/vm/drop_caches"
        try:
            write_setting(path, "3")
        except OSError as error:
            raise LookupError(f"the page cache cannot be dropped here: {path}: {error.strerror} (needs root)") from None

    def swap_off(self) -> None:
        """Switch all swap off; ``restore`` switches it on again. Nothing to do when there is none.

        Raises LookupError without permission, TrialFailure(infrastructure) when it fails (too little memory, say).
        """
        on = active_swaps(self.root)
        if not on:
            return
        self._require_watch()
        if os.geteuid() != 0:
            raise LookupError("swap cannot be switched off here: needs root")
        self.journal.record("swap", "swap", on)
        self._temporary["swap"] += on
        for name in on:
            try:
                done = here.run(["swapoff", name], timeout=SWAP)
                why = done.stderr.strip() if done.returncode else ""
            except TimeoutError as error:
                why = str(error)
            if why:
                raise TrialFailure(FailureClass.INFRASTRUCTURE, f"swap could not be switched off: {why}")

    def promise(self, kind: str, target: str, original: object, **data: Any) -> str:
        """See ``leadline.host.base.Host``."""
        self._require_watch()
        return self.journal.record(kind, target, original, **data).id

    def keep_promise(self, identity: str) -> str:
        """See ``leadline.host.base.Host``."""
        return self.journal.undo(identity)

    def private_tree(self, path: Path) -> None:
        """Make a directory for this user only, which ``restore`` removes with all in it (a store in memory).

        Raises FileExistsError, OSError, TrialFailure(infrastructure).
        """
        self._require_watch()
        path = path.absolute()
        if path.is_symlink() or path.exists():
            raise FileExistsError(f"{path} exists already")
        self.journal.record("tree", str(path))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.mkdir(mode=0o700)
        self._temporary["directory"].append(str(path))
        (path / TREE_MARKER).touch()

    def remove_tree(self, path: Path) -> None:
        """Remove what ``private_tree`` made, if it is there. What cannot be removed is left to ``restore``, which
        tells why.
        """
        target = str(path.absolute())
        for entry in self.journal.open_entries():
            if entry.kind == "tree" and entry.target == target:
                with suppress(CannotUndo):
                    undo_tree([entry], self.root)
                    self.journal.done(entry)

    def ram_disk(self, path: Path, size: int) -> str:
        """Mount a RAM disk of ``size`` bytes at ``path / "store"``; returns what it is made of. What was begun is
        undone when it fails.

        Raises FileExistsError, OSError (a full disk, say), TrialFailure: ``configuration`` where none can be made,
        ``infrastructure``.
        """
        return self._disk(path, "RAM disk", lambda base: ramdisk.make(self.journal, base, size))

    def file_system(self, path: Path, size: int, kind: str, options: str = "", over: Path | None = None) -> str:
        """See ``leadline.host.base.Host``; what was begun is undone when it fails."""

        def make(base: Path) -> str:
            if kind == OVERLAY:
                return ramdisk.make_overlay(self.journal, base, over, options)
            if kind == BRD:
                return ramdisk.make(self.journal, base, size, kernels_own=True)
            return ramdisk.make_image(self.journal, base, size, kind, options)

        return self._disk(path, kind, make)

    def set_scheduler(self, path: Path, scheduler: str) -> None:
        """See ``leadline.host.base.Host``."""
        self._require_watch()
        file = scheduler_file(path, self.root)
        try:
            self.journal.record_file(file, scheduler, note=SCHEDULER)
            write_setting(file, scheduler)
        except OSError as error:
            message = f"the kernel refuses the I/O scheduler {scheduler} of {file.parts[-3]}: {error.strerror}"
            raise TrialFailure(FailureClass.CONFIGURATION, message) from error

    def scheduler(self, path: Path) -> str:
        """See ``leadline.host.base.Host``."""
        return normalise(scheduler_file(path, self.root).read_text())

    def file_system_lacks(self, kind: str) -> str:
        """See ``leadline.host.base.Host``."""
        return ramdisk.lacks(kind, self.root)

    def _disk(self, path: Path, what: str, make: Callable[[Path], str]) -> str:
        self._require_watch()
        path = path.absolute()
        try:
            disk = make(path)
        except (ramdisk.CannotMake, undo.CommandFailed) as error:
            self.remove_ram_disk(path)
            raise TrialFailure(FailureClass.CONFIGURATION, f"no {what} can be made here: {error}") from error
        except FileExistsError:  # before anything was begun: what is there may be another one's, in use
            raise
        except (OSError, TrialFailure):
            self.remove_ram_disk(path)
            raise
        self._temporary["mount"].append(str(path / "store"))
        return disk

    def remove_ram_disk(self, path: Path) -> None:
        """Remove what ``ram_disk`` made, if it is there. What cannot be removed is left to ``restore``, which tells
        why.
        """
        target = str(path.absolute())
        with suppress(LookupError):
            settings = str(scheduler_file(path.absolute() / "store", self.root))
            for entry in self.journal.open_entries():
                if entry.kind == "file" and entry.target == settings:  # the device outlives what lies on it
                    with suppress(RestoreError):
                        self.journal.undo(entry.id)
        for entry in self.journal.open_entries():
            if entry.kind in undo.MOUNTED and entry.target == target:
                with suppress(CannotUndo):
                    undo.undo_mounted([entry], self.root)
                    self.journal.done(entry)

    def place_of(self, path: Path) -> str:
        """See ``leadline.host.procfs.place_of``."""
        return place_of(path, self.root)

    def mounted(self, path: Path) -> Mount:
        """See ``leadline.host.procfs.mount_of``."""
        return mount_of(path, self.root)

    # -- undoing and telling

    def restore(self) -> Sequence[str]:
        """Undo every open entry of the journal, newest first, verify each; returns what was done. So too the journals
        of processes that are gone, before their watchdogs are.

        The caller holds the lease. Raises RestoreError naming what could not be put back.
        """
        paths = sorted(self.journal.path.parent.glob(f"*{_WATCHED}"))
        gone = [path for path in paths if not _runs(path.name.removesuffix(_WATCHED).rpartition("-")[2])]
        lines = self.journal.restore()
        return [*lines, *(line for path in gone for line in UndoJournal(path, self.root).restore())]

    def temporary(self) -> Mapping[str, tuple[str, str]]:
        """See ``leadline.host.base.Host``. Raises OSError."""
        table = self.root / "proc/self/mountinfo"
        mounted = {mount.point for mount in mounts(table)} if self._temporary["mount"] else set()
        swaps = active_swaps(self.root)
        changed: dict[str, tuple[str, str]] = {}
        for kind, names in self._temporary.items():
            for name in names:
                if kind == "swap":
                    changed[f"{kind} {name}"] = ("on", "on" if name in swaps else "off")
                else:
                    there = name in mounted if kind == "mount" else Path(name).exists()
                    changed[f"{kind} {name}"] = ("gone", "there" if there else "gone")
            names.clear()
        return changed

    def facts(self) -> Mapping[str, str]:
        """See ``leadline.host.facts.host_facts``."""
        places = {"cache": cache_dir(), "state": self._state} if self._directories is None else self._directories
        return host_facts(self.root, places)


_WATCHED = ".watched.jsonl"  # of a journal of one process, behind its number


def _runs(pid: str) -> bool:
    return pid.isdecimal() and (stat := procfs.read_stat(int(pid))) is not None and stat.alive


@contextmanager
def watched_starts(dead_man: float) -> Iterator[Callable[[ProcessSpec], LocalProcess]]:
    """Starts processes that end with ``watched_journal``."""
    with watched_journal("load", dead_man) as journal:
        yield partial(process.start, journal=journal)


@contextmanager
def watched_journal(name: str, dead_man: float) -> Iterator[UndoJournal]:
    """A journal of this process alone, without the host's lease, which is undone at the end; by a watchdog when this
    process is gone or silent for ``dead_man`` seconds. Raises LeadlineError, RestoreError.
    """
    journal = UndoJournal(state_dir() / "undo" / f"{name}-{os.getpid()}{_WATCHED}")
    watchdog = start_watchdog(journal.path, dead_man, leased=False)
    try:
        yield journal
    finally:
        if journal.open_entries():
            journal.restore()
        journal.compact()
        watchdog.finish()


HOST = LocalHost
