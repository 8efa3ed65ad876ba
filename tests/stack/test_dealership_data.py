"""The dealership on the real PostgreSQL: many threads, kill -9 among them, clean audits, and every fault is noticed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from leadline.host.base import Process
from leadline.host.local import LocalHost
from leadline.stack import postgres_client as client
from leadline.stack.base import Endpoint, ServiceContext
from leadline.stack.maven import build
from leadline.stack.postgres import Postgres

pytestmark = [pytest.mark.stack, pytest.mark.usefixtures("own_cache")]

WORKLOADS = Path(__file__).resolve().parents[2] / "workloads"
MODULES = ("common", "dealership-core", "dealership-tools")
TOOLS = WORKLOADS / "dealership-tools" / "target" / "dealership-tools.jar"
PORT = 15560
DEALERS = ("browse", "purchase", "purchase_large", "manage_sell", "manage_cancel")


def command(database: Endpoint, *arguments: str | Path) -> list[str | Path]:
    argv: list[str | Path] = ["java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Ddealership.faults=on"]
    argv += ["-jar", TOOLS, arguments[0]]
    return [*argv, "--url", database.jdbc_url, "--user", database.user, "--units", "1", "--seed", "1", *arguments[1:]]


def tools(database: Endpoint, *arguments: str | Path) -> Any:
    """What it printed, read when it is JSON."""
    environment = os.environ | {"DEALERSHIP_DB_PASSWORD": database.password}
    argv = command(database, *arguments)
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout) if done.stdout.startswith("{") else done.stdout


def kill_and_start(database: Postgres, process: Process) -> None:
    """Kill -9 once there are some orders, and start again on what is left."""
    deadline = time.monotonic() + 60
    with client.connect(database.endpoint(), timeout=60) as connection:
        while connection.run("SELECT COUNT(*) FROM sales_order")[0][0] < 20:
            assert time.monotonic() < deadline, "nothing is played"
            time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    assert not database.stop()
    database.start()
    database.wait_ready(60)


def test_a_kill_under_load_leaves_what_audits_expect_and_each_planted_fault_fails_its_audits(tmp_path: Path) -> None:
    sources = [path for module in MODULES for path in (WORKLOADS / module / "src" / "main").rglob("*")]
    build("the dealership's tools", WORKLOADS, MODULES, sources, [TOOLS], lambda _: None)
    database = Postgres(PORT)
    context = ServiceContext(LocalHost(state=tmp_path / "state"), tmp_path / "run", tmp_path / "logs")
    database.configure(context, {"database.fsync": False})  # a killed process leaves its writes to the kernel
    database.provision(lambda _: None)
    process = database.start()
    try:
        database.wait_ready(60)
        load_play_and_audit(database, process, tmp_path)
    finally:
        database.stop()


def load_play_and_audit(database: Postgres, process: Process, directory: Path) -> None:
    endpoint = database.endpoint()
    counted: list[str | Path] = ["--counts", directory / "counts.json"]
    supplier: list[str | Path] = ["--emulator", directory / "supplier.json"]
    assert tools(endpoint, "load") == "100 dealers, 50 models, 250 parts loaded\n"
    play: list[str | Path] = ["--threads", "4", "--rounds", "40", "--models", "2", "--supplier", supplier[1], *counted]
    with ThreadPoolExecutor(1) as pool:
        playing = pool.submit(tools, endpoint, "play", *play)
        kill_and_start(database, process)
        counts = playing.result(timeout=120)
    assert sum(count["ok"] for count in counts.values()) > 400
    # Nobody paced the players: cycles with which agents would have asked as often.
    asked = {name: sum(count.values()) for name, count in counts.items()}
    dealers = sum(asked[name] for name in DEALERS)
    load = {"injection_rate": 1, "seconds": 1000, "waiting": 0, "asked": asked}
    load |= {"dealer_cycle": 9300 / dealers, "plant_cycle": 3 * 0.8 / 6.09 * 1000 / asked["schedule"]}
    (directory / "load.json").write_text(json.dumps(load))
    counted += ["--load", directory / "load.json"]
    audits = tools(endpoint, "audit", *supplier, *counted)["audits"]
    names = {audit["name"] for audit in audits}
    documented = (WORKLOADS.parent / "docs" / "reference" / "dealership-data.md").read_text()
    assert len(names) >= 25
    assert not [name for name in names if f"`{name}`" not in documented and not name.startswith("rows-are-counts-")]
    faults = tools(endpoint, "audit", "--faults", *supplier, *counted)["faults"]
    assert {name for fault in faults for name in fault["failed"]} == names
