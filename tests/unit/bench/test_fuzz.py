"""A short deterministic run of every fuzz target: nothing but acceptance and refusal in order."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[3]))
from bench.fuzz.run import fuzz
from bench.fuzz.targets import targets

INPUTS = {"agree": 20, "bundle": 10, "study": 20, "tuning": 20}


@pytest.mark.parametrize("name", list(targets()))
def test_no_input_is_more_than_accepted_or_refused(name: str) -> None:
    # The limit is against hangs, far above what any input takes; bench/fuzz has the one second.
    found = fuzz(targets()[name](), count=INPUTS.get(name, 40), until=None, seed=7, limit=30.0)
    assert not found.faults, "\n".join(f"{where}\n{told}" for where, (_, told) in found.faults.items())
    assert found.counts["refused"] + found.counts["accepted"] == INPUTS.get(name, 40)
