"""Dependencies point downward only."""

import ast
from pathlib import Path

import leadline

ROOT = Path(leadline.__file__).parent
ALLOWED = {
    "model": set(),
    "design": {"model"},
    "analysis": {"model", "design"},
    "figures": {"model", "design", "analysis"},
    "gcanalysis": {"model"},
    "advice": {"model"},
    "planning": {"model", "design", "analysis"},
    "conclude": {"model", "design", "analysis", "planning"},
    "catalogue": {"model"},
    "host": {"model", "catalogue"},
    "stack": {"model", "catalogue", "host"},
    "load": {"model", "host"},
    "observe": {"model", "host", "gcanalysis"},
    "lab": {"model", "design", "analysis", "planning", "conclude", "host", "stack", "load", "observe"},
    "report": {
        "model",
        "design",
        "analysis",
        "planning",
        "conclude",
        "figures",
        "gcanalysis",
        "advice",
        "load",
        "observe",
        "lab",
    },
    "simulate": {"model", "design", "analysis", "host", "lab"},
    "api": {"model", "planning", "host", "stack", "lab", "simulate", "report"},
    "cli": {
        *(
            "model",
            "design",
            "analysis",
            "planning",
            "conclude",
            "figures",
            "gcanalysis",
            "advice",
            "catalogue",
            "host",
            "stack",
            "load",
            "observe",
            "lab",
        ),
        *("report", "simulate", "api"),
    },
}
PURE = {"model", "design", "analysis", "planning", "conclude", "figures", "gcanalysis", "advice", "catalogue"}
WORLD = {"subprocess", "socket", "os", "shutil", "tempfile", "threading", "sqlalchemy", "urllib", "signal", "time"}


def imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, f"{path}: relative imports hide the layer"
            found.add(node.module)
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def modules() -> list[tuple[str, Path]]:
    return [(path.relative_to(ROOT).parts[0], path) for path in ROOT.rglob("*.py") if path.parent != ROOT]


def test_every_module_is_in_a_known_layer() -> None:
    assert {layer for layer, _ in modules()} <= set(ALLOWED)


def test_imports_point_downward() -> None:
    wrong = []
    for layer, path in modules():
        for name in imports(path):
            parts = name.split(".")
            if parts[0] == "leadline" and len(parts) > 1 and (ROOT / parts[1]).is_dir():
                target = parts[1]
                if target != layer and target not in ALLOWED[layer]:
                    wrong.append(f"{path.relative_to(ROOT)} imports {name}")
    assert not wrong, "\n".join(sorted(set(wrong)))


def test_the_pure_core_does_not_touch_the_world() -> None:
    wrong = [
        f"{path.relative_to(ROOT)} imports {name}"
        for layer, path in modules()
        if layer in PURE
        for name in imports(path)
        if name.split(".")[0] in WORLD
    ]
    assert not wrong, "\n".join(wrong)
