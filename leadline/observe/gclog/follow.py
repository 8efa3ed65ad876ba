"""A GC log that is being written: what is added to it, and what that tells."""

from __future__ import annotations

import os
import select
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from leadline.gcanalysis.events import GcLog
from leadline.gcanalysis.findings import Finding
from leadline.gcanalysis.summary import summary
from leadline.model.errors import UsageError
from leadline.observe.gclog.files import STANDARD_INPUT, LogFiles, Reading, beside, blocks_of, logs_of, whole

_BLOCK = 1 << 20  # bytes
_POLL = 0.2  # s; a log that is rotated twice within it is read all the same
_LOOK = 1.0  # s between two looks at what it says, and at most a tenth of the time is spent with it
_TENTH = 10
_AGAIN = 2  # times as many events, and a finding is told again


@dataclass(frozen=True)
class News:
    """A finding that is new or has grown; if not ``holds``, one that no longer is. ``at``: uptime of the log's end."""

    at: float
    unix: float | None
    finding: Finding
    holds: bool


class Follower:
    """A log from its first rotated file to what is written to it now.

    ``ended``: nothing more can come. ``heap``: collector and largest heap of the JVM that writes it, which a log
    that was begun later does not tell.
    """

    def __init__(
        self, path: Path, ended: Callable[[], bool] = lambda: False, heap: tuple[str, int | None] = ("", None)
    ) -> None:
        """Raises UsageError for what is no single plain file or standard input."""
        self._reading, self._broken, self._ended, self._heap = Reading(), list[str](), ended, heap
        self._file: BinaryIO | None = None
        self._path = path
        self._known: set[tuple[int, int]] = set()  # rotated files that were read, by device and inode
        if path == STANDARD_INPUT:
            self.files = LogFiles(path, (path,))
            return
        logs = logs_of([path])
        if len(logs) != 1 or path.is_dir():
            raise UsageError(f"{path}: --follow is of one log")
        parts = logs[0].parts
        self._path = path if path.exists() else parts[-1]
        self.files = LogFiles(self._path, (self._path,))
        for part in parts:
            if part != self._path:
                self._take(part)
        self._file = self._path.open("rb")

    def _take(self, part: Path) -> None:
        """A file that was rotated away; one that is gone by now was the oldest."""
        with suppress(FileNotFoundError):
            stat = part.stat()
            for block in blocks_of(part, self._broken):
                self._reading.feed(block)
            self._reading.part()
            self._known.add((stat.st_dev, stat.st_ino))

    def read(self) -> tuple[bool, bool]:
        """Takes what was written: whether something was, and whether nothing more can come."""
        if self._file is None:
            ready, _, _ = select.select([sys.stdin.buffer], [], [], 0)
            data = os.read(sys.stdin.fileno(), _BLOCK) if ready else b""
            self._reading.feed(data)
            return bool(data), bool(ready) and not data
        ended = self._ended()
        some = self._drain(self._file)
        while self._moved():
            some = True
        return some, ended

    def _drain(self, file: BinaryIO) -> bool:
        some = False
        while data := file.read(_BLOCK):
            some = True
            self._reading.feed(data)
        return some

    def _moved(self) -> bool:
        """Follows a file that was rotated away or emptied; whether it was."""
        assert self._file is not None
        before = os.fstat(self._file.fileno())
        if not self._path.exists() and self._path.suffix == ".current":  # of JDK 8: gc.log.0.current
            stem = self._path.with_suffix("").stem
            self._path = max(self._path.parent.glob(f"{stem}.*.current"), key=_written, default=self._path)
        try:
            now = self._path.stat()
        except FileNotFoundError:  # its successor is not there yet
            return False
        if os.path.samestat(before, now):
            if now.st_size >= self._file.tell():
                return False
            self._reading.part()
            self._file.seek(0)
        else:
            self._drain(self._file)
            self._reading.part()
            self._known.add((before.st_dev, before.st_ino))
            for part in sorted(beside(self._path), key=_written):
                if _written(part) >= before.st_mtime_ns and not self._was_read(part):
                    self._take(part)  # written and rotated away since
            self._file.close()
            self._file = self._path.open("rb")
        self._drain(self._file)
        return True

    def _was_read(self, part: Path) -> bool:
        with suppress(FileNotFoundError):
            stat = part.stat()
            return (stat.st_dev, stat.st_ino) in self._known
        return True

    def log(self) -> GcLog:
        """The events so far."""
        return self._completed(self._reading.log(last=False)[0])

    def _completed(self, log: GcLog) -> GcLog:
        for jvm in log.jvms[-1:]:
            jvm.collector, jvm.heap_max = jvm.collector or self._heap[0], jvm.heap_max or self._heap[1]
        return log

    def finish(self) -> GcLog:
        """All events. Raises UsageError where it was no GC log."""
        self.read()
        self._reading.part()
        return self._completed(whole(self._reading, self.files, self._broken))


def _written(path: Path) -> int:
    with suppress(FileNotFoundError):
        return path.stat().st_mtime_ns
    return 0


def news(follower: Follower) -> Iterator[News]:
    """What the log tells as it grows, until nothing more can come."""
    told: dict[tuple[int, str], Finding] = {}
    fresh, look = False, 0.0
    while True:
        some, ended = follower.read()
        fresh |= some
        began = time.monotonic()
        if fresh and (began >= look or ended):
            yield from _changes(follower.log(), told)
            now = time.monotonic()
            fresh, look = False, now + max(_LOOK, _TENTH * (now - began))
        if ended:
            return
        time.sleep(_POLL)


def _changes(log: GcLog, told: dict[tuple[int, str], Finding]) -> Iterator[News]:
    """What is not ``told`` yet, and is then."""
    if not log.jvms:
        return
    findings = {(finding.jvm, finding.name): finding for finding in summary(log).findings}
    for key in [*told]:
        if key not in findings:
            yield _news(log, told.pop(key), holds=False)
    for key, finding in findings.items():
        if key not in told or finding.count >= _AGAIN * told[key].count:
            told[key] = finding
            yield _news(log, finding)


def _news(log: GcLog, finding: Finding, holds: bool = True) -> News:
    jvm = log.jvms[min(finding.jvm, len(log.jvms) - 1)]
    return News(jvm.last, jvm.last_unix, finding, holds)
