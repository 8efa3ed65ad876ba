"""Figures of a fork, from what its script wrote."""

import json
from pathlib import Path

import pytest

from leadline.model.received import ReceivedError
from leadline.places.virtual import figures

STATUS = "/proc/{0}/task/{1}/status:"


def thread(
    pid: int,
    tid: int,
    name: str,
    user: int,
    cpu: int,
    faults: int = 0,
    waits: int = 0,
    kib: int = 0,
    start: int = 0,
) -> str:
    at = f"/proc/{pid}/task/{tid}"
    zeros = " ".join(["0"] * 30)
    return "\n".join(
        [
            f"{at}/comm:{name}",
            f"{at}/schedstat:{cpu} 5 6",
            f"{at}/stat:{tid} ({name}) S 1 2 3 4 5 6 {faults} 0 0 0 0 0 0 0 0 0 0 0 {start} {zeros}",
            f"{at}/status:Uid:\t{user}\t{user}\t{user}\t{user}",
            f"{at}/status:RssAnon:\t{kib} kB",
            f"{at}/status:RssShmem:\t{kib // 2} kB",
            f"{at}/status:voluntary_ctxt_switches:\t{waits}",
        ]
    )


def group(service: str, usage: int, user: int, system: int) -> str:
    counters = {"usage": usage, "user": user, "system": system}
    return "\n".join(f"/sys/fs/cgroup/{service}/cpu.stat:{name}_usec {value}" for name, value in counters.items())


def trial(directory: Path, before: str, after: str) -> Path:
    (directory / "raw").mkdir()
    (directory / "raw" / "figures-before").write_text(before)
    (directory / "raw" / "figures-after").write_text(after)
    return directory


@pytest.fixture
def cpu_of_the_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    class Summary:
        class driver:  # noqa: N801 - as the driver's result names it
            cpu_user_s, cpu_system_s = 0.25, 0.05

    monkeypatch.setattr(figures, "read_summary", lambda _directory: Summary)


@pytest.mark.usefixtures("cpu_of_the_driver")
def test_what_the_load_added_by_part_and_kernel_counter(tmp_path: Path) -> None:
    before = "\n".join(
        [
            "/proc/stat:cpu  10 0 20 30 5 0 0 0 0 0",
            "/proc/stat:cpu0 10 0 20 30 5 0 0 0 0 0",
            "/proc/stat:ctxt 1000",
            group("server", 9_000, 7_000, 2_000),
            group("database", 500, 300, 200),
            "/proc/vmstat:pgfault 100",
            "/proc/vmstat:pgmajfault 1",
            "/proc/net/snmp:Tcp: InSegs OutSegs",
            "/proc/net/snmp:Tcp: 10 20",
            thread(50, 50, "java", 1002, 1_000, faults=7, waits=3),
            thread(50, 51, "C2 CompilerThre", 1002, 2_000),
            thread(50, 52, "C2 CompilerThre", 1002, 2_400_000),  # ends meanwhile
            thread(50, 60, "http (9) z", 1002, 900_000, faults=50),  # the same, and another takes its number
            thread(2, 2, "kthreadd", 0, 10),
        ]
    )
    after = "\n".join(
        [
            "/proc/stat:cpu  190 0 140 60 15 10 50 0 0 0",
            "/proc/stat:ctxt 9000",
            group("server", 9_800, 7_600, 2_200),
            group("database", 500, 300, 200),
            "/proc/vmstat:pgfault 130",
            "/proc/vmstat:pgmajfault 1",
            "/proc/net/snmp:Tcp: InSegs OutSegs",
            "/proc/net/snmp:Tcp: 15 29",
            thread(50, 50, "java", 1002, 5_000, faults=9, waits=8, kib=4096),
            thread(50, 51, "C2 CompilerThre", 1002, 2_500, kib=4096),
            thread(70, 70, "postgres", 1001, 0, kib=2048),
            thread(71, 71, "postgres", 1001, 0, kib=2048),
            thread(50, 60, "http (1) a", 1002, 700, faults=1, start=8),
            thread(2, 2, "kthreadd", 0, 40),
        ]
    )
    found = figures.added(trial(tmp_path, before, after))
    assert found.counts == {
        "driver.cpu_ns": 3e8,
        "kernel.cpu_ns": 30,
        "net.Tcp:InSegs": 5,
        "net.Tcp:OutSegs": 9,
        "server compiler.cpu_ns": 500,
        "server.cpu_ns": 4_700,
        "server.faults": 3,
        "server.waits": 5,
        "stat.ctxt": 8000,
        "vmstat.pgfault": 30,
    }
    assert json.loads((tmp_path / figures.FIGURES).read_text()) == found.counts
    assert found.groups["server"] == {"usage": 800, "user": 600, "system": 200}
    assert set(found.groups["database"].values()) == {0}
    assert found.busy == pytest.approx(1 - (30 + 10) / 400)
    assert found.memory == {"server": 6 << 20, "database": (2 * 2 + 1) << 20}


@pytest.mark.usefixtures("cpu_of_the_driver")
def test_a_counter_of_cpu_that_went_back_is_no_figure(tmp_path: Path) -> None:
    with pytest.raises(ReceivedError, match="CPU of its services went back"):
        figures.added(trial(tmp_path, group("server", 9, 7, 2), group("server", 10, 7, 1)))


def test_cpu_is_that_of_the_services_groups() -> None:
    groups = {
        "server": {"usage": 10_000, "user": 8_000, "system": 2_000},
        "database": {"usage": 5_000, "user": 3_250, "system": 1_750},
    }
    load = figures.Added({"server.cpu_ns": 8e6, "driver.cpu_ns": 9e6}, groups, 0.9, {"server": 17 << 19})
    assert figures.responses(load, 5, 2.0) == {
        "server_cpu_per_transaction": 2.0,
        "database_cpu_per_transaction": 1.0,
        "cpu_per_transaction": 3.0,
        "driver_cpu_per_transaction": 1.8,
        "user_cpu_per_transaction": 2.25,
        "system_cpu_per_transaction": 0.75,
        "host_cpu": 0.9,
        "memory": 8.5,
    }
    assert figures.responses(figures.Added({"server.cpu_ns": 1.0}), 0, 4.0) == {}


def test_context_switches_of_the_guest_and_its_services() -> None:
    counts = {"stat.ctxt": 600.0, "server.waits": 90.0, "server compiler.preemptions": 10.0, "driver.waits": 7.0}
    assert figures.responses(figures.Added(counts), 5, 2.0) == {
        "context_switches": 300.0,
        "context_switches_per_transaction": 120.0,
        "server_context_switches_per_transaction": 20.0,
    }
    assert figures.responses(figures.Added(counts), 0, 2.0) == {}
