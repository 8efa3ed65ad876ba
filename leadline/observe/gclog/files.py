"""Collector logs on disk: which files make one log, whatever format it is."""

from __future__ import annotations

import codecs
import gzip
import io
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

_NUMBERED = re.compile(r"(?P<stem>.+)\.(?P<number>\d+)(?:\.current)?")
STANDARD_INPUT = Path("-")
_LOOKED_AT = 400  # lines in which a format shows


@dataclass(frozen=True)
class LogFiles:
    """Files of one log in the order in which they were written; ``name`` is the one that is written to last."""

    name: Path
    parts: tuple[Path, ...]


def logs_of(paths: Sequence[Path]) -> list[LogFiles]:
    """One log a path; files of one rotation (``gc.log``, ``gc.log.0``, ...) that are given together make one.

    A path whose rotated files lie beside it stands for all of them. Raises UsageError for a file that does not exist.
    """
    groups: dict[Path, list[Path]] = {}
    piped: list[LogFiles] = []
    for path in paths:
        if path == STANDARD_INPUT or path.is_fifo() or path.is_char_device():  # can be read once only
            if any(other.name == path for other in piped):
                raise UsageError(f"{path} is named twice and can be read once")
            piped.append(LogFiles(path, (path,)))
            continue
        if not path.exists():
            raise UsageError(f"{path}: No such file or directory")
        if path.is_dir():
            raise UsageError(f"{path}: Is a directory")
        match = _NUMBERED.fullmatch(path.name)
        stem = path.with_name(match["stem"]) if match else path
        groups.setdefault(stem if stem in paths or match else path, []).append(path)
    found = piped
    for stem, given in groups.items():
        parts = dict.fromkeys(given)
        if stem in given:
            parts.update(dict.fromkeys(_beside(stem)))
        ordered = sorted(parts, key=lambda part: (_begins(part), part == stem, part.name))
        found.append(LogFiles(stem if stem in parts else given[0], tuple(ordered)))
    return found


def _beside(path: Path) -> list[Path]:
    """Those with a number after the name that hold a log."""
    found = []
    for other in path.parent.glob(f"{_escaped(path.name)}.*"):
        if other.is_file() and _NUMBERED.fullmatch(other.name) and other.stat().st_size:
            found.append(other)
    return found


def _escaped(name: str) -> str:
    return re.sub(r"([*?\[])", r"[\1]", name)


def _begins(path: Path) -> tuple[int, float]:
    """When its first line was written: by the wall clock, else by uptime, else by the file's own time."""
    split = Splitter().split
    for text in islice(_readable(path), 50):
        line = split(text)
        if line is not None and (line.unix is not None or line.uptime is not None):
            return (0, line.unix) if line.unix is not None else (1, line.uptime or 0.0)
        stamp = wall_clock(text[:28])
        if stamp is not None:
            return 0, stamp
    return 2, path.stat().st_mtime


def parse(path: Path) -> GcLog:
    """Events of the log at ``path`` alone, in any of the known formats.

    A cut last line is left out and told in ``truncated``. Raises FileNotFoundError, and UsageError for a file that
    has lines and is no collector log.
    """
    return parse_files(LogFiles(path, (path,)))


def parse_files(log: LogFiles) -> GcLog:
    """Events of all files of a log, one after the other. Raises as ``parse``."""
    broken: list[str] = []
    lines = chain.from_iterable(_lines(part, broken) for part in log.parts)
    first = list(islice(lines, _LOOKED_AT))
    everything = chain(first, lines)
    if openj9.recognises(first):
        found = openj9.parse_lines(everything)
    elif jdk8.recognises(first):
        found = jdk8.parse_lines(everything)
    else:
        found = parse_lines(everything)
    if found.lines and not found.jvms:
        raise UsageError(
            f"{log.name} is no collector log: no line is one of -Xlog:gc* (JDK 9 and later), -XX:+PrintGCDetails "
            f"(JDK 7 and 8) or -verbose:gc of OpenJ9; older formats: --reader gcviewer"
        )
    found.notes[:0] = broken
    if len(log.parts) > 1:
        found.notes.insert(0, f"rotated: read as one log, {', '.join(part.name for part in log.parts)}")
    return found


def _readable(path: Path) -> Iterator[str]:
    """Its lines; nothing of a file that cannot be read, which is told when it is read for good."""
    try:
        yield from _lines(path, [])
    except (OSError, UsageError):
        return


def _lines(path: Path, broken: list[str]) -> Iterator[str]:
    """Lines with their ends, of a file that may be compressed; what cannot be decoded becomes U+FFFD.

    ``broken`` is told of a compressed file that ends early or is damaged. Raises UsageError when nothing of it can
    be read.
    """
    with nullcontext(sys.stdin.buffer) if path == STANDARD_INPUT else path.open("rb") as file:
        plain = file if isinstance(file, io.BufferedReader) else io.BufferedReader(cast(io.RawIOBase, file))
        begins = plain.peek(2)[:2]
        source = cast(BinaryIO, gzip.GzipFile(fileobj=plain)) if begins == b"\x1f\x8b" else plain
        encoding = "utf-16" if begins in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) else "utf-8"
        some = False
        try:
            for text in io.TextIOWrapper(source, encoding=encoding, errors="replace", newline="\n"):
                some = True
                yield text
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            if not some:
                raise UsageError(f"{path}: damaged gzip file: {error}") from error
            how = "is cut" if isinstance(error, EOFError) else f"is damaged ({error})"
            broken.append(f"{path.name}: the compressed file {how}; what comes before was read")
