"""YAML that remembers its lines: plain values, and the line of a key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ruamel.yaml.comments import CommentedMap, CommentedSeq


def plain(node: Any) -> Any:
    """The tree as plain Python values, without comments and places."""
    if isinstance(node, Mapping):
        return {str(key): plain(value) for key, value in node.items()}
    if isinstance(node, list):
        return [plain(value) for value in node]
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
