"""A study over a pool. Its hosts are fakes: a job runs in this process, on a simulated host, when it is given out;
tests/stack/test_pool_slurm.py and test_pool_ssh.py have real ones.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import shutil
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from leadline.checks.files.study import StudyFile, parse_study
from leadline.host.knobs import every_knob
from leadline.model.hosts import release_knob
from leadline.model.record import TrialState
from leadline.places.pool.base import JOB, HostState, JobState, JobStatus, PoolHost, PoolSilentError, Wish
from leadline.places.pool.job import read_job, run_job
from leadline.places.pool.run import PoolRun
from leadline.places.simulated import SimulatedTestbed
from leadline.places.simulated.model import Truth
from leadline.places.testbed import RunOptions
from leadline.store.claims import InUseError, in_use
from leadline.store.lab import Store
from leadline.trial.progress import SilentWatcher

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
    monkeypatch.setattr("leadline.places.pool.run._AGAIN", 0.0)
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


@dataclass
class FakeHostilePool(FakePool):
    """Two hosts; what the first hands in is changed by ``spoils``."""

    spoils: Callable[[Path], object] = lambda _: None
    hosts_of: dict[str, str] = field(default_factory=dict)  # of jobs
    drained: dict[str, str] = field(default_factory=dict)

    def room(self, jobs: int) -> int:
        return 1 - jobs

    def submit(self, directory: Path, title: str, wish: Wish) -> str:
        name = super().submit(directory, title, wish)
        self.hosts_of[name] = "n2" if "n1" in self.drained else "n1"
        if self.hosts_of[name] == "n1":
            self.spoils(directory)
        return name

    def states(self, names: Collection[str]) -> Mapping[str, JobStatus]:
        return {name: JobStatus(JobState.ENDED, self.hosts_of[name]) for name in names}

    def drain(self, host: str, why: str) -> None:
        self.drained[host] = why


def ended_as(**changed: object) -> Callable[[Path], object]:
    def spoil(directory: Path) -> None:
        told = json.loads((directory / "end.json").read_text())
        (directory / "end.json").write_text(json.dumps({**told, **changed}))

    return spoil


def rows_with(key: str, value: object) -> Callable[[Path], object]:
    def spoil(directory: Path) -> None:
        path = directory / "bundle" / "rows.json"
        told = json.loads(path.read_text())
        told["trials"][0][key] = value
        path.write_text(json.dumps(told))
        manifest = directory / "bundle" / "manifest.json"
        held = json.loads(manifest.read_text())
        held["files"]["rows.json"] = hashlib.sha256(path.read_bytes()).hexdigest()
        manifest.write_text(json.dumps(held))

    return spoil


def pipe_in_place_of(name: str) -> Callable[[Path], object]:
    def spoil(directory: Path) -> None:
        (directory / name).unlink()
        os.mkfifo(directory / name)

    return spoil


@pytest.mark.parametrize(
    "spoils",
    [
        rows_with("attempt", 10**12),  # it hung the study, SIGINT ignored
        rows_with("attempt", "1"),
        rows_with("state", "running?"),
        rows_with("started", "now"),
        rows_with("phases", "[]"),
        ended_as(how="well"),
        ended_as(host="n2\x1b[2J"),
        ended_as(said=["x"]),
        ended_as(restored="x"),
        lambda directory: (directory / "end.json").write_text("[" * 100_000),
        lambda directory: (directory / "end.json").write_bytes(b"\xff\xfe"),
        lambda directory: (directory / "bundle" / "rows.json").unlink(),
        pipe_in_place_of("end.json"),
        pipe_in_place_of("bundle/rows.json"),
        pipe_in_place_of("bundle/manifest.json"),
    ],
)
def test_a_host_that_hands_in_what_is_none_gets_no_more_jobs(lab: Path, spoils: Callable[[Path], object]) -> None:
    pool, watcher = FakeHostilePool(spoils=spoils), FakeWatcher()
    ended = PoolRun(FILE, simulated(lab).plan(FILE), Store(lab), pool, watcher, RunOptions()).execute()
    assert ended.complete, ended.stopped
    assert sorted(pool.jobs.values()) == [1, 1, 2, 3, 4], "the first block ran once more"
    assert list(pool.drained) == ["n1"]
    assert any(line.startswith("n1 gets no more jobs: ") for line in watcher.told), watcher.told
    assert any(line.startswith("block 1 on n1 is lost, it will run again: ") for line in watcher.told)
    assert all(line.isprintable() for line in watcher.told)
    assert {trial.state for trial in Store(lab).load(ended.study_id).trials} == {TrialState.DONE}


def test_a_host_is_known_by_its_pool_not_by_what_it_says(lab: Path) -> None:
    """One that names another would have that one given no more jobs."""
    pool = FakeHostilePool(spoils=ended_as(host="n2", how="not restored", said="nothing could be put back"))
    ended = PoolRun(FILE, simulated(lab).plan(FILE), Store(lab), pool, FakeWatcher(), RunOptions()).execute()
    assert ended.complete, ended.stopped
    assert list(pool.drained) == ["n1"]


class FakeWatcher(SilentWatcher):
    def __init__(self) -> None:
        self.told: list[str] = []

    def message(self, text: str) -> None:
        self.told.append(text)
