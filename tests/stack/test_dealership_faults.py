"""dealership under load while its supplier, its database and its server are killed: the audits are clean afterwards.

One stack in every test run; the other server, mode and database with LEADLINE_MATRIX=1.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import server_cells
from witnesses import matrix

from leadline.load.driver import DriverRun, read_summary
from leadline.model.workload import Workload
from leadline.stack.assembly import Stack

pytestmark = [pytest.mark.stack, pytest.mark.usefixtures("own_cache")]

OTHER = matrix("another server, mode or database")
LOAD = Workload(scenario="dealership", ramp_up=0.5, steady=13.0, ramp_down=2.0, timeout=5.0)
BETWEEN = 1.5  # seconds of load between a recovery and the next kill


def kill(made: Stack, role: str, again: Callable[[], object]) -> None:
    os.kill(made.processes()[role].pid, signal.SIGKILL)
    while made.processes()[role].alive():
        time.sleep(0.01)
    again()
    time.sleep(BETWEEN)


@pytest.mark.parametrize(
    ("server", "mode", "database", "deliveries"),
    [
        ("tomcat", "direct", "mariadb", "direct"),
        *(
            pytest.param(server, "session", "postgres", "queue", marks=OTHER)
            for server in ("liberty", "wildfly", "tomee", "glassfish")
        ),
        pytest.param("liberty", "session", "mariadb", "direct", marks=OTHER),
        pytest.param("tomcat", "direct", "postgres", "direct", marks=OTHER),
    ],
)
def test_what_was_answered_survives_kills_under_load(
    server: str, mode: str, database: str, deliveries: str, tmp_path: Path
) -> None:
    made = server_cells.stack(tmp_path, server, mode, database, app="dealership")
    made.options = replace(made.options, ready_timeout=90.0)
    trial = tmp_path / "trial"

    def database_again() -> None:
        assert not made.database.stop()
        made.database.start()  # on the port that the pool knows
        made.database.wait_ready(60)

    made.up({"app.deliveries": deliveries}, trial)
    try:
        run = DriverRun(LOAD, made.url(), 1, trial / "driver", server_cells.FAST)
        driver = subprocess.Popen(run.argv(), stdout=subprocess.DEVNULL)
        time.sleep(BETWEEN)
        kill(made, "supplier", lambda: made.restart_companion("supplier"))
        kill(made, "database", database_again)
        kill(made, "server", made.restart_server)
        assert driver.wait(90) == 0
        result = read_summary(run.out)
        total = result.total.items()
        counts = {name: {"ok": each.ok, "failed": each.failed, "skipped": each.skipped} for name, each in total}
        assert sum(count["failed"] for count in counts.values()) > 0, "the outages were felt"
        made.drain(trial / "times.csv")
        assert made.read_back("app.deliveries") == deliveries
        audits = made.audit(counts, trial / "audit.log")
        assert len(audits) >= 25
        assert [f"{each.name}: {each.detail}" for each in audits if not each.passed] == []
    finally:
        made.down()
