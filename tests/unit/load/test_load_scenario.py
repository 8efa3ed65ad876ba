"""Scenarios by name or path."""

from __future__ import annotations

from pathlib import Path

import pytest

from leadline.load.scenario import built_in_scenarios, find_scenario
from leadline.model.errors import UsageError


def test_built_in_scenarios_are_found_by_name() -> None:
    assert {"brokerage-classic", "brokerage-json"} <= set(built_in_scenarios())
    assert find_scenario("brokerage-classic").name == "brokerage-classic.yaml"


def test_a_file_is_found_by_its_path(tmp_path: Path) -> None:
    own = tmp_path / "own.yaml"
    own.write_text("scenario: own\n")
    assert find_scenario(str(own)) == own


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ("brokerage-clasic", "did you mean brokerage-classic"),
        ("zzz", "built in: brokerage-classic"),
        ("missing.yaml", "scenario file missing.yaml does not exist"),
    ],
)
def test_an_unknown_scenario_says_what_there_is(wanted: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        find_scenario(wanted)
