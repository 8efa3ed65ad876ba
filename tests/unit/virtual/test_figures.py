"""Figures of a fork, from what its script wrote."""

import json
from pathlib import Path

import pytest

from leadline.virtual import figures

STATUS = "/proc/{0}/task/{1}/status:"


def thread(pid: int, tid: int, name: str, user: int, cpu: int, faults: int = 0, waits: int = 0) -> str:
    at = f"/proc/{pid}/task/{tid}"
    zeros = " ".join(["0"] * 30)
    return "\n".join(
        [
            f"{at}/comm:{name}",
            f"{at}/schedstat:{cpu} 5 6",
            f"{at}/stat:{tid} ({name}) S 1 2 3 4 5 6 {faults} 0 0 0 {zeros}",
            f"{at}/status:Uid:\t{user}\t{user}\t{user}\t{user}",
            f"{at}/status:voluntary_ctxt_switches:\t{waits}",
        ]
    )


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
            "/proc/vmstat:pgfault 100",
            "/proc/vmstat:pgmajfault 1",
            "/proc/net/snmp:Tcp: InSegs OutSegs",
            "/proc/net/snmp:Tcp: 10 20",
            thread(50, 50, "java", 1002, 1_000, faults=7, waits=3),
            thread(50, 51, "C2 CompilerThre", 1002, 2_000),
            thread(2, 2, "kthreadd", 0, 10),
        ]
    )
    after = "\n".join(
        [
            "/proc/vmstat:pgfault 130",
            "/proc/vmstat:pgmajfault 1",
            "/proc/net/snmp:Tcp: InSegs OutSegs",
            "/proc/net/snmp:Tcp: 15 29",
            thread(50, 50, "java", 1002, 5_000, faults=9, waits=8),
            thread(50, 51, "C2 CompilerThre", 1002, 2_500),
            thread(50, 60, "http (1) a", 1002, 700, faults=1),
            thread(2, 2, "kthreadd", 0, 40),
        ]
    )
    found = figures.added(trial(tmp_path, before, after))
    assert found == {
        "driver.cpu_ns": 3e8,
        "kernel.cpu_ns": 30,
        "net.Tcp:InSegs": 5,
        "net.Tcp:OutSegs": 9,
        "server compiler.cpu_ns": 500,
        "server.cpu_ns": 4_700,
        "server.faults": 3,
        "server.waits": 5,
        "vmstat.pgfault": 30,
    }
    assert json.loads((tmp_path / figures.FIGURES).read_text()) == found


def test_cpu_per_transaction_counts_all_threads_of_the_services() -> None:
    found = figures.cpu_per_transaction(
        {"server.cpu_ns": 8e6, "server compiler.cpu_ns": 2e6, "database.cpu_ns": 5e6, "driver.cpu_ns": 9e6}, 5
    )
    assert found == {
        "server_cpu_per_transaction": 2.0,
        "database_cpu_per_transaction": 1.0,
        "cpu_per_transaction": 3.0,
        "driver_cpu_per_transaction": 1.8,
    }
    assert figures.cpu_per_transaction({"server.cpu_ns": 1.0}, 0) == {}


def test_context_switches_of_the_guest_and_its_services() -> None:
    counts = {"stat.ctxt": 600.0, "server.waits": 90.0, "server compiler.preemptions": 10.0, "driver.waits": 7.0}
    assert figures.context_switches(counts, 5, 2.0) == {
        "context_switches": 300.0,
        "context_switches_per_transaction": 120.0,
        "server_context_switches_per_transaction": 20.0,
    }
    assert figures.context_switches(counts, 0, 2.0) == {}
