"""The keys of ``leadline-figures/1`` inside each figure are those that docs/concepts/study-a.md lists."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from test_figures_cli import leadline, results_csv

DOCS = Path(__file__).parents[3] / "docs" / "concepts" / "study-a.md"
FIGURES = ("throughput", "extremes", "failures", "sensitivity", "ranking", "grouping")
BY_NAME = ("failures.classes", "failures.settings", "failures.systems.classes")  # keys are the table's own


def printed(document: dict[str, Any]) -> dict[str, set[str]]:
    """Path of an object -> its keys, lists passed through."""
    found: dict[str, set[str]] = {}

    def walk(path: str, value: Any) -> None:
        if isinstance(value, list):
            for each in value:
                walk(path, each)
        elif isinstance(value, dict) and path not in BY_NAME:
            found.setdefault(path, set()).update(value)
            for key, each in value.items():
                walk(f"{path}.{key}", each)

    for name in FIGURES:
        walk(name, document[name])
    return {("interval" if {"low", "high", "level"} == keys else path): keys for path, keys in found.items()}


def test_the_documented_keys_are_those_printed(tmp_path: Path) -> None:
    groups = ["--groups", "red=a,b", "--groups", "blue=c,d"]
    source = results_csv(tmp_path / "results.csv")
    found = printed(leadline.document(source, *groups))
    table = DOCS.read_text(encoding="utf-8").split("| object | keys |\n", 1)[1].split("\n\n", 1)[0]
    rows = re.findall(r"^\| `([\w.]+)` \| (.+) \|$", table, flags=re.MULTILINE)
    assert {path: set(re.findall(r"`(\w+)`", keys)) for path, keys in rows} == found
