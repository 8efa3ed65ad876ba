"""Where the difference of two forks comes from."""

import pytest

from leadline.analysis.forks import Counted, explained


def fork(treatment: str, world: int, each: int = 1000, **counters: float) -> Counted:
    """Of ``each`` transactions."""
    return Counted(treatment, world, each, {name.replace("_", ".", 1): value for name, value in counters.items()})


def test_a_change_is_paired_within_worlds_and_counted_by_transaction() -> None:
    forks = [
        fork("baseline", 0, server_cpu_ns=5e9, vmstat_pgfault=2000),
        fork("baseline", 1, server_cpu_ns=7e9, vmstat_pgfault=9000),
        fork("swappiness", 0, 2000, server_cpu_ns=10.2e9, vmstat_pgfault=4000),
        fork("swappiness", 1, server_cpu_ns=7.2e9, vmstat_pgfault=9000),
    ]
    (cpu,) = explained(forks, "baseline")["swappiness"]
    assert cpu.counter == "server.cpu_ns"
    assert cpu.baseline == pytest.approx(6000)
    assert cpu.change == pytest.approx(150)
    assert cpu.interval is not None
    assert cpu.interval.low == pytest.approx(150 - 12.7062 * 50, rel=1e-4)
    assert not cpu.plain


def test_the_largest_change_of_cpu_comes_first_and_plain_counters_before_others() -> None:
    changes = {"server_cpu_ns": 1e6, "kernel_cpu_ns": 9e6, "vmstat_pgfault": 300.0, "vmstat_pgscan": 0.0}
    forks = []
    for world in range(3):
        forks.append(fork("baseline", world, 1000, **dict.fromkeys(changes, 1e7)))
        added = {name: 1e7 + by + (world - 1) * 1e-3 for name, by in changes.items()}
        forks.append(fork("a", world, 1000, **{**added, "vmstat_pgscan": 1e7 + (world - 1) * 5e5}))
    found = explained(forks, "baseline")["a"]
    assert [one.counter for one in found] == ["kernel.cpu_ns", "server.cpu_ns", "vmstat.pgfault"]
    assert [one.plain for one in found] == [True, True, True]


def test_one_world_has_no_interval_and_a_counter_of_one_side_is_from_nothing() -> None:
    forks = [fork("baseline", 0, driver_cpu_ns=1e9), fork("a", 0, driver_cpu_ns=1e9, vmstat_oom_kill=5)]
    cpu, kills = explained(forks, "baseline")["a"]
    assert (cpu.change, cpu.interval, kills.baseline, kills.change) == (0.0, None, 0.0, 0.005)


def test_a_treatment_without_its_baseline_is_not_explained() -> None:
    assert explained([fork("baseline", 0, a_b=1), fork("a", 1, a_b=2)], "baseline") == {}


def test_system_calls_and_instructions_that_changed_most_are_bounded_and_plain_ones_come_first() -> None:
    names = [f"syscalls.call{at}" for at in range(20)] + [f"instructions.kernel.symbol{at}" for at in range(40)]
    forks = []
    for world in range(3):
        forks.append(Counted("baseline", world, 1000, dict.fromkeys(names, 1e6)))
        more = {name: 1e6 + 1e3 * (at + 1) for at, name in enumerate(names)}
        more["instructions.kernel.symbol39"] += (world - 1) * 1e6  # in some worlds more, in others less
        forks.append(Counted("a", world, 1000, {**more, "stat.ctxt": 5.0}))
    found = [one.counter for one in explained(forks, "baseline")["a"]]
    calls, instructions = found[1:9], found[9:]
    assert found[0] == "stat.ctxt"
    assert calls == [f"syscalls.call{at}" for at in range(19, 11, -1)]
    assert instructions == [f"instructions.kernel.symbol{at}" for at in range(38, 23, -1)]
