"""A study over a pool. Its hosts are fakes: a job runs in this process, on a simulated host, when it is given out;
tests/stack/test_pool_slurm.py and test_pool_ssh.py have real ones.
"""

from __future__ import annotations

import shutil
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from leadline.lab.inuse import InUseError, in_use
from leadline.lab.progress import SilentWatcher
from leadline.lab.store import Store
from leadline.lab.studyfile import parse_study
from leadline.lab.testbed import RunOptions
from leadline.model.record import TrialState
from leadline.pool.base import JOB, HostState, JobState, JobStatus, PoolHost, PoolSilentError
from leadline.pool.job import read_job, run_job
from leadline.pool.run import PoolRun
from leadline.simulate import SimulatedTestbed
from leadline.simulate.truth import Truth

BLOCKS = 4
FILE = parse_study(
    f"""
study: away
question: Does it run elsewhere?
workload: {{ users: 4, ramp_up: 1s, steady: 5s, ramp_down: 0s }}
factors: {{ vm.swappiness: [60, 1] }}
design: {{ replicates: {BLOCKS}, blocks: by-replicate, sentinels: null }}
""",
    "away.yaml",
)


@dataclass
class FakePool:
    """``loses``: blocks (from 1) of which every job is lost; ``silent``: looks that get no answer."""

    loses: Collection[int] = ()
    silent: int = 0
    name: str = "fake"
    outlives: bool = False
    pause: float = 0.0
    jobs: dict[str, int] = field(default_factory=dict)  # name -> block

    def hosts(self) -> list[PoolHost]:
        return [PoolHost("n1", HostState.FREE)]

    def room(self, jobs: int) -> int:
        return BLOCKS - jobs

    def usable(self) -> bool:
        return True

    def submit(self, directory: Path, title: str) -> str:
        job = read_job((directory / JOB).read_text())
        if job.block + 1 not in self.loses:
            run_job(job, "n1", lambda lab, _file: SimulatedTestbed(Truth(), lab), directory)
        self.jobs[name := f"{title}/{len(self.jobs)}"] = job.block + 1
        return name

    def states(self, names: Collection[str]) -> Mapping[str, JobStatus]:
        if self.silent:
            self.silent -= 1
            raise PoolSilentError("nobody answers")
        lost = JobStatus(JobState.LOST, "n1", "its host is gone")
        return {name: lost if self.jobs[name] in self.loses else JobStatus(JobState.ENDED, "n1") for name in names}

    def cancel(self, name: str) -> None:
        assert name in self.jobs

    def drain(self, host: str, why: str) -> None:
        raise AssertionError(f"{host} is drained: {why}")

    def close(self) -> None: ...


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LEADLINE_STATE", str(tmp_path / "state"))
    monkeypatch.setattr("leadline.pool.run._AGAIN", 0.0)
    return tmp_path / "lab"


def over(lab: Path, pool: FakePool) -> PoolRun:
    planned = SimulatedTestbed(Truth(), lab).plan(FILE)
    return PoolRun(FILE, planned, Store(lab), pool, SilentWatcher(), RunOptions())


def test_every_block_runs_once(lab: Path) -> None:
    pool = FakePool(silent=3)
    ended = over(lab, pool).execute()
    assert ended.complete, ended.stopped
    assert sorted(pool.jobs.values()) == [1, 2, 3, 4]
    record = Store(lab).load(ended.study_id)
    assert {(trial.state, trial.attempt) for trial in record.trials} == {(TrialState.DONE, 1)}


def test_a_block_that_is_always_lost_ends_the_run_and_costs_no_other(lab: Path) -> None:
    pool = FakePool(loses=[1])
    ended = over(lab, pool).execute()
    assert not ended.complete
    assert "block 1 was lost 3 times, last on n1: its host is gone" in ended.stopped
    record = Store(lab).load(ended.study_id)
    assert {trial.planned.block for trial in record.trials if trial.state is TrialState.DONE} == {1, 2, 3}
    again = over(lab, FakePool()).execute()
    assert (again.study_id, again.complete) == (ended.study_id, True)


def test_what_another_leadline_runs_is_left_alone(lab: Path) -> None:
    run = over(lab, FakePool())
    study = run.store.add_study(FILE.study, FILE.text, run.planned.plan, {}, [])
    claim = run.store.claims.take(study, 0)
    assert claim is not None
    (work := lab / "pool" / claim.token).mkdir(parents=True)
    with in_use(lab, f"study-{study}"), pytest.raises(InUseError, match=f"study {study} of the lab"):
        run.execute()
    assert [one.token for one in run.store.claims.running(study)] == [claim.token]
    assert work.is_dir()
    shutil.rmtree(work)
