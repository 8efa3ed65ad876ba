"""A model fitted from synthetic studies of known capacity, with noise: what it finds and when it says it does not."""

from dataclasses import replace

import numpy as np
import pytest

from leadline.capacity.answer import Capacity, answer
from leadline.capacity.fit import DELAY, OTHER, Measured, Point, with_rest
from leadline.capacity.network import Delay, Node, Pool, Station, closed, knee, opened
from leadline.model.errors import UsageError

CPU = Station("cpu", 0.004, 2)
LOADS = (5, 10, 20, 40, 80, 120)
THINK = 0.1


def study(
    nodes: tuple[Node, ...],
    loads: tuple[float, ...] = LOADS,
    seed: int = 1,
    noise: float = 0.03,
    pools: tuple[int | None, ...] = (None,),
    grows: float = 0.0,
    rate: bool = False,
) -> Measured:
    """Three trials of each cell. ``grows``: of the CPU of a transaction with every doubling of the load."""
    rng, points = np.random.default_rng(seed), []
    for load in loads:
        for pool in pools:
            inside = nodes if pool is None else (Pool("server.threads.max", pool, nodes),)
            true = opened(inside, 5 * load) if rate else closed(inside, int(load), THINK)
            for _ in range(3):
                fast, slow, use = np.exp(noise * rng.standard_normal(3))
                cost = 0.004 * use ** (1 / 3) * (load / loads[0]) ** grows
                points.append(
                    Point(
                        load,
                        true.throughput * fast,
                        true.response * slow,
                        {"server": 0.7 * cost, "database": 0.3 * cost},
                        pool,
                    )
                )
    factor = "load.rate" if rate else "load.users"
    pool_name = "server.threads.max" if pools != (None,) else None
    return Measured(tuple(points), factor, {"cpu": 2.0}, {"cpu": ("server", "database")}, pool=pool_name)


def solved(data: Measured, loads: tuple[float, ...] = (30,), draws: int = 25) -> Capacity:
    return answer(data, loads, draws=draws)


@pytest.mark.parametrize("seed", range(4))
def test_the_knee_of_a_known_system_is_found_within_five_percent(seed: int) -> None:
    nodes = (CPU, Delay(DELAY, 0.01))
    found = solved(study(nodes, seed=seed), draws=0)
    assert found.knee == pytest.approx(knee(nodes, THINK), rel=0.05)
    assert found.capacity == pytest.approx(500, rel=0.05)
    assert found.limit == "cpu"
    assert found.throughput_error < 0.05
    assert found.holds, found.doubts


def test_intervals_hold_the_truth() -> None:
    """In 95 of 100: until they were widened in 67 to 83."""
    nodes = (CPU, Delay(DELAY, 0.01))
    hits = []
    for seed in range(8):
        found = solved(study(nodes, seed=seed), (60,))
        truths = (knee(nodes, THINK), 500.0, closed(nodes, 60, THINK).throughput)
        for interval, truth in zip(
            (found.knee_interval, found.capacity_interval, found.predictions[0].throughput), truths, strict=True
        ):
            assert interval is not None
            hits.append(interval.low <= truth <= interval.high)
    assert sum(hits) >= 21


def test_demands_delay_and_untested_loads_come_with_intervals() -> None:
    nodes = (CPU, Delay(DELAY, 0.01))
    found = solved(study(nodes, noise=0.02), (30, 60, 150))
    assert found.model.processes == pytest.approx({"server": 0.0028, "database": 0.0012}, rel=0.01)
    assert found.model.delay == pytest.approx(0.01, rel=0.1)
    assert found.knee_interval is not None
    assert found.knee_interval.low < found.knee < found.knee_interval.high
    assert found.resources[0].measured == pytest.approx(1.0, abs=0.05)
    for one in found.predictions:
        assert one.throughput is not None
        assert one.solution.throughput == pytest.approx(closed(nodes, int(one.load), THINK).throughput, rel=0.04)
        assert not one.measured
    assert {one.load for one in found.left_out} == set(LOADS)


def test_a_limit_that_is_no_cpu_is_named() -> None:
    nodes = (CPU, Station("lock", 0.004), Delay(DELAY, 0.01))
    found = solved(study(nodes), draws=0)
    assert found.limit == OTHER
    assert found.capacity == pytest.approx(250, rel=0.05)
    assert found.model.other == pytest.approx(0.004, rel=0.05)


def test_a_pool_that_is_a_factor_is_named_and_other_sizes_are_predicted() -> None:
    nodes = (CPU, Delay(DELAY, 0.05))
    data = study(nodes, pools=(8, 64))
    found = answer(data, (60,), (16,), draws=0)
    assert found.limit == "server.threads.max"
    assert found.pool == 8
    wanted = closed((Pool("server.threads.max", 16, nodes),), 60, THINK)
    assert found.predictions[0].solution.throughput == pytest.approx(wanted.throughput, rel=0.05)
    assert found.resources[-1].name == "server.threads.max = 8"
    with pytest.raises(UsageError, match="varies no pool"):
        answer(study(nodes), (60,), (16,))


def test_sessions_of_an_open_load_have_several_transactions() -> None:
    found = solved(study((CPU, Delay(DELAY, 0.01)), (10, 30, 50, 70, 90), rate=True), (80,))
    assert found.model.visits == pytest.approx(5, rel=0.03)
    assert found.knee == pytest.approx(100, rel=0.03)
    assert found.predictions[0].solution.response == pytest.approx(
        opened((CPU, Delay(DELAY, 0.01)), 400).response, rel=0.2
    )


def test_cpu_without_load_is_no_demand() -> None:
    data = study((CPU, Delay(DELAY, 0.01)), noise=0.005)
    idle = [
        Point(p.load, p.throughput, p.response, {**p.cpu, "server": p.cpu["server"] + 0.2 / p.throughput})
        for p in data.points
    ]
    found = solved(Measured(tuple(idle), data.factor, data.cpus, data.roles), draws=0)
    assert found.model.processes["server"] == pytest.approx(0.0028, rel=0.02)


def test_cpu_of_the_host_that_is_nobodys_is_the_rest() -> None:
    data = study((CPU, Delay(DELAY, 0.01)))
    busy = [replace(p, taken=0.1, more={"host_cpu": 0.1 + p.throughput * 0.005 / 2}) for p in data.points]
    found = with_rest(busy, 2.0)
    assert found[0].cpu["rest"] == pytest.approx(0.005 - sum(data.points[0].cpu.values()))
    assert with_rest(data.points, 2.0) == list(data.points)


def test_what_breaks_the_model_is_said() -> None:
    nodes = (CPU, Delay(DELAY, 0.01))
    grows = solved(study(nodes, grows=0.2), draws=0)
    assert any("grows by" in doubt for doubt in grows.doubts)
    data = study(nodes)
    worse = [
        Point(p.load, p.throughput * (0.5 if p.load > 100 else 1), p.response * (2 if p.load > 100 else 1), p.cpu)
        for p in data.points
    ]
    found = solved(Measured(tuple(worse), data.factor, data.cpus, data.roles), draws=0)
    assert any("degrades under overload" in doubt for doubt in found.doubts)
    noisy = [replace(point, taken=0.6) for point in data.points]
    found = solved(replace(data, points=tuple(noisy)), draws=0)
    assert any("other programs used 60%" in doubt for doubt in found.doubts)
    light = solved(study(nodes, (2, 5, 10)), draws=0)
    assert any("extrapolation" in note for note in light.notes)


def test_a_study_without_replicates_has_no_intervals() -> None:
    data = study((CPU, Delay(DELAY, 0.01)))
    found = solved(Measured(data.points[::3], data.factor, data.cpus, data.roles))
    assert found.knee_interval is None
    assert any("no intervals" in note for note in found.notes)
