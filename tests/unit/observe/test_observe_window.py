"""Responses read off the series in a window of time."""

from pathlib import Path

import pytest

from leadline.observe.table import TallTable
from leadline.observe.window import (
    CpuLines,
    CpuUse,
    Recorded,
    compiling,
    context_switches,
    cpu_per_transaction,
    database_work,
    deoptimised,
    gc_share,
    modes_and_memory,
    pauses_of,
    services_among,
    services_cpu,
    waiting_to_compile,
    waits,
)


@pytest.fixture
def series_dir(tmp_path: Path) -> Path:
    processes = TallTable()
    for second, used in enumerate((0.0, 0.5, 1.0, 3.0)):  # half a CPU for two seconds, then two
        processes.add((100 + second) * 10**9, "cpu.seconds", "server", used)
        processes.add((100 + second) * 10**9, "cpu.seconds", "database", 0.1 * second)
    processes.write(tmp_path / "processes.parquet")
    host = TallTable()
    for second in range(4):
        host.add((100 + second) * 10**9, "cpu.idle", "host", 0.1 * second)
        host.add((100 + second) * 10**9, "cpu.iowait", "host", 0.05)
    host.write(tmp_path / "host.parquet")
    gc = TallTable()
    for end, ms in ((100.5, 100.0), (101.2, 400.0), (110.0, 50.0)):
        gc.add(int(end * 1e9), "gc.pause", "Pause Young (Allocation Failure)", ms)
    gc.write(tmp_path / "gc.parquet")
    return tmp_path


def test_cpu_between_two_samples_is_taken_as_even(series_dir: Path) -> None:
    use = CpuLines(series_dir).between("server", 101.5, 103)
    assert use is not None
    assert use.seconds == pytest.approx(0.25 + 2)
    assert use.share == pytest.approx(1.5)
    assert use.covered == 1
    short = CpuLines(series_dir).between("server", 102.25, 102.75)  # no sample inside: even between its neighbours
    assert short is not None
    assert short.share == pytest.approx(2.0)
    assert CpuLines(series_dir).between("server", 100, 102.25) == CpuUse(1.0, 0.5, 2 / 2.25)
    other = CpuLines(series_dir).between("database", 100, 103)
    assert other is not None
    assert other.seconds == pytest.approx(0.3)


def test_pauses_for_other_operations_than_collections_are_waited_for(tmp_path: Path) -> None:
    table = TallTable()
    for second, ms in ((101, 100.0), (102, 50.0)):
        table.add(second * 10**9, "gc.pause", "Young", ms)
    for second, ms in ((101, 104.0), (102, 52.0), (103, 300.0)):
        table.add(second * 10**9, "safepoint", "G1CollectForAllocation" if second < 103 else "ThreadDump", ms)
    table.write(tmp_path / "gc.parquet")
    wait = waits(Recorded(tmp_path), [(100, 104)], 50.0, 8.0)["pause_wait"]
    assert wait == pytest.approx((8 * 0.456 + 500 * (0.104**2 + 0.052**2 + 0.3**2)) / 4)
    assert pauses_of(tmp_path, stops=False).T.tolist() == [
        pytest.approx([100.9, 101.0]),
        pytest.approx([101.95, 102.0]),
    ]


def test_a_window_that_is_covered_in_part(series_dir: Path) -> None:
    use = CpuLines(series_dir).between("server", 102, 104)
    assert use is not None
    assert use.seconds == pytest.approx(2)
    assert use.share == pytest.approx(2)
    assert use.covered == pytest.approx(0.5)
    assert CpuLines(series_dir).between("server", 102, 104.5) is None
    assert CpuLines(series_dir).between("server", 200, 201) is None
    assert CpuLines(series_dir).between("driver", 100, 103) is None
    assert CpuLines(series_dir / "none").between("server", 100, 103) is None


def test_a_service_that_has_ended_uses_nothing_and_one_that_is_not_recorded_is_not_known(tmp_path: Path) -> None:
    table = TallTable()
    for second in range(11):
        moment = (100 + second) * 10**9
        table.add(moment, "cpu.seconds", "leadline", 0.01 * second)
        table.add(moment, "cpu.seconds", "database", 0.1 * second)
        if second <= 4:
            table.add(moment, "cpu.seconds", "server", 1.0 * second)
    table.write(tmp_path / "processes.parquet")
    lines = CpuLines(tmp_path)
    assert services_cpu(lines, 100, 102) == pytest.approx(1.1)
    assert services_cpu(lines, 103, 107) == pytest.approx(1 / 4 + 0.1)
    assert services_cpu(lines, 106, 108) == pytest.approx(0.1)
    assert services_cpu(lines, 110, 112) is None
    assert services_cpu(CpuLines(tmp_path / "none"), 100, 102) is None


def test_services_of_a_stack_file_are_in_the_sums_without_responses_of_their_own(tmp_path: Path) -> None:
    table = TallTable()
    for second in range(5):
        for role, used in (("leadline", 0.01), ("driver", 0.3), ("server", 0.2), ("broker", 0.1), ("cache", 0.5)):
            table.add((100 + second) * 10**9, "cpu.seconds", role, used * second)
    table.write(tmp_path / "processes.parquet")
    assert services_among({"leadline", "driver", "server", "supplier", "cache", "broker"}) == ["broker", "cache"]
    assert services_cpu(CpuLines(tmp_path), 100, 104) == pytest.approx(0.8)
    figures = cpu_per_transaction(Recorded(tmp_path), [(100, 104)], 100)
    assert figures["cpu_per_transaction"] == pytest.approx(8)
    assert not {"broker_cpu_per_transaction", "database_cpu_per_transaction"} & figures.keys()


def test_waits_follow_from_what_waits_on_average(series_dir: Path) -> None:
    pools = TallTable()
    for second in range(5):
        moment = (100 + second) * 10**9
        pools.add(moment, "pool.waiting", "a", 3.0)
        pools.add(moment, "pool.waiting", "b", 1.0)
        pools.add(moment, "threads.queue", "http", 0.5)
    pools.write(series_dir / "pools.parquet")
    found = waits(Recorded(series_dir), [(100, 102)], 200.0, 10.0)
    assert found["connection_wait"] == pytest.approx(20)
    assert found["thread_wait"] == pytest.approx(2.5)
    assert found["pause_wait"] == pytest.approx(10 * 0.25 + 500 * (0.1**2 + 0.4**2) / 2), "of pauses of 100 and 400 ms"
    for second, total in enumerate((1000.0, 2000.0, 4000.0, 5000.0, 100.0)):
        pools.add((100 + second) * 10**9, "pool.wait_ms_total", "a", total)
    pools.write(series_dir / "pools.parquet")
    assert waits(Recorded(series_dir), [(100, 102)], 200.0, 10.0)["connection_wait"] == pytest.approx(7.5)
    assert waits(Recorded(series_dir), [(102, 104)], 200.0, 10.0)["connection_wait"] == 20, "the counter was set back"
    assert waits(Recorded(series_dir), [(100, 102)], 0.0, 10.0) == {}


def test_share_of_pauses_counts_a_straddling_one_in_part(series_dir: Path) -> None:
    assert gc_share(Recorded(series_dir), [(100, 102)])["gc_share"] == pytest.approx(0.5 / 2)
    assert gc_share(Recorded(series_dir), [(101, 102)])["gc_share"] == pytest.approx(0.2)
    assert gc_share(Recorded(series_dir), [(100, 101)])["gc_share"] == pytest.approx(0.1 + 0.2)
    assert gc_share(Recorded(series_dir), [(105, 106)])["gc_share"] == 0
    assert not gc_share(Recorded(series_dir / "none"), [(105, 106)])


def test_work_of_the_compiler(tmp_path: Path) -> None:
    pools = TallTable()
    for second in range(11):
        pools.add(second * 10**9, "jit.time_ms", "HotSpot", 400.0 * min(second, 5))
        pools.add(second * 10**9, "jit.deoptimised", "server", 3.0 * max(second, 4))
    pools.write(tmp_path / "pools.parquet")
    recorded = Recorded(tmp_path)
    assert compiling(recorded, 1, 3) == pytest.approx(0.4)
    assert compiling(recorded, 4, 6) == pytest.approx(0.2)
    assert compiling(recorded, 6, 10) == 0
    assert compiling(recorded, 6, 20) is None
    assert deoptimised(recorded, 2, 6) == pytest.approx(1.5)
    assert deoptimised(recorded, 1, 3) == 0
    assert compiling(Recorded(tmp_path / "none"), 1, 3) is None


def test_methods_that_wait_for_the_compiler(tmp_path: Path) -> None:
    pools = TallTable()
    for second in range(11):
        pools.add(second * 10**9, "jit.queue", "server", 6.0 if second < 5 else 0.0)
    pools.write(tmp_path / "pools.parquet")
    assert waiting_to_compile(Recorded(tmp_path), 1, 4) == (1.0, 6.0)
    assert waiting_to_compile(Recorded(tmp_path), 3, 6) == (0.5, 3.0)
    assert waiting_to_compile(Recorded(tmp_path), 20, 30) is None
    assert waiting_to_compile(Recorded(tmp_path / "none"), 1, 3) is None


def test_a_window_that_ends_before_it_begins_is_refused(series_dir: Path) -> None:
    for call in (
        lambda: CpuLines(series_dir).between("server", 2, 1),
        lambda: gc_share(Recorded(series_dir), [(2, 2)]),
    ):
        with pytest.raises(ValueError, match="before it begins"):
            call()


def test_context_switches_of_host_and_roles_by_second_and_transaction(tmp_path: Path) -> None:
    host, processes = TallTable(), TallTable()
    for second, rate in enumerate((9e9, 1000.0, 3000.0, 9e9)):  # a rate is since the sample before
        host.add((100 + second) * 10**9, "context_switches", "host", rate)
        for role in ("server", "driver", "others"):
            processes.add((100 + second) * 10**9, "context_switches.voluntary", role, rate / 10)
            processes.add((100 + second) * 10**9, "context_switches.involuntary", role, rate / 40)
    host.write(tmp_path / "host.parquet")
    processes.write(tmp_path / "processes.parquet")
    assert context_switches(Recorded(tmp_path), [(100, 102)], 50.0) == pytest.approx(
        {
            "context_switches": 2000.0,
            "context_switches_per_transaction": 40.0,
            "server_context_switches_per_transaction": 5.0,
            "driver_context_switches_per_transaction": 5.0,
        }
    )
    assert context_switches(Recorded(tmp_path), [(100, 101), (101, 102)], 0.0) == {"context_switches": 2000.0}
    assert context_switches(Recorded(tmp_path), [(200, 202)], 50.0) == {}
    assert context_switches(Recorded(tmp_path / "none"), [(100, 102)], 50.0) == {}


def test_cpu_by_mode_idle_cpu_and_memory_in_windows(tmp_path: Path) -> None:
    host, processes = TallTable(), TallTable()
    for second in range(4):
        time_ns, late = (100 + second) * 10**9, 9.0 * (second == 3)  # the last sample is outside
        host.add(time_ns, "cpu.idle", "host", 0.25)
        host.add(time_ns, "cpu.iowait", "host", 0.05 + late)
        for role, share in (("server", 0.4), ("database", 0.1), ("driver", 0.7)):
            processes.add(time_ns, "cpu.user", role, share + late)
            processes.add(time_ns, "cpu.system", role, share / 5)
            processes.add(time_ns, "rss.anon", role, 3 * 2**20)
            processes.add(time_ns, "rss.shared", role, 2**20)
    host.write(tmp_path / "host.parquet")
    processes.write(tmp_path / "processes.parquet")
    known = {"host_cpu": 0.7, "memory": 8.0}
    each = {"user_cpu_per_transaction": 10.0, "system_cpu_per_transaction": 2.0}
    assert modes_and_memory(Recorded(tmp_path), [(100, 101), (101, 102)], 50.0) == pytest.approx(known | each)
    assert modes_and_memory(Recorded(tmp_path), [(100, 102)], 0.0) == pytest.approx(known)
    assert modes_and_memory(Recorded(tmp_path / "none"), [(100, 102)], 50.0) == {}


@pytest.mark.parametrize(
    ("counters", "found"),
    [
        ({"xact_commit": 100.0, "tup_returned": 300.0}, {"commits": 2.0, "rows": 6.0}),
        ({"Com_commit": 100.0}, {"commits": 2.0}),
    ],
)
def test_the_database_s_work_by_transaction(
    tmp_path: Path, counters: dict[str, float], found: dict[str, float]
) -> None:
    table = TallTable()
    for second in range(4):
        for name, rate in counters.items():
            late = 900.0 * (second == 3)  # the last sample is outside
            table.add((100 + second) * 10**9, f"{name}.per_s", "database", rate + late)
    table.write(tmp_path / "database.parquet")
    wanted = {f"database_{what}_per_transaction": value for what, value in found.items()}
    assert database_work(Recorded(tmp_path), [(100, 101), (101, 102)], 50.0) == pytest.approx(wanted)
    assert database_work(Recorded(tmp_path), [(200, 202)], 50.0) == {}
    assert database_work(Recorded(tmp_path), [(100, 102)], 0.0) == {}


def test_the_drivers_cpu_is_told_beside_that_of_the_services(tmp_path: Path) -> None:
    processes = TallTable()
    for second in range(3):
        for role, share in (("server", 0.5), ("database", 0.1), ("driver", 0.2)):
            processes.add((100 + second) * 10**9, "cpu.seconds", role, share * second)
    processes.write(tmp_path / "processes.parquet")
    found = cpu_per_transaction(Recorded(tmp_path), [(100, 102)], 100.0)
    assert found["driver_cpu_per_transaction"] == pytest.approx(2.0)
    assert found["cpu_per_transaction"] == pytest.approx(6.0)


def test_one_rule_gives_cpu_per_transaction(series_dir: Path) -> None:
    found = cpu_per_transaction(Recorded(series_dir), [(100, 102)], 100.0)
    assert found == pytest.approx(
        {
            "server_cpu_per_transaction": 5.0,
            "database_cpu_per_transaction": 1.0,
            "cpu_per_transaction": 6.0,
            "steady_cpu_per_transaction": 6.0,  # no compiler is told of
        }
    )
    assert cpu_per_transaction(Recorded(series_dir), [(100, 102)], 0.0) == {}
