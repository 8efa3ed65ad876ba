"""The recipes of docs/guides/extending.md, run as they stand: applied to a copy of the package, used, taken back."""

import compileall
import filecmp
import os
import py_compile
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from witnesses import matrix

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "guides" / "extending.md"
TABLE = ROOT / "docs" / "concepts" / "architecture.md"
BLOCK = re.compile(r"^```(?P<language>\w+)(?: title=\"(?P<file>[^\"]+)\")?\n(?P<text>.*?)^```$", re.M | re.S)
SECONDS = 120  # that a command of a recipe may take


@dataclass(frozen=True)
class Change:
    """Lines of a block with marks; a new file where ``language`` is not diff."""

    file: str
    language: str
    text: str

    @property
    def added(self) -> int:
        """Lines that are new and not empty."""
        lines = self.text.splitlines()
        return sum(bool(line[1:].strip()) and line[0] == "+" if self.is_row else bool(line.strip()) for line in lines)

    @property
    def is_row(self) -> bool:
        return self.language == "diff"

    def apply(self, root: Path, *, back: bool = False) -> None:
        path = root / self.file
        if not self.is_row:
            assert path.exists() == back, f"{self.file} is there already"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.unlink() if back else path.write_text(self.text, encoding="utf-8")
            return
        marked = self.text.splitlines()
        before, after = ("".join(f"{line[1:]}\n" for line in marked if line[0] in marks) for marks in (" -", " +"))
        before, after = (after, before) if back else (before, after)
        found = path.read_text(encoding="utf-8")
        assert f"\n{found}".count(f"\n{before}") == 1, f"{self.file}: this stands there not exactly once:\n{before}"
        path.write_text(f"\n{found}".replace(f"\n{before}", f"\n{after}")[1:], encoding="utf-8")


@dataclass(frozen=True)
class Recipe:
    name: str
    changes: Sequence[Change]
    files: Sequence[Change]  # beside the package
    commands: Sequence[tuple[str, Sequence[str]]]  # with what they must print

    @property
    def row(self) -> str:
        """Of the table in the architecture page."""
        new = len({change.file for change in self.changes if not change.is_row})
        old = {change.file.rpartition("/")[2]: 0 for change in self.changes if change.is_row}
        for change in self.changes:
            if change.is_row:
                old[change.file.rpartition("/")[2]] += change.added
        rows = ", ".join(f"`{file}` {lines}" for file, lines in old.items()) or "none"
        own = sum(change.added for change in self.changes if not change.is_row)
        return f"| [{self.name}](../guides/extending.md#{self.name.replace(' ', '-')}) | {new} | {own} | {rows} |"


def sections() -> Iterator[tuple[str, str]]:
    _, *parts = re.split(r"^## (.+)$", PAGE.read_text(encoding="utf-8"), flags=re.M)
    yield from zip(parts[::2], parts[1::2], strict=True)


def commands(text: str) -> list[tuple[str, list[str]]]:
    found: list[tuple[str, list[str]]] = []
    for line in text.splitlines():
        if line.startswith("$ "):
            found.append((line[2:], []))
        else:
            found[-1][1].append(line)
    return found


def recipe(name: str, text: str) -> Recipe:
    blocks = [Change(found["file"] or "", found["language"], found["text"]) for found in BLOCK.finditer(text)]
    return Recipe(
        name.lower(),
        [block for block in blocks if block.file.startswith("leadline/")],
        [block for block in blocks if block.file and not block.file.startswith("leadline/")],
        [each for block in blocks if block.language == "console" for each in commands(block.text)],
    )


RECIPES = [recipe(name, text) for name, text in sections()]
KINDS = {
    "knob",
    "server",
    "database",
    "application",
    "observer",
    "place",
    "load generator",
    "design",
    "layout",
    "response",
}


def test_there_is_a_recipe_for_every_part() -> None:
    assert {one.name.partition(" ")[2] for one in RECIPES} == KINDS | {"figure"}


def test_one_module_and_one_row_are_enough() -> None:
    """Of these a row of a table, and what it names imported; else only files of its own."""
    for one in RECIPES:
        if one.name.partition(" ")[2] in KINDS - {"response"}:
            rows = [change for change in one.changes if change.is_row]
            assert len({change.file for change in rows}) <= 1, one.name
            assert sum(change.added for change in rows) <= 2, one.name


def test_the_table_of_the_architecture_is_that_of_the_recipes() -> None:
    rows = "\n".join(one.row for one in RECIPES)
    assert rows in TABLE.read_text(encoding="utf-8"), f"the rows are\n{rows}"


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package, with driver and workloads beside it as in a checkout.

    Compiled once, for all commands; the bytecode is that of a file whose contents are the same, so a changed one is
    compiled anew.
    """
    root = tmp_path_factory.mktemp("copy")
    shutil.copytree(ROOT / "leadline", root / "leadline", ignore=shutil.ignore_patterns("__pycache__"))
    hashed = py_compile.PycInvalidationMode.CHECKED_HASH
    assert compileall.compile_dir(root / "leadline", quiet=1, invalidation_mode=hashed)
    for beside in ("driver", "workloads"):
        (root / beside).symlink_to(ROOT / beside)
    return root


ALWAYS = ("a knob", "a server", "a database", "a response", "a place")
LONGER = matrix("another recipe of the guide")


@pytest.mark.parametrize(
    "one", [pytest.param(one, id=one.name, marks=() if one.name in ALWAYS else LONGER) for one in RECIPES]
)
def test_a_recipe_works(one: Recipe, copied: Path, tmp_path: Path) -> None:
    shared = [Change(found["file"], found["language"], found["text"]) for found in BLOCK.finditer(_head())]
    for change in [*shared, *one.files]:
        change.apply(tmp_path)
    assert one.commands
    try:
        for change in one.changes:
            change.apply(copied)
        for command, said in one.commands:
            done = run(command, copied, tmp_path)
            told = " ".join((done.stdout + done.stderr).split())
            assert done.returncode == 0, f"{command}: {told}"
            missing = [line for line in said if " ".join(line.split()) not in told]
            assert not missing, f"{command}: {missing} not in {told}"
    finally:
        for change in reversed(one.changes):
            change.apply(copied, back=True)
    assert not differing(filecmp.dircmp(ROOT / "leadline", copied / "leadline", ignore=["__pycache__"]))


def _head() -> str:
    return PAGE.read_text(encoding="utf-8").partition("\n## ")[0]


def run(command: str, package: Path, place: Path) -> subprocess.CompletedProcess[str]:
    words = shlex.split(command)
    start = {"leadline": [sys.executable, "-m", "leadline"], "python": [sys.executable]}.get(words[0], words[:1])
    environment = {
        **os.environ,
        "PYTHONPATH": str(package),
        "PYTHONDONTWRITEBYTECODE": "1",  # a changed file may have the time and size of the one before
        "LEADLINE_STATE": str(place / "state"),
        "COLUMNS": "200",
    }
    argv = [*start, *words[1:]]
    return subprocess.run(argv, cwd=place, env=environment, capture_output=True, text=True, timeout=SECONDS)


def _holds_files(path: Path) -> bool:
    return any("__pycache__" not in found.parts for found in path.rglob("*.*"))


def differing(compared: filecmp.dircmp[str]) -> list[str]:
    found = [*compared.diff_files, *compared.funny_files, *compared.left_only]
    found += [name for name in compared.right_only if _holds_files(Path(compared.right) / name)]
    return found + [name for part in compared.subdirs.values() for name in differing(part)]
