"""Lists of hosts, what Slurm says of jobs and hosts, and pools that are named wrongly."""

from __future__ import annotations

import json
import os
import signal
import stat
from pathlib import Path

import pytest
from typer.testing import CliRunner

from leadline.api.pooling import open_pool
from leadline.cli.main import app
from leadline.model.errors import LeadlineError, UsageError
from leadline.pool.base import JobState
from leadline.pool.order import Order, read_ended, write_order
from leadline.pool.slurm import SlurmPool
from leadline.pool.ssh import SshPool, read_hosts

NODES = {
    "nodes": [
        {"name": "n2", "state": "down", "state_flags": ["NOT_RESPONDING"], "reason": "no answer"},
        {"name": "n1", "state": "idle", "state_flags": [], "reason": ""},
        {"name": "n3", "state": "idle", "state_flags": ["DRAIN"], "reason": "Epilog error"},
        {"name": "other", "state": "idle", "state_flags": [], "reason": ""},
    ]
}


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Slurm's commands, which print what is in files and write down how they were called."""
    place = tmp_path / "bin"
    place.mkdir()
    for name in ("sbatch", "squeue", "sinfo", "scancel"):
        tool = place / name
        tool.write_text(
            f'#!/bin/sh\necho "{name} $*" >> {place}/calls\n[ "{name}" = sbatch ] && cat > {place}/script\n'
            f'case "$*" in *--json*) cat {place}/{name}.json;; *) cat {place}/{name}.text 2> /dev/null;; esac\nexit 0\n'
        )
        tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
    (place / "sinfo.json").write_text(json.dumps(NODES))
    (place / "sinfo.text").write_text("n1\nn2\nn3\n")
    (place / "sbatch.text").write_text("17\n")
    monkeypatch.setenv("PATH", f"{place}:{os.environ['PATH']}")
    return place


def test_hosts_of_a_partition_and_why_some_get_nothing(tools: Path) -> None:
    pool = SlurmPool("lab", most=5)
    found = {host.name: host.drained for host in pool.hosts()}
    assert found == {"n1": "", "n2": "no answer", "n3": "Epilog error"}
    assert pool.room(0, ()) == 1
    assert pool.room(1, ()) == 0
    assert pool.room(0, {"n1"}) == 0
    assert "sinfo --noheader --Node --format=%N --partition=lab" in (tools / "calls").read_text()


def test_a_job_is_one_block_on_a_host_of_its_own(tools: Path, tmp_path: Path) -> None:
    assert SlurmPool("lab").start(tmp_path / "a b", "t1", "", {"n3", "n2"}) == "17"
    call = (tools / "calls").read_text()
    for option in (
        "--parsable",
        "--nodes=1",
        "--exclusive",
        "--no-requeue",
        "--job-name=leadline-t1",
        "--exclude=n2,n3",
    ):
        assert option in call
    assert f"pool work '{tmp_path}/a b'" in (tools / "script").read_text()


@pytest.mark.parametrize(
    ("row", "state", "why"),
    [
        ({"job_state": "PENDING", "state_reason": "Resources"}, JobState.WAITING, "Resources"),
        ({"job_state": "CONFIGURING", "nodes": "n1"}, JobState.WAITING, ""),
        ({"job_state": "RUNNING", "nodes": "n1"}, JobState.RUNNING, ""),
        ({"job_state": "COMPLETED", "nodes": "n1"}, JobState.ENDED, ""),
        ({"job_state": "NODE_FAIL", "nodes": "n1"}, JobState.GONE, "its job ended as NODE_FAIL"),
        ({"job_state": "TIMEOUT"}, JobState.GONE, "its job ended as TIMEOUT"),
        (
            {"job_state": "PENDING", "state_reason": "launch failed requeued held"},
            JobState.GONE,
            "Slurm holds its job: launch failed requeued held",
        ),
        (None, JobState.GONE, "Slurm does not know its job any more"),
    ],
)
def test_states_of_jobs(tools: Path, row: dict[str, str] | None, state: JobState, why: str) -> None:
    rows = [{"name": "somebody's"}, *([{"name": "leadline-t1", **row}] if row else [])]
    (tools / "squeue.json").write_text(json.dumps({"jobs": rows}))
    found = SlurmPool().jobs({"t1": Path()})["t1"]
    assert (found.state, found.why) == (state, why)


def test_a_slurm_without_json_is_told(tools: Path) -> None:
    (tools / "squeue.json").write_text("")
    with pytest.raises(LeadlineError, match="squeue --json gives no JSON"):
        SlurmPool().jobs({"t1": Path()})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("hosts: []", r"hosts.yaml:1: no list of hosts: write `hosts: \[ssh:app1, ssh:app2\]`"),
        ("host: [ssh:a]", r"hosts.yaml:1: no list of hosts.*; did you mean hosts where it says host\?"),
        ("hosts:\n- ssh:a\n- app2\n", r"hosts.yaml:3: 'app2' is no host over SSH"),
        ("hosts:\n- ssh:a\n- ssh:b c\n", r"hosts.yaml:3: .*'b c' is no host"),
        ("hosts:\n- ssh:a\n- ssh:a\n", r"hosts.yaml:3: ssh:a is there twice"),
        ("hosts:\n- ssh:a\nuser: me\n", r"hosts.yaml:3: unknown key 'user'"),
    ],
)
def test_a_list_of_hosts_that_is_wrong(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "hosts.yaml").write_text(text)
    with pytest.raises(UsageError, match=said):
        read_hosts(tmp_path / "hosts.yaml")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--pool", "k8s"], "there is no such pool; write slurm, slurm:PARTITION or ssh:FILE"),
        (["--pool", "ssh"], "there is no such pool"),
        (["--pool", "slurm", "--hosts", "0"], "a pool runs on one host at least"),
        (["--pool", "slurm", "--host", "vm"], "a pool has its own hosts"),
        (["--hosts", "3"], "--hosts is of pools; write --pool slurm, too"),
        (["--pool", "slurm"], "sbatch, squeue, sinfo, scancel not found: install Slurm's commands here"),
    ],
)
def test_a_pool_that_is_named_wrongly(words: list[str], said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda *_words, **_more: None)
    done = CliRunner().invoke(app, ["run", "quickstart", *words])
    assert isinstance(done.exception, UsageError)
    assert said in str(done.exception)


def test_hosts_get_one_block_each_in_turn(tmp_path: Path) -> None:
    (tmp_path / "hosts.yaml").write_text("hosts: [ssh:a, ssh+sudo:me@b, ssh:c]\n")
    pool = open_pool(f"ssh:{tmp_path / 'hosts.yaml'}")
    assert [pool.choose({"ssh:c"}) for _ in range(4)] == ["ssh:a", "ssh+sudo:me@b", "ssh:a", "ssh+sudo:me@b"]
    assert pool.room(0, ()) == 1
    assert pool.room(1, ()) == 0
    assert pool.room(0, {"ssh:a", "ssh+sudo:me@b", "ssh:c"}) == 0
    with pytest.raises(LeadlineError, match="is drained"):
        pool.choose({"ssh:a", "ssh+sudo:me@b", "ssh:c"})


def test_a_block_s_process_is_known_by_its_lock(tmp_path: Path) -> None:
    """As a centre sees it that was started anew: by what is on the disk alone."""
    directory = write_order(tmp_path, Order("{}", "no study", "x.yaml", "", 0, "t1"))
    first = SshPool(tmp_path, ["ssh:a"])
    first.start(directory, "t1", "ssh:a", ())
    other = SshPool(tmp_path, ["ssh:a"])
    assert other.jobs({"t1": directory})["t1"].state is JobState.RUNNING
    other.end("t1", directory, kill=True)
    first._processes[0].wait(60)
    assert first._processes[0].returncode == -signal.SIGKILL
    assert other.jobs({"t1": directory})["t1"].state is JobState.GONE
    assert read_ended(directory) is None
    other.end("t1", directory)  # nothing to end
