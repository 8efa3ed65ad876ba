"""The simulated host and its clock keep the host's contract."""

import math

import pytest

from leadline.host.base import Host
from leadline.model.errors import FailureClass, TrialFailure, UsageError
from leadline.model.knob import ApplyCost, Kind, Knob
from leadline.places.simulated.host import SimulatedHost, usual_level
from leadline.places.simulated.model import Station, closed, opened
from leadline.places.simulated.timing import VirtualClock

KNOBS = (
    Knob("vm.ratio", Kind.INTEGER, ApplyCost.LIVE, "", default=10),
    Knob("vm.other", Kind.INTEGER, ApplyCost.LIVE, "", minimum=3),
    Knob("vm.mode", Kind.CHOICE, ApplyCost.LIVE, "", choices=("always", "never")),
)


def test_levels_are_set_read_and_put_back() -> None:
    host: Host = SimulatedHost(KNOBS, VirtualClock(), levels={"vm.ratio": 20})
    host.set_knob("vm.ratio", 40)
    host.set_knob("vm.ratio", 50)
    host.set_knob("vm.mode", "never")
    assert host.read_back("vm.ratio") == 50
    assert host.restore() == ["vm.ratio is 20 again", "vm.mode is always again"]
    assert host.read_back("vm.ratio") == 20
    assert host.restore() == []


def test_a_silent_knob_is_found_out_when_it_is_set() -> None:
    host = SimulatedHost(KNOBS, VirtualClock(), silent=["vm.ratio"])
    host.set_knob("vm.ratio", 10)
    with pytest.raises(TrialFailure, match="was set to 40 and reads 10") as error:
        host.set_knob("vm.ratio", 40)
    assert error.value.failure_class is FailureClass.CONFIGURATION


def test_unknown_knobs_are_refused() -> None:
    host = SimulatedHost(KNOBS, VirtualClock())
    with pytest.raises(UsageError, match=r"did you mean vm\.ratio"):
        host.set_knob("vm.ration", 1)


def test_every_knob_has_a_level() -> None:
    assert [usual_level(knob) for knob in KNOBS] == [10, 3, "always"]
    assert usual_level(Knob("a", Kind.DURATION, ApplyCost.LIVE, "")) == 0.0
    assert usual_level(Knob("a", Kind.BOOLEAN, ApplyCost.LIVE, "")) is False
    assert usual_level(Knob("a", Kind.TEXT, ApplyCost.LIVE, "")) == ""


def test_time_only_goes_forward() -> None:
    clock = VirtualClock(100.0)
    clock.advance(2.5)
    clock.sleep_until(101 * 10**9)
    assert clock.now() == 102.5
    clock.sleep_until(110 * 10**9)
    assert clock.now_ns() == 110 * 10**9
    with pytest.raises(ValueError, match="go back"):
        clock.advance(-1)


PLENTY = 2000


def test_one_server_with_open_arrivals_is_mm1() -> None:
    point = opened(Station(1, 0.01, 0.0, PLENTY), 60.0, PLENTY)
    assert point.throughput == pytest.approx(60.0)
    assert point.latencies["mean"] == pytest.approx(1000 * 0.01 / (1 - 0.6))


@pytest.mark.parametrize(("servers", "rate"), [(2, 150.0), (4, 350.0)])
def test_many_servers_wait_as_erlang_c_says(servers: int, rate: float) -> None:
    demand = 0.01
    load = rate * demand
    tail = load**servers / math.factorial(servers) * servers / (servers - load)
    waits = tail / (sum(load**k / math.factorial(k) for k in range(servers)) + tail)
    mean = demand + waits * demand / (servers - load)
    assert opened(Station(servers, demand, 0.0, PLENTY), rate, PLENTY).latencies["mean"] == pytest.approx(1000 * mean)


def test_a_full_room_turns_arrivals_away_as_mm1k_does() -> None:
    point = opened(Station(1, 0.01, 0.0, 5), 80.0, 5)
    lost = 0.8**5 * 0.2 / (1 - 0.8**6)
    assert point.lost == pytest.approx(lost)
    assert point.throughput == pytest.approx(80 * (1 - lost))


def test_a_pool_of_pure_delay_is_that_many_servers() -> None:
    """With negligible CPU each place of the pool is a server of the delay's mean."""
    pooled = opened(Station(64, 1e-9, 0.01, 3), 200.0, PLENTY)
    servers = opened(Station(3, 0.01, 0.0, PLENTY), 200.0, PLENTY)
    assert pooled.latencies["mean"] == pytest.approx(servers.latencies["mean"], rel=1e-5)


def test_closed_users_at_one_server_follow_the_repairman() -> None:
    users, think, demand = 6, 0.05, 0.01
    weights = [math.perm(users, n) * (demand / think) ** n for n in range(users + 1)]
    throughput = (1 - weights[0] / sum(weights)) / demand
    assert closed(Station(1, demand, 0.0, PLENTY), users, think).throughput == pytest.approx(throughput)


def test_mean_value_analysis_of_one_cpu_and_a_delay() -> None:
    """Reiser and Lavenberg's recursion for a queueing station, a delay and thinking users."""
    users, think, demand, delay = 25, 0.1, 0.006, 0.004
    queue = throughput = 0.0
    for count in range(1, users + 1):
        stay = demand * (1 + queue)
        throughput = count / (stay + delay + think)
        queue = throughput * stay
    point = closed(Station(1, demand, delay, PLENTY), users, think)
    assert point.throughput == pytest.approx(throughput)
    assert point.latencies["mean"] == pytest.approx(1000 * (users / throughput - think))


@pytest.mark.parametrize("users", [1, 7, 40, 300])
def test_little_and_the_bounds_hold(users: int) -> None:
    point = closed(Station(2, 0.004, 0.002, 20), users, 0.1)
    assert point.throughput <= min(users / 0.106, 2 / 0.004) + 1e-9
    assert point.throughput * (point.latencies["mean"] / 1000 + 0.1) == pytest.approx(users)
    ordered = [point.latencies[name] for name in ("p50", "p90", "p95", "p99", "p999", "max")]
    assert ordered == sorted(ordered)


def test_without_thinking_all_users_are_inside() -> None:
    assert closed(Station(1, 0.01, 0.0, PLENTY), 10, 0.0).latencies["mean"] == pytest.approx(100)


def test_a_large_pool_with_a_long_delay_does_not_underflow() -> None:
    point = closed(Station(2, 0.001, 1.0, 1500), 1500, 0.1)
    assert point.throughput == pytest.approx(1500 / 1.1, rel=0.01)
