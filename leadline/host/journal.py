"""The undo journal: what must be put back, on disk before the change is made. Standard library only.

One JSON object a line: an entry, ``{"update": id, ...}`` for what became known later, ``{"done": id}``. A torn last
line (crash or full disk in the middle of a write) belongs to a change that was never made, and is passed over.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from leadline.host import procfs, undo, undo_ramdisk
from leadline.host.undo import CannotUndo, Entry, normalise
from leadline.model.errors import FailureClass, RestoreError, TrialFailure

_UNDO = {**undo.UNDO, undo_ramdisk.KIND: undo_ramdisk.undo}
_FIELDS = frozenset(item.name for item in fields(Entry))


def owner() -> dict[str, Any]:
    """This process, so that a reader can tell whose an entry or a lease is."""
    stat = procfs.read_stat(os.getpid())
    command = " ".join([Path(sys.argv[0]).name, *sys.argv[1:]]) if sys.argv else "leadline"
    return {"pid": os.getpid(), "start": stat.start if stat else 0, "command": command}


def _sync_directory(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class UndoJournal:
    """Append-only journal of one host. ``root`` stands for / in tests."""

    def __init__(self, path: Path, root: Path = Path("/")) -> None:
        self.path = path
        self.root = root
        self._lock = threading.RLock()
        self._unrecorded: set[str] = set()  # done, but the disk would not take the record

    # -- writing

    def _append(self, record: Mapping[str, Any]) -> None:
        data = json.dumps(record, separators=(",", ":")).encode() + b"\n"
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            fresh = not self.path.exists()
            handle = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                size = os.fstat(handle).st_size
                if size and os.pread(handle, 1, size - 1) != b"\n":
                    data = b"\n" + data
                try:
                    while data:
                        data = data[os.write(handle, data) :]
                    os.fsync(handle)
                except OSError:
                    with contextlib.suppress(OSError):
                        os.ftruncate(handle, size)
                    raise
            finally:
                os.close(handle)
            if fresh:
                _sync_directory(self.path.parent)
                _sync_directory(self.path.parent.parent)
        except OSError as error:
            raise TrialFailure(
                FailureClass.INFRASTRUCTURE,
                f"the undo journal {self.path} cannot be written ({error.strerror}), so nothing was changed",
            ) from error

    def record(self, kind: str, target: str, original: Any = None, note: str = "", **data: Any) -> Entry:
        """Put an entry on disk; the change may be made once this returns.

        ``kind``: ``file``, ``process``, ``cgroup``, ``swap``, ``tree`` or ``ramdisk``.
        Raises TrialFailure(infrastructure).
        """
        values = data.pop("values", [])
        entry = Entry(
            uuid.uuid4().hex[:12], kind, target, original, note, procfs.boot_id(), time.time(), owner(), values, data
        )
        with self._lock:
            self._append(asdict(entry))
        return entry

    def record_file(self, path: Path, value: str, note: str = "") -> Entry:
        """Keep the present value of a kernel setting, and of the one a write to it clears.

        A file that is in the journal already keeps its first original. Raises OSError when it cannot be read,
        ValueError for a path outside /proc/sys and /sys, TrialFailure(infrastructure).
        """
        if not undo.allowed(path, self.root):
            raise ValueError(f"{path} is not below /proc/sys or /sys")
        boot = procfs.boot_id()
        with self._lock:
            for entry in reversed(self.open_entries()):
                if entry.kind == "file" and entry.target == str(path) and entry.boot == boot:
                    if normalise(value) not in entry.values:  # else it is on disk already: no need to wait for it again
                        self.update(entry, value=normalise(value))
                    return entry
            other = undo.partner(path)
            touched = [path, other] if other else [path]
            originals = {str(file): normalise(file.read_text()) for file in touched}
            return self.record("file", str(path), originals, note, values=[normalise(value)])

    def record_process(self, name: str, argv: Sequence[str], token: str, cwd: Path | None = None) -> Entry:
        """Announce a process before it starts; ``update(entry, pid=..., start=...)`` once they are known."""
        known = {} if cwd is None else {"cwd": str(cwd.resolve())}
        return self.record("process", name, None, " ".join(argv)[:200], token=token, **known)

    def update(self, entry: Entry, **known: Any) -> None:
        """Add what became known: ``value`` is one more value that leadline set, the rest goes to ``data``."""
        with self._lock:
            self._append({"update": entry.id, **known})
        _apply(entry, known)

    def done(self, entry: Entry) -> None:
        """The change is undone. A full disk does not matter here: undoing twice does no harm."""
        with self._lock:
            try:
                self._append({"done": entry.id})
            except TrialFailure:
                self._unrecorded.add(entry.id)

    # -- reading

    def _load(self) -> tuple[list[Entry], list[str]]:
        entries: dict[str, Entry] = {}
        problems = []
        try:
            lines = self.path.read_bytes().split(b"\n")
        except FileNotFoundError:
            return [], []
        except OSError as error:
            raise TrialFailure(
                FailureClass.INFRASTRUCTURE,
                f"the undo journal {self.path} cannot be read ({error.strerror}), so nothing was changed",
            ) from error
        for number, line in enumerate(lines, 1):
            if not line.strip(b"\0 \r"):
                continue
            try:
                record = json.loads(line)
                if not isinstance(record, dict):
                    raise TypeError("a record is an object")
                if "done" in record:
                    entries.pop(record["done"], None)
                elif "update" in record:
                    if record["update"] in entries:
                        _apply(entries[record.pop("update")], record)
                else:
                    entry = _entry(record)
                    entries[entry.id] = entry
            except (ValueError, TypeError, KeyError, RecursionError):
                if number < len(lines):  # the last line has no end: torn
                    problems.append(f"{self.path}: line {number} is unreadable, passed over")
        return [entry for entry in entries.values() if entry.id not in self._unrecorded], problems

    def open_entries(self) -> list[Entry]:
        """What is still to undo, oldest first. Raises TrialFailure(infrastructure) when the journal cannot be read."""
        with self._lock:
            return self._load()[0]

    # -- undoing

    def restore(self) -> list[str]:
        """Undo every open entry, newest first, and verify each; one line for each about what was done.

        Everything is tried even if something fails. Raises RestoreError naming what could not be put back.
        """
        with self._lock:
            entries, lines = self._load()
            failed = []
            for group in _plan(entries, procfs.boot_id()):
                newest = group[0]
                if newest.kind in undo.VOLATILE and newest.boot != procfs.boot_id():
                    lines.append(f"{newest.kind} {newest.target}: undone by the reboot since")
                elif newest.kind not in _UNDO:
                    failed.append(f"{newest.kind} {newest.target}: this version of leadline does not know how")
                    continue
                else:
                    try:
                        lines.append(_UNDO[newest.kind](group, self.root))
                    except CannotUndo as error:
                        failed.append(str(error))
                        continue
                    except Exception as error:
                        failed.append(f"{newest.kind} {newest.target}: {error}")
                        continue
                for entry in group:
                    self.done(entry)
            self.compact()
        if failed:
            also = f"; put back: {len(lines)} other(s)" if lines else ""
            raise RestoreError("could not be put back: " + "; ".join(failed) + also)
        return lines

    def compact(self) -> None:
        """Drop finished records: the whole file when nothing is open, else an atomic rewrite."""
        with self._lock, contextlib.suppress(OSError, TrialFailure):
            entries, _ = self._load()
            if not entries:
                self.path.unlink(missing_ok=True)
                self._unrecorded.clear()
            elif self.path.stat().st_size > 100_000:
                fresh = self.path.with_suffix(".new")
                with fresh.open("w") as file:
                    file.writelines(json.dumps(asdict(entry), separators=(",", ":")) + "\n" for entry in entries)
                    file.flush()
                    os.fsync(file.fileno())
                fresh.replace(self.path)
            _sync_directory(self.path.parent)


def _entry(record: Mapping[str, Any]) -> Entry:
    """Raises TypeError for what no entry holds."""
    entry = Entry(**{key: value for key, value in record.items() if key in _FIELDS})
    texts = (entry.id, entry.kind, entry.target, entry.note, entry.boot)
    kinds = (entry.owner, dict), (entry.values, list), (entry.data, dict), (entry.time, (int, float))
    if not all(isinstance(text, str) for text in texts) or not all(isinstance(one, kind) for one, kind in kinds):
        raise TypeError("a field of the wrong kind")
    if entry.kind in ("file", "swap") and not isinstance(entry.original, dict):
        raise TypeError("no originals")
    return entry


def _apply(entry: Entry, known: Mapping[str, Any]) -> None:
    for key, value in known.items():
        if key == "value":
            if value not in entry.values:
                entry.values.append(value)
        else:
            entry.data[key] = value


def _plan(entries: Sequence[Entry], boot: str) -> list[list[Entry]]:
    """Groups to undo in order, newest first; entries of one setting make one group, newest first in it."""
    groups: dict[Any, list[Entry]] = {}
    for entry in reversed(entries):
        if entry.kind in ("file", "swap"):
            files = tuple(sorted(entry.original)) if entry.kind == "file" else ()
            key: Any = (entry.kind, files, entry.boot == boot)
        else:
            key = entry.id
        groups.setdefault(key, []).append(entry)
    return list(groups.values())
