"""The example of an application of one's own, end to end: built, started, its pool varied live, the planted effect
found, the data audited, everything put back.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from conftest import leadline

from leadline.stack.maven import maven

pytestmark = pytest.mark.stack

SHOP = Path(__file__).parents[2] / "examples" / "shop"
STUDY = f"""\
study: shop-pool
question: Is a pool of one connection enough for the shop?
stack: {SHOP}/shop.stack.yaml
workload: {{ users: 16, ramp_up: 4s, steady: 12s, ramp_down: 0s }}
factors:
  app.spring.datasource.hikari.maximum-pool-size: [10, 1]
settings: {{ app.packing: 50ms, app.server.tomcat.threads.max: 50, jvm.heap: 256m }}
design: {{ replicates: 1, sentinels: null, seed: 3, switchback: {{ slot: 3s, wash_out: 1s }} }}
responses: [throughput, p90]
"""


@pytest.fixture(scope="module")
def jar() -> Path:
    """Built where it is missing or older than its sources."""
    made = SHOP / "target" / "shop.jar"
    sources = [SHOP / "pom.xml", *(path for path in (SHOP / "src").rglob("*") if path.is_file())]
    if not made.exists() or made.stat().st_mtime < max(path.stat().st_mtime for path in sources):
        done = maven(["-q", "-f", str(SHOP / "pom.xml"), "package"], "to build the example shop", 600.0)
        assert done.returncode == 0, done.stdout + done.stderr
        made.touch()
    return made


def test_a_pool_of_one_is_found_in_the_shop(jar: Path, tmp_path: Path) -> None:
    assert jar.is_file()
    before = sorted(path for path in SHOP.rglob("*") if "target" not in path.parts)
    (tmp_path / "pool.yaml").write_text(STUDY)
    done = leadline("run", "pool.yaml", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (trial,) = json.loads(done.stdout)["trials"]
    assert trial["state"] == "done", trial
    assert {audit["name"]: audit["passed"] for audit in trial["audits"]}["purchases-are-counts"], trial["audits"]
    assert all(audit["passed"] for audit in trial["audits"]), trial["audits"]
    mean = {pool: _mean(trial, pool) for pool in (1, 10)}
    assert mean[10] > 1.3 * mean[1], mean  # an order holds its connection for 50 ms
    assert sorted(path for path in SHOP.rglob("*") if "target" not in path.parts) == before


def test_a_first_stack_file_is_written_from_the_jar(jar: Path, tmp_path: Path) -> None:
    done = leadline("stack", "init", str(jar), "--out", "first.stack.yaml", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "first.stack.yaml").read_text()
    assert f"- {jar}\n" in text
    assert "catalogue: spring-boot\n" in text
    assert "kind: postgres" in text


def test_the_stack_file_passes_its_check(jar: Path, tmp_path: Path) -> None:
    assert jar.is_file()
    done = leadline("stack", "check", str(SHOP / "shop.stack.yaml"), cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " failed " not in done.stdout


def _mean(trial: dict[str, Any], pool: int) -> float:
    found = [
        slot["responses"]["throughput"]
        for slot in trial["slots"]
        if slot["levels"]["app.spring.datasource.hikari.maximum-pool-size"] == pool and slot["responses"]
    ]
    return float(sum(found) / len(found))
