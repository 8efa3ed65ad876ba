"""Blocks given out and taken in, on a pool whose jobs run in this process: lost, late, refused, interrupted."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import pytest

from leadline.api.pooling import plan_pooled, run_pooled, work
from leadline.api.running import Run, run
from leadline.api.studies import Study
from leadline.lab.progress import SilentWatcher
from leadline.lab.store import Store
from leadline.model.errors import FailureClass, LeadlineError, TrialFailure, UsageError
from leadline.pool.base import HostState, Job, JobState
from leadline.pool.drained import DrainedHosts
from leadline.pool.order import Ended, folder, read_order, write_ended

STUDY = {
    "study": "pooled",
    "question": "Is it the same on many hosts?",
    "stack": {"server": "liberty"},
    "workload": {"users": 2, "ramp_up": "1s", "steady": "6s", "ramp_down": "0s"},
    "factors": {"jvm.heap": ["256m", "512m"]},
    "design": {"replicates": 3, "sentinels": None, "seed": 5},
    "responses": ["throughput"],
}
Act = Callable[["FakePool", str, Path], Job]


def runs(pool: FakePool, token: str, directory: Path) -> Job:
    """The block runs to its end."""
    if not (directory / "ended.json").exists():
        work(directory, SilentWatcher())
    return Job(JobState.ENDED, "n1")


def vanishes(pool: FakePool, token: str, directory: Path) -> Job:
    return Job(JobState.GONE, "n2", "its job ended as NODE_FAIL")


def hangs(pool: FakePool, token: str, directory: Path) -> Job:
    return Job(JobState.RUNNING, "n3")


@dataclass
class FakePool:
    """``acts``: what becomes of each job, in the order in which they are started; the others run to their end."""

    acts: Sequence[Act] = ()
    name: str = "fake"
    silent: int = 0  # so often it does not answer
    started: list[str] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)
    asked: int = 0
    interrupt_at: int = -1
    on_end: Act | None = None

    def check(self) -> None: ...

    def hosts(self) -> Sequence[HostState]:
        return [HostState("n1", "idle"), HostState("n2", "idle")]

    def room(self, running: int, drained: Collection[str]) -> int:
        return 2 - len(drained) - running

    def choose(self, drained: Collection[str]) -> str:
        return ""

    def start(self, directory: Path, token: str, host: str, drained: Collection[str]) -> str:
        self.started.append(token)
        return str(len(self.started))

    def jobs(self, asked: Mapping[str, Path]) -> Mapping[str, Job]:
        self.asked += 1
        if self.asked == self.interrupt_at:
            raise TrialFailure(FailureClass.INTERRUPTED, "ended by SIGINT")
        if self.silent > 0:
            self.silent -= 1
            raise LeadlineError("slurm_load_jobs: Unable to contact slurm controller")
        return {token: self.act(token, directory) for token, directory in asked.items()}

    def act(self, token: str, directory: Path) -> Job:
        if token not in self.started:
            return vanishes(self, token, directory)
        number = self.started.index(token)
        return (self.acts[number] if number < len(self.acts) else runs)(self, token, directory)

    def end(self, token: str, directory: Path, kill: bool = False) -> None:
        self.ended.append(token)
        if self.on_end is not None and not kill:
            self.on_end(self, token, directory)


class Telling(SilentWatcher):
    def __init__(self) -> None:
        self.said: list[str] = []

    def message(self, text: str) -> None:
        self.said.append(text)


@pytest.fixture
def truth(tmp_path: Path) -> Path:
    (tmp_path / "truth.yaml").write_text("truth: { seed: 3 }\n")
    return tmp_path / "truth.yaml"


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """No time passes between two looks at the pool."""
    monkeypatch.setattr("leadline.pool.run._POLL", 0.0)


@dataclass
class Centre:
    lab: Path
    truth: Path
    watcher: Telling = field(default_factory=Telling)

    def run(self, pool: FakePool, keys: Mapping[str, object] = STUDY) -> Run:
        return run_pooled(Study.of(keys), pool, self.lab, truth=self.truth, watcher=self.watcher)

    @property
    def store(self) -> Store:
        return Store(self.lab / "simulated")

    @property
    def orders(self) -> list[Path]:
        return sorted(path.parent for path in (self.lab / "simulated" / ".pool").glob("*/order.json"))


@pytest.fixture
def centre(tmp_path: Path, truth: Path) -> Centre:
    return Centre(tmp_path / "lab", truth)


def figures(ended: Run) -> list[object]:
    trials = ended.result.record.trials  # type: ignore[union-attr]
    return [(trial.planned, trial.state, trial.responses) for trial in trials]


def verdicts(ended: Run) -> list[object]:
    effects = ended.result.analysis.responses[0].effects  # type: ignore[union-attr]
    return [(effect.factor, effect.level, effect.verdict) for effect in effects]


def test_the_same_as_on_one_host(centre: Centre, truth: Path, tmp_path: Path) -> None:
    alone = run(Study.of(STUDY), tmp_path / "alone", truth=truth)
    pool = FakePool(acts=[vanishes, runs], silent=2)
    pooled = centre.run(pool)
    assert pooled.complete
    assert figures(pooled) == figures(alone)
    assert verdicts(pooled) == verdicts(alone)
    assert len(pool.started) == 4
    assert centre.orders == []
    said = "\n".join(centre.watcher.said)
    assert "block 0 is lost on n2: its job ended as NODE_FAIL; it runs again" in said
    assert "pool fake does not answer, trying again: slurm_load_jobs" in said
    record = centre.store.load(1)
    assert [trial.attempt for trial in record.trials] == [1] * 6
    assert record.environment["pool"] == "fake"
    assert any(name.startswith("version.simulated") for name in record.environment)


def test_what_comes_back_after_it_was_given_to_another_is_not_taken(centre: Centre) -> None:
    late: list[Path] = []

    def comes_late(pool: FakePool, token: str, directory: Path) -> Job:
        kept = directory.with_name("kept")
        if not kept.exists():
            shutil.copytree(directory, kept)
            late.append(directory)
        return vanishes(pool, token, directory)

    assert centre.run(FakePool(acts=[comes_late])).complete
    before = centre.store.load(1)
    shutil.rmtree(late[0])
    (late[0].parent / "kept").rename(late[0])
    work(late[0], SilentWatcher())  # it wakes up
    again = centre.run(FakePool(), {**STUDY, "question": "Another one?"})
    assert again.complete
    assert "block 0 came back after it was given to another: not taken in" in centre.watcher.said
    assert centre.orders == []
    assert centre.store.load(1) == before


def test_a_centre_that_was_killed_finds_its_jobs_again(centre: Centre) -> None:
    class Killed(BaseException):
        pass

    def kills(pool: FakePool, token: str, directory: Path) -> Job:
        if len(pool.started) == 2:
            raise Killed
        return hangs(pool, token, directory)

    first = FakePool(acts=[kills, kills])
    with pytest.raises(Killed):
        centre.run(first)
    assert len(centre.store.claims.running(1)) == 2
    work(folder(centre.lab / "simulated", first.started[0]), SilentWatcher())  # its job went on
    again = FakePool(started=list(first.started), acts=[runs, vanishes])
    assert centre.run(again).complete
    assert "found again: 2 blocks of an earlier run at work" in centre.watcher.said
    assert len(again.started) == 4, "two found, one of them lost, one that was left"
    assert [trial.attempt for trial in centre.store.load(1).trials] == [1] * 6


def test_an_interruption_ends_the_jobs_and_keeps_what_they_have(centre: Centre) -> None:
    pool = FakePool(acts=[hangs, hangs], interrupt_at=2, on_end=lambda *known: runs(*known))
    ended = centre.run(pool)
    assert not ended.complete
    assert ended.stopped == "ended by SIGINT; run the same command again to go on"
    assert pool.ended == pool.started
    assert [trial.state for trial in centre.store.load(1).trials] == ["done"] * 4 + ["planned"] * 2
    assert centre.run(FakePool()).complete


def test_a_host_that_cannot_do_it_gets_no_more_blocks(centre: Centre) -> None:
    def unfit(pool: FakePool, token: str, directory: Path) -> Job:
        write_ended(directory, Ended("n2", unfit="it was not put back: vm.swappiness is 1, it was 60"))
        return Job(JobState.ENDED, "n2")

    assert centre.run(FakePool(acts=[unfit])).complete
    drained = DrainedHosts(centre.lab / "simulated", "fake")
    assert drained.all()["n2"].why == "it was not put back: vm.swappiness is 1, it was 60"
    drained.take_back("n2")
    assert drained.all() == {}
    with pytest.raises(UsageError, match="n2 is not drained in pool fake; drained are: none"):
        drained.take_back("n2")


def test_it_ends_where_nothing_goes_on(centre: Centre) -> None:
    ended = centre.run(FakePool(acts=[vanishes] * 20))
    assert ended.stopped.startswith("block 0 was lost 3 times")
    assert not ended.complete


def test_a_host_that_plans_otherwise_gets_no_more_blocks(centre: Centre) -> None:
    def plans_otherwise(pool: FakePool, token: str, directory: Path) -> Job:
        order = read_order(directory)
        (directory / "order.json").write_text(json.dumps({**asdict(order), "plan": "another"}))
        return runs(pool, token, directory)

    pool = FakePool(acts=[plans_otherwise])
    assert centre.run(pool).complete
    whys = [one.why for one in DrainedHosts(centre.lab / "simulated", "fake").all().values()]
    assert whys == ["it plans other trials than the pool's plan has"]


@pytest.mark.parametrize(
    ("design", "said"),
    [
        ({"kind": "racing"}, r"design.kind|a race decides after every round"),
        ({"replicates": 6, "looks": 2}, r"pooled.yaml:\d+: looks decide between blocks"),
        ({"switchback": {"slot": "5s"}}, r"pooled.yaml:\d+: the wash-out is estimated from all trials"),
    ],
)
def test_what_a_pool_cannot_do_is_refused(centre: Centre, design: Mapping[str, object], said: str) -> None:
    study = Study.of({**STUDY, "design": design})
    with pytest.raises(UsageError, match=said):
        plan_pooled(study, FakePool(), centre.lab, centre.truth, False)


def test_a_study_with_a_host_of_its_own_is_refused(centre: Centre) -> None:
    study = Study.of({**STUDY, "stack": {"server": "liberty", "host": "ssh:app"}})
    with pytest.raises(
        UsageError, match=r"pooled.yaml:\d+: the study names its host \(ssh:app\), and a pool has its own"
    ):
        plan_pooled(study, FakePool(), centre.lab, centre.truth, False)
