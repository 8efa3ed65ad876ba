"""Prints the rooms of the package, each above all that it imports: ``python tools/rooms.py``."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import leadline

ROOT = Path(leadline.__file__).parent


@cache
def imports(room: str) -> frozenset[str]:
    """The other rooms that it imports."""
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in (ROOT / room).rglob("*.py")]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    names = [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
    names += [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    parts = [name.split(".") for name in names]
    return frozenset(part[1] for part in parts if part[0] == "leadline" and part[1:] and is_room(part[1])) - {room}


def is_room(name: str) -> bool:
    return (ROOT / name / "__init__.py").exists()


def height(room: str) -> int:
    """Rooms from it down to the ground, itself included."""
    return 1 + max(map(height, imports(room)), default=0)


def drawing() -> str:
    """A line a room, the highest first: its name, and the first sentence of its docstring."""
    rooms = sorted((path.parent.name for path in ROOT.glob("*/__init__.py")), key=lambda room: (-height(room), room))
    lines = []
    for room in rooms:
        words = ast.get_docstring(ast.parse((ROOT / room / "__init__.py").read_text(encoding="utf-8"))) or ""
        sentence = " ".join(words.split("\n\n")[0].split())
        lines.append(f"{height(room):2} {room:12} {sentence}")
    return "\n".join(lines)


if __name__ == "__main__":
    print(drawing())
