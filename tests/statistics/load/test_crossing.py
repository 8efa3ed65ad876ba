"""The load at a limit, on queues whose crossing is known by formula; runs are simulated event by event."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest

from leadline.load.crossing import Crossing, Probe, crossing, next_load

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
    """Stairs, bisection to 5 %, then probes beside the estimate, as ``leadline load --find-knee`` does."""
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
