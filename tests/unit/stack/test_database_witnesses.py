"""Every knob of a database has a witness of its effect or says why not."""

from __future__ import annotations

from types import ModuleType

import mariadb_effects
import postgres_effects
import pytest

from leadline import catalogue

EFFECTS: dict[str, ModuleType] = {"PostgreSQL": postgres_effects, "MariaDB": mariadb_effects}
CATALOGUES = {"PostgreSQL": catalogue.load("postgres"), "MariaDB": catalogue.load("mariadb")}


@pytest.mark.parametrize("title", CATALOGUES)
def test_every_knob_has_a_witness_or_a_reason(title: str) -> None:
    module = EFFECTS[title]
    live = module.RELOADED if title == "PostgreSQL" else module.LIVE
    assert sorted([*live, *module.RESTARTED, *module.WITHOUT]) == sorted(CATALOGUES[title])
    assert all(module.WITHOUT.values()), "read back only: why"


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
