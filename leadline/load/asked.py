"""What the users of a closed load asked for, and how long they were there to ask."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from leadline.load.result import read_summary
from leadline.load.scenario import find_scenario, parameters
from leadline.load.series import steady_series


def asked_in(directory: Path, scenario: str) -> dict[str, Any] | None:
    """Of a run in ``directory``: the ``scenario`` with all its ``variables``, how often each transaction was begun
    (``asked``), the mean ``seconds`` that a user was there until nobody began anything, and how many were ``waiting``
    for an answer on average. None for a load whose users are not all of the scenario's populations the whole time.

    Raises UsageError, LeadlineError.
    """
    if not (directory / "summary.json").exists():
        return None  # of a soak, whose load is in segments
    result = read_summary(directory)
    arrivals = result.arrivals
    changing = arrivals.profile or arrivals.bursts or arrivals.replay or arrivals.windows
    if arrivals.model != "closed" or changing or arrivals.users != sum((arrivals.populations or {}).values()):
        return None
    ramp_up, steady = (until - since for since, until in (result.phases.ramp_up, result.phases.steady))
    seconds = steady + ramp_up / 2  # they come evenly over the ramp
    waited = sum(row.in_flight for row in steady_series(directory) if row.phase != "ramp_down")
    return {
        "scenario": result.scenario,
        "variables": {**parameters(find_scenario(scenario)), **result.variables},
        "asked": {name: count.ok + count.failed + count.skipped for name, count in result.total.items()},
        "seconds": seconds,
        "waiting": waited / seconds,
    }
