"""Files of studies and tunings: YAML to a typed Study or Tuning, every error with file, line, what is wrong and the
nearest valid choice.
"""

from __future__ import annotations

import copy
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import resources
from pathlib import Path
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails
from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap

from leadline.checks.files.stack import put_stack_file
from leadline.host.textfile import is_file, read_text
from leadline.model.errors import KeyedError, UsageError, did_you_mean, nearest, quoted, shortened, wanted
from leadline.model.record import STUDY_FILE
from leadline.model.shapes import NOT_IN_WORKLOAD
from leadline.model.study import MOST_LEVELS, Study
from leadline.model.tuning import Tuning
from leadline.model.yamltext import Path_, Places, load_yaml, plain
from leadline.stack.registry import SERVER_KNOB, knob_of_others


def on_its_servers(file: StudyFile) -> StudyFile:
    """Without the factors of the file that its servers lack and others have, nor the configurations that are of nothing
    else; ``left_out`` tells of them. A factor that an option gave stays, and is refused. Raises UsageError.
    """
    study = file.study
    servers = [str(name) for name in study.factors.get(SERVER_KNOB.name, [study.stack.server])]
    lacking = {}
    for factor in study.factors:
        whys = (knob_of_others(factor, server, study.stack.database) for server in servers)
        if ("factors", factor) not in file.places.given and (why := next(filter(None, whys), "")):
            lacking[factor] = why
    if not lacking:
        return file
    tree = copy.deepcopy(file.places.tree)
    notes = [f"{factor} is left out: {why}" for factor, why in lacking.items()]
    for factor in lacking:
        del tree["factors"][factor]
        tree.get("baseline", {}).pop(factor, None)
    named = tree.get("design", {}).get("configurations", {})
    for name, levels in list(named.items()):
        if levels and lacking.keys() >= levels.keys():
            del named[name]
            notes.append(f"configuration {name} is left out: it is of nothing else")
        for factor in lacking.keys() & levels.keys():
            del levels[factor]
    places = Places(file.source, tree, file.places.given)
    return replace(file, study=validated(Study, places), places=places, left_out=tuple(notes))


_BUILT_IN = " (built in)"  # in place of where a file is


class _File:
    """What was read, and where each key of it stands."""

    places: Places

    @property
    def source(self) -> str:
        return self.places.source

    def where(self, path: Sequence[str | int]) -> str:
        return self.places.where(path)


@dataclass(frozen=True)
class StudyFile(_File):
    """A study and where it came from. ``where`` finds the place of a key for later errors; ``left_out``: what of the
    file its servers cannot have.
    """

    study: Study
    text: str
    places: Places
    left_out: tuple[str, ...] = field(default=(), kw_only=True)

    @property
    def is_builtin(self) -> bool:
        return self.source.endswith(_BUILT_IN)

    @property
    def facts(self) -> dict[str, str]:
        """What the lab keeps of where it came from; nothing of a study that is built in or made by a command."""
        return {STUDY_FILE: self.source} if is_file(self.source) else {}


def builtin_studies() -> dict[str, str]:
    """Name -> text of every study that comes with leadline."""
    return _builtin("studies")


def builtin_tunings() -> dict[str, str]:
    """Name -> text of every tuning that comes with leadline."""
    return _builtin("tunings")


def _builtin(folder: str) -> dict[str, str]:
    entries = sorted((resources.files("leadline") / folder).iterdir(), key=lambda entry: entry.name)
    return {e.name.removesuffix(".yaml"): e.read_text(encoding="utf-8") for e in entries if e.name.endswith(".yaml")}


def find_study(reference: str, overrides: Sequence[str] = (), factors: Sequence[str] = ()) -> StudyFile:
    """A built-in study by name or a file by path, with ``--set key=value`` and ``--factor knob=a,b`` applied.

    Raises UsageError.
    """
    builtin = builtin_studies()
    if is_file(reference):
        return parse_study(read_text(Path(reference)), reference, overrides, factors)
    if reference in builtin:
        return parse_study(builtin[reference], f"{reference}.yaml{_BUILT_IN}", overrides, factors)
    if not _exists(reference):
        hint = did_you_mean(reference, list(builtin)) or f"built-in studies: {', '.join(builtin)}"
        if reference in builtin_tunings():
            hint = f"{reference} is a tuning: leadline run {reference} --dry-run tells what it would measure"
        raise UsageError(f"no study file {quoted(reference, 200)} and no built-in study of that name; {hint}")
    return parse_study(read_text(Path(reference)), reference, overrides, factors)


def _exists(reference: str) -> bool:
    try:
        return Path(reference).exists()
    except OSError:  # longer than any file's name
        return False


def parse_study(text: str, source: str, overrides: Sequence[str] = (), factors: Sequence[str] = ()) -> StudyFile:
    """A Study from YAML text. Raises UsageError with ``source:line``."""
    tree = load_tree(text, source, Study)
    put_stack_file(tree, source)
    keys = {set_key(tree, override): option_of("--set", override) for override in overrides}
    keys |= {_set_factor(tree, factor): option_of("--factor", factor) for factor in factors}
    places = Places(source, tree, keys)
    return StudyFile(validated(Study, places), text, places)


def study_of(keys: Mapping[str, Any]) -> StudyFile:
    """A Study from the keys of a file; those that say nothing are left out. Raises UsageError."""
    text, yaml = io.StringIO(), YAML()
    yaml.width = 4096
    yaml.dump({key: value for key, value in keys.items() if value not in ({}, None)}, text)
    return parse_study(text.getvalue(), f"{keys.get('study', 'study')}.yaml")


def load_tree(text: str, source: str, model: type[BaseModel]) -> CommentedMap:
    """The tree of a study file or a tuning's. Raises UsageError with ``source:line``."""
    tree = load_yaml(text, source)
    fields = list(model.model_fields)
    if not isinstance(tree, CommentedMap) or not any(nearest(str(key), fields) for key in tree):
        raise UsageError(f"{source}:1: no {fields[0]} file: it is a mapping that starts with `{fields[0]}: NAME`")
    return tree


def validated(model: type[_Model], places: Places) -> _Model:
    """What a tree says. Raises UsageError with a line for each problem."""
    try:
        return model.model_validate(plain(places.tree, places))
    except ValidationError as error:
        raise UsageError("\n".join(sentences(error, places, model))) from error


def json_schema(model: type[Study | Tuning]) -> dict[str, Any]:
    """The JSON Schema of a study file or a tuning file, for editors."""
    title = f"leadline {'study' if model is Study else 'tuning'}"
    return {
        **model.model_json_schema(),
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": title,
    }


_TYPE_OF_LEVEL = ("bool_type", "int_type", "float_type", "string_type")
_PATTERN = "small letters, digits and hyphens are wanted, a letter or digit first"
_ELSEWHERE: dict[tuple[str | int, ...], str] = {("stack", "mode"): "a tuning names its modes under `modes`"}
_LONGEST = 60  # characters of what was found that are quoted
_MOST = 20  # problems that are told
_DEEPEST = 8  # parts of a key on the command line
_NAME = "a name has 1 to 100 printable characters, without spaces at its ends"
_Model = TypeVar("_Model", bound=BaseModel)


def option_of(name: str, text: str) -> str:
    """An option of the command line as the place of an error."""
    return f"{name} {shortened(text, 100)}"


def _scalar(option: str, word: str) -> Any:
    try:
        yaml = load_yaml(word, option, typ="safe")
    except UsageError as error:
        raise UsageError(str(error).replace(f"{option}:1:", f"{option}:", 1)) from None
    if yaml is None and word.strip() not in ("null", "~"):
        raise UsageError(f"{option}: no value; write null where none is meant")
    return yaml


def _set_factor(tree: CommentedMap, factor: str) -> Path_:
    """Apply ``knob=level,level`` of the command line, or ``knob=level``, which holds the knob; returns its path. Raises
    UsageError.
    """
    option = option_of("--factor", factor)
    name, _, levels = factor.partition("=")
    name = name.strip()
    if not levels or not name:
        raise UsageError(f"{option}: write it as knob=level,level")
    if levels.count(",") >= MOST_LEVELS:
        raise UsageError(f"{option}: more than {MOST_LEVELS} levels")
    levels_ = [_scalar(option, word) for word in levels.split(",")]
    key, other = ("factors", "settings") if len(levels_) > 1 else ("settings", "factors")
    if isinstance(tree.get(other), CommentedMap):
        tree[other].pop(name, None)
    if not isinstance(tree.get(key), CommentedMap):
        tree[key] = CommentedMap()
    tree[key][name] = levels_ if len(levels_) > 1 else levels_[0]
    return (key, name)


def set_key(tree: CommentedMap, override: str) -> Path_:
    """Apply ``key=value`` of the command line; returns its path. Raises UsageError."""
    option = option_of("--set", override)
    path, _, value = override.partition("=")
    if not value or not path.strip():
        raise UsageError(f"{option}: write it as key=value, for instance workload.users=20")
    # Knob names hold dots themselves: below these keys the rest of the path is one name.
    parts = path.strip().split(".")
    if parts[0] in ("factors", "baseline", "settings") and len(parts) > 1:
        parts = [parts[0], ".".join(parts[1:])]
    if len(parts) > _DEEPEST or not all(parts):
        raise UsageError(f"{option}: no key of a study; write it as in workload.users=20")
    node: Any = tree
    for part in parts[:-1]:
        if not isinstance(node.get(part), Mapping):
            node[part] = CommentedMap()
        node = node[part]
    node[parts[-1]] = _scalar(option, value)
    return tuple(parts)


def sentences(error: ValidationError, places: Places, model: type[BaseModel]) -> list[str]:
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
        sentence = _sentence(problem, path, places, model)
        if sentence not in found_wrong:
            found_wrong.append(sentence)
    more = len(found_wrong) - _MOST
    return [*found_wrong[:_MOST], *([f"and {more} more problems"] if more > 0 else [])]


def _sentence(problem: ErrorDetails, path: list[str | int], places: Places, model: type[BaseModel]) -> str:
    name, kind = ".".join(shortened(str(part)) for part in path), problem["type"]
    cause = problem.get("ctx", {}).get("error")
    if isinstance(cause, KeyedError):
        return f"{places.where([*path, *cause.path])}: {cause}"
    place = places.where(path)
    if problem["loc"][-1:] == ("[key]",):
        return f"{place}: {name}: {_NAME}"
    if kind == "extra_forbidden":
        keys = _keys_at(path[:-1], model)
        hint = did_you_mean(str(path[-1]), keys) or f"keys here: {', '.join(keys)}"
        if path[:-1] == ["workload"]:
            hint = NOT_IN_WORKLOAD.get(str(path[-1]), hint)
        return f"{place}: unknown key {quoted(str(path[-1]))}; {_ELSEWHERE.get(tuple(path), hint)}"
    if kind == "missing":
        return f"{place}: the key {name!r} is missing"
    if kind == "literal_error":
        choices = _choices(problem)
        near = nearest(str(problem["input"]), choices)
        hint = f"; did you mean {near}?" if near else ""
        return f"{place}: {name} is {quoted(problem['input'])}, not one of {', '.join(choices)}{hint}"
    if kind == "value_error":
        return f"{place}: {name}: {cause}"
    message = _PATTERN if kind == "string_pattern_mismatch" else wanted(problem)
    if kind in _TYPE_OF_LEVEL and len(path) < len(problem["loc"]):
        message = "a level is one number, word or switch"
    return f"{place}: {name}: {message}{_found(problem['input'])}"


def _found(value: object) -> str:
    dumps = json.dumps(value, default=str)
    return f" (found {shortened(dumps)})" if len(dumps) <= _LONGEST else ""


def _is_union_tag(part: str | int) -> bool:
    return part in ("bool", "int", "float", "str", "[key]")


def _choices(problem: ErrorDetails) -> list[str]:
    expected = str(problem.get("ctx", {}).get("expected", ""))
    return [word.strip().strip("'") for word in expected.replace(" or ", ",").split(",") if word.strip()]


def _keys_at(path: Sequence[str | int], top: type[BaseModel]) -> list[str]:
    model: type[BaseModel] | None = top
    for part in path:
        if isinstance(part, int) or (model and part not in model.model_fields):
            continue  # an item of the list or mapping found already
        field = model.model_fields.get(part) if model else None
        model = _model_in(field.annotation) if field else None
    return list(model.model_fields) if model else []


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """The model of a field: itself, or what a list, an option or a validator is around."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((model for get_arg in get_args(annotation) if (model := _model_in(get_arg))), None)


@dataclass(frozen=True)
class TuningFile(_File):
    """A tuning and where it came from. ``where`` finds the place of a key for later errors."""

    tuning: Tuning
    text: str
    places: Places


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
