"""Scenarios as YAML text."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leadline.host.textfile import read_text
from leadline.model.errors import UsageError

LARGEST_RECORDING = 256 * 1024**2  # bytes
METHODS = ("get", "head", "post", "put", "patch", "delete")
FORM = "application/x-www-form-urlencoded"
UUID = "${hex:8}-${hex:4}-4${hex:3}-8${hex:3}-${hex:12}"
_PLAIN = re.compile(r"[A-Za-z/][A-Za-z0-9_/.-]*")  # such text needs no quotes
_WORDS = {"true", "false", "null", "yes", "no", "on", "off", "y", "n"}  # which mean something else to YAML
_UNSEEN = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")


@dataclass(frozen=True)
class Draft:
    """A scenario and what its reader has to know about its making."""

    scenario: Mapping[str, Any]
    notes: Sequence[str]
    times: Sequence[float] = ()  # seconds from the first arrival on, of a recorded load

    def text(self) -> str:
        """YAML, the notes as comments on top."""
        notes = [f"# {whole(' '.join(note.split()))}" for note in self.notes]
        return "\n".join([*notes, *_block(self.scenario, "")]) + "\n"


def _block(value: Mapping[Any, Any] | Sequence[Any], indent: str) -> Iterator[str]:
    """The lines of a mapping or list. (A library's writer takes minutes for a long recording.)"""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _entry(f"{indent}{_scalar(key)}:", " ", item, indent + "  ")
        return
    for item in value:
        if isinstance(item, Mapping | list | tuple) and item:
            first, *rest = _block(item, indent + "  ")
            yield f"{indent}- {first[len(indent) + 2 :]}"
            yield from rest
        else:
            yield from _entry(f"{indent}-", " ", item, indent + "  ")


def _entry(head: str, space: str, value: Any, indent: str) -> Iterator[str]:
    if isinstance(value, Mapping | list | tuple):
        if value:
            yield head
            yield from _block(value, indent)
        else:
            yield f"{head}{space}{'{}' if isinstance(value, Mapping) else '[]'}"
    else:
        yield f"{head}{space}{_scalar(value)}"


def _scalar(value: Any) -> str:
    if not isinstance(value, str):
        return json.dumps(value)
    if _PLAIN.fullmatch(value) and value.lower() not in _WORDS:
        return value
    return _UNSEEN.sub(lambda found: f"\\u{ord(found[0]):04x}", json.dumps(value, ensure_ascii=False))


def literal(text: str) -> str:
    """Text that stands for itself in a template."""
    return whole(text).replace("$", "$$")


def whole(text: str) -> str:
    """Halves of characters (surrogates, which JSON may hold) joined, or replaced where the other half is missing."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def literals(value: Any) -> Any:
    """A JSON value whose texts stand for themselves."""
    if isinstance(value, str):
        return literal(value)
    if isinstance(value, Mapping):
        return {whole(str(key)): literals(item) for key, item in value.items()}
    if isinstance(value, Sequence):
        return [literals(item) for item in value]
    return value


class Names:
    """Names of transactions, each another one."""

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._next: dict[str, int] = {}  # by name: the number that was not tried yet

    def make(self, text: str, otherwise: str) -> str:
        """A new one made of ``text``."""
        plain = re.sub(r"[^A-Za-z0-9_]+", "-", text).strip("-").lower()[:48] or otherwise
        if plain in ("all", "start", "end"):
            plain += "-page"
        unique, number = plain, self._next.get(plain, 2)
        while unique in self._taken:
            unique, number = f"{plain}-{number}", number + 1
        self._next[plain] = number
        self._taken.add(unique)
        return unique


def converted(file: Path, convert: Callable[[str, str], Draft]) -> Draft:
    """A scenario from what another tool saved. Raises UsageError with the file."""
    text = read_text(file, LARGEST_RECORDING)
    try:
        return convert(text, Names().make(file.stem, "scenario"))
    except UsageError as error:
        raise UsageError(f"{file}: {error}") from None
    except RecursionError:
        raise UsageError(f"{file}: nested too deeply") from None
