"""Tuning files: YAML to a typed Tuning, every error with file, line, what is wrong and the nearest valid choice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from leadline.checks.files.stack import put_stack_file
from leadline.checks.files.study import load_tree, option_of, set_key, validated
from leadline.checks.files.yamltree import Places
from leadline.host.textfile import is_file, read_text
from leadline.model.tuning import Tuning


@dataclass(frozen=True)
class TuningFile:
    """A tuning and where it came from. ``where`` finds the place of a key for later errors."""

    tuning: Tuning
    text: str
    places: Places

    @property
    def source(self) -> str:
        return self.places.source

    def where(self, path: Sequence[str | int]) -> str:
        return self.places.where(path)


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
    if is_file(reference):
        text = read_text(Path(reference))
        if not any(line.startswith("tuning:") for line in text.splitlines()):
            return None
        return parse_tuning(text, reference, overrides)
    builtin = builtin_tunings()
    if reference in builtin:
        return parse_tuning(builtin[reference], f"{reference}.yaml (built in)", overrides)
    return None


def parse_tuning(text: str, source: str, overrides: Sequence[str] = ()) -> TuningFile:
    """A Tuning from YAML text. Raises UsageError with ``source:line``."""
    tree = load_tree(text, source, Tuning)
    put_stack_file(tree, source)
    overrides_ = {set_key(tree, override): option_of("--set", override) for override in overrides}
    places = Places(source, tree, overrides_)
    return TuningFile(validated(Tuning, places), text, places)


def json_schema() -> dict[str, Any]:
    """The JSON Schema of a tuning file, for editors."""
    schema = Tuning.model_json_schema()
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = "leadline tuning"
    return schema
