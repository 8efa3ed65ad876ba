"""Tuning files: YAML to a typed Tuning, every error with file, line, what is wrong and the nearest valid choice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from ruamel.yaml.comments import CommentedMap

from leadline.lab.studyfile import load_tree, sentences, set_key
from leadline.lab.yamltree import line_of, plain
from leadline.model.errors import UsageError
from leadline.model.tuning import Tuning


@dataclass(frozen=True)
class TuningFile:
    """A tuning and where it came from. ``where`` finds the line of a key for later errors."""

    tuning: Tuning
    text: str
    source: str
    tree: CommentedMap

    def where(self, path: Sequence[str | int]) -> str:
        return f"{self.source}:{line_of(self.tree, path)}"


def builtin_tunings() -> dict[str, str]:
    """Name -> text of every tuning that comes with leadline."""
    folder = resources.files("leadline") / "tunings"
    return {
        entry.name.removesuffix(".yaml"): entry.read_text(encoding="utf-8")
        for entry in sorted(folder.iterdir(), key=lambda e: e.name)
        if entry.name.endswith(".yaml")
    }


def find_tuning(reference: str, overrides: Sequence[str] = ()) -> TuningFile | None:
    """A built-in tuning by name, or a file by path that starts with `tuning:`; None where it is something else.

    Raises UsageError for a tuning file that is wrong.
    """
    path = Path(reference)
    if path.is_file():
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            return None
        if not any(line.startswith("tuning:") for line in text.splitlines()):
            return None
        return parse_tuning(text, reference, overrides)
    builtin = builtin_tunings()
    if reference in builtin:
        return parse_tuning(builtin[reference], f"{reference}.yaml (built in)", overrides)
    return None


def parse_tuning(text: str, source: str, overrides: Sequence[str] = ()) -> TuningFile:
    """A Tuning from YAML text. Raises UsageError with ``source:line``."""
    tree = load_tree(text, source)
    for override in overrides:
        set_key(tree, override)
    try:
        tuning = Tuning.model_validate(plain(tree))
    except ValidationError as error:
        raise UsageError("\n".join(sentences(error, tree, source, Tuning))) from error
    return TuningFile(tuning, text, source, tree)


def json_schema() -> dict[str, Any]:
    """The JSON Schema of a tuning file, for editors."""
    schema = Tuning.model_json_schema()
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = "leadline tuning"
    return schema
