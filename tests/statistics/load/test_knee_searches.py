"""Searches for the largest load within limits, on simulated servers whose true limit is known."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from scipy.optimize import brentq

from leadline.lab.knee.search import CRITICAL_MS, Limit, Measured, critical, limits, next_of, result_of
from leadline.load.knee import Interval, Range
from leadline.model.load import RATE
from leadline.model.workload import Workload
from leadline.simulate.model import Model
from leadline.simulate.trial import Instance, trial_series
from leadline.simulate.truth import NoiseLevels, Server, Truth

SEARCHES, CRITICAL = 120, 20
LIMIT_MS = 60.0
LOADS = Range(100, 8000)
WORKLOAD = Workload(arrivals="poisson", rate=100, ramp_up=2, steady=20, ramp_down=0)
SERVER = Server(cores=2, demand=0.0006, database_demand=0.0002, delay=0.0005)  # 2500 transactions a second


def true_load(model: Model, p99_ms: float) -> float:
    """Where the noise-free percentile is at its limit."""
    return float(brentq(lambda load: model.responses({RATE: load})["p99"] - p99_ms, 5.0, 2499.0))


def trial(model: Model, load: float, number: int) -> Measured:
    """As the lab measures one: with drops at the cap on sessions it fails."""
    levels: Mapping[str, float] = {RATE: load}
    if model.lost(levels) * load * WORKLOAD.steady >= 1:
        return Measured(load, {}, failed="arrivals dropped")
    series = trial_series(model, Instance(model.truth.seed, number, 0, "", 0.0), [(0.0, levels)], WORKLOAD.steady)
    found = series.window(*series.steady)
    assert found is not None
    uses = {"p99": found["p99"] / LIMIT_MS}
    return Measured(load, uses, found["throughput"], found["mean"], found["p99"])


def search(seed: int, critical: bool, repeats: int = 8) -> tuple[Sequence[Limit], int]:
    model = Model(Truth(seed=seed, server=SERVER, noise=NoiseLevels()), WORKLOAD)
    targets, measured = limits(critical), list[Measured]()
    while (pair := next_of(targets, measured, LOADS, repeats)) is not None:
        measured += [trial(model, load, len(measured) + at) for at, load in enumerate(pair)]
        assert len(measured) < 200, "the search does not end"
    return [result_of(target, measured, LOADS) for target in targets], len(measured)


def covers(found: Interval, truth: float) -> bool:
    return (found.low or 0) <= truth <= (found.high or math.inf)


def test_the_limit_is_found_within_five_percent_and_its_interval_holds_it() -> None:
    """Over 120 searches of 20 trials or so, each trial with 3 % of noise between trials and 5 % between seconds."""
    truth = true_load(Model(Truth(server=SERVER), WORKLOAD), LIMIT_MS)
    found = [search(seed, critical=False) for seed in range(SEARCHES)]
    loads = [limits[0].load for limits, _ in found]
    covered = sum(covers(load, truth) for load in loads)
    print(f"{covered} of {SEARCHES} intervals of 95 % hold the true load, {truth:.0f}/s")
    assert all(load.value == pytest.approx(truth, rel=0.05) for load in loads)
    assert covered >= 0.88 * SEARCHES
    assert float(np.mean([trials for _, trials in found])) < 26


def test_critical_throughput_is_found_within_five_percent_and_its_interval_holds_it() -> None:
    model = Model(Truth(server=SERVER), WORKLOAD)
    truth = math.exp(float(np.mean([math.log(true_load(model, ms)) for ms in CRITICAL_MS])))
    found = [critical(search(seed, critical=True, repeats=4)[0]) for seed in range(CRITICAL)]
    covered = sum(covers(one, truth) for one in found)
    print(f"{covered} of {CRITICAL} intervals hold the true critical throughput, {truth:.0f}/s")
    assert all(one.value == pytest.approx(truth, rel=0.05) for one in found)
    assert covered >= 0.75 * CRITICAL
