"""A kernel as a factor over a pool: a real Slurm reboots its nodes for it, and the job reads back what runs.

The nodes share this machine's kernel. One of their features is that kernel under another name (slurm_nodes.py), so what
``uname`` says changes for real; another one is a lie, which the job finds.
"""

from __future__ import annotations

import json
import platform
import sqlite3
import subprocess
from pathlib import Path

import pytest
from conftest import leadline
from naps import naps
from slurm_nodes import missing, slurm
from witnesses import matrix

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
    with slurm(tmp_path / "slurm", 2, {"usual": USUAL, "other": NAMED, "wrong": USUAL}) as nodes:
        kernels = {usual: "usual", other: "other", wrong: "wrong"}
        (tmp_path / "pool.yaml").write_text(f"leadline: {nodes.leadline}\nkernels: {json.dumps(kernels)}\n")
        (tmp_path / "naps.yaml").write_text(naps(2, runs=1, factors=f"kernel.release: ['{usual}', '{other}']"))
        (tmp_path / "wrong.yaml").write_text(
            naps(2, runs=1).replace("study: naps", f"study: wrong\nsettings: {{ kernel.release: '{wrong}' }}")
        )
        for name, value in nodes.environment.items():
            monkeypatch.setenv(name, value)
        done = leadline("run", "naps.yaml", "--pool", "slurm:pool.yaml", "--json", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
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
