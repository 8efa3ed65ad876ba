"""A study over the nodes of a real Slurm, while nodes die, are drained and come back, and leadline itself is killed."""

import json
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import leadline
from naps import naps
from slurm_nodes import Slurm, missing, slurm
from witnesses import matrix, until

pytestmark = [pytest.mark.stack, pytest.mark.skipif(bool(missing()), reason=missing())]

BLOCKS = 6


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Path, Slurm]]:
    with slurm(tmp_path / "slurm", 4) as nodes:
        (tmp_path / "pool.yaml").write_text(f"leadline: {nodes.leadline}\n")
        (tmp_path / "naps.yaml").write_text(naps(BLOCKS))
        for name, value in nodes.environment.items():
            monkeypatch.setenv(name, value)
        yield tmp_path, nodes


def rows(lab: Path, query: str) -> list[tuple[object, ...]]:
    try:
        with sqlite3.connect(f"file:{lab / 'lab.sqlite'}?mode=ro", uri=True) as found:
            return found.execute(query).fetchall()
    except sqlite3.Error:
        return []


def running(nodes: Slurm) -> set[str]:
    """Nodes on which a job runs."""
    lines = nodes.ask("squeue", "-h", "-t", "RUNNING", "-o", "%N").split()
    return {line.strip() for line in lines}


def test_nodes_that_die_are_drained_and_come_back_and_a_killed_leadline_lose_nothing(
    place: tuple[Path, Slurm],
) -> None:
    home, nodes = place
    lab, out = home / "lab", home / "out"
    command = [sys.executable, "-m", "leadline", "run", "naps.yaml", "--pool", "slurm:pool.yaml"]
    with out.open("w") as told:
        run = subprocess.Popen(command, cwd=home, stdout=told, stderr=subprocess.STDOUT, start_new_session=True)
    try:
        until(lambda: running(nodes) == set(nodes.nodes), 200, "the nodes have no jobs")
        nodes.broken("n2").touch()  # what its job changed cannot be put back
        nodes.kill("n1", steps=True)
        nodes.kill("n3", steps=False)  # its job goes on and ends, and nobody is told
        until(lambda: len(rows(lab, "select 1 from blocks where state = 'ended'")) >= 1, 200, out.read_text())
    finally:
        run.send_signal(signal.SIGKILL)
        run.wait(10)
    until(lambda: {nodes.states()[name].rstrip("*") for name in ("n1", "n3")} == {"down"}, 200, "nobody missed them")
    with out.open("a") as told:
        again = subprocess.Popen(command, cwd=home, stdout=told, stderr=subprocess.STDOUT, start_new_session=True)
    nodes.start("n3")
    try:
        code = again.wait(200)
    finally:
        again.kill()
    said = out.read_text()
    assert code == 0, said
    assert nodes.states()["n2"] == "drained"
    shown = leadline("show", "naps", "--json", cwd=home)
    document = json.loads(shown.stdout)
    assert [trial["state"] for trial in document["trials"]] == ["done"] * 2 * BLOCKS, said
    # as on one host: the long nap is worse, by what it is longer
    (effect,) = document["analysis"]["responses"][0]["effects"]
    assert effect["verdict"] == "worse"
    assert 20 < effect["percent"] < 60
    # every block has one run that counts, on one node; what was given up counts nothing
    ended = rows(lab, "select block, host, token from blocks where state = 'ended'")
    assert sorted(int(str(block)) for block, _, _ in ended) == list(range(BLOCKS))
    lost = rows(lab, "select token from blocks where state = 'lost'")
    assert lost, said
    counted = {token for (token,) in rows(lab, "select distinct token from attempts")}
    assert counted == {token for _, _, token in ended}
    doubled = "select count(*) from attempts where failure is null group by trial_id"
    assert {number for (number,) in rows(lab, doubled)} == {1}
    hosts = {str(host) for _, host, _ in ended}
    assert "n4" in hosts
    assert json.loads(str(rows(lab, "select environment from studies")[0][0]))["pool.hosts"].split(", ") == sorted(
        hosts
    )
    assert not (lab / "pool").exists()


@matrix("jobs that outlive leadline, and an interruption")
def test_jobs_outlive_leadline_and_end_when_it_is_interrupted(place: tuple[Path, Slurm]) -> None:
    home, nodes = place
    command = [sys.executable, "-m", "leadline", "run", "naps.yaml", "--pool", "slurm:pool.yaml", "--hosts", "2"]

    def start() -> subprocess.Popen[bytes]:
        with (home / "out").open("a") as told:
            return subprocess.Popen(command, cwd=home, stdout=told, stderr=subprocess.STDOUT, start_new_session=True)

    run = start()
    until(lambda: len(running(nodes)) == 2, 200, "no jobs")
    run.kill()
    run.wait(10)
    run = start()
    until(lambda: "of an earlier leadline goes on" in (home / "out").read_text(), 200, "they are not followed")
    until(lambda: len(rows(home / "lab", "select 1 from blocks where state = 'ended'")) >= 2, 200, "none came back")
    assert len(running(nodes)) <= 2  # so many at the same time as were asked for
    until(lambda: len(running(nodes)) == 2, 200, "no more jobs")
    run.send_signal(signal.SIGINT)
    assert run.wait(120) == 1, (home / "out").read_text()
    assert nodes.ask("squeue", "-h", "-t", "PENDING,RUNNING").strip() == ""
    assert {first for (first,) in rows(home / "lab", "select min(run) from blocks where state = 'ended'")} == {1}
    done = leadline("run", "naps.yaml", "--pool", "slurm:pool.yaml", "--json", cwd=home)
    assert done.returncode in (0, 4), done.stderr  # what differs is not what is asked
    assert [trial["state"] for trial in json.loads(done.stdout)["trials"]] == ["done"] * 2 * BLOCKS


SIDE_BY_SIDE = """
study: side-by-side
question: What does a larger heap cost?
stack: { server: tomcat, mode: direct }
workload: { users: 4, variables: { think: 100ms }, ramp_up: 1s, steady: 6s, ramp_down: 1s,
            warm_up: { load: 2s, pause: 1s, cycles: 1, until: cycles } }
factors: { jvm.heap: [128m, 160m] }
design: { replicates: 2, seed: 3, rotation: { slot: 2s, warm_up_slot: 1s } }
responses: [throughput, p50]
"""


@matrix("servers side by side on two nodes")
def test_a_rotation_is_one_job(place: tuple[Path, Slurm]) -> None:
    home, _ = place
    (home / "side.yaml").write_text(SIDE_BY_SIDE)
    done = leadline("run", "side.yaml", "--pool", "slurm:pool.yaml", "--hosts", "2", "--json", cwd=home, timeout=900)
    assert done.returncode in (0, 4), done.stderr  # what differs is not what is asked
    trials = json.loads(done.stdout)["trials"]
    assert [trial["state"] for trial in trials] == ["done"] * 4, done.stderr
    # both instances of a block had the load in turns, on one node
    ended = rows(home / "lab", "select block, host from blocks where state = 'ended'")
    assert sorted(int(str(block)) for block, _ in ended) == [0, 1]
    starts: dict[int, set[float]] = {}
    for trial in trials:
        summary = json.loads((Path(trial["directory"]) / "driver" / "summary.json").read_text())
        starts.setdefault(trial["planned"]["block"], set()).add(round(summary["started_unix_ns"] / 1e9, 1))
    assert [len(found) for found in starts.values()] == [1, 1]
