"""GC logs on disk: which files make one log, whatever format it is.

The compiled reader (``driver/gclog``) makes events of their bytes.
"""

from __future__ import annotations

import atexit
import bz2
import codecs
import ctypes
import gzip
import io
import lzma
import re
import shutil
import sys
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any, cast

import numpy as np
import zstandard

import leadline
from leadline.gcanalysis.events import KINDS, Events, GcLog, Jvm, UnknownLine, shown
from leadline.model.errors import LeadlineError, UsageError
from leadline.model.received import from_json

LIBRARY = "libleadline_gclog.so"
_PACKAGE = Path(leadline.__file__).parent
_PLACES = (_PACKAGE / "_bin", _PACKAGE.parent / "driver" / "target" / "release")
_TOO_MANY = 1
_CELL = 8  # bytes
_MOST_MEMORY = "more than 16,000,000 events"


@cache
def _library() -> ctypes.CDLL:
    """Raises LeadlineError where it is not built."""
    path = next((place / LIBRARY for place in _PLACES if (place / LIBRARY).is_file()), None)
    if path is None:
        raise LeadlineError(f"{LIBRARY}, which reads GC logs, is not built: `make install`")
    library = ctypes.CDLL(str(path))
    handle, size = ctypes.c_void_p, ctypes.c_size_t
    for name, result, arguments in (
        ("new", handle, [ctypes.c_bool]),
        ("feed", ctypes.c_int, [handle, ctypes.c_char_p, size]),
        ("part", ctypes.c_int, [handle]),
        ("lines", ctypes.c_uint64, [handle]),
        ("result", handle, [handle, ctypes.c_bool, ctypes.POINTER(size)]),
        ("first", ctypes.c_bool, [handle, ctypes.POINTER(ctypes.c_int), ctypes.POINTER(ctypes.c_double)]),
        ("free", None, [handle]),
    ):
        function = getattr(library, f"gclog_{name}")
        function.restype, function.argtypes = result, arguments
    return library


class Reading:
    """A log that is being read. ``looking``: its first lines alone."""

    def __init__(self, looking: bool = False) -> None:
        self._library = _library()
        self._handle = self._library.gclog_new(looking)

    def __del__(self) -> None:
        if handle := getattr(self, "_handle", None):
            self._library.gclog_free(handle)

    def feed(self, data: bytes) -> None:
        """The next bytes of a file, in UTF-8. Raises UsageError for a log with too many events."""
        self._check(self._library.gclog_feed(self._handle, data, len(data)))

    def part(self) -> None:
        """A file has ended; another one may follow."""
        self._check(self._library.gclog_part(self._handle))

    def _check(self, code: int) -> None:
        if code == _TOO_MANY:
            lines = self._library.gclog_lines(self._handle)
            raise UsageError(f"the log has {_MOST_MEMORY} in its first {lines} lines: read it in parts")
        if code:
            raise LeadlineError("the reader of GC logs has failed: please report it with the log")

    def first(self) -> tuple[bool, int, float]:
        """Whether the first lines are a collector's, and when they were written: 0 and unix seconds, 1 and uptime, 2
        and the number of a collection, or 3.
        """
        order, value = ctypes.c_int(3), ctypes.c_double()
        is_log = self._library.gclog_first(self._handle, ctypes.byref(order), ctypes.byref(value))
        return bool(is_log), order.value, value.value

    def log(self, last: bool = True) -> tuple[GcLog, dict[str, Any]]:
        """The events so far, and what the reader says besides; not ``last``: it reads on."""
        length = ctypes.c_size_t()
        place = self._library.gclog_result(self._handle, last, ctypes.byref(length))
        if not place:
            self._check(-1)
        return _log_of(memoryview((ctypes.c_char * length.value).from_address(place)).cast("B"))


def _log_of(data: memoryview) -> tuple[GcLog, dict[str, Any]]:
    """Copies of what ``data`` says."""
    begin = _CELL + int.from_bytes(data[:_CELL], "little")
    about: dict[str, Any] = from_json(bytes(data[_CELL:begin]))
    log, words = GcLog(), about.pop("words")
    for (name, kind), count in zip(KINDS.items(), about.pop("counts"), strict=True):
        width = len(Events.of(kind).names)  # of the matrix
        cells = np.frombuffer(data, "<i8", count * width, begin).reshape(count, width)
        setattr(log, name, Events.read(kind, cells, words))
        begin += cells.nbytes
    for one in about.pop("jvms"):
        jvm = Jvm(**{**one, "ids": [(low, high) for low, high in one["ids"]], "begun": dict(one["begun"])})
        log.jvms.append(jvm)
    for name in ("unknown", "damaged"):
        setattr(log, name, [UnknownLine(number, shown(text)) for number, text in about.pop(name)])
    rest = {name: about.pop(name) for name in ("overlong", "other")}
    for name, value in about.items():
        setattr(log, name, value)
    return log, rest


STANDARD_INPUT = Path("-")
_NESTED = 4  # times packed
_BLOCK = 1 << 20  # bytes
_LONGEST = 1 << 15  # characters of a line, as driver/gclog has it
_ZSTANDARD = b"\x28\xb5\x2f\xfd"
_DAMAGE = (EOFError, gzip.BadGzipFile, zlib.error, lzma.LZMAError, zstandard.ZstdError)
_WINDOW = 1 << 27  # bytes that unpacking zstd may take, as its own program has it


def blocks_of(path: Path, broken: list[str]) -> Iterator[bytes]:
    """Bytes of a file in UTF-8, whatever it is packed and encoded in.

    ``broken`` is told of a compressed file that ends early or is damaged. Raises UsageError when nothing of it can be
    read.
    """
    with nullcontext(sys.stdin.buffer) if path == STANDARD_INPUT else path.open("rb") as file:
        plain = file if isinstance(file, io.BufferedReader) else io.BufferedReader(cast(io.RawIOBase, file))
        kind, some = "", False
        try:
            plain, kind = _unpacked(plain)
            for block in _decoded(plain):
                some = True
                yield block
        except (*_DAMAGE, OSError) as error:
            if not kind or (isinstance(error, OSError) and error.errno):
                raise
            if not some:
                raise UsageError(f"{path}: damaged {kind} file: {error}") from error
            how = "is cut" if isinstance(error, EOFError) else f"is damaged ({error})"
            broken.append(f"{path.name}: the compressed file {how}; what comes before was read")


def _decoded(plain: io.BufferedReader) -> Iterator[bytes]:
    first = plain.peek(4096)[:4096]
    encoding = _encoding(first)
    decoder = None if encoding == "utf-8" else codecs.getincrementaldecoder(encoding)("replace")
    text = decoder.decode(first) if decoder else first.decode(errors="replace")
    # A file of old Macs, or of a terminal, has carriage returns alone.
    returns = "\r" in text and "\n" not in text
    if decoder:
        decoder.reset()
    while block := plain.read1(_BLOCK):
        if decoder:
            block = decoder.decode(block).encode(errors="replace")
        elif b"\0" in block:
            block = block.replace(b"\0", b"")
        yield block.replace(b"\r", b"\n") if returns else block


def _encoding(first: bytes) -> str:
    """By the mark at the beginning, or by the zeros of Latin letters in two bytes each."""
    if first[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        return "utf-16"
    even, odd = first[:512:2].count(0), first[1:512:2].count(0)
    if max(even, odd) > len(first[:512]) / 4 > min(even, odd):  # both: the hole that emptying a file leaves
        return "utf-16-le" if odd > even else "utf-16-be"
    return "utf-8"


def _unpacked(plain: io.BufferedReader) -> tuple[io.BufferedReader, str]:
    """The bytes inside however often they were packed, and the last kind of compression or nothing."""
    kind = ""
    for _ in range(_NESTED):
        begins = b""
        with suppress(*_DAMAGE):  # told when it is read
            begins = plain.peek(8)[:8]
        inner: object
        if begins.startswith(b"\x1f\x8b"):
            inner, kind = gzip.GzipFile("", "rb", fileobj=plain), "gzip"
        elif begins.startswith(b"BZh"):
            inner, kind = bz2.BZ2File(plain), "bzip2"
        elif begins.startswith(b"\xfd7zXZ"):
            inner, kind = lzma.LZMAFile(plain), "xz"  # noqa: SIM115
        elif begins.startswith(_ZSTANDARD):
            stream = zstandard.ZstdDecompressor(max_window_size=_WINDOW).stream_reader(plain, read_across_frames=True)
            inner, kind = io.BufferedReader(stream), "zstd"
        else:
            break
        plain = cast(io.BufferedReader, inner)  # they have its read and peek
    return plain, kind


_NUMBERED = re.compile(r"(?P<stem>.+)(?:\.\d+|-\d{8,})(?:\.current)?(?:\.(?:gz|bz2|xz))?")
_PACKED = (".gz", ".bz2", ".xz")


_ARCHIVES = (".zip", ".tar", ".tgz", ".tar.gz", ".tar.bz2", ".tar.xz")
_METRONOME = "metronome"  # as driver/gclog names it
_BY_FILE = 3  # of what ``Reading.first`` tells: nothing
_MOST_MEMBERS, _MOST_BYTES = 1000, 4 << 30
_TELLING = 1 << 18  # bytes by which a file in a directory or an archive is known as a log


@dataclass(frozen=True)
class LogFiles:
    """Files of one log in the order in which they were written; ``name`` is the one that is written to last."""

    name: Path
    parts: tuple[Path, ...]


_ENDLESS = tuple(Path("/dev", name) for name in ("zero", "full", "random", "urandom"))


def logs_of(paths: Sequence[Path]) -> list[LogFiles]:
    """One log a path; files of one rotation (``gc.log``, ``gc.log.0``, ...) that are given together make one.

    A path whose rotated files lie beside it stands for all of them. Raises UsageError for a file that does not exist.
    """
    groups: dict[Path, list[Path]] = {}
    piped: list[LogFiles] = []
    for path in chain.from_iterable(_spread(path) for path in paths):
        if path in _ENDLESS:
            raise UsageError(f"{path}: a device without an end, not a log")
        if path == STANDARD_INPUT or path.is_fifo() or path.is_char_device():  # can be read once only
            if any(other.name == path for other in piped):
                raise UsageError(f"{path} is named twice and can be read once")
            piped.append(LogFiles(path, (path,)))
            continue
        if not path.exists():
            numbered = beside(path)  # the older JVMs number all files of a rotation
            if not numbered:
                raise UsageError(f"{path}: No such file or directory")
            groups.setdefault(path, []).extend(numbered)
            continue
        match = _NUMBERED.fullmatch(path.name)
        stem = path.with_name(match["stem"]) if match else path
        groups.setdefault(stem if stem in paths or match else path, []).append(path)
    logs = piped
    for stem, paths_ in groups.items():
        parts = dict.fromkeys(paths_)
        if stem in paths_:
            parts.update(dict.fromkeys(beside(stem)))
        ordered = sorted(parts, key=lambda part: (_begins(part), part == stem, part.name))
        logs.append(LogFiles(stem if stem in parts else paths_[0], tuple(ordered)))
    return logs


def _spread(path: Path) -> Iterator[Path]:
    """The logs in a directory or an archive, and what a pattern finds; else the path itself."""
    if path.is_file() and path.name.endswith(_ARCHIVES):
        folder = Path(tempfile.mkdtemp(prefix="leadline-gc-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        _extract(path, folder)
        inside = sorted(folder.rglob("*"))
    elif path.is_dir():
        inside = sorted(path.iterdir())
    elif not path.exists() and set("*?[") & set(path.name) and path.parent.is_dir():
        inside = sorted(path.parent.glob(path.name))
    else:
        yield path
        return
    logs = [file for file in inside if file.is_file() and _first(file)[0]]
    if not logs:
        raise UsageError(f"{path}: no GC log is in it")
    yield from logs


def _extract(archive: Path, folder: Path) -> None:
    """Its files; raises UsageError for one that is damaged, or larger than any log."""
    try:
        if zipfile.is_zipfile(archive):
            with zipfile.ZipFile(archive) as packed:
                _within(archive, [member.file_size for member in packed.infolist()])
                packed.extractall(folder)
        else:
            with tarfile.open(archive) as tape:
                members = [member for member in tape if member.isfile()]
                _within(archive, [member.size for member in members])
                tape.extractall(folder, members, filter="data")
    except (*_DAMAGE, OSError, tarfile.TarError, zipfile.BadZipFile, RuntimeError) as error:
        raise UsageError(f"{archive}: damaged archive: {error}") from error


def _within(archive: Path, sizes: Sequence[int]) -> None:
    if len(sizes) > _MOST_MEMBERS or sum(sizes) > _MOST_BYTES:
        raise UsageError(f"{archive}: more than {_MOST_MEMBERS} files or {_MOST_BYTES >> 30} GiB: unpack it first")


def _first(path: Path) -> tuple[bool, int, float]:
    """``Reading.first`` of a file; of one that cannot be read, which is told when it is read for good, nothing."""
    reading, size = Reading(looking=True), 0
    with suppress(OSError, UsageError):
        for block in blocks_of(path, []):
            reading.feed(block[:_TELLING])
            size += len(block)
            if size >= _TELLING:
                break
    reading.part()
    return reading.first()


def beside(path: Path) -> list[Path]:
    """Those with a number after the name that hold a log, packed or not."""
    paths = []
    for other in sorted(path.parent.glob(f"{_escaped(path.name)}[.-]*")):
        twice = other.suffix in _PACKED and other.with_suffix("").exists()
        with suppress(FileNotFoundError):  # rotated away meanwhile
            if other.is_file() and _NUMBERED.fullmatch(other.name) and other.stat().st_size and not twice:
                paths.append(other)
    return paths


def _escaped(name: str) -> str:
    return re.sub(r"([*?\[])", r"[\1]", name)


def _begins(path: Path) -> tuple[int, float]:
    """When its first line was written: by the wall clock, else by uptime, else by the number of its first collection,
    else by the file's own time.
    """
    _, order, value = _first(path)
    return (order, value) if order < _BY_FILE else (_BY_FILE, path.stat().st_mtime)


def parse(path: Path) -> GcLog:
    """Events of the log at ``path`` alone, in any of the known formats.

    A cut last line is left out and told in ``truncated``. Raises FileNotFoundError, and UsageError for a file that
    has lines and is no GC log.
    """
    return parse_files(LogFiles(path, (path,)))


def parse_files(log: LogFiles) -> GcLog:
    """Events of all files of a log, one after the other. Raises as ``parse``."""
    reading, broken = Reading(), list[str]()
    for part in log.parts:
        for block in blocks_of(part, broken):
            reading.feed(block)
        reading.part()
    return whole(reading, log, broken)


def whole(reading: Reading, log: LogFiles, broken: list[str]) -> GcLog:
    """What was read of all files of a log; ``broken``: what was not whole. Raises UsageError for what is no GC log."""
    files, rest = reading.log()
    for part, overlong in zip(log.parts, rest["overlong"], strict=False):
        if overlong:
            lines = "1 line has" if overlong == 1 else f"{overlong} lines have"
            broken.append(f"{part.name}: {lines} more than {_LONGEST} characters and counted as not understood")
    if any(jvm.collector == "metronome" for jvm in files.jvms) or (not files.pauses and files.library == _METRONOME):
        raise UsageError(
            f"{log.name} is of OpenJ9's policy metronome, whose heartbeats sum up many pauses each: it is not read; "
            "the policies gencon, balanced, optthruput, optavgpause are"
        )
    if files.lines and not files.jvms:
        if rest["other"]:
            raise UsageError(f"{log.name} is a log of {rest['other']}, which is not read")
        raise UsageError(
            f"{log.name} is no GC log: no line is one of -Xlog:gc* (JDK 9 and later), -XX:+PrintGCDetails "
            f"(JDK 7 and 8) or -verbose:gc of OpenJ9; older formats are not read"
        )
    files.notes[:0] = broken
    if len(log.parts) > 1:
        files.notes.insert(0, f"rotated: read as one log, {', '.join(part.name for part in log.parts)}")
    return files


def parse_lines(lines: Iterable[str]) -> GcLog:
    """Events of lines that still have their line ends."""
    reading = Reading()
    for text in lines:
        reading.feed(text.encode(errors="replace"))
    reading.part()
    return reading.log()[0]
