"""Recordings of a user's own: what they hold by stack, from flight recordings (JFR), pprof or folded stacks."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from leadline.host.received import lines_of, opened, read
from leadline.model.errors import LeadlineError, UsageError, quoted
from leadline.model.received import ReceivedError, reading
from leadline.observe.profile import events_of

MOST_BYTES = 256 << 20  # unpacked
_MOST_FRAMES = 20_000_000  # of all stacks together
_SAMPLE_TYPE, _SAMPLE, _LOCATION, _FUNCTION, _STRING, _PERIOD_TYPE, _PERIOD = 1, 2, 4, 5, 6, 11, 12
_DEFAULT_TYPE = 14
_VARINT, _BYTES = 0, 2  # wire types
_FIXED = {1: 8, 5: 4}  # others, with their lengths
_Field = tuple[int, int | bytes]


def decode(packed: bytes, types: Sequence[str], what: str) -> tuple[str, int, dict[str, float]]:
    """The first of ``types`` that the profile has with its unit, its period in ns (0: not of CPU time), and values by
    stack, the outermost function first, with semicolons between. Raises ReceivedError.
    """
    with reading(what):
        inflater = zlib.decompressobj(wbits=31)
        data = inflater.decompress(packed, MOST_BYTES)
        if not inflater.eof:
            raise ValueError(f"it is cut off, or has more than {MOST_BYTES:,} bytes unpacked")
        fields = list(_fields(data))
        strings = [_text(value) for number, value in fields if number == _STRING]

        def text(at: int) -> str:
            return strings[at].replace(";", ":").replace("\n", " ")

        kinds = [_type(value, strings) for number, value in fields if number == _SAMPLE_TYPE]
        column = next((at for name in types for at, kind in enumerate(kinds) if kind[0] == name), None)
        if column is None:
            listed = ", ".join(kind[0] for kind in kinds)
            raise ValueError(f"it has samples of type {listed or 'none'}; one of {', '.join(types)} is needed")
        period_types = [_type(value, strings) for number, value in fields if number == _PERIOD_TYPE]
        period = next((int(value) for number, value in fields if number == _PERIOD), 0)
        names = {
            _number(parts, 1): text(_number(parts, 2))
            for number, value in fields
            if number == _FUNCTION and (parts := _parts(value))
        }
        calls: dict[int, tuple[str, ...]] = {}  # of a location, the outermost first
        for number, value in fields:
            if number == _LOCATION:
                parts = _parts(value)
                lines = [_number(_parts(line), 1) for key, line in parts if key == 4]
                calls[_number(parts, 1)] = tuple(names[function] for function in reversed(lines)) or ("(unknown)",)
        samples: dict[str, float] = {}
        frames = 0
        for number, value in fields:
            if number != _SAMPLE:
                continue
            parts = _parts(value)
            stack = [name for at in reversed(_repeated(parts, 1)) for name in calls[at]]
            frames += len(stack)
            if frames > _MOST_FRAMES:
                raise ValueError(f"it has more than {_MOST_FRAMES:,} frames")
            key = ";".join(stack) or "(no stack)"
            samples[key] = samples.get(key, 0.0) + _signed(_repeated(parts, 2)[column])
        kind, of_cpu = kinds[column], period_types[:1] == [("cpu", "nanoseconds")]
        return f"{kind[0]}/{kind[1]}", period if of_cpu else 0, samples


def encode(values: Mapping[str, Sequence[int]], types: Sequence[tuple[str, str]]) -> bytes:
    """A profile of stacks with a value of each type (name, unit), the last of which is shown first."""
    strings = {"": 0}

    def at(name: str) -> int:
        return strings.setdefault(name, len(strings))

    body = b"".join(_field(_SAMPLE_TYPE, _field(1, at(name)) + _field(2, at(unit))) for name, unit in types)
    functions: dict[str, int] = {}
    for stack, row in values.items():
        places = [functions.setdefault(name, len(functions) + 1) for name in reversed(stack.split(";"))]
        body += _field(_SAMPLE, _field(1, b"".join(map(_varint, places))) + _field(2, b"".join(map(_varint, row))))
    for name, number in functions.items():
        body += _field(_LOCATION, _field(1, number) + _field(4, _field(1, number)))
        body += _field(_FUNCTION, _field(1, number) + _field(2, at(name)))
    body += _field(_DEFAULT_TYPE, at(types[-1][0]))
    body += b"".join(_field(_STRING, name.encode()) for name in strings)
    return gzip.compress(body, mtime=0)


def _fields(data: bytes) -> Iterator[_Field]:
    at = 0
    while at < len(data):
        key, at = _read(data, at)
        wire = key & 7
        if wire == _VARINT:
            value, at = _read(data, at)
            yield key >> 3, value
        elif wire == _BYTES:
            size, at = _read(data, at)
            if at + size > len(data):
                raise ValueError("a field is longer than the rest")
            yield key >> 3, data[at : at + size]
            at += size
        elif wire in _FIXED:
            at += _FIXED[wire]
        else:
            raise ValueError(f"wire type {wire} is none of profile.proto")


def _read(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while shift < 70:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at
    raise ValueError("a number has more than ten bytes")


def _text(value: int | bytes) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else ""


def _parts(value: int | bytes) -> list[_Field]:
    return list(_fields(value)) if isinstance(value, bytes) else []


def _number(parts: Sequence[_Field], key: int) -> int:
    return next((value for number, value in parts if number == key and isinstance(value, int)), 0)


def _type(value: int | bytes, strings: Sequence[str]) -> tuple[str, str]:
    parts = _parts(value)
    return strings[_number(parts, 1)], strings[_number(parts, 2)]


def _repeated(parts: Sequence[_Field], key: int) -> list[int]:
    """Packed or not."""
    numbers: list[int] = []
    for number, value in parts:
        if number != key:
            continue
        if isinstance(value, int):
            numbers.append(value)
            continue
        at = 0
        while at < len(value):
            one, at = _read(value, at)
            numbers.append(one)
    return numbers


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def _varint(value: int) -> bytes:
    value, written = value % (1 << 64), bytearray()
    while value > 127:
        written.append(value & 127 | 128)
        value >>= 7
    return bytes([*written, value])


def _field(number: int, value: int | bytes) -> bytes:
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    return _varint(number << 3 | _BYTES) + _varint(len(value)) + value


MOST_FILES = 200  # of both sides together
_MOST_STACKS = 100_000  # of a file of folded stacks
_LARGEST = 1e15  # samples of a line
_JFR, _GZIP = b"FLR\0", b"\x1f\x8b"  # how recordings and pprof's profiles begin


class Kind(StrEnum):
    """What a recording is read for."""

    CPU = "cpu"
    ALLOCATION = "allocation"
    WAIT = "wait"


@dataclass(frozen=True)
class Stacks:
    """A recording: ``event`` names what was recorded, ``ns`` is the CPU time that a sample stands for, 0 if unknown.

    ``samples`` by stack: CPU samples, bytes allocated, or microseconds of waiting; the outermost method first.
    """

    event: str
    ns: int
    samples: Mapping[str, float]


def stacks_of(files: Sequence[Path], kind: Kind) -> list[Stacks]:
    """What each of the files holds. Raises UsageError for a file that is none of the three, LeadlineError."""
    if len(files) > MOST_FILES:
        raise UsageError(f"{len(files)} recordings; at most {MOST_FILES} can be compared at once")
    begins = {file: _begin(file) for file in files}
    flights = [file for file, begin in begins.items() if begin == _JFR]
    by_file = dict(zip(flights, _flights(flights, kind), strict=True)) if flights else {}
    by_file |= {file: _profile(file, kind) for file, begin in begins.items() if begin.startswith(_GZIP)}
    recordings = [by_file.get(file) or Stacks("folded stacks", 0, _folded(file)) for file in files]
    events = {recording.event: file for recording, file in zip(recordings, files, strict=True)}
    if len(events) > 1:
        what = ", ".join(f"{file} {event}" for event, file in events.items())
        raise UsageError(f"recordings of one event can be compared; these have: {what}")
    return recordings


def _begin(file: Path) -> bytes:
    try:
        with opened(file) as stream:
            return stream.read(4)
    except (FileNotFoundError, ReceivedError) as error:
        raise UsageError(f"{file}: {getattr(error, 'why', 'there is no such file')}") from error


def _profile(file: Path, kind: Kind) -> Stacks:
    try:
        event, ns, values = decode(read(file, MOST_BYTES), _TYPES[kind], str(file))
    except ReceivedError as error:
        raise UsageError(f"{file} cannot be read as a profile of pprof: {error.why}") from error
    unit = 1e-3 if event.endswith("/nanoseconds") else 1.0
    if kind is Kind.CPU and event.endswith("/nanoseconds"):
        ns = ns or 10_000_000
        unit = 1 / ns
    return Stacks(event, ns, {stack: value * unit for stack, value in values.items()})


# Of the samples of pprof's profiles, the first that there is.
_TYPES = {
    Kind.CPU: ("samples", "cpu"),
    Kind.ALLOCATION: ("alloc_space", "alloc"),
    Kind.WAIT: ("delay", "lock"),
}


def _flights(files: Sequence[Path], kind: Kind) -> Iterator[Stacks]:
    heads: list[tuple[str, int]] = []
    samples: list[dict[str, float]] = []
    try:
        lines = events_of(kind.value, files)
    except TimeoutError as error:
        raise LeadlineError(f"the recordings cannot be read: {error}") from error
    for line in lines:
        number, value, stack = line.split("\t", 2)
        if number == "#":
            if not value:
                raise UsageError(f"{files[len(heads)]} has no events of kind {kind}: {_EVENTS[kind]}")
            heads.append((value, int(stack.split("\t")[1])))
            samples.append({})
        else:
            samples[int(number)][stack] = float(value)
    return (Stacks(*head, stacks) for head, stacks in zip(heads, samples, strict=True))


_EVENTS = {
    Kind.CPU: "jdk.CPUTimeSample (JDK 25) or jdk.ExecutionSample",
    Kind.ALLOCATION: "jdk.ObjectAllocationSample",
    Kind.WAIT: "jdk.JavaMonitorEnter or jdk.ThreadPark",
}


def _folded(file: Path) -> dict[str, float]:
    """Raises UsageError for a line that is not frames with semicolons between, a space and a number."""
    samples: dict[str, float] = {}
    frames = 0
    for number, line in enumerate(lines_of(file), 1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        stack, _, count = text.rpartition(" ")
        try:
            value = float(count)
        except ValueError:
            value = -1.0
        if not stack or not 0 <= value <= _LARGEST:
            raise UsageError(f"{file} line {number}: {quoted(text)} is no folded stack; write: main;a;b 12")
        if stack not in samples:
            frames += stack.count(";") + 1
        if len(samples) >= _MOST_STACKS or frames > _MOST_FRAMES:
            raise UsageError(f"{file} line {number}: more than {_MOST_STACKS:,} stacks, or {_MOST_FRAMES:,} frames")
        samples[stack] = samples.get(stack, 0.0) + value
    if not any(samples.values()):
        raise UsageError(f"{file} has no sample")
    return samples
