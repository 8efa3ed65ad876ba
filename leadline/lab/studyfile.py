"""Study files: YAML to a typed Study, every error with file, line, what is wrong and the nearest valid choice."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails
from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from leadline.lab.yamltree import line_of, plain
from leadline.model.errors import KeyedError, UsageError, nearest
from leadline.model.shapes import NOT_IN_WORKLOAD
from leadline.model.study import Study


@dataclass(frozen=True)
class StudyFile:
    """A study and where it came from. ``where`` finds the line of a key for later errors."""

    study: Study
    text: str
    source: str
    tree: CommentedMap

    def where(self, path: Sequence[str | int]) -> str:
        """``file:line`` of a key path such as ``("factors", "vm.swappiness")``."""
        return f"{self.source}:{line_of(self.tree, path)}"


def builtin_studies() -> dict[str, str]:
    """Name -> text of every study that comes with leadline."""
    folder = resources.files("leadline") / "studies"
    return {
        entry.name.removesuffix(".yaml"): entry.read_text(encoding="utf-8")
        for entry in sorted(folder.iterdir(), key=lambda e: e.name)
        if entry.name.endswith(".yaml")
    }


def find_study(reference: str, overrides: Sequence[str] = (), factors: Sequence[str] = ()) -> StudyFile:
    """A built-in study by name or a file by path, with ``--set key=value`` and ``--factor knob=a,b`` applied.

    Raises UsageError.
    """
    builtin = builtin_studies()
    path = Path(reference)
    if reference in builtin and not path.is_file():
        return parse_study(builtin[reference], f"{reference}.yaml (built in)", overrides, factors)
    if not path.is_file():
        near = nearest(reference, list(builtin))
        hint = f"did you mean {near}?" if near else f"built-in studies: {', '.join(builtin)}"
        if (resources.files("leadline") / "tunings" / f"{reference}.yaml").is_file():
            hint = f"{reference} is a tuning: leadline run {reference} --dry-run tells what it would measure"
        raise UsageError(f"no study file {reference!r} and no built-in study of that name; {hint}")
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{reference} cannot be read: {error}") from error
    return parse_study(text, reference, overrides, factors)


def parse_study(text: str, source: str, overrides: Sequence[str] = (), factors: Sequence[str] = ()) -> StudyFile:
    """A Study from YAML text. Raises UsageError with ``source:line``."""
    tree = load_tree(text, source)
    for override in overrides:
        set_key(tree, override)
    for factor in factors:
        name, _, levels = factor.partition("=")
        if not levels:
            raise UsageError(f"--factor {factor}: write it as knob=level,level")
        tree.setdefault("factors", CommentedMap())[name.strip()] = [_scalar(word) for word in levels.split(",")]
    try:
        study = Study.model_validate(plain(tree))
    except ValidationError as error:
        raise UsageError("\n".join(sentences(error, tree, source, Study))) from error
    return StudyFile(study, text, source, tree)


def load_tree(text: str, source: str) -> CommentedMap:
    """The tree of a study file or a tuning's. Raises UsageError with ``source:line``."""
    try:
        tree = YAML(typ="rt").load(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 1
        raise UsageError(f"{source}:{line}: {error.problem or error.context}") from error
    except YAMLError as error:
        raise UsageError(f"{source}:1: {error}") from error
    if not isinstance(tree, CommentedMap):
        raise UsageError(f"{source}:1: a study file is a mapping that starts with `study: NAME`")
    return tree


def json_schema() -> dict[str, Any]:
    """The JSON Schema of a study file, for editors."""
    schema = Study.model_json_schema()
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = "leadline study"
    return schema


_TYPE_OF_LEVEL = ("bool_type", "int_type", "float_type", "string_type")
_WANTED = {
    "list_type": "write a list, such as [1, 2]",
    "dict_type": "write keys with values, such as { key: value }",
    "model_type": "write keys with values, such as { key: value }",
    "int_type": "a whole number is wanted",
    "int_parsing": "a whole number is wanted",
    "int_from_float": "a whole number is wanted",
    "float_type": "a number is wanted",
    "float_parsing": "a number is wanted",
    "bool_type": "true or false is wanted",
    "bool_parsing": "true or false is wanted",
    "string_type": "a text is wanted; write it in quotes",
}
_ELSEWHERE: dict[tuple[str | int, ...], str] = {("stack", "mode"): "a tuning names its modes under `modes`"}
_LONGEST = 60  # characters of what was found that are quoted


def _scalar(word: str) -> Any:
    return YAML(typ="safe").load(word)


def set_key(tree: CommentedMap, override: str) -> None:
    """Apply ``key=value`` of the command line. Raises UsageError."""
    path, _, value = override.partition("=")
    if not value:
        raise UsageError(f"--set {override}: write it as key=value, for instance workload.users=20")
    # Knob names hold dots themselves: below these keys the rest of the path is one name.
    parts = path.strip().split(".")
    if parts[0] in ("factors", "baseline", "settings") and len(parts) > 1:
        parts = [parts[0], ".".join(parts[1:])]
    node: Any = tree
    for part in parts[:-1]:
        if not isinstance(node.get(part), Mapping):
            node[part] = CommentedMap()
        node = node[part]
    node[parts[-1]] = _scalar(value)


def sentences(error: ValidationError, tree: CommentedMap, source: str, model: type[BaseModel]) -> list[str]:
    """What is wrong with a file that ``model`` refused, each with its line and the nearest valid choice."""
    found_wrong: list[str] = []
    problems = [(problem, [part for part in problem["loc"] if not _is_union_tag(part)]) for problem in error.errors()]
    meant = [
        [*path[:-1], nearest(str(path[-1]), _keys_at(path[:-1], model))]
        for problem, path in problems
        if problem["type"] == "extra_forbidden"
    ]
    for problem, path in problems:
        if problem["type"] == "missing" and path in meant:
            continue  # misspelt, which is said of the key that is there
        sentence = _sentence(problem, path, tree, source, model)
        if sentence not in found_wrong:
            found_wrong.append(sentence)
    return found_wrong


def _sentence(
    problem: ErrorDetails, path: list[str | int], tree: CommentedMap, source: str, model: type[BaseModel]
) -> str:
    name, kind = ".".join(str(part) for part in path), problem["type"]
    cause = problem.get("ctx", {}).get("error")
    if isinstance(cause, KeyedError):
        return f"{source}:{line_of(tree, [*path, *cause.path])}: {cause}"
    place = f"{source}:{line_of(tree, path)}"
    if kind == "extra_forbidden":
        keys = _keys_at(path[:-1], model)
        near = nearest(str(path[-1]), keys)
        hint = f"did you mean {near}?" if near else f"keys here: {', '.join(keys)}"
        if path[:-1] == ["workload"]:
            hint = NOT_IN_WORKLOAD.get(str(path[-1]), hint)
        return f"{place}: unknown key {str(path[-1])!r}; {_ELSEWHERE.get(tuple(path), hint)}"
    if kind == "missing":
        return f"{place}: the key {name!r} is missing"
    if kind == "literal_error":
        choices = _choices(problem)
        near = nearest(str(problem["input"]), choices)
        hint = f"; did you mean {near}?" if near else ""
        return f"{place}: {name} is {problem['input']!r}, not one of {', '.join(choices)}{hint}"
    if kind == "value_error":
        return f"{place}: {name}: {cause}"
    message = problem["msg"]
    message = _WANTED.get(kind, f"{message[0].lower()}{message[1:]}")
    if kind in _TYPE_OF_LEVEL and len(path) < len(problem["loc"]):
        message = "a level is one number, word or switch"
    found = json.dumps(problem["input"], default=str)
    return f"{place}: {name}: {message}" + (f" (found {found})" if len(found) <= _LONGEST else "")


def _is_union_tag(part: str | int) -> bool:
    return part in ("bool", "int", "float", "str", "function-before[parse_duration()")


def _choices(problem: ErrorDetails) -> list[str]:
    expected = str(problem.get("ctx", {}).get("expected", ""))
    return [word.strip().strip("'") for word in expected.replace(" or ", ",").split(",") if word.strip()]


def _keys_at(path: Sequence[str | int], top: type[BaseModel]) -> list[str]:
    model: type[BaseModel] | None = top
    for part in path:
        if isinstance(part, int):
            continue  # an item of the list found already
        field = model.model_fields.get(part) if model else None
        model = _model_in(field.annotation) if field else None
    return list(model.model_fields) if model else []


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """The model of a field: itself, or what a list, an option or a validator is around."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for one in get_args(annotation) if (found := _model_in(one))), None)
