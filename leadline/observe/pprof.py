"""pprof's profiles (profile.proto, gzipped), as Go, Pyroscope, Parca and converters of flight recordings write them.

Of the format that part is read and written which samples need: types, stacks and values; no addresses, no labels.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator, Mapping, Sequence

from leadline.model.received import reading

MOST_BYTES = 256 << 20  # unpacked
_MOST_FRAMES = 20_000_000  # of all samples together
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
