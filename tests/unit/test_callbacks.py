"""Callbacks take records: nobody can keep three positional values of like type apart."""

import ast
from collections import Counter

import pytest
from package_source import PACKAGE as ROOT
from package_source import tree

LIKE = {"int": "number", "float": "number"}


def crowded(tree: ast.AST) -> list[str]:
    """Types of callbacks with more than three positional values, or three of like type."""
    found = []
    for node in ast.walk(tree):
        match node:
            case ast.Subscript(value=ast.Name(id="Callable"), slice=ast.Tuple(elts=[ast.List(elts=values), _])):
                kinds = Counter(LIKE.get(ast.unparse(value), ast.unparse(value)) for value in values)
                if len(values) > 3 or max(kinds.values(), default=0) > 2:
                    found.append(f"line {node.lineno}: {ast.unparse(node)}")
    return found


def test_callbacks_take_records() -> None:
    wrong = {str(path): told for path in ROOT.rglob("*.py") if (told := crowded(tree(path)))}
    assert not wrong


@pytest.mark.parametrize("told", ["Callable[[int, float, int], None]", "Callable[[A, B, C, D], None]"])
def test_a_crowded_callback_is_seen(told: str) -> None:
    assert len(crowded(ast.parse(f"OnLoad = {told}"))) == 1
