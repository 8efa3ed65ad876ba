"""A kernel as a factor over a pool: a real Slurm reboots its nodes for it, and the job reads back what runs.

In the first test nodes share this machine's kernel. One of their features is that kernel under another name
(slurm_nodes.py), so what ``uname`` says changes for real; another one is a lie, which the job finds. In the second one
the node is a machine that QEMU emulates, with two kernels of Debian, between which Slurm reboots it.
"""

import json
import platform
import sqlite3
import subprocess
from pathlib import Path

import pytest
from booted_host import ADDRESS, NETWORK, booted_host, cannot_share
from conftest import leadline
from naps import naps
from slurm_nodes import Machine, missing, slurm
from witnesses import matrix

from leadline.model.errors import LeadlineError
from leadline.places.guest.kernels import provision

pytestmark = [pytest.mark.stack, pytest.mark.skipif(bool(missing()), reason=missing())]

USUAL = f"setarch {platform.machine()}"
NAMED = f"{USUAL} --uname-2.6"


def rows(lab: Path, query: str) -> list[tuple[object, ...]]:
    with sqlite3.connect(f"file:{lab / 'lab.sqlite'}?mode=ro", uri=True) as found:
        return found.execute(query).fetchall()


@matrix("a node is rebooted four times, each takes Slurm half a minute")
def test_each_plot_of_a_block_runs_on_the_kernel_that_slurm_booted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = platform.release()
    other = subprocess.run([*NAMED.split(), "uname", "-r"], capture_output=True, text=True, check=True).stdout.strip()
    assert other != usual
    wrong = "1.0-never"
    with slurm(tmp_path / "slurm", 1, {"usual": USUAL, "other": NAMED, "wrong": USUAL}) as nodes:
        kernels = {usual: "usual", other: "other", wrong: "wrong"}
        (tmp_path / "pool.yaml").write_text(f"leadline: {nodes.leadline}\nkernels: {json.dumps(kernels)}\n")
        (tmp_path / "naps.yaml").write_text(naps(2, runs=1, factors=f"kernel.release: ['{usual}', '{other}']"))
        (tmp_path / "wrong.yaml").write_text(
            naps(2, runs=1).replace("study: naps", f"study: wrong\nsettings: {{ kernel.release: '{wrong}' }}")
        )
        for name, value in nodes.environment.items():
            monkeypatch.setenv(name, value)
        done = leadline("run", "naps.yaml", "--pool", "slurm:pool.yaml", "--json", cwd=tmp_path)
        assert done.returncode in (0, 4), done.stderr  # what differs is not what is asked
        document = json.loads(done.stdout)
        boots = nodes.boots()
        refused = leadline("run", "wrong.yaml", "--pool", "slurm:pool.yaml", cwd=tmp_path)
    assert [trial["state"] for trial in document["trials"]] == ["done"] * len(document["trials"])
    # each trial read back the kernel it was planned for, from the kernel that its node was booted with
    query = (
        "select t.position, r.found, r.matches from readings r join trials t on t.id = r.trial_id"
        " where r.knob = 'kernel.release' and t.study_id = 1"
    )
    read = rows(tmp_path / "lab", query)
    planned = [trial["planned"] for trial in document["trials"]]
    wanted = {one["position"]: one["levels"]["kernel.release"] for one in planned}
    assert {(position, value) for position, value, _ in read} == set(wanted.items())
    assert all(matches for *_, matches in read)
    assert {feature for _, feature in boots} >= {"other"}
    # both plots of a block ran on one host
    ended = rows(tmp_path / "lab", "select block, host from blocks where state = 'ended' and study_id = 1")
    assert len(ended) == 2
    # a feature that boots another kernel than it says is found by the job
    assert refused.returncode == 1
    assert f"runs kernel {usual}, the job asked its pool for {wrong}" in " ".join(refused.stdout.split())
    failures = rows(tmp_path / "lab", "select distinct failure from trials where failure is not null")
    assert failures == [("infrastructure",)]


BOOTED = """
study: booted
question: Which kernel sleeps longer?
command: { run: "sleep 0.2", runs: 1, warmup: 0 }
factors: { kernel.release: ["USUAL", "OTHER"] }
design: { replicates: 2, blocks: by-replicate, sentinels: null, seed: 5 }
responses: [wall]
dead_man: 60s
"""


@pytest.mark.timeout(3000)
@pytest.mark.skipif(bool(cannot_share()), reason=cannot_share())
@matrix("an emulated machine is rebooted by Slurm, five minutes")
def test_slurm_boots_the_kernels_of_a_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    try:
        kernels = [provision(name, print) for name in ("6.1-cloud", "6.12-cloud")]
    except LeadlineError as error:
        pytest.skip(f"no kernels can be had here: {error}")
    usual, other = (kernel.release for kernel in kernels)
    entries = {release: f"host-more>host-{release}" for release in (usual, other)}
    machine = Machine(
        ADDRESS,
        f"{NETWORK}.1",
        entries,
        lambda service: booted_host("n1", kernels, tmp_path / "booted", "1500m", service),
    )
    with slurm(tmp_path / "slurm", 1, {"usual": usual, "other": other}, machine=machine) as nodes:
        pool = {"leadline": str(nodes.leadline), "kernels": {usual: "usual", other: "other"}}
        (tmp_path / "pool.yaml").write_text(json.dumps(pool))
        (tmp_path / "booted.yaml").write_text(BOOTED.replace("USUAL", usual).replace("OTHER", other))
        for name, value in nodes.environment.items():
            monkeypatch.setenv(name, value)
        done = leadline("run", "booted.yaml", "--pool", "slurm:pool.yaml", "--json", cwd=tmp_path, timeout=2700)
        boots = nodes.boots()
    assert done.returncode in (0, 4), done.stderr  # what differs is not what is asked
    trials = json.loads(done.stdout)["trials"]
    assert [trial["state"] for trial in trials] == ["done"] * 4, done.stderr
    # each trial read back the kernel that it was planned for, from the machine that was booted with it
    planned = [trial["planned"]["levels"]["kernel.release"] for trial in trials]
    read = [[one["found"] for one in trial["readings"] if one["knob"] == "kernel.release"] for trial in trials]
    assert [set(found) for found in read] == [{kernel} for kernel in planned]
    assert {feature for _, feature in boots} >= {"other"}
    # and each release was one boot of the machine, or more
    booted = {(told["host.kernel.release"], told["host.boot_id"]) for told in map(facts, trials)}
    assert {release for release, _ in booted} == {usual, other}
    assert len({boot for _, boot in booted}) == len(booted)


def facts(trial: dict[str, object]) -> dict[str, str]:
    """Of the host that a trial ran on."""
    told: dict[str, str] = json.loads((Path(str(trial["directory"])) / "logs" / "host.json").read_text())
    return told
