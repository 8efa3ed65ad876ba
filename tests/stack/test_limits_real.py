"""CPUs and memory of a real server and its database as levels: set at a start, read back, gone after it."""

import subprocess
from pathlib import Path

import pytest
from server_cells import stack

from leadline.host.cgroup import group_parent
from leadline.host.files import LocalFiles
from leadline.host.java import java_pid

pytestmark = [pytest.mark.stack, pytest.mark.usefixtures("own_cache")]


@pytest.mark.skipif(group_parent()[0] is None, reason=f"host: no memory limit can be set: {group_parent()[1]}")
def test_limits_hold_for_the_start_that_asks_for_them(tmp_path: Path) -> None:
    made = stack(tmp_path, "tomcat", "direct")
    levels = {
        "jvm.heap": 256 << 20,
        "placement.server_cpus": "1",
        "placement.database_cpus": "0",
        "placement.server_memory": 700 << 20,
        "placement.database_memory": 200 << 20,
        "placement.server_cpu_quota": 1.5,
        "placement.server_cpu_weight": 50,
        "placement.server_open_files": 4000,
        "jvm.malloc_arenas": 2,
    }
    free = {knob.name: knob.default for knob in made.knobs() if knob.name in levels and knob.name != "jvm.heap"}
    for wanted, cpus in ((levels, "1"), ({**levels, **free}, None)):
        made.up(wanted, tmp_path / "trial")
        try:
            assert {name: made.read_back(name) for name in wanted} == wanted
            if cpus is not None:
                assert processors(java_pid(LocalFiles(), made.processes()["server"])) == 1
        finally:
            assert made.down() == []


def processors(pid: int) -> int:
    """As the JVM counts them."""
    told = subprocess.run(["jcmd", str(pid), "VM.info"], capture_output=True, text=True, check=True, timeout=30).stdout
    (line,) = [line for line in told.splitlines() if line.startswith("CPU: total ")]
    return int(line.partition("(initial active ")[2].partition(")")[0])
