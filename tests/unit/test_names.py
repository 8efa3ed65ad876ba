"""Values have the names of the things they are, and functions fit a screen (CONTRIBUTING.md)."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from package_source import PACKAGE, tree

NO_THINGS = {
    "found", "one", "each", "told", "said", "held", "own", "asked", "given", "kept", "known", "made",
    "taken", "shown", "seen", "left",
}  # fmt: skip
MOST = 0.05
LONGEST = 70  # lines


def stored_names(function: ast.AST) -> Iterator[str]:
    for node in ast.walk(function):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id


@cache
def functions() -> list[tuple[Path, ast.FunctionDef | ast.AsyncFunctionDef]]:
    return [
        (path.relative_to(PACKAGE), node)
        for path in sorted(PACKAGE.rglob("*.py"))
        for node in ast.walk(tree(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]


def test_functions_store_values_under_names_of_things() -> None:
    vague = [f"{path}:{node.lineno}" for path, node in functions() if NO_THINGS.intersection(stored_names(node))]
    assert len(vague) <= MOST * len(functions()), vague


def test_functions_are_short() -> None:
    long = [
        f"{path}:{node.lineno} {node.name}: {node.end_lineno - node.lineno + 1} lines"
        for path, node in functions()
        if node.end_lineno is not None and node.end_lineno - node.lineno + 1 >= LONGEST
    ]
    assert not long, long


def test_no_figure_is_printed_with_an_exponent() -> None:
    """``.3g`` writes 2200 as 2.2e+03: people read ``units.rounded``. Digits of charts and chances may have one."""
    exponents = [
        f"{path.relative_to(PACKAGE)}:{number}"
        for path in sorted(PACKAGE.rglob("*.py"))
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if re.search(r":\+?\.[2-5]g\}", line) and not re.search(r"float\(f|p_value|p = ", line)
    ]
    assert exponents == []
