"""Costs planted in both applications on four servers: each is named as the right layer, frame, statement or wait."""

import json
from pathlib import Path
from typing import Any

import pytest
from conftest import leadline
from witnesses import matrix

from leadline.host.java import find_java, java_home, java_homes
from leadline.model.frames import LOCK_WAIT, MEASURED, SLEEP

pytestmark = [pytest.mark.stack, matrix("costs planted on four servers take eight minutes each")]

BROKERAGE = "users: 12, variables: { think: 100ms }"
DEALERSHIP = (
    "scenario: dealership, load_units: 2, variables: { injection_rate: 2, dealer_cycle: 1s, plant_cycle: 250ms }"
)
DATABASE = MEASURED[0]
SERVERS = {
    "tomcat": ("brokerage", BROKERAGE),
    "liberty": ("brokerage", BROKERAGE),
    "spring-boot": ("dealership", DEALERSHIP),
    "quarkus": ("dealership", DEALERSHIP),
}
LIVE = """\
study: planted-live
question: Where does what was planted show?
stack: { app: APP, server: SERVER, mode: direct, java: JAVA }
workload: { LOAD, ramp_up: 10s, steady: 32s, ramp_down: 1s }
factors:
  app.extra_cpu: [0, 1000]
  app.extra_wait: [0, 20000]
  app.extra_lock: [0, 3000]
  app.extra_allocation: [0, 10000]
  app.extra_reads: [0, 10]
  app.extra_scans: [0, 4]
settings: { jvm.heap: 256m }
profile: full
design:
  kind: plackett-burman
  replicates: 8
  seed: 5
  rotation: { instances: 8, slot: 4s, wash_out: 1s, otherwise: one-by-one }
responses: [steady_cpu_per_transaction, mean, p50, statement_time]
"""
RESTARTED = """\
study: planted-jvm
question: Where does what was planted show?
stack: { app: APP, server: SERVER, mode: direct, java: JAVA }
workload: { LOAD, ramp_up: 8s, steady: 16s, ramp_down: 1s }
factors:
  jvm.heap: [256m, 64m]
  jvm.flag.ReservedCodeCacheSize: [251658240, 6291456]
settings: { app.extra_allocation: 2000 }
design: { kind: full-factorial, replicates: 3, seed: 5 }
responses: [cpu_per_transaction, mean]
"""
CPU = {
    "app.extra_cpu": "ExtraCosts",
    "app.extra_allocation": "ExtraCosts",
    "app.extra_reads": "ExtraCosts.read",
}
WAITS = {"app.extra_wait": (SLEEP, "ExtraCosts.pause"), "app.extra_lock": (LOCK_WAIT, "ExtraCosts.pay")}


def _run(tmp_path: Path, study: str, server: str) -> dict[str, Any]:
    java = next((home for home in java_homes() if home.jdk and home.major >= 25), java_home(find_java()))
    app, load = SERVERS[server]
    text = study.replace("JAVA", str(java.path)).replace("APP", app).replace("SERVER", server).replace("LOAD", load)
    (tmp_path / "study.yaml").write_text(text)
    done = leadline("run", "study.yaml", "--json", cwd=tmp_path, timeout=1800)
    (tmp_path / "study.json").write_text(done.stdout)
    assert done.returncode == 0, done.stderr
    analysis: dict[str, Any] = json.loads(done.stdout)["analysis"]
    return analysis


def _named(levels: list[dict[str, Any]], factor: str, **of: str) -> list[tuple[str, ...]]:
    """Paths that differ with a factor's second level."""
    (level,) = (one for one in levels if one["factor"] == factor and of.items() <= one.items())
    print(level["answer"])
    return [tuple(path["path"]) for path in level["paths"] if path["named"]]


@pytest.mark.parametrize("server", SERVERS)
def test_a_cost_of_code_or_of_a_wait_is_named(tmp_path: Path, server: str) -> None:
    analysis = _run(tmp_path, LIVE, server)
    levels = analysis["profile"]["levels"]
    named = {factor: _named(levels, factor) for factor in (*CPU, "app.extra_scans")}
    waited = {factor: _named(analysis["waits"]["levels"], factor, response="mean") for factor in WAITS}
    for factor, frame in CPU.items():
        assert any(frame in name for path in named[factor] for name in path), factor
    assert any(path[0] == DATABASE and "COUNT(*)" in path[-1].upper() for path in named["app.extra_scans"])
    for factor, part in WAITS.items():
        assert part in waited[factor], factor


def test_of_a_code_cache_that_is_too_small_the_code_is_named_that_is_not_compiled(tmp_path: Path) -> None:
    """In trials that run alone, each with a profile in its middle half."""
    levels = _run(tmp_path, RESTARTED, "tomcat")["profile"]["levels"]
    assert {path[0] for path in _named(levels, "jvm.flag.ReservedCodeCacheSize")} & {"server", "application"}
