"""What a study's files tell of its profiles."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from leadline.experiments import results
from leadline.model.plan import PlannedTrial, Role, Treatment
from leadline.model.record import TrialRecord, TrialState
from leadline.model.result import SteadyState
from leadline.trial.system import Window, WindowMeasured


def fake_windows(_: Path, windows: Sequence[Window]) -> list[WindowMeasured]:
    """CPU per transaction as it falls in a warm-up: 4, 2, 2, 1 ms in quarters of ten seconds."""
    of = {100.0: 4.0, 110.0: 2.0, 120.0: 2.0, 130.0: 1.0}
    return [WindowMeasured(one, {"throughput": 1.0, "cpu_per_transaction": of[one.begin]}) for one in windows]


def test_a_warm_up_is_no_cost_of_profiling(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "measure_windows", fake_windows)
    planned = PlannedTrial(0, 0, 0, Role.BASELINE, Treatment.of({}), 0)
    steady = SteadyState("steady", 0.0, "Steady.")
    trial = TrialRecord(1, planned, TrialState.DONE, 1, 0.0, directory=tmp_path, steady=steady)
    inside, rest = [(110.0, 120.0), (120.0, 130.0)], [(100.0, 110.0), (130.0, 140.0)]
    cost = results._cost(trial, inside, rest)
    assert cost is not None
    assert cost < 0, "where the trial is called steady it is believed"
    warming = replace(trial, steady=SteadyState("still-warming", None, "Warming."))
    assert results._cost(warming, inside, rest) is None
