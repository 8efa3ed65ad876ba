"""GC logs on disk: which files make one log, whatever format it is."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path

from leadline.gcanalysis.events import GcLog
from leadline.model.errors import UsageError
from leadline.observe.gclog import jdk8, openj9
from leadline.observe.gclog.decorators import Splitter, wall_clock
from leadline.observe.gclog.parser import parse_lines
from leadline.observe.gclog.source import STANDARD_INPUT, lines_of
from leadline.observe.gclog.wrapping import learn, sample, unwrapped

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
    found = piped
    for stem, given in groups.items():
        parts = dict.fromkeys(given)
        if stem in given:
            parts.update(dict.fromkeys(_beside(stem)))
        ordered = sorted(parts, key=lambda part: (_begins(part), part == stem, part.name))
        found.append(LogFiles(stem if stem in parts else given[0], tuple(ordered)))
    return found


def _beside(path: Path) -> list[Path]:
    """Those with a number after the name that hold a log, packed or not."""
    found = []
    for other in sorted(path.parent.glob(f"{_escaped(path.name)}[.-]*")):
        twice = other.suffix in _PACKED and other.with_suffix("").exists()
        if other.is_file() and _NUMBERED.fullmatch(other.name) and other.stat().st_size and not twice:
            found.append(other)
    return found


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
        found = _COLLECTION.search(text, 0, 1000)
        if found and number is None:
            number = float(found[1])
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
    shown = list(unwrapped(first, layers))
    everything = unwrapped(chain(first, lines), layers) if layers else chain(first, lines)
    if openj9.recognises(shown):
        found = openj9.parse_lines(everything)
    elif jdk8.recognises(shown):
        found = jdk8.parse_lines(everything)
    else:
        found = parse_lines(everything)
    if found.lines and not found.jvms:
        if any(_JROCKIT.search(text, 0, 1000) for text in shown):
            raise ForLibrary(f"{log.name} is a log of JRockit")
        raise UsageError(
            f"{log.name} is no GC log: no line is one of -Xlog:gc* (JDK 9 and later), -XX:+PrintGCDetails "
            f"(JDK 7 and 8) or -verbose:gc of OpenJ9; older formats: --reader gcviewer"
        )
    if not found.pauses and any(_OLD_J9 in one.text for one in found.unknown):
        found.library = "J9 before R26"
    found.notes[:0] = broken
    if len(log.parts) > 1:
        found.notes.insert(0, f"rotated: read as one log, {', '.join(part.name for part in log.parts)}")
    return found


def _readable(path: Path) -> Iterator[str]:
    """Its lines; nothing of a file that cannot be read, which is told when it is read for good."""
    try:
        yield from lines_of(path, [])
    except (OSError, UsageError):
        return
