"""Scenarios as YAML text."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.representer import RoundTripRepresenter


class _Nulls(RoundTripRepresenter):
    """Null by name: the driver takes an empty place of a JSON body for an empty text."""


_Nulls.add_representer(type(None), lambda own, _: own.represent_scalar("tag:yaml.org,2002:null", "null"))


@dataclass(frozen=True)
class Draft:
    """A scenario and what its reader has to know about its making."""

    scenario: Mapping[str, Any]
    notes: Sequence[str]

    def text(self) -> str:
        """YAML, the notes as comments on top."""
        yaml = YAML()
        yaml.Representer = _Nulls
        yaml.width = 1000
        yaml.indent(mapping=2, sequence=4, offset=2)
        stream = io.StringIO()
        for note in self.notes:
            stream.write(f"# {whole(' '.join(note.split()))}\n")
        yaml.dump(dict(self.scenario), stream)
        return stream.getvalue()


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


def name_of(text: str, taken: Sequence[str], otherwise: str) -> str:
    """A name of a transaction made of ``text``, unlike those ``taken``."""
    plain = re.sub(r"[^A-Za-z0-9_]+", "-", text).strip("-").lower()[:48] or otherwise
    if plain in ("all", "start", "end"):
        plain += "-page"
    found, number = plain, 2
    while found in taken:
        found, number = f"{plain}-{number}", number + 1
    return found
