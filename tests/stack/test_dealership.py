"""The dealership's operations and audits on the real PostgreSQL: many threads, then every fault is noticed."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from leadline.host.local import LocalHost
from leadline.stack.base import Endpoint, ServiceContext
from leadline.stack.maven import build
from leadline.stack.postgres import Postgres

pytestmark = [pytest.mark.stack, pytest.mark.usefixtures("own_cache")]

WORKLOADS = Path(__file__).resolve().parents[2] / "workloads"
MODULES = ("common", "dealership-core", "dealership-tools")
TOOLS = WORKLOADS / "dealership-tools" / "target" / "dealership-tools.jar"
PORT = 15560


def tools(database: Endpoint, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    argv: list[str | Path] = ["java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Ddealership.faults=on"]
    argv += ["-jar", TOOLS, arguments[0]]
    argv += ["--url", database.jdbc_url, "--user", database.user, "--units", "1", "--seed", "1", *arguments[1:]]
    environment = os.environ | {"DEALERSHIP_DB_PASSWORD": database.password}
    return subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=120, check=False)


def test_threads_leave_what_audits_expect_and_each_planted_fault_fails_its_audits(tmp_path: Path) -> None:
    sources = [path for module in MODULES for path in (WORKLOADS / module / "src" / "main").rglob("*")]
    build("the dealership's tools", WORKLOADS, MODULES, sources, [TOOLS], lambda _: None)
    database = Postgres(PORT)
    context = ServiceContext(LocalHost(state=tmp_path / "state"), tmp_path / "run", tmp_path / "logs")
    database.configure(context, {"database.fsync": False})
    database.provision(lambda _: None)
    database.start()
    try:
        database.wait_ready(60)
        load_play_and_audit(database.endpoint(), tmp_path)
    finally:
        database.stop()


def load_play_and_audit(endpoint: Endpoint, directory: Path) -> None:
    counted: list[str | Path] = ["--counts", directory / "counts.json"]
    supplier = directory / "supplier.json"

    def done(*arguments: str | Path) -> Any:
        finished = tools(endpoint, *arguments)
        assert finished.returncode == 0, finished.stdout + finished.stderr
        return json.loads(finished.stdout) if finished.stdout.startswith("{") else finished.stdout

    assert done("load") == "100 dealers, 50 models, 250 parts loaded\n"
    counts = done("play", "--threads", "4", "--rounds", "40", "--models", "2", "--supplier", supplier, *counted)
    assert sum(count["ok"] for count in counts.values()) > 400
    audits = done("audit", "--emulator", supplier, *counted)["audits"]
    names = {audit["name"] for audit in audits}
    documented = (WORKLOADS.parent / "docs" / "reference" / "dealership-data.md").read_text()
    assert len(names) >= 25
    assert not [name for name in names if f"`{name}`" not in documented and not name.startswith("rows-are-counts-")]
    faults = done("audit", "--faults", "--emulator", supplier, *counted)["faults"]
    assert {name for fault in faults for name in fault["failed"]} == names
