"""YAML text with limits: what is too large, too deep or no finite number is refused before anything is built of it.
Trees remember their lines: plain values, and the place of a key.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import yaml as libyaml
from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.constructor import DuplicateKeyError
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import (
    AliasEvent,
    CollectionEndEvent,
    CollectionStartEvent,
    Event,
    NodeEvent,
    ScalarEvent,
)

from leadline.model.errors import UsageError, quoted, shortened

_NUMBER = re.compile(r"[-+]?(?:0[xob][0-9a-fA-F_]+|[0-9][0-9_]*)|[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(inf|nan)", re.IGNORECASE)
_LONGEST_NUMBER = 40  # characters
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")


@dataclass(frozen=True)
class Limits:
    """``values``: scalars, lists and mappings, those of aliases counted as often as they stand for something."""

    characters: int = 64 * 1024
    values: int = 5_000
    depth: int = 40
    scalar: int = 10_000
    tags: bool = False  # whether a file may have them
    texts: bool = False  # whether scalars stay the texts that they are in the file


SMALL = Limits()  # what people write
# What programs write: read by libyaml, in ten seconds.
SCENARIO = Limits(characters=16 * 1024**2, values=1_000_000, depth=100, scalar=256 * 1024, texts=True)
LARGE = Limits(characters=48 * 1024**2, values=2_000_000, depth=100, scalar=1024**2, tags=True)


def load_yaml(text: str, source: str, limits: Limits = SMALL, typ: str = "rt") -> Any:
    """The tree of YAML text, None for an empty one; in plain dicts and lists where it is ``safe``, or large.
    Raises UsageError of one line with ``source:line``.
    """
    text = text.removeprefix("\ufeff")
    if len(text) > limits.characters:
        raise UsageError(f"{source}: {len(text):,} characters; at most {limits.characters:,} are read")
    try:
        if typ == "safe" or limits.texts or limits.tags:
            return _large(text, source, limits)
        yaml = YAML(pure=True)
        yaml.preserve_quotes = True
        yaml.composer.warn_double_anchors = False  # the later one holds, as YAML has it
        _checked(yaml, source, limits)
        return yaml.load(text)
    except UsageError:
        raise
    except (MarkedYAMLError, libyaml.MarkedYAMLError) as error:
        mark = error.problem_mark or error.context_mark
        reason = " ".join(str(error.problem or error.context).split())
        if isinstance(error, DuplicateKeyError):  # the values are left out: it may be another file than was meant
            reason = reason.partition(" with value ")[0]
        raise UsageError(f"{source}:{mark.line + 1 if mark else 1}: {shortened(reason, 160)}") from error
    except (YAMLError, libyaml.YAMLError) as error:  # characters that no YAML file holds
        at = getattr(error, "position", None)
        line = text.count("\n", 0, at) + 1 if isinstance(at, int) else 1
        reason = getattr(error, "reason", None) or str(error)
        raise UsageError(f"{source}:{line}: {shortened(' '.join(str(reason).split()), 160)}") from error
    except Exception as error:  # the reader's own faults, such as a date without such a day
        reason = " ".join(str(error).split())
        raise UsageError(f"{source}: not YAML that can be read: {shortened(reason, 160)}") from error


def _large(text: str, source: str, limits: Limits) -> Any:
    """The tree, built of the events of libyaml after each is checked; the first document of several."""
    check, documents = _Check(source, limits), 0
    root: Any = None
    anchors: dict[str, Any] = {}
    text = _SURROGATES.sub(_joined, text)
    above: list[tuple[Any, list[Any]]] = []  # open lists and mappings, and the key that waits for its value
    for event in libyaml.parse(text, Loader=getattr(libyaml, "CSafeLoader", libyaml.SafeLoader)):
        check(event)
        documents += isinstance(event, libyaml.DocumentStartEvent)
        if documents > 1:
            raise UsageError(f"{source}:{event.start_mark.line + 1}: a second document; one is read")
        if isinstance(event, libyaml.CollectionEndEvent):
            closed, _ = above.pop()
            if isinstance(closed, dict) and isinstance(merged := closed.get("<<"), dict):
                del closed["<<"]
                closed |= {key: value for key, value in merged.items() if key not in closed}
            continue
        if not isinstance(event, libyaml.NodeEvent):
            continue
        value = anchors[event.anchor] if isinstance(event, libyaml.AliasEvent) else _value(event, limits)
        if event.anchor:
            anchors[event.anchor] = value
        container, keys = above[-1] if above else (None, [])
        if container is None:
            root = value
        elif isinstance(container, list):
            container.append(value)
        elif keys:
            container[keys.pop()] = value
        elif isinstance(value, dict | list) or value in container:
            what = "a key that is no text" if isinstance(value, dict | list) else f"found duplicate key {quoted(value)}"
            raise UsageError(f"{source}:{event.start_mark.line + 1}: {what}")
        else:
            keys.append(value)
        if isinstance(event, libyaml.CollectionStartEvent):
            above.append((value, []))
    return root


def _joined(match: re.Match[str]) -> str:
    """Halves of characters as JSON writes them, which are none in YAML."""
    text: str = json.loads(f'"{match[0]}"')
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


_SURROGATES = re.compile(r"(?<!\\)(?:\\u[dD][89a-fA-F][0-9a-fA-F]{2})+")
_CORE = {"": None, "~": None, "null": None, "true": True, "false": False}
_CORE |= {form(word): value for word, value in _CORE.items() for form in (str.title, str.upper)}
_INTEGER = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")


def _value(event: libyaml.NodeEvent, limits: Limits) -> Any:
    """An empty list or mapping; a scalar by YAML 1.2's core schema, in which dates are texts. Raises ValueError for a
    tag that its text does not fit.
    """
    if not isinstance(event, libyaml.ScalarEvent):
        return {} if isinstance(event, libyaml.MappingStartEvent) else []
    text: str = event.value
    tag = (event.tag or "").rpartition(":")[2]
    if tag == "int":
        return int(text.replace("_", ""), 0)
    if tag == "float":
        return float(text)
    if limits.texts or not event.implicit[0]:
        return text
    if text in _CORE:
        return _CORE[text]
    if _INTEGER.fullmatch(text):
        return int(text, 10 if text.lstrip("-+").isdecimal() else 0)
    return float(text.lower().replace(".inf", "inf").replace(".nan", "nan")) if _FLOAT.fullmatch(text) else text


class _Check:
    """Raises UsageError at the event that breaks a limit, so that nothing is built of what follows."""

    def __init__(self, source: str, limits: Limits) -> None:
        self._source, self._limits = source, limits
        self._sizes: dict[str, int] = {}  # of closed anchors
        self._open: list[tuple[str | None, int]] = []  # anchor and values before it
        self._values = 0

    def __call__(self, event: Any) -> None:
        place, limits = f"{self._source}:{event.start_mark.line + 1}", self._limits
        if isinstance(event, AliasEvent | libyaml.AliasEvent):
            self._values += self._aliased(event.anchor, place)
        elif isinstance(event, NodeEvent | libyaml.NodeEvent):
            self._values += 1
            _check_node(event, place, limits)
            if isinstance(event, CollectionStartEvent | libyaml.CollectionStartEvent):
                self._open.append((event.anchor, self._values - 1))
            elif event.anchor:
                self._sizes[event.anchor] = 1
        elif isinstance(event, CollectionEndEvent | libyaml.CollectionEndEvent):
            anchor, before = self._open.pop()
            if anchor:
                self._sizes[anchor] = self._values - before
        if len(self._open) > limits.depth:
            raise UsageError(f"{place}: more than {limits.depth} lists and mappings in each other")
        if self._values > limits.values:
            raise UsageError(f"{place}: more than {limits.values:,} values; is this the file that was meant?")

    def _aliased(self, anchor: str, place: str) -> int:
        alias = f"{place}: the alias *{shortened(anchor, 40)}"
        if any(anchor == open_anchor for open_anchor, _ in self._open):
            raise UsageError(f"{alias} stands for itself")
        if anchor not in self._sizes:
            raise UsageError(f"{alias} stands for nothing; a word that starts with * is written in quotes")
        return self._sizes[anchor]


def _checked(yaml: YAML, source: str, limits: Limits) -> None:
    """Check every event as the parser hands it on: one pass over the text."""
    check, parser = _Check(source, limits), yaml.parser
    get = parser.get_event

    def get_event() -> Event:
        event: Event = get()
        check(event)
        return event

    parser.get_event = get_event


def _check_node(event: Any, place: str, limits: Limits) -> None:
    tag = getattr(event, "tag", None)
    if tag is not None and not limits.tags:
        raise UsageError(f"{place}: the tag {shortened(str(tag), 40)}: tags are not read here")
    if not isinstance(event, ScalarEvent | libyaml.ScalarEvent):
        return
    value = event.value.replace("\a", "") if event.style == ">" else event.value  # the parser's marks of folds
    if len(value) > limits.scalar:
        raise UsageError(f"{place}: a text of {len(value):,} characters; at most {limits.scalar:,} are read")
    if limits.texts:
        return
    plain = not event.style and event.implicit[0]
    if plain and len(value) > _LONGEST_NUMBER and _NUMBER.fullmatch(value):
        raise UsageError(f"{place}: a number of {len(value):,} digits: at most {_LONGEST_NUMBER} are read")
    if limits.tags:
        return
    if match := _CONTROL.search(value):
        raise UsageError(f"{place}: a text with the control character U+{ord(match[0]):04X}")
    if not plain:
        return
    if _NOT_FINITE.fullmatch(value):
        raise UsageError(f"{place}: {value} is not a finite number")
    if _NUMBER.fullmatch(value) and not _finite(value):
        raise UsageError(f"{place}: {value} is too large a number")


def _finite(value: str) -> bool:
    try:
        return math.isfinite(float(value))
    except ValueError:
        return True  # hexadecimal and the like: no longer than can be held


Path_ = tuple[str | int, ...]


@dataclass(frozen=True)
class Places:
    """Where a file's keys are. ``given``: the option of the command line that set a key."""

    source: str
    tree: Any
    given: Mapping[Path_, str] = field(default_factory=dict)

    def where(self, path: Sequence[str | int]) -> str:
        """``file:line`` of a key path such as ``("factors", "vm.swappiness")``, or the option that set it."""
        for end in range(len(path), 0, -1):
            if option := self.given.get(tuple(path[:end])):
                return option
        return f"{self.source}:{line_of(self.tree, path)}"


def plain(node: Any, places: Places) -> Any:
    """The tree as plain Python values, without comments and places. Raises UsageError for a key that stands twice."""
    return _plain(node, places, ())


def _plain(node: Any, places: Places, path: Path_) -> Any:
    if isinstance(node, Mapping):
        mapping: dict[str, Any] = {}
        for key, value in node.items():
            name = str(key)
            if name in mapping:
                raise UsageError(f"{places.where(path)}: the key {quoted(name)} stands here twice")
            mapping[name] = _plain(value, places, (*path, name))
        return mapping
    if isinstance(node, list):
        return [_plain(value, places, (*path, at)) for at, value in enumerate(node)]
    for kind in (bool, int, float, str):
        if isinstance(node, kind):
            return kind(node)
    return node


def line_of(tree: Any, path: Sequence[str | int]) -> int:
    """Line, from 1, of the key or item at ``path``; of the nearest one above it that the file has."""
    line, node = 0, tree
    for part in path:
        try:
            if isinstance(node, CommentedMap) and part in node:
                line = node.lc.key(part)[0]
                node = node[part]
            elif isinstance(node, CommentedSeq) and isinstance(part, int):
                line = node.lc.item(part)[0]
                node = node[part]
            else:
                break
        except (KeyError, IndexError, TypeError, AttributeError):
            break  # set on the command line: no place in the file
    return int(line) + 1
