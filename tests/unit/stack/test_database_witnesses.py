"""Every knob of a database has a witness of its effect or says why not; the documented table is what the tests do."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType

import mariadb_effects
import postgres_effects
import pytest

from leadline import catalogue

ROOT = Path(__file__).parents[3]
EFFECTS: dict[str, ModuleType] = {"PostgreSQL": postgres_effects, "MariaDB": mariadb_effects}
CATALOGUES = {"PostgreSQL": catalogue.load("postgres"), "MariaDB": catalogue.load("mariadb")}


def documented(title: str) -> dict[str, str]:
    """Knob -> witness of the table of a database."""
    text = (ROOT / "docs" / "reference" / "servers.md").read_text(encoding="utf-8")
    table = text.split(f"| {title} | witness |\n", 1)[1].split("\n\n", 1)[0]
    rows = re.findall(r"^\| `(\w+)` \| (.+) \|$", table, flags=re.MULTILINE)
    assert len(rows) == len(dict(rows)) == table.count("\n") - table.endswith("\n")
    return {f"database.{name}": witness for name, witness in rows}


@pytest.mark.parametrize("title", CATALOGUES)
def test_every_knob_has_a_witness_or_a_reason(title: str) -> None:
    module, rows = EFFECTS[title], documented(title)
    live = module.RELOADED if title == "PostgreSQL" else module.LIVE
    names = [*live, *module.RESTARTED, *module.WITHOUT]
    assert sorted(names) == sorted(CATALOGUES[title])
    assert set(rows) == set(names)
    for name, reason in module.WITHOUT.items():
        assert rows[name] == f"*read back only*: {reason}"
    for name, witness in {**live, **module.RESTARTED}.items():
        assert not rows[name].startswith("*read back only*")
        assert rows[name].endswith(" *") == witness.longer, name


@pytest.mark.parametrize("title", CATALOGUES)
def test_levels_of_witnesses_are_legal(title: str) -> None:
    module = EFFECTS[title]
    knobs = CATALOGUES[title]
    live = module.RELOADED if title == "PostgreSQL" else module.LIVE
    for name, witness in {**live, **module.RESTARTED}.items():
        assert witness.levels[0] != witness.levels[1]
        for level in witness.levels:
            assert knobs[name].parse(level) == level
        for other, level in witness.under.items():
            assert knobs[other].parse(level) == level
