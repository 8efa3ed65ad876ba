"""GC logs on disk: which files make one log, whatever format it is."""

from __future__ import annotations

import bz2
import codecs
import gzip
import io
import lzma
import re
import sys
import zlib
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import BinaryIO, cast

from leadline.gcanalysis.events import GcLog
from leadline.model.errors import UsageError
from leadline.observe.gclog import jdk8, openj9
from leadline.observe.gclog.decorators import Splitter, wall_clock
from leadline.observe.gclog.parser import parse_lines
from leadline.observe.gclog.wrapping import learn, sample, unwrapped

# Lines of a file that may be compressed, none longer than a bound.


STANDARD_INPUT = Path("-")
LONGEST = 1 << 15  # characters of a line; one of the collector's has some hundreds
_OVERLONG = "(a line that is too long)\n"
_ZSTANDARD = b"\x28\xb5\x2f\xfd"
_DAMAGE = (EOFError, gzip.BadGzipFile, zlib.error, lzma.LZMAError)


def lines_of(path: Path, broken: list[str]) -> Iterator[str]:
    """Lines with their ends; what cannot be decoded becomes U+FFFD, a line over ``LONGEST`` a few words.

    ``broken`` is told of these and of a compressed file that ends early or is damaged. Raises UsageError when nothing
    of the file can be read.
    """
    with nullcontext(sys.stdin.buffer) if path == STANDARD_INPUT else path.open("rb") as file:
        plain = file if isinstance(file, io.BufferedReader) else io.BufferedReader(cast(io.RawIOBase, file))
        begins = plain.peek(8)[:8]
        source, kind = _unpacked(plain, begins, path)
        wide = begins[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
        encoding = "utf-16" if wide else "utf-8-sig" if begins[:3] == codecs.BOM_UTF8 else "utf-8"
        reader = io.TextIOWrapper(source, encoding=encoding, errors="replace", newline="\n")
        number = overlong = 0
        try:
            while text := reader.readline(LONGEST):
                number += 1
                if len(text) < LONGEST or text[-1] == "\n":
                    yield text
                    continue
                while (text := reader.readline(LONGEST)) and text[-1] != "\n":
                    pass
                overlong += 1
                yield _OVERLONG
        except (*_DAMAGE, OSError) as error:
            if not kind or (isinstance(error, OSError) and error.errno):
                raise
            if not number:
                raise UsageError(f"{path}: damaged {kind} file: {error}") from error
            how = "is cut" if isinstance(error, EOFError) else f"is damaged ({error})"
            broken.append(f"{path.name}: the compressed file {how}; what comes before was read")
        if overlong:
            lines = "1 line has" if overlong == 1 else f"{overlong} lines have"
            broken.append(f"{path.name}: {lines} more than {LONGEST} characters and counted as not understood")


def _unpacked(plain: io.BufferedReader, begins: bytes, path: Path) -> tuple[BinaryIO, str]:
    """The bytes inside, and the kind of compression or nothing."""
    if begins.startswith(b"\x1f\x8b"):
        return cast(BinaryIO, gzip.GzipFile(fileobj=plain)), "gzip"
    if begins.startswith(b"BZh"):
        return cast(BinaryIO, bz2.BZ2File(plain)), "bzip2"
    if begins.startswith(b"\xfd7zXZ"):
        return cast(BinaryIO, lzma.LZMAFile(plain)), "xz"
    if begins.startswith(_ZSTANDARD):
        raise UsageError(f"{path}: zstd is not unpacked here: zstd -dc {path} | leadline gc -")
    return plain, ""


__all__ = ["STANDARD_INPUT", "ForLibrary", "LogFiles", "logs_of", "parse", "parse_files"]

_NUMBERED = re.compile(r"(?P<stem>.+)(?:\.\d+|-\d{8,})(?:\.current)?(?:\.(?:gz|bz2|xz))?")
_PACKED = (".gz", ".bz2", ".xz")
_COLLECTION = re.compile(r"GC\((\d{1,15})\) ")
_JROCKIT = re.compile(r"\[memory *\].*(?:GC|[YO]C)\b.*\dK(?:B)?->\d+K|\[(?:YC|OC)#\d+\]")
_OLD_J9 = "the form of J9 before R26"


class ForLibrary(UsageError):
    """A log in a format that only the other reader knows: ``--reader gcviewer``."""


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
    for path in paths:
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
        if path.is_dir():
            raise UsageError(f"{path}: Is a directory")
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
