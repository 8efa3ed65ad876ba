"""Quantities of study files with their bounds: each refuses what no run can do, in the words of the file."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    WithJsonSchema,
)
from pydantic_core import CoreSchema, core_schema

from leadline.model.errors import quoted
from leadline.model.units import format_duration, format_size, parse_duration, parse_share, parse_size

HOUR, DAY = 3600.0, 86400.0
YEAR = 366 * DAY
MEBIBYTE, TEBIBYTE = 1024**2, 1024**4
MOST_CPUS = 8192  # more than any kernel that is built numbers
LARGEST_SEED = 2**63 - 1  # leadline-load takes 64 bits, the lab 63
MOST_USERS = 1_000_000
MOST_RATE = 1_000_000.0  # sessions a second
LONGEST_PATH = 4096
RawLevel = bool | int | float | str  # of a factor, as a file has it


class Strict(BaseModel):
    """A part of a file in which an unknown key is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


@dataclass(frozen=True)
class Quantity:
    """An annotation of a number: how it is read, its bounds, and how it is said."""

    least: float
    most: float
    parse: Callable[[object], object]
    write: Callable[[Any], str]
    schema: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        inner = core_schema.no_info_before_validator_function(self.parse, handler(source))
        return core_schema.no_info_after_validator_function(self._bounded, inner)

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {**self.schema} or dict(handler(schema)) | {"minimum": self.least, "maximum": self.most}

    def _bounded(self, found: Any) -> Any:
        if not self.least <= found <= self.most:
            raise ValueError(f"{self.write(found)} is not between {self.write(self.least)} and {self.write(self.most)}")
        return found


@dataclass(frozen=True)
class OrWord:
    """An annotation of a quantity in whose place a word may stand: one message for both, unlike a union's."""

    word: str
    quantity: Any  # the annotated type
    told: str

    def __get_pydantic_core_schema__(self, _source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        inner = handler.generate_schema(self.quantity)
        as_it_is = core_schema.plain_serializer_function_ser_schema(lambda found: found)
        return core_schema.no_info_wrap_validator_function(self._read, inner, serialization=as_it_is)

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {"anyOf": [{"const": self.word}, dict(handler(schema))]}

    def _read(self, found: object, quantity: Callable[[object], object]) -> object:
        if found == self.word:
            return found
        try:
            return quantity(found)
        except ValueError as error:
            raise ValueError(f"{quoted(found)} is neither {self.told} nor `{self.word}`") from error


def duration(least: float, most: float) -> Quantity:
    """Seconds, as people write durations."""
    schema = {"type": ["string", "number"], "examples": ["250ms", "20s", "1h30m"]}
    return Quantity(least, most, parse_duration, format_duration, schema)


def memory(least: int, most: int = 64 * TEBIBYTE) -> Quantity:
    """Bytes, as people write sizes."""
    schema = {"type": ["string", "integer"], "examples": ["512m", "2g"]}
    return Quantity(least, most, parse_size, lambda size: format_size(int(size)), schema)


def count(most: int, least: int = 1) -> Quantity:
    """A whole number."""
    return Quantity(least, most, _number, "{:,}".format)


def number(least: float, most: float) -> Quantity:
    return Quantity(least, most, _number, "{:,g}".format)


def _number(found: object) -> object:
    """``true`` is no 1. A text is left to pydantic, which reads the digits of a number in quotes."""
    if isinstance(found, bool):
        raise ValueError(f"{str(found).lower()} is a switch; a number is wanted")
    if isinstance(found, int) and abs(found) >= 2**64:
        raise ValueError(f"{quoted(found)} is too large")
    return found


Share = Annotated[
    float,
    BeforeValidator(parse_share),
    WithJsonSchema({"type": ["string", "number"], "examples": ["0.1%", 0.02]}),
]
Seed = Annotated[int, count(LARGEST_SEED, least=0)]
FilePath = Annotated[str, Field(min_length=1, max_length=LONGEST_PATH)]
Label = Annotated[
    str, Field(min_length=1, max_length=100, pattern=r"^[^\s\p{C}](?:[^\p{C}]*[^\s\p{C}])?$")
]  # of what is varied, in tables


def cpu_numbers(text: str) -> list[int]:
    """The CPUs of ``0,2-3`` in ascending order. Raises ValueError."""
    chosen: set[int] = set()
    for part in text.split(",") if len(text) <= LONGEST_PATH else ("?",):
        match = re.fullmatch(r"\s*([0-9]{1,5})\s*(?:-\s*([0-9]{1,5})\s*)?", part)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if last < first or last >= MOST_CPUS:
            raise ValueError(f"{quoted(text)} is not a list of CPUs such as 0,2-3")
        chosen |= set(range(first, last + 1))
    return sorted(chosen)


def _cpus(found: object) -> object:
    text = str(found) if isinstance(found, int) and 0 <= found < MOST_CPUS and not isinstance(found, bool) else found
    if not isinstance(text, str):  # one CPU alone is a number to YAML
        raise ValueError(f"{quoted(found)} is not a list of CPUs such as 0,2-3")
    cpu_numbers(text)
    return text


Cpus = Annotated[str, BeforeValidator(_cpus), WithJsonSchema({"type": ["string", "integer"], "examples": ["0,2-3"]})]
