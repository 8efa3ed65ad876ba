"""Programs beside the package, which no type checker reads, import names that leadline has."""

from __future__ import annotations

import ast
import importlib
import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PROGRAMS = sorted(path for folder in ("bench", "tools", "examples") for path in (ROOT / folder).rglob("*.py"))


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: str(path.relative_to(ROOT)))
def test_what_a_program_imports_of_leadline_is_there(program: Path) -> None:
    for node in ast.walk(ast.parse(program.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "leadline":
            module = importlib.import_module(node.module or "")
            for name in (alias.name for alias in node.names):
                is_there = hasattr(module, name) or importlib.util.find_spec(f"{node.module}.{name}") is not None
                assert is_there, f"{node.module} has no {name}"
