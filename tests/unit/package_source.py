"""The package's source as tests of its structure read it: each file is parsed once."""

import ast
from functools import cache
from pathlib import Path

import leadline

PACKAGE = Path(leadline.__file__).parent


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))
