"""What an observer is to the lab, the one form in which series are stored, and the one thread
that polling observers run on, with its frame files: what it copied, with timestamps.
"""

from __future__ import annotations

import contextlib
import threading
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from leadline.host.base import Process
from leadline.host.received import read
from leadline.model.received import ReceivedError, reading

# Every series file is a tall Parquet table ``series/<observer>.parquet`` with these columns:
#   time_ns  Int64   unix time, nanoseconds
#   metric   Utf8    "cpu.user", "pool.in_use", "gc.pause"
#   subject  Utf8    what it is of: "host", "cpu0", "vda", "server", "jdbc/orders", a collector's pause kind
#   value    Float64 in the unit given by ``UNITS`` of the observer's module
COLUMNS = ("time_ns", "metric", "subject", "value")


@dataclass(frozen=True)
class ObserverContext:
    """What there is to observe in one trial."""

    directory: Path  # the trial's directory; raw files go to ``raw/``, tables to ``series/``
    processes: Mapping[str, Process] = field(default_factory=dict)  # "server", "database"
    java_home: Path | None = None
    interval: float = 1.0
    # Process ids by role of all trials that run now, by directory: whoever observes processes adds those of its own.
    side_by_side: dict[Path, dict[str, list[int]]] = field(default_factory=dict)


class Observer(Protocol):
    """Records a layer between ``start`` and ``stop``; raw files are on disk while it records."""

    @property
    def name(self) -> str: ...
    def start(self, context: ObserverContext) -> None: ...
    def stop(self) -> None: ...
    def collect(self) -> Path | None:
        """Turn what was recorded into ``series/<name>.parquet``; None when there was nothing. Works also after a
        crash, from the raw files alone.
        """


class ObserverSet:
    """Starts, stops and collects ``observers``; what went wrong is in ``warnings``, each text once.

    Raises ValueError when two observers have one name, as one would overwrite the other's files.
    """

    def __init__(self, observers: Sequence[Observer]) -> None:
        names = [observer.name for observer in observers]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"two observers are named {', '.join(twice)}")
        self._observers = tuple(observers)
        self._running: list[Observer] = []
        self._own: list[str] = []

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(observer.name for observer in self._observers)

    @property
    def warnings(self) -> tuple[str, ...]:
        theirs = [text for observer in self._observers for text in getattr(observer, "warnings", ())]
        return tuple(dict.fromkeys([*self._own, *theirs]))

    def start(self, context: ObserverContext) -> None:
        for observer in self._observers:
            try:
                observer.start(context)
            except Exception as error:
                self._warn(observer, "did not start", error)
            else:
                self._running.append(observer)

    def stop(self) -> None:
        """Stop those that run, last started first. Harmless when called again."""
        while self._running:
            observer = self._running.pop()
            try:
                observer.stop()
            except Exception as error:
                self._warn(observer, "did not stop", error)

    def collect(self) -> dict[str, Path]:
        """Observer to its series file, for those that recorded something."""
        paths: dict[str, Path] = {}
        for observer in self._observers:
            try:
                path = observer.collect()
            except Exception as error:
                self._warn(observer, "could not turn its raw files into series", error)
            else:
                if path is not None:
                    paths[observer.name] = path
        return paths

    def collect_from(self, directory: Path) -> dict[str, Path]:
        """The same from the raw files of a trial whose process has ended; for the observers that can."""
        paths: dict[str, Path] = {}
        for observer in self._observers:
            method = getattr(observer, "collect_from", None)
            try:
                path = method(directory) if method else None
            except Exception as error:
                self._warn(observer, "could not turn its raw files into series", error)
            else:
                if path is not None:
                    paths[observer.name] = path
        return paths

    def _warn(self, observer: Observer, what: str, error: Exception) -> None:
        self._own.append(f"{observer.name}: {what}: {type(error).__name__}: {error}")


_MOST = 1 << 30  # bytes of one file, packed and unpacked
_CHUNK = 1 << 16


@dataclass(frozen=True)
class Frame:
    """One sample: ``lateness`` and ``cpu`` (of the sampling thread since its start) in nanoseconds."""

    sequence: int
    monotonic_ns: int
    time_ns: int
    lateness_ns: int
    cpu_ns: int
    files: Mapping[str, bytes]

    def text(self, name: str) -> str:
        """The file's text, empty if this frame does not have it."""
        return self.files.get(name, b"").decode("utf-8", "replace")


class FrameWriter:
    """Appends frames to ``path`` (truncated first). Every ``write`` reaches the operating system. Raises OSError."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("wb", buffering=0)
        self._zlib = zlib.compressobj(level=1)
        self._sequence = 0

    def write(
        self, monotonic_ns: int, time_ns: int, lateness_ns: int, cpu_ns: int, entries: Iterable[tuple[str, bytes]]
    ) -> None:
        body = bytearray()
        for name, content in entries:
            body += f"{name} {len(content)}\n".encode()
            body += content
        header = f"frame {self._sequence} {monotonic_ns} {time_ns} {lateness_ns} {cpu_ns} {len(body)}\n"
        self._sequence += 1
        packed = self._zlib.compress(header.encode() + body) + self._zlib.flush(zlib.Z_SYNC_FLUSH)
        # A raw file may take part of a write (disk nearly full): the rest has to follow or the stream is broken.
        view = memoryview(packed)
        while view:
            view = view[self._file.write(view) or 0 :]

    def close(self) -> None:
        self._file.close()


def read_frames(path: Path) -> Iterator[Frame]:
    """All whole frames of ``path``; a damaged or cut end is left out. Raises FileNotFoundError, ReceivedError."""
    with reading(str(path)):
        data = _inflate(read(path, _MOST), str(path))
        position = 0
        while (end := data.find(b"\n", position)) >= 0:
            words = data[position:end].split()
            if len(words) != 7 or words[0] != b"frame":
                return
            sequence, monotonic_ns, time_ns, lateness_ns, cpu_ns, size = (int(word) for word in words[1:])
            position = end + 1 + size
            if size < 0 or position > len(data):
                return
            files = _entries(data[end + 1 : position])
            yield Frame(sequence, monotonic_ns, time_ns, lateness_ns, cpu_ns, files)


def _inflate(packed: bytes, what: str) -> bytes:
    """What comes before the first damage."""
    inflater, parts, size = zlib.decompressobj(), list[bytes](), 0
    for start in range(0, len(packed), _CHUNK):
        chunk, before = packed[start : start + _CHUNK], inflater.copy()
        try:
            parts.append(inflater.decompress(chunk, _MOST))
        except zlib.error:
            with contextlib.suppress(zlib.error):
                parts += (before.decompress(chunk[at : at + 1], _MOST) for at in range(len(chunk)))
            break
        if (size := size + len(parts[-1])) > _MOST or inflater.unconsumed_tail:
            raise ReceivedError(what, f"it unpacks to more than {_MOST:,} bytes")
    return b"".join(parts)


def _entries(body: bytes) -> dict[str, bytes]:
    files: dict[str, bytes] = {}
    position = 0
    while (end := body.find(b"\n", position)) >= 0:
        name, _, size = body[position:end].rpartition(b" ")
        position = end + 1 + abs(int(size))
        files[name.decode()] = body[end + 1 : position]
    return files


Sample = Callable[[int], None]  # called with the lateness in nanoseconds


class Sampler:
    """Calls ``sample`` at once, then on a fixed grid of ``interval`` seconds, and once more when it is stopped.

    A sample that takes longer than the interval makes the grid skip, never a burst. An exception in ``sample`` is
    kept in ``warnings`` (each text once) and the next sample is still taken. ``interval`` None: only the first and
    the last sample.
    """

    def __init__(self, name: str, sample: Sample, interval: float | None) -> None:
        if interval is not None and interval <= 0:
            raise ValueError(f"{name}: the sampling interval must be above 0 s, not {interval}")
        self.warnings: list[str] = []
        self._name = name
        self._sample = sample
        self._interval_ns = None if interval is None else int(interval * 1e9)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"observer-{name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, patience: float = 5.0) -> bool:
        """End the thread; False (and a warning) if it was still stuck in a sample after ``patience`` seconds."""
        self._stop.set()
        if not self._thread.ident:
            return True
        self._thread.join(patience)
        if self._thread.is_alive():
            self._warn(f"a sample did not return within {patience:g} s of the end")
            return False
        return True

    def _run(self) -> None:
        begin = due = time.monotonic_ns()
        self._take(0)
        while True:
            now = time.monotonic_ns()
            if self._interval_ns is None:
                self._stop.wait()
            else:
                due += self._interval_ns * max(1, -(-(now - due) // self._interval_ns))
                self._stop.wait(max(0.0, (due - now) / 1e9))
            if self._stop.is_set():
                break
            self._take(time.monotonic_ns() - due)
        # Rates over a sliver of time are mostly rounding of the kernel's 10 ms ticks.
        since = time.monotonic_ns() - (due - self._interval_ns if self._interval_ns else begin)
        if self._interval_ns is None or since > self._interval_ns // 4:
            self._take(0)

    def _take(self, lateness_ns: int) -> None:
        try:
            self._sample(lateness_ns)
        except Exception as error:
            self._warn(f"{type(error).__name__}: {error}")

    def _warn(self, text: str) -> None:
        warning = f"{self._name}: {text}"
        if warning not in self.warnings:
            self.warnings.append(warning)
