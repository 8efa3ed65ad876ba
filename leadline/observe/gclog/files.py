"""GC logs on disk: which files make one log, whatever format it is."""

from __future__ import annotations

import atexit
import bz2
import codecs
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
from collections.abc import Iterator, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import cast

import zstandard

from leadline.gcanalysis.events import GcLog
from leadline.model.errors import UsageError
from leadline.observe.gclog import jdk8, openj9
from leadline.observe.gclog.decorators import Splitter, wall_clock
from leadline.observe.gclog.parser import parse_lines
from leadline.observe.gclog.wrapping import MARK, learn, sample, unwrapped

# Lines of a file that may be compressed, none longer than a bound.


STANDARD_INPUT = Path("-")
_NESTED = 4  # times packed
_MANY_RECORDS = 2048  # characters of a line that is looked at for records without line ends
_RECORD_BEGINS = re.compile(
    r"(?=(?:\d{4}-\d\d-\d\dT[\d:.,]{8,20}[+-]\d{4}: )\d{1,12}[.,]\d{3}: (?:#\d{1,9}: )?\[(?:Full )?GC\b)|"
    r"(?<![\d: ])(?=\d{1,12}[.,]\d{3}: (?:#\d{1,9}: )?\[(?:Full )?GC\b)|"
    r"(?<=\] )(?=\d{1,12}[.,]\d{3}: (?:#\d{1,9}: )?\[(?:Full )?GC\b)"
)
LONGEST = 1 << 15  # characters of a line; one of the collector's has some hundreds
_OVERLONG = "(a line that is too long)\n"
_ZSTANDARD = b"\x28\xb5\x2f\xfd"
_DAMAGE = (EOFError, gzip.BadGzipFile, zlib.error, lzma.LZMAError, zstandard.ZstdError)
_WINDOW = 1 << 27  # bytes that unpacking zstd may take, as its own program has it


def lines_of(path: Path, broken: list[str]) -> Iterator[str]:
    """Lines with their ends; what cannot be decoded becomes U+FFFD, a line over ``LONGEST`` a few words, unless it is
    records without a line end between them.

    ``broken`` is told of these and of a compressed file that ends early or is damaged. Raises UsageError when nothing
    of the file can be read.
    """
    with nullcontext(sys.stdin.buffer) if path == STANDARD_INPUT else path.open("rb") as file:
        plain = file if isinstance(file, io.BufferedReader) else io.BufferedReader(cast(io.RawIOBase, file))
        kind, number = "", 0
        try:
            plain, kind = _unpacked(plain)
            for text in _decoded(plain, path.name, broken):
                number += 1
                yield text
        except (*_DAMAGE, OSError) as error:
            if not kind or (isinstance(error, OSError) and error.errno):
                raise
            if not number:
                raise UsageError(f"{path}: damaged {kind} file: {error}") from error
            how = "is cut" if isinstance(error, EOFError) else f"is damaged ({error})"
            broken.append(f"{path.name}: the compressed file {how}; what comes before was read")


def _decoded(plain: io.BufferedReader, name: str, broken: list[str]) -> Iterator[str]:
    first = plain.peek(4096)[:4096]
    # A file of old Macs, or of a terminal, has carriage returns alone.
    returns = None if b"\r" in first and b"\n" not in first else "\n"
    reader = io.TextIOWrapper(plain, encoding=_encoding(first), errors="replace", newline=returns)
    overlong = 0
    while text := reader.readline(LONGEST):
        if len(text) < LONGEST or text[-1] == "\n":
            yield from _records(text) if len(text) > _MANY_RECORDS else (text,)
            continue
        rest, joined = text, True
        while rest and joined:
            *whole, rest = _records(rest)
            joined = bool(whole)
            yield from whole
            more = reader.readline(LONGEST) if joined else ""
            if not more or more[-1] == "\n":
                break
            rest += more
        if joined:
            yield from _records(rest + more)
            continue
        while (text := reader.readline(LONGEST)) and text[-1] != "\n":
            pass
        overlong += 1
        yield _OVERLONG
    if overlong:
        lines = "1 line has" if overlong == 1 else f"{overlong} lines have"
        broken.append(f"{name}: {lines} more than {LONGEST} characters and counted as not understood")


def _records(text: str) -> list[str]:
    """Records that lost the line ends between them, with one each."""
    parts = [part for part in _RECORD_BEGINS.split(text) if part]
    return [part if part[-1] == "\n" else f"{part}\n" for part in parts[:-1]] + parts[-1:]


def _encoding(first: bytes) -> str:
    """By the mark at the beginning, or by the zeros of Latin letters in two bytes each."""
    if first[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        return "utf-16"
    even, odd = first[:512:2].count(0), first[1:512:2].count(0)
    if max(even, odd) > len(first[:512]) / 4:
        return "utf-16-le" if odd > even else "utf-16-be"
    return "utf-8-sig" if first[:3] == codecs.BOM_UTF8 else "utf-8"


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


__all__ = ["STANDARD_INPUT", "ForLibrary", "LogFiles", "logs_of", "parse", "parse_files"]

_NUMBERED = re.compile(r"(?P<stem>.+)(?:\.\d+|-\d{8,})(?:\.current)?(?:\.(?:gz|bz2|xz))?")
_PACKED = (".gz", ".bz2", ".xz")
_COLLECTION = re.compile(r"GC\((\d{1,15})\) ")
_JROCKIT = re.compile(r"\[memory *\].*(?:GC|[YO]C)\b.*\dK(?:B)?->\d+K|\[(?:YC|OC)#\d+\]")
_OLD_J9 = "the form of J9 before R26"


class ForLibrary(UsageError):
    """A log in a format that only the other reader knows: ``--reader gcviewer``."""


_ARCHIVES = (".zip", ".tar", ".tgz", ".tar.gz", ".tar.bz2", ".tar.xz")
_MOST_MEMBERS, _MOST_BYTES = 1000, 4 << 30
_TELLING = 200  # lines by which a file in a directory or an archive is known as a log


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
            numbered = _beside(path)  # the older JVMs number all files of a rotation
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
            parts.update(dict.fromkeys(_beside(stem)))
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
    logs = [file for file in inside if file.is_file() and _is_log(file)]
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


def _is_log(path: Path) -> bool:
    first = list(islice(_readable(path), _TELLING))
    return any(MARK.search(text, 0, LONGEST) for text in unwrapped(first, learn(first)))


def _beside(path: Path) -> list[Path]:
    """Those with a number after the name that hold a log, packed or not."""
    paths = []
    for other in sorted(path.parent.glob(f"{_escaped(path.name)}[.-]*")):
        twice = other.suffix in _PACKED and other.with_suffix("").exists()
        if other.is_file() and _NUMBERED.fullmatch(other.name) and other.stat().st_size and not twice:
            paths.append(other)
    return paths


def _escaped(name: str) -> str:
    return re.sub(r"([*?\[])", r"[\1]", name)


def _begins(path: Path) -> tuple[int, float]:
    """When its first line was written: by the wall clock, else by uptime, else by the number of its first collection,
    else by the file's own time.
    """
    split = Splitter().split
    number: float | None = None
    first = list(islice(_readable(path), 200))
    for text in unwrapped(first, learn(first)):
        line = split(text)
        if line is not None and (line.unix is not None or line.uptime is not None):
            return (0, line.unix) if line.unix is not None else (1, line.uptime or 0.0)
        stamp = wall_clock(text[:28])
        if stamp is not None:
            return 0, stamp
        up = re.match(r"(\d{1,12}[.,]\d{1,9}): ", text)
        if up:
            return 1, float(up[1].replace(",", "."))
        match = _COLLECTION.search(text, 0, 1000)
        if match and number is None:
            number = float(match[1])
    return (2, number) if number is not None else (3, path.stat().st_mtime)


def parse(path: Path) -> GcLog:
    """Events of the log at ``path`` alone, in any of the known formats.

    A cut last line is left out and told in ``truncated``. Raises FileNotFoundError, and UsageError for a file that
    has lines and is no GC log.
    """
    return parse_files(LogFiles(path, (path,)))


def parse_files(log: LogFiles) -> GcLog:
    """Events of all files of a log, one after the other. Raises as ``parse``."""
    broken: list[str] = []
    lines = chain.from_iterable(lines_of(part, broken) for part in log.parts)
    first = sample(lines)
    layers = learn(first)
    lines_ = list(unwrapped(first, layers))
    everything = unwrapped(chain(first, lines), layers) if layers else chain(first, lines)
    if openj9.recognises(lines_):
        files = openj9.parse_lines(everything)
    elif jdk8.recognises(lines_):
        files = jdk8.parse_lines(everything)
    else:
        files = parse_lines(everything)
    if files.lines and not files.jvms:
        if any(_JROCKIT.search(text, 0, 1000) for text in lines_):
            raise ForLibrary(f"{log.name} is a log of JRockit")
        raise UsageError(
            f"{log.name} is no GC log: no line is one of -Xlog:gc* (JDK 9 and later), -XX:+PrintGCDetails "
            f"(JDK 7 and 8) or -verbose:gc of OpenJ9; older formats: --reader gcviewer"
        )
    if not files.pauses and any(_OLD_J9 in line.text for line in files.unknown):
        files.library = "J9 before R26"
    files.notes[:0] = broken
    if len(log.parts) > 1:
        files.notes.insert(0, f"rotated: read as one log, {', '.join(part.name for part in log.parts)}")
    return files


def _readable(path: Path) -> Iterator[str]:
    """Its lines; nothing of a file that cannot be read, which is told when it is read for good."""
    try:
        yield from lines_of(path, [])
    except (OSError, UsageError):
        return
