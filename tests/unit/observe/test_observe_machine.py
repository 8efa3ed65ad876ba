"""What the machine did beside a study, from the series of a trial."""

from __future__ import annotations

from pathlib import Path

import pytest

from leadline.observe.machine import MachineLines
from leadline.observe.table import TallTable


def write(directory: Path, *, idle: float = 0.1, roles: float = 1.0) -> None:
    """Five seconds of two CPUs: server, database and driver use 0.8 CPUs, a kernel thread 0.1, a program the rest."""
    directory.mkdir(exist_ok=True)
    processes, host = TallTable(), TallTable()
    for second in range(5):
        now = (100 + second) * 10**9
        for role, share in (("server", 0.5), ("database", 0.2), ("driver", 0.1)):
            processes.add(now, "cpu.seconds", role, share * roles * second)
            processes.add(now, "write_bytes", role, 1000.0)
        processes.add(now, "program.cpu", "python3 neighbour.py", 0.8)
        processes.add(now, "kernel.cpu", "kernel", 0.1)
        for cpu in ("host", "cpu0", "cpu1"):
            for kind, share in (("user", 0.75 - idle), ("system", 0.1), ("softirq", 0.1), ("steal", 0.05)):
                host.add(now, f"cpu.{kind}", cpu, share)
            host.add(now, "cpu.idle", cpu, idle)
        host.add(now, "psi.cpu.some", "host", 0.3)
        host.add(now, "disk.write_bytes", "sda", 5000.0)
        host.add(now, "disk.read_bytes", "sda", 1000.0)
        host.add(now, "net.rx_bytes", "lo", 9000.0)
        host.add(now, "net.rx_bytes", "eth0", 700.0)
    processes.write(directory / "processes.parquet")
    host.write(directory / "host.parquet")


def test_others_are_what_the_host_did_beside_the_study(tmp_path: Path) -> None:
    write(tmp_path, idle=0.0)
    use = MachineLines(tmp_path).use([(100, 104)])
    assert use is not None
    assert use.figures["others_cpu"] == pytest.approx(0.85 - 0.8 / 2 - 0.1 / 2)  # no steal, interrupts, kernel threads
    assert use.figures["steal"] == pytest.approx(0.05)
    assert use.taken == pytest.approx(0.4 + 0.05)
    assert use.figures["cpu_pressure"] == pytest.approx(0.3)
    assert use.figures["others_disk"] == pytest.approx(6000 - 3000)
    assert use.figures["others_network"] == pytest.approx(700)
    assert "frequency" not in use.figures
    assert use.programs == pytest.approx({"python3 neighbour.py": 0.4})


def test_instances_side_by_side_are_the_studys(tmp_path: Path) -> None:
    write(tmp_path / "a", idle=0.0)
    write(tmp_path / "b", idle=0.0, roles=0.25)
    use = MachineLines(tmp_path / "a", [tmp_path / "b"]).use([(100, 104)])
    assert use is not None
    assert use.figures["others_cpu"] == pytest.approx(0.4 - 0.2 / 2)


def test_a_short_window_has_the_programs_of_the_nearest_look(tmp_path: Path) -> None:
    write(tmp_path)
    use = MachineLines(tmp_path).use([(103.2, 103.9)])
    assert use is None or use.programs == pytest.approx({"python3 neighbour.py": 0.4})


def test_what_was_not_recorded_is_not_known(tmp_path: Path) -> None:
    assert MachineLines(tmp_path).use([(100, 104)]) is None
    write(tmp_path)
    (tmp_path / "host.parquet").write_bytes(b"PAR1 cut off")
    assert MachineLines(tmp_path).use([(100, 104)]) is None
    write(tmp_path)
    (tmp_path / "processes.parquet").unlink()
    use = MachineLines(tmp_path).use([(100, 104)])
    assert use is not None
    assert use.taken is None
    assert "others_disk" not in use.figures
