"""Queueing networks against known values: textbooks, closed forms, bounds and exact mean value analysis."""

import heapq
import math
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from leadline.capacity.answer import answer
from leadline.capacity.fit import Measured, Point
from leadline.capacity.network import (
    Agents,
    Delay,
    Pool,
    Station,
    bounds,
    closed,
    demand_of,
    knee,
    opened,
    pace,
    paced_at,
    rates,
)

WEB = (Station("cpu", 0.004, 2), Station("disk", 0.003), Delay("wire", 0.01))


def test_three_centres_of_a_textbook() -> None:
    """Lazowska, Zahorjan, Graham, Sevcik: Quantitative System Performance, 1984, section 6.4.2."""
    nodes = (Station("cpu", 0.605), Station("disk 1", 2.1), Station("disk 2", 1.35))
    found = [closed(nodes, users, think=15.0).throughput for users in (1, 2, 3)]
    assert found == pytest.approx([0.0525, 0.1031, 0.1515], abs=5e-5)


@pytest.mark.parametrize("users", [1, 7, 60])
def test_single_servers_are_those_of_mean_value_analysis(users: int) -> None:
    demands, think = (0.05, 0.02, 0.03), 0.4
    queues, throughput = [0.0] * len(demands), 0.0
    for number in range(1, users + 1):  # Reiser and Lavenberg 1980
        stays = [demand * (1 + queue) for demand, queue in zip(demands, queues, strict=True)]
        throughput = number / (think + sum(stays))
        queues = [throughput * stay for stay in stays]
    found = closed([Station(str(demand), demand) for demand in demands], users, think)
    assert found.throughput == pytest.approx(throughput, rel=1e-9)
    assert found.response == pytest.approx(users / throughput - think, rel=1e-9)


@pytest.mark.parametrize(
    ("rate", "demand", "servers"), [(50.0, 0.01, 1), (90.0, 0.01, 1), (3.2, 1.0, 4), (7.0, 1.0, 8)]
)
def test_an_open_station_is_that_of_erlang(rate: float, demand: float, servers: int) -> None:
    load = rate * demand
    share = load / servers
    blocked = load**servers / math.factorial(servers) / (1 - share)
    waits = blocked / (sum(load**k / math.factorial(k) for k in range(servers)) + blocked)
    found = opened((Station("s", demand, servers),), rate)
    assert found.response == pytest.approx(demand + waits * demand / (servers - load), rel=1e-6)
    assert found.utilisation["s"] == pytest.approx(share)
    assert found.lost == pytest.approx(0, abs=1e-9)


def test_an_open_network_is_its_stations_one_after_the_other() -> None:
    alone = sum(opened((node,), 100.0).response for node in WEB)
    assert opened(WEB, 100.0).response == pytest.approx(alone, rel=1e-6)


@pytest.mark.parametrize("users", [1, 10, 40, 200])
def test_asymptotic_bounds_hold_and_are_reached(users: int) -> None:
    think = 0.2
    found = closed(WEB, users, think)
    assert found.throughput <= min(users / (think + demand_of(WEB)), bounds(WEB).capacity) * (1 + 1e-9)
    assert closed(WEB, 1, think).throughput == pytest.approx(1 / (think + demand_of(WEB)))
    assert closed(WEB, 2000, think).throughput == pytest.approx(bounds(WEB).capacity)
    assert knee(WEB, think) == pytest.approx((think + 0.017) / 0.003)
    assert bounds(WEB).limit == "disk"


def test_a_pool_of_one_serves_one_after_the_other() -> None:
    assert rates((Pool("pool", 1, WEB),), 5) == pytest.approx([1 / demand_of(WEB)] * 5)
    assert bounds((Pool("pool", 1, WEB),)).limit == "pool"


def test_a_large_pool_changes_nothing_and_one_inside_another_is_solved() -> None:
    around = (Pool("threads", 500, WEB),)
    assert closed(around, 50, 0.1).throughput == pytest.approx(closed(WEB, 50, 0.1).throughput)
    assert bounds(around).limit == "disk"
    nested = (Pool("threads", 40, (WEB[0], Pool("connections", 1, WEB[1:]))),)
    assert bounds(nested).limit == "connections"
    assert bounds(nested).capacity == pytest.approx(1 / 0.013)
    assert closed(nested, 300, 0.1).throughput == pytest.approx(1 / 0.013, rel=1e-3)


def test_many_users_and_long_delays_stay_exact() -> None:
    slow = (Station("cpu", 0.001, 4), Delay("far", 2.0))
    assert closed(slow, 3000, 1.0).throughput == pytest.approx(1000.0, rel=0.01)
    assert closed((Pool("threads", 1000, slow),), 3000).throughput == pytest.approx(500.0, rel=1e-3)


def test_a_share_of_a_cpu_serves_more_slowly() -> None:
    found = closed((Station("cpu", 0.01, 1.5),), 100)
    assert found.throughput == pytest.approx(150.0)
    assert closed((Station("cpu", 0.01, 1.5),), 1).response == pytest.approx(0.01 / 0.75)


def test_what_cannot_be_solved_is_refused() -> None:
    with pytest.raises(ValueError, match="1 or more"):
        rates(WEB, 0)
    with pytest.raises(ValueError, match="no node has any demand"):
        rates((Delay("none", 0.0),), 3)


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


def test_the_knee_of_agents_is_found_within_five_percent() -> None:
    """From three loads up to the knee and two beyond it, with noise; the cycles are known but for their scale."""
    rng, points = np.random.default_rng(1), []
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
