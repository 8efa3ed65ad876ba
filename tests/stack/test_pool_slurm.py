"""A study on a real Slurm of several virtual hosts: with a host, the controller and the centre lost in its middle."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import leadline
from slurm_hosts import Slurm, missing, slurm, until
from witnesses import MATRIX

import leadline as package
from leadline.api.results import StudyResult
from leadline.api.running import run
from leadline.api.studies import Study
from leadline.lab.claims import BlockState, LostClaimError
from leadline.lab.store import Store
from leadline.lab.takein import take_block
from leadline.model.record import StudyRecord
from leadline.pool.order import BUNDLE, ENDED, folder

pytestmark = [pytest.mark.stack, pytest.mark.skipif(bool(missing()), reason=missing())]

STUDY = """
study: pooled
question: Is it the same on many hosts?
stack: { server: liberty }
workload: { users: 2, ramp_up: 1s, steady: 10s, ramp_down: 0s }
factors: { jvm.heap: [256m, 512m] }
design: { replicates: 3, sentinels: null, seed: 5 }
responses: [throughput]
"""
TRUTH = "truth: { seed: 3 }\n"
# A host whose jobs hang for as long as a file says so: the rest of it is real.
HANGING = """
import os, pathlib, time
place = pathlib.Path(os.environ.get("HANGING", "/nowhere"))
name = os.environ.get("SLURMD_NODENAME", "")
if name and (place / f"hang-{name}").exists():
    part = place / f"part-{name}"
    part.write_text(str(os.getpid()))
    part.rename(place / f"hangs-{name}")
    while (place / f"hang-{name}").exists():
        time.sleep(0.05)
"""


@pytest.fixture
def study(tmp_path: Path) -> Path:
    (tmp_path / "pooled.yaml").write_text(STUDY)
    (tmp_path / "truth.yaml").write_text(TRUTH)
    return tmp_path


@pytest.fixture
def cluster(study: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Slurm]:
    hook = study / "hook"
    hook.mkdir()
    (hook / "sitecustomize.py").write_text(HANGING)
    paths = f"{hook}:{Path(package.__file__).parents[1]}"
    with tempfile.TemporaryDirectory(prefix="slurm-") as place:  # a socket's path must be short
        environment = {**os.environ, "PYTHONPATH": paths, "HANGING": str(study)}
        with slurm(Path(place), 3, environment) as found:
            for name in ("PATH", "SLURM_CONF", "PYTHONPATH", "HANGING"):
                monkeypatch.setenv(name, found.environment[name])
            yield found


def figures(record: StudyRecord) -> list[object]:
    return [(trial.planned, trial.state, trial.responses) for trial in record.trials]


def verdicts(result: StudyResult) -> list[object]:
    return [(effect.factor, effect.level, effect.verdict) for effect in result.analysis.responses[0].effects]


def test_nothing_is_lost_or_doubled(cluster: Slurm, study: Path) -> None:
    words = ["run", "pooled.yaml", "--simulate", "truth.yaml", "--pool", "slurm:lab"]
    (study / "hang-n2").touch()
    with (study / "first.out").open("w") as out:
        command = [sys.executable, "-m", "leadline", *words]
        centre = subprocess.Popen(command, cwd=study, stdout=out, stderr=out, start_new_session=True)
    try:
        until((study / "hangs-n2").exists, 300, f"no block on n2: {(study / 'first.out').read_text()}")
    finally:
        centre.kill()
        centre.wait()
    cluster.kill("slurmctld")
    cluster.start_controller()
    until(lambda: cluster.states().get("n1"), 60, f"no controller: {cluster.said()}")
    cluster.kill_supervisor(int((study / "hangs-n2").read_text()))
    cluster.kill("n2")
    cluster.run("scontrol", "update", "nodename=n2", "state=down", "reason=no answer")

    again = leadline(*words, cwd=study, timeout=600)
    assert again.returncode == 0, again.stderr
    assert "lost on n2: its job ended as NODE_FAIL; it runs again" in again.stdout
    lab = study / "lab" / "simulated"
    store = Store(lab)
    record = store.load(1)
    alone = run(Study.read(study / "pooled.yaml"), study / "alone", truth=study / "truth.yaml").result
    assert isinstance(alone, StudyResult)
    assert figures(record) == figures(alone.record)
    assert verdicts(StudyResult(record, store)) == verdicts(alone)
    assert [trial.attempt for trial in record.trials] == [1] * 6
    lost = [folder(lab, path.parent.name) for path in lab.glob(".pool/*/order.json")]
    assert len(lost) == 1, "the block of the lost host alone is left"

    # the host comes back from the dead, and what it has is not taken
    (study / "hang-n2").unlink()
    until((lost[0] / ENDED).exists, 300, "the block of the lost host did not end")
    claim = store.claims.find(lost[0].name)
    assert claim is not None
    assert claim[1] is BlockState.LOST
    with pytest.raises(LostClaimError, match=f"block {claim[0].block} of study 1 was taken from"):
        take_block(store, lost[0] / BUNDLE)
    assert store.load(1) == record

    listed = leadline("pool", "list", "slurm:lab", "--json", cwd=study)
    hosts = {row["host"]: row["drained"] for row in json.loads(listed.stdout)["hosts"]}
    assert hosts["n1"] == hosts["n3"] == ""
    assert hosts["n2"].startswith("no answer")


@pytest.mark.skipif(not MATRIX, reason="an interrupted run on Slurm is run with LEADLINE_MATRIX=1")
def test_an_interrupted_run_goes_on(cluster: Slurm, study: Path) -> None:
    words = ["run", "pooled.yaml", "--simulate", "truth.yaml", "--pool", "slurm", "--hosts", "1"]
    for name in cluster.names:
        (study / f"hang-{name}").touch()
    with (study / "first.out").open("w") as out:
        command = [sys.executable, "-m", "leadline", *words]
        centre = subprocess.Popen(command, cwd=study, stdout=out, stderr=out, start_new_session=True)
    until(lambda: list(study.glob("hangs-*")), 300, f"no block at work: {(study / 'first.out').read_text()}")
    dry = leadline(*words, "--dry-run", cwd=study)
    assert "pool slurm: 3 hosts get blocks: n1, n2, n3" in dry.stdout, dry.stdout + dry.stderr
    listed = leadline("pool", "list", "slurm", "--simulated", cwd=study)
    assert "pooled@1: 0 of 6 trials done; block 0 on" in listed.stdout, listed.stdout + listed.stderr
    centre.send_signal(signal.SIGINT)
    centre.wait(300)
    said = (study / "first.out").read_text()
    assert centre.returncode == 1, said
    assert "ended by SIGINT; run the same command again to go on" in said
    assert cluster.run("squeue", "--noheader", "--states=RUNNING,PENDING") == ""
    for path in study.glob("hang-*"):
        path.unlink()
    again = leadline(*words, "--json", cwd=study)
    assert again.returncode == 0, again.stderr
    assert [trial["state"] for trial in json.loads(again.stdout)["trials"]] == ["done"] * 6
