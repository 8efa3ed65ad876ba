"""Truth files: YAML to a Truth, every error with file, line, what is wrong and the nearest valid choice."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from ruamel.yaml.comments import CommentedMap

from leadline.host.textfile import read_text
from leadline.lab.yamltree import Places, line_of, plain
from leadline.model.errors import UsageError, nearest, quoted, shortened
from leadline.model.yamltext import load_yaml
from leadline.simulate.truth import Truth


def read_truth(path: Path) -> Truth:
    """A truth file. Raises UsageError."""
    return parse_truth(read_text(path), str(path))


def parse_truth(text: str, source: str) -> Truth:
    """A Truth from YAML text: its one key is ``truth``. Raises UsageError with ``source:line``."""
    tree = load_yaml(text, source)
    if not isinstance(tree, CommentedMap) or "truth" not in tree:
        raise UsageError(f"{source}:1: a truth file is a mapping that starts with `truth:`")
    for key in tree:
        if key != "truth":
            raise UsageError(
                f"{source}:{line_of(tree, [key])}: unknown key {quoted(key)}; a truth file has the one key truth"
            )
    try:
        return Truth.model_validate(plain(tree["truth"], Places(source, tree)) or {})
    except ValidationError as error:
        raise UsageError("\n".join(dict.fromkeys(_sentences(error, tree, source)))) from error


def _sentences(error: ValidationError, tree: CommentedMap, source: str) -> list[str]:
    sentences = []
    for problem in error.errors():
        path: list[str | int] = ["truth", *problem["loc"]]
        place = f"{source}:{line_of(tree, path)}"
        name = ".".join(shortened(str(part)) for part in path)
        if problem["type"] == "extra_forbidden":
            keys = _keys_at(problem["loc"][:-1])
            near = nearest(str(path[-1]), keys)
            hint = f"did you mean {near}?" if near else f"keys here: {', '.join(keys)}"
            sentences.append(f"{place}: unknown key {quoted(str(path[-1]))}; {hint}")
        elif problem["type"] == "missing":
            sentences.append(f"{place}: the key {name!r} is missing")
        else:
            message = problem["msg"].removeprefix("Value error, ")
            text = shortened(json.dumps(problem["input"], default=str))
            sentences.append(f"{place}: {name}: {message[0].lower()}{message[1:]} (found {text})")
    return sentences


def _keys_at(path: Sequence[str | int]) -> list[str]:
    model: Any = Truth
    for part in path:
        if isinstance(part, int):
            continue
        fields = getattr(model, "model_fields", {})
        field_name = next((field for name, field in fields.items() if part in (name, field.alias)), None)
        if field_name is None:
            return []
        model = next(
            (kind for kind in (field_name.annotation, *get_args(field_name.annotation)) if _is_model(kind)),
            field_name.annotation,
        )
    return [field.alias or name for name, field in getattr(model, "model_fields", {}).items()]


def _is_model(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)
