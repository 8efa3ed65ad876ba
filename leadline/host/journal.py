"""The undo journal: what must be put back, on disk before the change is made. Standard library only.

One JSON object a line: an entry, ``{"update": id, ...}`` for what became known later, ``{"done": id}``. A torn last
line (crash or full disk in the middle of a write) belongs to a change that was never made, and is passed over.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import stat
import sys
import threading
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, BinaryIO

from leadline.host import paths, procfs, undo, undo_running
from leadline.host.undo import CannotUndo, Entry, normalise
from leadline.model.errors import FailureClass, LeadlineError, RestoreError, TrialFailure
from leadline.model.received import from_json

_UNDO = {**undo.UNDO, **undo_running.UNDO, **dict.fromkeys(undo.MOUNTED, undo.undo_mounted)}
_LINE_MAX = 1 << 20  # bytes
_REPLACED = 1000  # times that it is opened anew because another process has replaced it
_COMMAND_MAX = 2000  # characters of a command line
_SAFELY = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK  # a link leads elsewhere, a pipe never ends
_FIELDS = frozenset(item.name for item in fields(Entry))


def owner() -> dict[str, Any]:
    """This process, so that a reader can tell whose an entry or a lease is."""
    stat = procfs.read_stat(os.getpid())
    command = " ".join([Path(sys.argv[0]).name, *sys.argv[1:]])[:_COMMAND_MAX] if sys.argv else "leadline"
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

    @contextlib.contextmanager
    def _locked(self) -> Iterator[int]:
        """The journal's file, open for writing and locked, so that none is rewritten while another one adds to it.
        Raises OSError.
        """
        for _ in range(_REPLACED):
            handle = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | _SAFELY, 0o600)
            try:
                _require_own(handle)
                fcntl.flock(handle, fcntl.LOCK_EX)
                try:
                    same = os.path.samestat(os.fstat(handle), self.path.stat())
                except FileNotFoundError:
                    same = False
                if same:
                    yield handle
                    return
            finally:
                os.close(handle)
        raise OSError(errno.EBUSY, f"it was replaced {_REPLACED} times while it was opened")

    def _append(self, record: Mapping[str, Any]) -> None:
        """Raises ValueError for what could not be read again, TrialFailure(infrastructure)."""
        data = json.dumps(record, separators=(",", ":")).encode() + b"\n"
        if len(data) > _LINE_MAX:
            raise ValueError(f"a line of {len(data)} bytes is longer than any of the undo journal's ({_LINE_MAX})")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self._locked() as handle:
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
            if not size:
                _sync_directory(self.path.parent)
                _sync_directory(self.path.parent.parent)
        except OSError as error:
            raise TrialFailure(FailureClass.INFRASTRUCTURE, self._unwritable(error)) from error

    def require_writable(self) -> None:
        """Before anything begins that needs it: an empty line is written and taken away again. Raises LeadlineError."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self._lock, self._locked() as handle:
                size = os.fstat(handle).st_size
                try:
                    os.write(handle, b"\n")
                    os.fsync(handle)
                finally:
                    os.ftruncate(handle, size)
                    if not size:
                        self.path.unlink()
        except OSError as error:
            raise LeadlineError(self._unwritable(error)) from error

    def _unwritable(self, error: OSError) -> str:
        return f"the undo journal {self.path} cannot be written ({error.strerror}), so nothing was changed"

    def record(self, kind: str, target: str, original: Any = None, note: str = "", **data: Any) -> Entry:
        """Put an entry on disk; the change may be made once this returns.

        ``kind``: ``file``, ``process``, ``cgroup``, ``swap``, ``tree``, ``ramdisk``, ``level``, ``logging`` or
        ``settings``.
        Raises TrialFailure(infrastructure), ValueError for what would not be read back as it is.
        """
        values = data.pop("values", [])
        entry = Entry(
            uuid.uuid4().hex[:12], kind, target, original, note, procfs.boot_id(), time.time(), owner(), values, data
        )
        _check_readable(entry)
        with self._lock:
            self._append(asdict(entry))
        return entry

    def record_file(self, path: Path, value: str, note: str = "") -> Entry:
        """Keep the present value of a kernel setting, and of those that a write to it changes.

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
            return self.record("file", str(path), undo.originals(path), note, values=[normalise(value)])

    def record_process(self, name: str, argv: Sequence[str], token: str, cwd: Path | None = None) -> Entry:
        """Announce a process before it starts; ``update(entry, pid=..., start=...)`` once they are known."""
        directory = {} if cwd is None else {"cwd": str(cwd.resolve())}
        return self.record("process", name, None, " ".join(argv)[:200], token=token, **directory)

    def update(self, entry: Entry, **known: Any) -> None:
        """Add what became known: ``value`` is one more value that leadline set, the rest goes to ``data``."""
        changed = deepcopy(entry)
        _apply(changed, known)
        _check_readable(changed)
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
            handle = os.open(self.path, os.O_RDONLY | _SAFELY)
            with open(handle, "rb") as file:  # noqa: PTH123 - a file that is open already
                _require_own(handle)
                for number, line, whole in _lines(file):
                    try:
                        _read_line(line, entries)
                    except _UNREADABLE as error:
                        if whole:  # the last line has no end: torn
                            what = str(error) if isinstance(error, _Damaged) else _reason(error)
                            problems.append(f"{self.path}: line {number} is unreadable ({what}), passed over")
        except FileNotFoundError:
            return [], []
        except OSError as error:
            raise TrialFailure(
                FailureClass.INFRASTRUCTURE,
                f"the undo journal {self.path} cannot be read ({error.strerror}), so nothing was changed",
            ) from error
        return [entry for entry in entries.values() if entry.id not in self._unrecorded], problems

    def open_entries(self) -> list[Entry]:
        """What is still to undo, oldest first. Raises TrialFailure(infrastructure) when the journal cannot be read."""
        with self._lock:
            return self._load()[0]

    def left(self, of: int | None = None) -> list[Entry]:
        """The open entries without those of a leadline that still runs, other than this one and process ``of``."""
        return [entry for entry in self.open_entries() if not _in_force(entry, of)]

    # -- undoing

    def restore(self, of: int | None = None) -> list[str]:
        """Undo every open entry, newest first, and verify each; one line for each about what was done.

        What belongs to a leadline that still runs, other than this one and process ``of``, is left alone: where two
        network namespaces share a state directory, each has a lease of its own. Everything is tried even if something
        fails. Raises RestoreError naming what could not be put back.
        """
        with self._lock:
            entries, lines = self._load()
            failed = []
            for group in _plan(entries, procfs.boot_id()):
                if any(_in_force(entry, of) for entry in group):
                    continue
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
        lines += paths.sweep()
        if failed:
            also = f"; put back: {len(lines)} other(s)" if lines else ""
            raise RestoreError("could not be put back: " + "; ".join(failed) + also)
        return lines

    def undo(self, identity: str) -> str:
        """Undo one open entry now and tell what was done; nothing where it is done already. Raises RestoreError."""
        with self._lock:
            entry = next((entry for entry in self.open_entries() if entry.id == identity), None)
            if entry is None:
                return ""
            try:
                message = _UNDO[entry.kind]([entry], self.root)
            except (CannotUndo, OSError) as error:
                raise RestoreError(f"could not be put back: {error}") from None
            self.done(entry)
            return message

    def compact(self) -> None:
        """Drop finished records: the whole file when nothing is open, else an atomic rewrite. A file with a damaged
        line is kept beside it under the name ``.damaged``.
        """
        with self._lock, contextlib.suppress(OSError, TrialFailure):
            if not self.path.exists():
                return
            with self._locked():
                entries, problems = self._load()
                if problems and not entries:
                    self.path.replace(self.path.with_suffix(".damaged"))
                elif not entries:
                    self.path.unlink(missing_ok=True)
                    self._unrecorded.clear()
                elif self.path.stat().st_size > 100_000 and not problems:
                    fresh = self.path.with_suffix(".new")
                    with fresh.open("w") as file:
                        file.writelines(json.dumps(asdict(entry), separators=(",", ":")) + "\n" for entry in entries)
                        file.flush()
                        os.fsync(file.fileno())
                    fresh.replace(self.path)
            _sync_directory(self.path.parent)


class _Damaged(Exception):
    """A line that is none of the journal's, with the reason."""


_JSON = {list: "a list", str: "a text", bool: "a switch", type(None): "null"}
_UNREADABLE = (_Damaged, ValueError, TypeError, KeyError, RecursionError)


def _reason(error: Exception) -> str:
    return "no JSON" if isinstance(error, (ValueError, RecursionError)) else "an entry of another form"


def _in_force(entry: Entry, of: int | None) -> bool:
    """Whether a process other than ``of`` and this one made the change and still runs."""
    pid = entry.owner.get("pid")
    if not isinstance(pid, int) or pid in (of, os.getpid()) or entry.boot != procfs.boot_id():
        return False
    stat = procfs.read_stat(pid)
    return stat is not None and stat.alive and stat.start == entry.owner.get("start")


def _require_own(handle: int) -> None:
    """Whoever can write a journal says what is undone: root acts on root's only. Raises OSError."""
    fstat = os.fstat(handle)
    if not stat.S_ISREG(fstat.st_mode):
        raise OSError(errno.EINVAL, "it is no regular file")
    if fstat.st_uid != os.geteuid():
        raise PermissionError(errno.EPERM, f"it belongs to user {fstat.st_uid}: run leadline restore as that user")


def _lines(file: BinaryIO) -> Iterator[tuple[int, bytes | None, bool]]:
    """Numbered lines and whether each has an end; None for one that is longer than any of the journal's."""
    number = 0
    while line := file.readline(_LINE_MAX):
        number += 1
        whole: bytes | None = line
        while not line.endswith(b"\n") and len(line) == _LINE_MAX:
            whole = None
            line = file.readline(_LINE_MAX)
        if whole is None or whole.strip(b"\0 \r\n"):
            yield number, whole, line.endswith(b"\n")


def _read_line(line: bytes | None, entries: dict[str, Entry]) -> None:
    """Add what a line says. Raises one of ``_UNREADABLE``."""
    if line is None:
        raise _Damaged(f"longer than {_LINE_MAX} bytes")
    record = from_json(line)
    if not isinstance(record, dict):
        raise _Damaged(_JSON.get(type(record), "a number"))
    if "done" in record:
        entries.pop(record["done"], None)
    elif "update" in record:
        if entry := entries.get(record.pop("update")):
            _apply(entry, record)
    else:
        entry = Entry(**{key: value for key, value in record.items() if key in _FIELDS})
        _check(entry)
        entries[entry.id] = entry


def _check_readable(entry: Entry) -> None:
    """What is written is held against what will be read. Raises ValueError."""
    entries: dict[str, Entry] = {}
    try:
        _read_line(json.dumps(asdict(entry)).encode(), entries)
    except _UNREADABLE as error:
        raise ValueError(f"the undo journal cannot keep {entry.kind} {entry.target}: {error}") from error
    if entries.get(entry.id) != entry:
        raise ValueError(f"the undo journal would read {entry.kind} {entry.target} back as another entry")


def _check(entry: Entry) -> None:
    """Raises _Damaged for fields of another type than ``record`` writes."""
    originals = entry.original
    good = (
        all(isinstance(text, str) for text in (entry.id, entry.kind, entry.target, entry.note, entry.boot))
        and isinstance(entry.owner, dict)
        and isinstance(entry.data, dict)
        and isinstance(entry.values, list)
        and all(isinstance(value, str) for value in entry.values)
    )
    if good and entry.kind == "file":
        good = isinstance(originals, dict) and bool(originals) and entry.target in originals
        good = good and all(isinstance(value, str) for value in originals.values())
    elif good and entry.kind == "swap":
        good = isinstance(originals, dict) and all(type(rank) is int for rank in originals.values())
    elif good and entry.kind == "process":
        good = isinstance(entry.data.get("token"), str) and bool(entry.data["token"])
    elif good and entry.kind == undo_running.LEVEL:
        good = isinstance(originals, dict) and {"changes", "question", "told", "shown"} <= set(originals)
        good = good and {"pid", "start", "agent"} <= set(entry.data)
    elif good and entry.kind == undo_running.LOGGING:
        good = {"pid", "start", "file"} <= set(entry.data) and Path(entry.data["file"]).is_absolute()
    elif good and entry.kind == undo_running.SETTINGS:
        good = originals is None or isinstance(originals, str)
        good = good and Path(entry.target).is_absolute() and {"restart", "within", "folder"} <= set(entry.data)
    elif good and entry.kind in ("tree", "cgroup", *undo.MOUNTED):
        good = Path(entry.target).is_absolute()
    if not good:
        raise _Damaged("an entry of another form")


def _apply(entry: Entry, known: Mapping[str, Any]) -> None:
    for key, value in known.items():
        if key == "value":
            if not isinstance(value, str):
                raise _Damaged("an update of another form")
            if value not in entry.values:
                entry.values.append(value)
        else:
            entry.data[key] = value


def _plan(entries: Sequence[Entry], boot: str) -> list[list[Entry]]:
    """Groups to undo in order, newest first; entries of one setting make one group, newest first in it."""
    groups: dict[Any, list[Entry]] = {}
    for entry in reversed(entries):
        if entry.kind == undo_running.SETTINGS:
            key: Any = (entry.kind, entry.target)
        elif entry.kind in ("file", "swap"):
            files = tuple(sorted(entry.original)) if entry.kind == "file" else ()
            key = (entry.kind, files, entry.boot == boot)
        else:
            key = entry.id
        groups.setdefault(key, []).append(entry)
    return list(groups.values())
