"""What another host, program or file said, as values within bounds: its size, its depth, its numbers, its types.

Nothing that comes from outside is read in another way (``leadline.host.received`` for files and archives). Whatever is
wrong with it is a ReceivedError, one line that names it.
"""

from __future__ import annotations

import csv
import json
import math
import struct
import zlib
from collections.abc import Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar, cast

from leadline.model.errors import LeadlineError, quoted, shortened, wanted

if TYPE_CHECKING:  # the watchdog reads its journal with nothing but Python's own library
    from pydantic import TypeAdapter, ValidationError

MEBIBYTE = 1024**2
MOST_BYTES = 64 * MEBIBYTE  # of one document
MOST_DEPTH = 64  # of values in values
MOST_ROWS = 50_000_000
LARGEST = 2**63  # what no whole number reaches
LONGEST_FIELD = MEBIBYTE  # characters of a table's field
_DIGITS = len(str(LARGEST)) + 1
# What reading a value raises that is not as it should be.
WRONG = (
    *(ValueError, TypeError, LookupError, AttributeError, ArithmeticError, AssertionError, RecursionError),
    MemoryError,
    *(csv.Error, zlib.error, struct.error),
)
_Kind = TypeVar("_Kind")


class ReceivedError(LeadlineError):
    """What came from outside is not what it should be."""

    def __init__(self, what: str, why: str) -> None:
        self.why = shortened(" ".join(why.split()), 500)
        super().__init__(shortened(f"{what} is damaged: {self.why}", 700))


@contextmanager
def reading(what: str) -> Iterator[None]:
    """Any error of the body that a wrong value causes, as a ReceivedError."""
    try:
        yield
    except WRONG as error:
        raise ReceivedError(what, _said(error)) from error


def json_value(data: bytes | str, what: str, most: int = MOST_BYTES) -> Any:
    """A JSON document of finite numbers, the whole ones below 2**63. Raises ReceivedError."""
    with reading(what):
        return from_json(data, most)


def from_json(data: bytes | str, most: int = MOST_BYTES, *, finite: bool = True) -> Any:
    """As ``json_value``, for who says itself what is damaged; without ``finite`` also numbers that are not. Raises
    ValueError.
    """
    text = _text(data, most).removeprefix("\ufeff")
    number = _finite if finite else float
    try:
        value = json.loads(text, parse_int=_whole, parse_float=number, parse_constant=number)
    except RecursionError:
        raise ValueError(f"it is nested too deeply: {MOST_DEPTH} levels are read") from None
    if _depth(value) > MOST_DEPTH:
        raise ValueError(f"it is nested too deeply: {MOST_DEPTH} levels are read")
    return value


def json_object(data: bytes | str, what: str, most: int = MOST_BYTES) -> dict[str, Any]:
    """As ``json_value``, of an object."""
    value = json_value(data, what, most)
    if not isinstance(value, dict):
        raise ReceivedError(what, f"it holds {quoted(value)}, not an object")
    return value


def json_as(kind: type[_Kind], data: bytes | str, what: str, most: int = MOST_BYTES) -> _Kind:
    """A JSON document as a value of ``kind``, whose fields have the types that they say: no text is a number. Raises
    ReceivedError.
    """
    with reading(what):
        document = json_value(data, what, most)
        if (
            is_dataclass(kind)
            and isinstance(document, dict)
            and (more := document.keys() - {f.name for f in fields(kind)})
        ):
            raise ValueError(f"{quoted(min(more))} is nothing that it has")
        value: _Kind = adapter(cast(Hashable, kind)).validate_json(data, strict=True)
        return value


def table(
    lines: Iterable[str], what: str, columns: Iterable[str] = (), most: int = MOST_ROWS
) -> Iterator[dict[str, str]]:
    """Rows of a CSV file with a head that has ``columns``; a row without all of the head's fields is the end of one
    that was cut off. Raises ReceivedError.
    """
    with reading(what):
        reader = csv.DictReader(_short(lines))
        if lacking := set(columns) - set(reader.fieldnames or ()):
            raise ValueError(f"it has no column {quoted(min(lacking))}")
        for number, row in enumerate(reader):
            if number >= most:
                raise ValueError(f"it has more than {most:,} rows")
            if None not in row and None not in row.values():
                yield row


def number(row: Mapping[str, Any], name: str, what: str, least: float = 0.0, most: float = LARGEST) -> float:
    """A finite number of a row or object, within bounds. Raises ReceivedError."""
    try:
        value = row[name]
        if not isinstance(value, bool) and least <= (number_ := float(value)) <= most:
            return number_
    except KeyError:
        raise ReceivedError(what, f"{quoted(name)} is not there") from None
    except (ValueError, TypeError, OverflowError):
        pass
    raise ReceivedError(what, f"{name} is {quoted(value)}, not between {least:g} and {most:g}")


def whole(row: Mapping[str, Any], name: str, what: str, most: int = LARGEST, absent: int | None = None) -> int:
    """A whole number of a row, as decimal digits or as JSON has it, from 0 to ``most``; ``absent`` where there is
    nothing. Raises ReceivedError.
    """
    value = row.get(name)
    if absent is not None and value in (None, ""):
        return absent
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= _DIGITS:
        value = int(value)
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= most and value == int(value):
        return int(value)
    raise ReceivedError(what, f"{name} is {quoted(value)}, not a whole number up to {most:,}")


def typed(kind: type[_Kind], value: object, what: str) -> _Kind:
    """Such a value from JSON's types, as ``json_as``; what ``kind`` does not have is left out. Raises ReceivedError."""
    with reading(what):
        result: _Kind = adapter(cast(Hashable, kind)).validate_json(json.dumps(value, allow_nan=False), strict=True)
        return result


def _text(data: bytes | str, most: int) -> str:
    if len(data) > most:
        raise ValueError(f"it has more than {most:,} bytes")
    return data if isinstance(data, str) else data.decode("utf-8")


def _whole(digits: str) -> int:
    if len(digits) > _DIGITS or not -LARGEST <= (value := int(digits)) < LARGEST:
        raise ValueError(f"the number {shortened(digits, 40)} is too large")
    return value


def _finite(digits: str) -> float:
    if not math.isfinite(value := float(digits)):
        raise ValueError(f"{shortened(digits, 40)} is no finite number")
    return value


def _depth(value: object) -> int:
    depth, level = 0, [value]
    while level := [part for part in level if isinstance(part, dict | list)]:
        depth += 1
        if depth > MOST_DEPTH:
            break
        level = [item for part in level for item in (part.values() if isinstance(part, dict) else part)]
    return depth


def _short(lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        if len(line) > LONGEST_FIELD:
            raise ValueError(f"a line has more than {LONGEST_FIELD:,} characters")
        yield line.replace("\0", "")


@cache
def adapter(kind: Any) -> TypeAdapter[Any]:
    """What checks values of a type."""
    from pydantic import TypeAdapter

    return TypeAdapter(kind)


def _first(error: ValidationError) -> str:
    first = error.errors()[0]
    name = ".".join(map(str, first["loc"]))
    given_text = "" if first["type"] == "missing" else f" ({quoted(first['input'])})"
    return f"{name or 'the document'}{given_text}: {wanted(first)}"


def _said(error: BaseException) -> str:
    match error:
        case RecursionError():
            return f"it is nested too deeply: {MOST_DEPTH} levels are read"
        case MemoryError():
            return "it needs more memory than there is"
        case KeyError():
            return f"{quoted(error.args[0] if error.args else '')} is not there"
        case ValueError() if hasattr(error, "errors"):
            return _first(cast("ValidationError", error))
    return str(error) or type(error).__name__
