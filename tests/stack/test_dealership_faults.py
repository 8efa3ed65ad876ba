"""dealership under load while its supplier, its database, its server and its queue's store are killed: the audits are
clean afterwards.

One stack in every test run; the other server, mode and database, and the stores, with LEADLINE_MATRIX=1.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
import server_cells
from witnesses import matrix, until

from leadline.load.driver import DriverResult, DriverRun, read_summary
from leadline.model.knob import Level
from leadline.model.workload import Workload
from leadline.stack import postgres_client as client
from leadline.stack.applications.dealership.supplier import Supplier
from leadline.stack.assembly import Stack

pytestmark = [pytest.mark.stack, pytest.mark.usefixtures("own_cache")]

OTHER = matrix("another server, mode or database")
LOAD = Workload(scenario="dealership", ramp_up=0.5, steady=13.0, ramp_down=2.0, timeout=5.0)
KEPT = 5  # deliveries in the queue when its store is killed
BETWEEN = 1.5  # seconds of load between a recovery and the next kill


def kill(made: Stack, role: str, again: Callable[[], object]) -> None:
    os.kill(made.processes()[role].pid, signal.SIGKILL)
    while made.processes()[role].alive():
        time.sleep(0.01)
    again()
    time.sleep(BETWEEN)


def database_again(made: Stack) -> None:
    assert not made.database.stop()
    made.database.start()  # on the port that the pool knows
    made.database.wait_ready(60)


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

    made.up({"app.deliveries": deliveries}, trial)
    try:
        run = DriverRun(LOAD, made.url(), 1, trial / "driver", server_cells.FAST)
        driver = subprocess.Popen(run.argv(), stdout=subprocess.DEVNULL)
        time.sleep(BETWEEN)
        kill(made, "supplier", lambda: made.restart_companion("supplier"))
        kill(made, "database", lambda: database_again(made))
        kill(made, "server", made.restart_server)
        assert driver.wait(90) == 0
        clean(made, read_summary(run.out), trial)
        assert made.read_back("app.deliveries") == deliveries
    finally:
        made.down()


def clean(made: Stack, result: DriverResult, trial: Path) -> None:
    """All work that was accepted has had its effect, once."""
    total = result.total.items()
    counts = {name: {"ok": each.ok, "failed": each.failed, "skipped": each.skipped} for name, each in total}
    assert sum(count["failed"] for count in counts.values()) > 0, "the outages were felt"
    made.drain(trial / "times.csv")
    audits = made.audit(counts, trial / "audit.log")
    assert len(audits) >= 25
    assert [f"{each.name}: {each.detail}" for each in audits if not each.passed] == []


def taken_in(made: Stack) -> set[int]:
    """Purchase orders whose parts are there."""
    with client.connect(made.endpoint(), timeout=60) as connection:
        return {int(order) for (order,) in connection.run("SELECT purchase_order_id FROM delivery")}


def acknowledged(supplier: Supplier) -> set[int]:
    """Purchase orders whose delivery the server has accepted, by the supplier's journal."""
    lines = (supplier.context.directory / "journal").read_text().splitlines()
    return {int(line.removeprefix("D ")) for line in lines if line.startswith("D ")}


IN_DATABASE = "server.messaging.store"
ASSURED: dict[str, Level] = {"server.messaging.reliability": "assured-persistent"}


@matrix("a server with a queue, its store killed under load")
@pytest.mark.parametrize(
    ("server", "levels"),
    [
        ("liberty", {**ASSURED, "server.threads.min": 20}),
        ("wildfly", ASSURED),
        ("wildfly", {**ASSURED, IN_DATABASE: "database"}),
        ("tomee", {}),
        ("glassfish", {**ASSURED, "server.threads.max": 20}),
    ],
)
def test_deliveries_in_a_killed_store_of_messages_are_taken_in_from_it(
    server: str, levels: Mapping[str, Level], tmp_path: Path
) -> None:
    """The broker and its files are the server's: with it both are killed. WildFly's tables are the database's, and its
    broker ends with them. The supplier is killed as well, so that nobody else can deliver again.
    """
    made = server_cells.stack(tmp_path, server, "session", app="dealership")
    made.options = replace(made.options, ready_timeout=90.0)
    trial = tmp_path / "trial"
    queue = {"app.deliveries": "queue", "app.supplier_delay": 6.0, "server.messaging.consumers": 1}
    made.up({**queue, **levels}, trial)
    try:
        supplier = made.companions["supplier"]
        assert isinstance(supplier, Supplier)
        run = DriverRun(LOAD.model_copy(update={"steady": 70.0}), made.url(), 1, trial / "driver", server_cells.FAST)
        driver = subprocess.Popen(run.argv(), stdout=subprocess.DEVNULL)
        until(lambda: taken_in(made) and supplier.counts()["pending"] >= KEPT, 60, "deliveries come")
        with server_cells.locked(made, "delivery"):
            until(
                lambda: len(acknowledged(supplier) - taken_in(made)) >= KEPT, 30, f"{KEPT} deliveries are in the queue"
            )
            kill(made, "supplier", lambda: None)
            stored = acknowledged(supplier) - taken_in(made)
            if IN_DATABASE in levels:
                kill(made, "database", lambda: database_again(made))
            kill(made, "server", lambda: None)
        made.restart_server()
        until(lambda: stored <= taken_in(made), 60, f"the {len(stored)} deliveries in the store are taken in")
        print(f"{server}: {len(stored)} deliveries came from the store")
        made.restart_companion("supplier")
        assert driver.wait(120) == 0
        clean(made, read_summary(run.out), trial)
    finally:
        made.down()
