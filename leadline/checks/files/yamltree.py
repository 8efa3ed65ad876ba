"""YAML that remembers its lines: plain values, and the place of a key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ruamel.yaml.comments import CommentedMap, CommentedSeq

from leadline.model.errors import UsageError, quoted

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
