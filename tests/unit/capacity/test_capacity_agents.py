"""Agents who begin a transaction in every cycle: the model against a simulation of them, event by event."""

from __future__ import annotations

import heapq
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from leadline.capacity.answer import answer
from leadline.capacity.cells import Measured, Point
from leadline.capacity.network import Agents, Delay, Pool, Station, pace, paced_at, rates

DEALERS, PLANT = Agents(10, 10.0), Agents(3, 0.65)  # of a unit of dealership
SERVICE = 0.003  # seconds of one of two CPUs
KNEE = 2 / SERVICE / pace((DEALERS, PLANT), SERVICE)  # units: 119


@cache
def simulated(units: int, seed: int, seconds: float = 60.0, warm: float = 30.0) -> tuple[float, float]:
    """Throughput and mean response, from the begin, of two CPUs with one queue, first come, first served."""
    rng = np.random.default_rng(seed)
    users = [one.cycle for one in (DEALERS, PLANT) for _ in range(units * int(one.users))]
    begins = [(first, first, cycle) for cycle in users for first in [float(rng.uniform(0, cycle))]]
    heapq.heapify(begins)
    free, done, spent = [0.0, 0.0], 0, 0.0
    while begins[0][0] < warm + seconds:
        begin, due, cycle = begins[0]
        end = max(begin, free[0]) + float(rng.exponential(SERVICE))
        heapq.heapreplace(free, end)
        if begin >= warm:
            done, spent = done + 1, spent + end - begin
        due += float(rng.exponential(cycle))
        heapq.heapreplace(begins, (max(due, end), due, cycle))
    return done / seconds, spent / done


@pytest.mark.parametrize(("units", "response_within"), [(20, 0.05), (60, 0.05), (100, 0.15), (160, 0.1), (240, 0.05)])
def test_the_approximation_holds_below_and_beyond_the_knee(units: int, response_within: float) -> None:
    agents = [replace(one, users=units * one.users) for one in (DEALERS, PLANT)]
    rate = rates([Station("cpu", SERVICE, 2)], units * 13)
    throughput, response = paced_at(rate, agents)
    true = simulated(units, seed=units)
    assert throughput == pytest.approx(true[0], rel=0.03)
    assert response == pytest.approx(true[1], rel=response_within)


def test_without_queueing_agents_keep_their_pace() -> None:
    rate = rates([Station("cpu", 1e-6, 64)], 130)
    throughput, response = paced_at(rate, [replace(one, users=10 * one.users) for one in (DEALERS, PLANT)], delay=0.02)
    assert throughput == pytest.approx(pace((DEALERS, PLANT), 0.02) * 10, rel=1e-3)
    assert response == pytest.approx(0.02, rel=1e-3)


def test_agents_who_only_wait_are_a_closed_loop() -> None:
    """Far beyond the knee nobody has anything left of a cycle: Little's law at capacity."""
    rate = rates([Station("cpu", 0.1, 1)], 300)
    throughput, response = paced_at(rate, [Agents(300, 0.5)])
    assert throughput == pytest.approx(10, rel=1e-3)
    assert response == pytest.approx(30, rel=1e-3)


@pytest.mark.parametrize("seed", [1, 2])
def test_the_knee_of_agents_is_found_within_five_percent(seed: int) -> None:
    """From three loads up to the knee and two beyond it, with noise; the cycles are known but for their scale."""
    rng, points = np.random.default_rng(seed), []
    for units in (20, 60, 100, 160, 240):
        for _ in range(2):
            throughput, response = simulated(units, seed=units)
            fast, slow, cost = np.exp(0.02 * rng.standard_normal(3))
            cpu = {"server": 0.4 * SERVICE * cost, "database": 0.6 * SERVICE * cost}
            points.append(Point(units, throughput * fast, response * slow, cpu))
    agents = tuple(replace(one, cycle=0.8 * one.cycle) for one in (DEALERS, PLANT))
    data = Measured(tuple(points), "load.injection_rate", {"cpu": 2.0}, {"cpu": ("server", "database")}, agents=agents)
    found = answer(data, (80, 300), draws=20)
    assert found.knee == pytest.approx(KNEE, rel=0.05)
    assert found.knee_interval is not None
    assert found.knee_interval.low < KNEE * 1.03
    assert found.knee_interval.high > KNEE * 0.97
    assert found.limit == "cpu"
    assert found.throughput_error < 0.05
    untested = {one.load: one.solution for one in found.predictions}
    assert untested[80].throughput == pytest.approx(80 * pace((DEALERS, PLANT), SERVICE), rel=0.03)
    assert untested[300].throughput == pytest.approx(2 / SERVICE, rel=0.05)


def test_a_pool_of_agents_is_the_limit_where_it_is_small() -> None:
    inside = (Station("cpu", SERVICE, 2), Delay("delay", 0.05))
    rate = rates([Pool("server.datasource.max_connections", 10, inside)], 13 * 100)
    throughput, _ = paced_at(rate, [replace(one, users=100 * one.users) for one in (DEALERS, PLANT)])
    assert throughput < 10 / 0.05
    assert throughput == pytest.approx(float(rates(inside, 10)[-1]), rel=0.01)
