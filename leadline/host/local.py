"""The host leadline itself runs on."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from leadline.host import process, ramdisk, undo_ramdisk
from leadline.host.base import HostKnobs, ProcessSpec
from leadline.host.facts import host_facts
from leadline.host.journal import UndoJournal
from leadline.host.knobs import FAMILIES
from leadline.host.knobs.files import FileKnobs, VectorKnob
from leadline.host.lease import Lease
from leadline.host.mounts import mounts
from leadline.host.paths import cache_dir, state_dir
from leadline.host.process import LocalProcess
from leadline.host.undo import TREE_MARKER, CannotUndo, active_swaps, normalise, undo_tree, write_setting
from leadline.host.watchdog import Watchdog, start_watchdog
from leadline.model.errors import FailureClass, TrialFailure, UsageError
from leadline.model.knob import Catalogue, Knob, Level


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
        self._state = state if state is not None else state_dir()
        self._directories = directories
        self._families: tuple[HostKnobs, ...] = tuple(family(root) for family in FAMILIES)
        self._family = {knob.name: family for family in self._families for knob in family.knobs()}
        self._catalogue = Catalogue(knob for family in self._families for knob in family.knobs())
        self._watchdog: Watchdog | None = None
        self._temporary: dict[str, list[str]] = {"mount": [], "directory": [], "swap": []}
        self.journal = UndoJournal(self._state / "undo" / f"{self.name}.jsonl", root)

    @property
    def name(self) -> str:
        return "local"

    # -- who may use it

    def lease(self) -> Lease:
        """The lease of this host, not yet taken: ``with host.lease(): ...``."""
        return Lease(self.root)

    @contextmanager
    def guard(self, dead_man: float) -> Iterator[Watchdog]:
        """Hold the lease and be watched. Raises HostBusyError when another leadline uses the host."""
        with self.lease(), self.watched(dead_man) as watchdog:
            yield watchdog

    @contextmanager
    def watched(self, dead_man: float) -> Iterator[Watchdog]:
        """Guard the block: if leadline dies or hangs in it, the watchdog restores the host.

        Restore the host inside the block: when something is left to undo at its end, the watchdog is not told that
        all is well and tries once more after the dead-man time.
        """
        self._watchdog = watchdog = start_watchdog(self.journal.path, dead_man, self.root)
        try:
            yield watchdog
        finally:
            self._watchdog = None
            if self.journal.open_entries():
                watchdog.abandon()
            else:
                watchdog.finish()

    def _require_watch(self) -> None:
        """Nothing is changed any more once the watchdog has ended. Raises TrialFailure."""
        if self._watchdog is None or self._watchdog.alive():
            return
        if self._watchdog.fired():
            raise TrialFailure(
                FailureClass.INTERRUPTED,
                f"leadline stood still for longer than its dead-man time, so its watchdog put the host back"
                f" (see {self._state / 'watchdog.log'})",
            )
        raise TrialFailure(FailureClass.INFRASTRUCTURE, "the watchdog of this run has died; run again to go on")

    # -- processes

    def start(self, spec: ProcessSpec) -> LocalProcess:
        """See ``leadline.host.process.start``; also TrialFailure when the watchdog of this run is gone."""
        self._require_watch()
        return process.start(spec, self.journal)

    # -- knobs

    def knobs(self) -> Sequence[Knob]:
        return list(self._catalogue)

    def knob_path(self, name: str) -> Path:
        """The file that holds a knob. Raises UsageError for an unknown one."""
        knob = self._catalogue.get(name)
        return self._family[knob.name].path(knob)

    def read_knob(self, name: str) -> Level:
        """Today's level. Raises UsageError for an unknown knob, LookupError where this kernel lacks it."""
        knob = self._catalogue.get(name)
        return self._family[knob.name].read(knob)

    def writable(self, name: str) -> str:
        """Empty if the knob can be set here, else the reason."""
        path = self.knob_path(name)
        if not path.exists():
            return f"this kernel has no {name} ({path} does not exist)"
        if os.access(path, os.W_OK):
            return ""
        return f"{name} needs root" if os.geteuid() != 0 else f"{path} is read-only here"

    def check_level(self, name: str, raw: object) -> Level:
        """A level fit for ``set_knob``. Raises UsageError for one that is illegal, or dangerous on this host."""
        knob = self._catalogue.get(name)
        try:
            level = knob.parse(raw)
        except ValueError as error:
            raise UsageError(f"{name}: {error}") from None
        if knob.is_dangerous(level) and not self.disposable:
            raise UsageError(
                f"{name} = {knob.format(level)} can hang this host{_bounds(knob)}; it is refused unless the host is"
                " marked disposable"
            )
        if isinstance(knob, VectorKnob):
            self._check_length(knob, str(level))
        return level

    def _check_length(self, knob: Knob, level: str) -> None:
        try:
            today = str(self._family[knob.name].read(knob))
        except LookupError:
            return
        if len(level.split()) != len(today.split()):
            raise UsageError(f"{knob.name} takes {len(today.split())} numbers here, such as today's {today!r}")

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
        text = family.text(level) if isinstance(family, FileKnobs) else str(level)
        entry = self.journal.record_file(family.path(knob), text, note=name)
        try:
            family.write(knob, level)
        except PermissionError as error:
            raise TrialFailure(FailureClass.INFRASTRUCTURE, f"{name} cannot be set: {error.strerror}") from error
        except OSError as error:
            raise TrialFailure(
                FailureClass.CONFIGURATION, f"the kernel refuses {name} = {knob.format(level)}: {error.strerror}"
            ) from error
        found = family.read(knob)
        if found != level:
            self.journal.update(entry, value=normalise(family.path(knob).read_text()))
            raise TrialFailure(
                FailureClass.CONFIGURATION,
                f"{name} was set to {knob.format(level)} but reads back {knob.format(found)}",
            )

    # -- resets

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
        if os.geteuid() != 0:
            raise LookupError("swap cannot be switched off here: needs root")
        self.journal.record("swap", "swap", on)
        self._temporary["swap"] += on
        for name in on:
            done = subprocess.run(["swapoff", name], capture_output=True, text=True, check=False)
            if done.returncode:
                raise TrialFailure(
                    FailureClass.INFRASTRUCTURE, f"swap could not be switched off: {done.stderr.strip()}"
                )

    def private_tree(self, path: Path) -> None:
        """Make a directory for this user only, which ``restore`` removes with all in it (a store in memory).

        Raises FileExistsError, OSError, TrialFailure(infrastructure).
        """
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
        self._require_watch()
        path = path.absolute()
        try:
            told = ramdisk.make(self.journal, path, size)
        except (ramdisk.CannotMake, undo_ramdisk.CommandFailed) as error:
            self.remove_ram_disk(path)
            raise TrialFailure(FailureClass.CONFIGURATION, f"no RAM disk can be made here: {error}") from error
        except FileExistsError:  # before anything was begun: what is there may be another one's, in use
            raise
        except (OSError, TrialFailure):
            self.remove_ram_disk(path)
            raise
        self._temporary["mount"].append(str(path / "store"))
        return told

    def remove_ram_disk(self, path: Path) -> None:
        """Remove what ``ram_disk`` made, if it is there. What cannot be removed is left to ``restore``, which tells
        why.
        """
        target = str(path.absolute())
        for entry in self.journal.open_entries():
            if entry.kind == undo_ramdisk.KIND and entry.target == target:
                with suppress(CannotUndo):
                    undo_ramdisk.undo([entry], self.root)
                    self.journal.done(entry)

    # -- undoing and telling

    def restore(self) -> Sequence[str]:
        """Undo every open entry of the journal, newest first, verify each; returns what was done.

        The caller holds the lease. Raises RestoreError naming what could not be put back.
        """
        return self.journal.restore()

    def temporary(self) -> Mapping[str, tuple[str, str]]:
        """See ``leadline.host.base.Host``. Raises OSError."""
        table = self.root / "proc/self/mountinfo"
        mounted = {mount.point for mount in mounts(table)} if self._temporary["mount"] else set()
        swaps = active_swaps(self.root)
        found: dict[str, tuple[str, str]] = {}
        for kind, names in self._temporary.items():
            for name in names:
                if kind == "swap":
                    found[f"{kind} {name}"] = ("on", "on" if name in swaps else "off")
                else:
                    there = name in mounted if kind == "mount" else Path(name).exists()
                    found[f"{kind} {name}"] = ("gone", "there" if there else "gone")
            names.clear()
        return found

    def facts(self) -> Mapping[str, str]:
        """See ``leadline.host.facts.host_facts``."""
        places = {"cache": cache_dir(), "state": self._state} if self._directories is None else self._directories
        return host_facts(self.root, places)


def _bounds(knob: Knob) -> str:
    parts = []
    if knob.dangerous_below is not None:
        parts.append(f"below {knob.dangerous_below:g}")
    if knob.dangerous_above is not None:
        parts.append(f"above {knob.dangerous_above:g}")
    unit = f" {knob.unit}" if knob.unit and parts else ""
    return f" ({' or '.join(parts)}{unit})" if parts else ""
