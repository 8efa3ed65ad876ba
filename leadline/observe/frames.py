"""Frame files: what a sampling thread copied, verbatim, with its timestamps.

A frame file is one zlib stream (RFC 1950), flushed at every frame, so that everything but the frame being written
survives a crash and can be read back. Inside the stream each frame is a header line, then entries::

    frame <sequence> <monotonic ns> <unix ns> <lateness ns> <sampler's CPU ns> <bytes of the entries>
    <name> <bytes>
    <that many bytes, exactly as the kernel gave them>
"""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from leadline.host.received import read
from leadline.model.received import ReceivedError, reading

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
