"""A stack over several hosts as one gang: a real Slurm gives each block four nodes, whose roles the study names.

The nodes are hosts with roots, networks and processes of their own (far_hosts.py) and one kernel, this machine's.
"""

import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import leadline
from far_hosts import Far, far_hosts
from far_hosts import missing as no_hosts
from slurm_nodes import Slurm, missing, slurm
from test_far_host import KNOB, WEB, level, programs
from witnesses import matrix, until

import leadline as package
from leadline.host.paths import cache_dir

pytestmark = [
    pytest.mark.stack,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(bool(missing() or no_hosts()), reason=missing() or no_hosts()),
    matrix("stacks and drivers over up to four hosts, of which one is lost, some minutes"),
]
DRIVERS = f"""
study: drivers
question: Do drivers on nodes of their own bear the load?
stack: {{ server: tomcat, STACK }}
workload: {{ users: 4, variables: {{ think: 50ms }}, ramp_up: 2s, steady: 4s, ramp_down: 0s }}
factors: {{ server.datasource.max_connections: [40, 20] }}
settings: {{ {KNOB}: 0, jvm.heap: 128m }}
drivers: LIST
design: {{ replicates: 2, blocks: by-replicate, sentinels: null, seed: 3 }}
responses: [throughput, p50, cpu_per_transaction]
dead_man: 2s
"""
STUDY = WEB.replace("study: roles", "study: gang").replace("replicates: 2", "replicates: 2, blocks: by-replicate")


@pytest.fixture
def place(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Path, Slurm, dict[str, Far]]]:
    hidden = [Path(package.__file__).resolve().parents[1], cache_dir(), tmp_path_factory.getbasetemp()]
    (tmp_path / "gang.yaml").write_text(STUDY)
    with far_hosts(["n1", "n2", "n3", "n4", "n5"], tmp_path / "far", hidden) as hosts:
        monkeypatch.setenv("PATH", f"{tmp_path / 'far' / 'bin'}:{os.environ['PATH']}")
        with slurm(tmp_path / "slurm", 5, far=hosts) as nodes:
            (tmp_path / "pool.yaml").write_text(f"leadline: {nodes.leadline}\n")
            for name, value in nodes.environment.items():
                monkeypatch.setenv(name, value)
            yield tmp_path, nodes, hosts


def rows(lab: Path, query: str) -> list[tuple[object, ...]]:
    try:
        with sqlite3.connect(f"file:{lab / 'lab.sqlite'}?mode=ro", uri=True) as found:
            return found.execute(query).fetchall()
    except sqlite3.Error:
        return []


def test_a_gang_of_four_roles_of_which_one_host_is_lost(place: tuple[Path, Slurm, dict[str, Far]]) -> None:
    home, nodes, hosts = place
    before = {name: level(far) for name, far in hosts.items()}
    dry = leadline("run", "gang.yaml", "--pool", "slurm:pool.yaml", "--dry-run", cwd=home)
    assert dry.returncode == 0, dry.stderr
    assert "each block asks for 4 hosts at the same time: driver, web, application, database" in dry.stdout
    assert "over 1 gang of 4 hosts" in dry.stdout
    during: dict[str, set[str]] = {}

    def in_work() -> bool:
        during.update({name: programs(hosts[name].processes()) for name in ("n2", "n3")})
        return all(during.values())

    out = home / "out"
    command = [sys.executable, "-m", "leadline", "run", "gang.yaml", "--pool", "slurm:pool.yaml"]
    with out.open("w") as told:
        run = subprocess.Popen(command, cwd=home, stdout=told, stderr=subprocess.STDOUT, start_new_session=True)
    try:
        until(lambda: len(rows(home / "lab", "select 1 from blocks where state = 'ended'")) == 1, 600, out.read_text())
        # the second block is on the same four hosts: the application's dies in the middle
        until(in_work, 300, "no second block")
        nodes.kill("n3", steps=True)
        os.kill(hosts["n3"].init, signal.SIGKILL)
        code = run.wait(900)
    finally:
        run.kill()
        run.wait(10)
    said = out.read_text()
    assert code == 0, said
    # what was lost is said, and its host
    assert during == {"n2": {"nginx"}, "n3": {"tomcat"}}
    assert "n3 is down" in said or "n3 gets no more jobs" in said, said
    assert nodes.states()["n3"].rstrip("*") == "down"
    # the block was run again as a whole, on the hosts that were left
    ended = rows(home / "lab", "select block, host from blocks where state = 'ended' order by ended")
    assert [host for _, host in ended] == ["n1+n2+n3+n4", "n1+n2+n4+n5"], said
    assert {block for block, _ in ended} == {0, 1}
    assert len(rows(home / "lab", "select 1 from blocks where state != 'ended'")) == 1
    doubled = "select count(*) from attempts where failure is null group by trial_id"
    assert {number for (number,) in rows(home / "lab", doubled)} == {1}
    # each role ran on its own host
    shown = leadline("show", "gang", "--json", cwd=home)
    trials = json.loads(shown.stdout)["trials"]
    assert [trial["state"] for trial in trials] == ["done"] * 4
    for trial in trials:
        directory = Path(trial["directory"])
        facts = json.loads((directory / "logs" / "host.json").read_text())
        _, web, application, database = facts["host"].split("+")
        assert facts["host.reached.by"] == f"ssh:{application}"
        assert facts["host.reached.address"] == hosts[application].address
        assert facts["host.database.reached.by"] == f"ssh:{database}"
        assert facts["host.web.reached.by"] == f"ssh:{web}"
        assert (directory / "web-host" / "logs" / "nginx.log").exists()
        assert (directory / "database-host" / "logs" / "postgres.log").exists()
        assert trial["responses"]["database_cpu_per_transaction"] > 0
    # nothing is left on the hosts, and every setting is put back
    for name in ("n1", "n2", "n4", "n5"):
        assert hosts[name].processes() == []
        assert level(hosts[name]) == before[name], KNOB
    assert not (home / "lab" / "pool").exists()


@pytest.mark.parametrize(
    ("stack", "drivers", "asked", "gang"),
    [
        ("host: 'ssh:app'", "[local, ssh root@load]", "driver, driver load, application and database", "n1+n2+n3"),
        ("host: local", "[ssh root@one, ssh root@two]", "services, driver one, driver two", "n1+n2+n3"),
    ],
)
def test_drivers_in_step_on_nodes_of_their_own(
    place: tuple[Path, Slurm, dict[str, Far]], stack: str, drivers: str, asked: str, gang: str
) -> None:
    home, _, hosts = place
    (home / "drivers.yaml").write_text(DRIVERS.replace("STACK", stack).replace("LIST", drivers))
    options = ("--pool", "slurm:pool.yaml", "--hosts", "1")
    dry = leadline("run", "drivers.yaml", *options, "--dry-run", cwd=home)
    assert f"each block asks for 3 hosts at the same time: {asked}" in dry.stdout, dry.stdout + dry.stderr
    done = leadline("run", "drivers.yaml", *options, "--json", cwd=home, timeout=900)
    assert done.returncode in (0, 4), done.stderr  # what differs is not what is asked
    trials = json.loads(done.stdout)["trials"]
    assert [trial["state"] for trial in trials] == ["done"] * 4, done.stderr
    for trial in trials:
        directory = Path(trial["directory"])
        assert json.loads((directory / "logs" / "host.json").read_text())["host"] == gang
        told = json.loads((directory / "driver" / "summary.json").read_text())["drivers"]
        assert [one["via"] for one in told] == [
            word.strip(" []").replace("load", "n2").replace("one", "n2").replace("two", "n3")
            for word in drivers.split(",")
        ]
        assert all(one["clock_uncertainty_ms"] >= 0 for one in told)
        borne = [json.loads(own.read_text()) for own in directory.glob("driver/drivers/*/summary.json")]
        assert len(borne) == 2
        assert all(own["arrivals_actual"] > 0 for own in borne)
    for name in ("n1", "n2", "n3"):
        assert hosts[name].processes() == []
