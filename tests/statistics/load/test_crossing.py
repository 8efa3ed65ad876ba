"""The load at a limit, on queues whose crossing is known by formula; runs are simulated event by event."""

import heapq
import math
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

import numpy as np
import pytest
from scipy.optimize import brentq

from leadline.analysis.crossing import Crossing, Probe, crossing, next_load
from leadline.experiments.knee.search import (
    CRITICAL_MS,
    KneeLimit,
    KneeTrial,
    LoadInterval,
    Range,
    critical,
    limits,
    next_of,
    result_of,
)
from leadline.model.workload import RATE, Workload
from leadline.places.simulated.model import Model, NoiseLevels, Server, Truth
from leadline.places.simulated.trial import Instance, trial_series

CAPACITY, LIMIT = 100.0, 0.1  # a second, s
MM1 = CAPACITY - math.log(10) / LIMIT  # P(response > t) = exp(-(capacity - load) t)
Measure = Callable[[float, np.random.Generator, int], float]


def p90_mm1(
    load: float, draw: np.random.Generator, at: int = 0, seconds: float = 60, capacity: float = CAPACITY
) -> float:
    """90th percentile (s) of one run of M/M/1; the first tenth is the ramp-up (Lindley's recursion)."""
    count = int(load * seconds * 1.1)
    gaps, services = draw.exponential(1 / load, count), draw.exponential(1 / capacity, count)
    steps = np.concatenate([[0.0], np.cumsum(services[:-1] - gaps[1:])])
    waits = steps - np.minimum.accumulate(steps)
    return float(np.quantile((waits + services)[count // 10 :], 0.9))


def p90_mmc(load: float, draw: np.random.Generator, servers: int, capacity: float, seconds: float = 30) -> float:
    count = int(load * seconds * 1.1)
    gaps, services = draw.exponential(1 / load, count), draw.exponential(servers / capacity, count)
    free = [0.0] * servers
    now, responses = 0.0, []
    for gap, service in zip(gaps.tolist(), services.tolist(), strict=True):
        now += gap
        end = max(now, free[0]) + service
        heapq.heapreplace(free, end)
        responses.append(end - now)
    return float(np.quantile(responses[count // 10 :], 0.9))


def search(measure: Measure, limit: float, seed: int, first: float = 20, more: int = 8) -> tuple[Crossing | None, int]:
    """Stairs, bisection to 5 %, then probes beside the estimate, as ``leadline knee`` does."""
    draw = np.random.default_rng(seed)
    probes: list[Probe] = []

    def kept(load: float) -> bool:
        probes.append(Probe(load, measure(load, draw, len(probes)) / limit))
        return (probes[-1].ratio or 9) <= 1

    low = first
    while kept(high := low * 1.5):
        low = high
    while high / low > 1.05:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if kept(middle) else (low, middle)
    around = math.sqrt(low * high)
    for at in range(more):
        kept(next_load(around, at))
        if at % 4 == 3:
            found = crossing(probes, around)
            around = around if found is None else found.load
    return crossing(probes, around), len(probes)


def test_the_knee_of_a_known_queue_within_five_percent_and_the_interval_covers() -> None:
    runs = [search(p90_mm1, LIMIT, seed)[0] for seed in range(100)]
    found = [run for run in runs if run is not None]
    assert len(found) == 100
    close = sum(abs(run.load / MM1 - 1) <= 0.05 for run in found)
    covered = sum((run.low or 0) <= MM1 <= (run.high or math.inf) for run in found)
    width = float(np.median([(run.high or math.inf) / (run.low or 1e-9) - 1 for run in found]))
    assert close >= 95
    assert covered >= 90
    assert width < 0.12


@pytest.mark.parametrize(("servers", "limit"), [(2, 0.15), (8, 0.3)])
def test_several_servers(servers: int, limit: float) -> None:
    """M/M/c: the crossing from Erlang's formula."""
    capacity = 100.0
    service = capacity / servers

    def beyond(load: float) -> float:
        offered = load / service
        terms = [offered**k / math.factorial(k) for k in range(servers)]
        last = offered**servers / math.factorial(servers) / (1 - offered / servers)
        wait = last / (sum(terms) + last)
        rest = capacity - load
        # response = service + (with chance ``wait``) an exponential of rate ``rest``
        both = (service * math.exp(-rest * limit) - rest * math.exp(-service * limit)) / (service - rest)
        return (1 - wait) * math.exp(-service * limit) + wait * both

    low, high = 1.0, 99.99
    for _ in range(60):
        low, high = (low, (low + high) / 2) if beyond((low + high) / 2) > 0.1 else ((low + high) / 2, high)
    found = [search(lambda load, draw, _: p90_mmc(load, draw, servers, capacity), limit, seed)[0] for seed in range(6)]
    assert all(run is not None and abs(run.load / low - 1) <= 0.05 for run in found)


def test_a_system_that_slows_down() -> None:
    """Capacity falls by 0.3 % a probe: the interval overlaps what the crossing was meanwhile."""
    covered, told = 0, 0
    for seed in range(60):
        found, count = search(
            lambda load, draw, at: p90_mm1(load, draw, capacity=CAPACITY * 0.997**at), LIMIT, seed, more=16
        )
        assert found is not None
        ends = [CAPACITY * 0.997**at - math.log(10) / LIMIT for at in (4, count)]
        covered += (found.low or 0) <= ends[0] and (found.high or math.inf) >= ends[1]
        told += (found.drift or 0) < 0
    assert covered >= 54
    assert told >= 54


def test_coverage_with_noise_of_known_law() -> None:
    def noisy(load: float, draw: np.random.Generator, _: int) -> float:
        return float((load / 50) ** 4 * math.exp(draw.normal(0, 0.2)))

    runs = [search(noisy, 1.0, seed)[0] for seed in range(200)]
    covered = sum(run is not None and (run.low or 0) <= 50 <= (run.high or math.inf) for run in runs)
    assert covered >= 181  # of 190 expected


def test_what_is_no_crossing() -> None:
    assert crossing([Probe(10, 1.0)] * 3, 10) is None
    assert crossing([Probe(10, 1.0)] * 9, 10) is None
    assert crossing([Probe(10, 1.1), Probe(11, 0.9)] * 4, 10.5) is None, "falls with the load"
    flat = crossing([Probe(10, 0.9), Probe(11, 1.2), Probe(10, 1.3), Probe(11, 1.05), Probe(10, 0.9)], 10.5)
    assert flat is not None
    assert (flat.low, flat.high) == (None, None), "the slope may be nothing"
    stuck = crossing([Probe(10, 0.9), Probe(11, None)] * 4, 10.5)
    assert stuck is not None
    assert 10 < stuck.load < 10.2, "a load at which nothing ends is far beyond the limit"


def test_probes_come_in_an_order_that_a_drift_does_not_bias() -> None:
    loads = [math.log(next_load(1.0, at)) for at in range(8)]
    assert sum(loads) == pytest.approx(0)
    assert sum(at * load for at, load in enumerate(loads)) == pytest.approx(0)
    assert all(abs(b - a) in (0, pytest.approx(0.1)) for a, b in pairwise(loads))


SEARCHES, CRITICAL = 120, 20
LIMIT_MS = 60.0
LOADS = Range(100, 8000)
WORKLOAD = Workload(arrivals="poisson", rate=100, ramp_up=2, steady=20, ramp_down=0)
SERVER = Server(cores=2, demand=0.0006, database_demand=0.0002, delay=0.0005)  # 2500 transactions a second


def true_load(model: Model, p99_ms: float) -> float:
    """Where the noise-free percentile is at its limit."""
    return float(brentq(lambda load: model.responses({RATE: load})["p99"] - p99_ms, 5.0, 2499.0))


def trial(model: Model, load: float, number: int) -> KneeTrial:
    """As the lab measures one: with drops at the cap on sessions it fails."""
    levels: Mapping[str, float] = {RATE: load}
    if model.lost(levels) * load * WORKLOAD.steady >= 1:
        return KneeTrial(load, {}, failed="arrivals dropped")
    series = trial_series(model, Instance(model.truth.seed, number, 0, "", 0.0), [(0.0, levels)], WORKLOAD.steady)
    found = series.window(*series.steady)
    assert found is not None
    uses = {"p99": found["p99"] / LIMIT_MS}
    return KneeTrial(load, uses, found["throughput"], found["mean"], found["p99"])


def search_knee_searches(seed: int, critical: bool, repeats: int = 8) -> tuple[Sequence[KneeLimit], int]:
    model = Model(Truth(seed=seed, server=SERVER, noise=NoiseLevels()), WORKLOAD)
    targets, measured = limits(critical), list[KneeTrial]()
    while (pair := next_of(targets, measured, LOADS, repeats)) is not None:
        measured += [trial(model, load, len(measured) + at) for at, load in enumerate(pair)]
        assert len(measured) < 200, "the search does not end"
    return [result_of(target, measured, LOADS) for target in targets], len(measured)


def covers(found: LoadInterval, truth: float) -> bool:
    return (found.low or 0) <= truth <= (found.high or math.inf)


def test_the_limit_is_found_within_five_percent_and_its_interval_holds_it() -> None:
    """Over 120 searches of 20 trials or so, each trial with 3 % of noise between trials and 5 % between seconds."""
    truth = true_load(Model(Truth(server=SERVER), WORKLOAD), LIMIT_MS)
    found = [search_knee_searches(seed, critical=False) for seed in range(SEARCHES)]
    loads = [limits[0].load for limits, _ in found]
    covered = sum(covers(load, truth) for load in loads)
    print(f"{covered} of {SEARCHES} intervals of 95 % hold the true load, {truth:.0f}/s")
    assert all(load.value == pytest.approx(truth, rel=0.05) for load in loads)
    assert covered >= 0.8 * SEARCHES  # less than 95 % of them: the guide says so
    assert float(np.mean([trials for _, trials in found])) < 26


def test_critical_throughput_is_found_within_five_percent_and_its_interval_holds_it() -> None:
    model = Model(Truth(server=SERVER), WORKLOAD)
    truth = math.exp(float(np.mean([math.log(true_load(model, ms)) for ms in CRITICAL_MS])))
    found = [critical(search_knee_searches(seed, critical=True, repeats=4)[0]) for seed in range(CRITICAL)]
    covered = sum(covers(one, truth) for one in found)
    print(f"{covered} of {CRITICAL} intervals hold the true critical throughput, {truth:.0f}/s")
    assert all(one.value == pytest.approx(truth, rel=0.05) for one in found)
    assert covered >= 0.9 * CRITICAL
