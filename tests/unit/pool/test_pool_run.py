"""A study over a pool. Its hosts are fakes: a job runs in this process, on a simulated host, when it is given out;
tests/stack/test_pool_slurm.py and test_pool_ssh.py have real ones.
"""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from leadline.host.knobs import every_knob
from leadline.host.release import release_knob
from leadline.lab.inuse import InUseError, in_use
from leadline.lab.progress import SilentWatcher
from leadline.lab.store import Store
from leadline.lab.studyfile import StudyFile, parse_study
from leadline.lab.testbed import RunOptions
from leadline.model.record import TrialState
from leadline.pool.base import JOB, HostState, JobState, JobStatus, PoolHost, PoolSilentError, Wish
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


KERNELS = ("6.1.0-30-amd64", "6.12.9-amd64")
BOOTED = parse_study(FILE.text.replace("60, 1]", f"60, 1], kernel.release: [{', '.join(KERNELS)}]"), "booted.yaml")


def simulated(lab: Path) -> SimulatedTestbed:
    """A host on which the kernels can be had."""
    return SimulatedTestbed(Truth(), lab, host=[*every_knob(), release_knob(KERNELS, "booted", "a test")])


@dataclass
class FakePool:
    """``loses``: blocks (from 1) of which every job is lost; ``silent``: looks that get no answer."""

    loses: Collection[int] = ()
    silent: int = 0
    name: str = "fake"
    outlives: bool = False
    pause: float = 0.0
    jobs: dict[str, int] = field(default_factory=dict)  # name -> block
    wishes: list[tuple[int, Wish]] = field(default_factory=list)

    def hosts(self) -> list[PoolHost]:
        return [PoolHost("n1", HostState.FREE)]

    def look(self, job: Mapping[str, Any]) -> list[PoolHost]:
        return self.hosts()

    def gather(self, hosts: int) -> None: ...

    def room(self, jobs: int) -> int:
        return BLOCKS - jobs

    def usable(self) -> bool:
        return True

    @property
    def kernels(self) -> Sequence[str]:
        return KERNELS

    def submit(self, directory: Path, title: str, wish: Wish) -> str:
        job = read_job((directory / JOB).read_text())
        self.wishes.append((job.block + 1, wish))
        if job.block + 1 not in self.loses:
            run_job(job, "n1", lambda lab, _file: simulated(lab), directory)
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


def over(lab: Path, pool: FakePool, file: StudyFile = FILE) -> PoolRun:
    return PoolRun(file, simulated(lab).plan(file), Store(lab), pool, SilentWatcher(), RunOptions())


def test_every_block_runs_once(lab: Path) -> None:
    pool = FakePool(silent=3)
    ended = over(lab, pool).execute()
    assert ended.complete, ended.stopped
    assert sorted(pool.jobs.values()) == [1, 2, 3, 4]
    record = Store(lab).load(ended.study_id)
    assert {(trial.state, trial.attempt) for trial in record.trials} == {(TrialState.DONE, 1)}


def test_each_boot_of_a_block_is_a_job_on_the_host_of_the_first(lab: Path) -> None:
    pool = FakePool()
    ended = over(lab, pool, BOOTED).execute()
    assert ended.complete, ended.stopped
    record = Store(lab).load(ended.study_id)
    assert {(trial.state, trial.attempt) for trial in record.trials} == {(TrialState.DONE, 1)}
    blocks = {block: [wish for of, wish in pool.wishes if of == block] for block in range(1, BLOCKS + 1)}
    names = {block: [name for name, of in pool.jobs.items() if of == block] for block in blocks}
    for block, wishes in blocks.items():
        assert sorted(wish.kernel for wish in wishes) == sorted(KERNELS)
        assert [wish.host for wish in wishes] == ["", "n1"]
        assert [wish.after for wish in wishes] == ["", names[block][0]]
        ran = [trial for trial in record.trials if trial.planned.block == block - 1]
        boots = itertools.groupby(trial.planned.treatment["kernel.release"] for trial in ran)
        assert [kernel for kernel, _ in boots] == [wish.kernel for wish in wishes]
    assert not (lab / "pool").exists()


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
