"""The plant's agents by remote calls of a program outside the server: the driver counts them, the audits hold."""

from __future__ import annotations

import subprocess
from pathlib import Path

import listeners
import pytest
import server_cells
from witnesses import matrix

from leadline.load.driver import DriverRun, read_summary
from leadline.stack.applications.health import ask

pytestmark = [pytest.mark.stack, pytest.mark.usefixtures("own_cache")]

OFTEN = ("schedule", "advance-1", "advance-2", "advance-3", "advance-4")
PLANT = (*OFTEN, "claim_large", "complete", "cancel_work", "request_parts", "status")


@matrix("a minute each; PlantApiTest and the unit tests of the caller run")
@pytest.mark.parametrize(
    ("server", "mode"),
    [(server, mode) for server in ("wildfly", "tomee", "glassfish", "liberty") for mode in ("direct", "session")],
)
def test_agents_call_the_server_remotely(server: str, mode: str, tmp_path: Path) -> None:
    made = server_cells.stack(tmp_path, server, mode, app="dealership")
    trial = tmp_path / "trial"
    made.up({"app.agents": "remote"}, trial)
    try:
        assert made.read_back("app.agents") == "remote"
        listeners.check(made)
        run = DriverRun(
            server_cells.DEALERSHIP,
            made.url(),
            1,
            trial / "driver",
            server_cells.FAST,
            population_urls=made.population_urls(),
        )
        subprocess.run(run.argv(), stdout=subprocess.DEVNULL, check=True, timeout=60)
        result = read_summary(run.out)
        counts = {
            name: {"ok": each.ok, "failed": each.failed, "skipped": each.skipped} for name, each in result.total.items()
        }
        assert all(sum(counts[name].values()) > 0 for name in OFTEN), counts
        assert counts["schedule"]["ok"] > 0, counts
        assert sum(count["failed"] for count in counts.values()) == 0, counts
        # Each of the plant's transactions is one request; those of 204, 404 and 409 count as skipped.
        sent = sum(sum(counts[name].values()) for name in PLANT if name in counts)
        called = ask("caller", made.population_urls()["plant"], "/health")["calls"]
        assert called == sent
        made.drain(trial / "times.csv")
        audits = made.audit(counts, trial / "audit.log")
        assert len(audits) >= 25
        assert [f"{each.name}: {each.detail}" for each in audits if not each.passed] == []
        assert {"supplier", "caller"} < set(made.processes())
    finally:
        unclean = made.down()
    assert unclean == []
