"""A study on a pool: blocks given out as orders, taken in as bundles, given out again where they are lost.

The centre keeps the plan and the claims. A block is a job with a token. Whatever befalls centre, host or job: a bundle
is taken in once, and only under the token that is the block's at that time. A centre that was killed finds its jobs
again by their tokens.
"""

from __future__ import annotations

import shutil
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import leadline
from leadline.design import plan_to_json
from leadline.lab.claims import LEASE, BlockState, Claim, LostClaimError
from leadline.lab.hostchoice import on_host
from leadline.lab.interruption import Interruption
from leadline.lab.inuse import PATIENCE, in_use
from leadline.lab.livelog import LiveLog
from leadline.lab.planning import Planned, first_overhead, load_seconds
from leadline.lab.progress import Watcher
from leadline.lab.run import RunResult, same_beginning
from leadline.lab.store import Store
from leadline.lab.studyfile import StudyFile
from leadline.lab.takein import take_block
from leadline.model.errors import FailureClass, LeadlineError, TrialFailure, UsageError
from leadline.model.record import StudyRecord
from leadline.pool.base import Job, JobState, Pool
from leadline.pool.drained import DrainedHosts
from leadline.pool.order import BUNDLE, ENDED, Order, folder, read_ended, write_order

RUNS = 3  # of a block that is lost
GIVE_UP = 3  # blocks in a row that end early end the run
LATE = 60.0  # seconds that a shared file system may need to show what a job wrote
WIND_DOWN = 120.0  # seconds that jobs have to end in order
_POLL = 1.0  # seconds

_REFUSED = {  # keys of a design that need all trials of a study together
    "racing": "a race decides after every round what the next blocks are",
    "looks": "looks decide between blocks whether the study goes on",
    "switchback": "the wash-out is estimated from all trials together",
}


def check_pooled(file: StudyFile) -> None:
    """Raises UsageError with file and line for what cannot run in a pool."""
    study = file.study
    told = {
        "racing": study.design.kind == "racing",
        "looks": study.design.looks != 1,
        "switchback": study.design.switchback is not None,
    }
    for key, wanted in told.items():
        if wanted:
            place = file.where(("design", "kind" if key == "racing" else key))
            raise UsageError(f"{place}: {_REFUSED[key]}, which a pool does not do: run it on one host")


@dataclass
class PoolRun:
    """``truth``: file of a simulated run. ``elapsed`` gives seconds that never go back."""

    file: StudyFile
    planned: Planned
    store: Store
    pool: Pool
    watcher: Watcher
    disposable: bool = False
    truth: str = ""
    elapsed: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    _claims: dict[str, Claim] = field(default_factory=dict, init=False)  # by token
    _lost: Counter[int] = field(default_factory=Counter, init=False)  # runs of each block
    _early: list[str] = field(default_factory=list, init=False)  # why the last blocks ended early
    _late: dict[str, float] = field(default_factory=dict, init=False)  # jobs that ended and left nothing yet
    _renewed: dict[str, float] = field(default_factory=dict, init=False)  # by token, as ``elapsed`` tells
    _blocks: dict[int, list[int]] | None = field(default=None, init=False)  # with a trial left; None: to be asked anew
    _hosts: dict[str, str] = field(default_factory=dict, init=False)  # where a block was last seen, by token

    def execute(self, fresh: bool = False) -> RunResult:
        """Run what is left of the study. Raises LeadlineError for a pool that does not answer, InUseError."""
        check_pooled(self.file)
        lab = self.store.directory
        self.watcher = told = LiveLog(self.watcher, lab)
        drained = DrainedHosts(lab, self.pool.name)
        with Interruption() as interruption:
            study_id = self._open(fresh)
            with in_use(lab, f"study-{study_id}", patience=PATIENCE), told.begin(study_id, interruption):
                self._claims = {
                    claim.token: claim
                    for claim in self.store.claims.running(study_id)
                    if claim.owner == self.store.claims.owner
                }
                self._sweep()
                stopped = ""
                try:
                    with interruption.listening():
                        stopped = self._work(study_id, drained, interruption)
                except TrialFailure as failure:
                    if failure.failure_class is not FailureClass.INTERRUPTED:
                        raise
                    stopped = f"{failure.message}; run the same command again to go on"
                if self._claims:
                    self._wind_down(study_id, drained)
                self.store.close_orphans(study_id)
                record = self.store.load(study_id)
        return RunResult(study_id, not any(trial.is_left for trial in record.trials), stopped, ())

    def _open(self, fresh: bool) -> int:
        study, plan = self.file.study, self.planned.plan
        existing = None if fresh else self.store.unfinished(study)
        if existing is not None:
            if same_beginning(self.store.load(existing).plan, plan):
                return existing
            self.watcher.message("the plan made today differs from the stored one (other factors can be set now)")
        for sentence in (*self.planned.skipped, *self.planned.warnings):
            self.watcher.message(sentence)
        environment = {"leadline": leadline.__version__, "pool": self.pool.name}
        return self.store.add_study(study, self.file.text, plan, environment, self.planned.skipped)

    def _sweep(self) -> None:
        """What came back after its block was given to another is told and removed."""
        for path in (self.store.directory / ".pool").glob(f"*/{ENDED}"):
            found = self.store.claims.find(path.parent.name)
            if found is not None and found[1] is not BlockState.RUNNING:
                self.watcher.message(f"block {found[0].block} came back after it was given to another: not taken in")
                shutil.rmtree(path.parent, ignore_errors=True)

    def _work(self, study_id: int, drained: DrainedHosts, interruption: Interruption) -> str:
        """Until nothing is left, or why it ended before."""
        record = self.store.load(study_id)
        seconds = load_seconds(self.file.study) + first_overhead(self.file.study)
        left = sum(trial.is_left for trial in record.trials)
        self.watcher.study(study_id, record.plan, len(record.trials) - left, left * seconds)
        if self._claims:
            self.watcher.message(f"found again: {_blocks(len(self._claims))} of an earlier run at work")
        begun, silent = self.elapsed(), 0
        while True:
            interruption.check()
            try:
                self._look(study_id, drained)
                self._give_out(study_id, drained, begun)
                silent = 0
            except (LostClaimError, TrialFailure):  # an interruption, or a lab that cannot be written
                raise
            except LeadlineError as error:  # a pool's controller may be away for a while; its jobs go on
                silent += 1
                if silent == 1:
                    self.watcher.message(f"pool {self.pool.name} does not answer, trying again: {error}")
                if silent * _POLL > WIND_DOWN:
                    raise
            if reason := self._over(study_id, drained, begun):
                return "" if reason == "done" else reason
            self.sleep(_POLL)

    def _over(self, study_id: int, drained: DrainedHosts, begun: float) -> str:
        if self._claims:
            return ""
        left = self._left(study_id)
        if not left:
            return "done"
        if self._out_of_time(begun):
            return f"the budget is used up with {_blocks(len(left))} left; run again to go on"
        if len(self._early) >= GIVE_UP:
            return f"{GIVE_UP} blocks in a row ended early: {self._early[-1]}"
        for block in left:
            if self._lost[block] >= RUNS:
                return f"block {block} was lost {RUNS} times; `leadline pool list` tells the state of the hosts"
        gone = drained.all()
        if all(host.drained or host.name in gone for host in self.pool.hosts()):
            whys = "; ".join(f"{one.host}: {one.why}" for one in gone.values())
            return f"every host of the pool is drained{f' ({whys})' if whys else ''}; `leadline pool list` tells why"
        return ""

    def _out_of_time(self, begun: float) -> bool:
        budget = self.file.study.budget
        return budget is not None and self.elapsed() - begun > budget

    def _left(self, study_id: int) -> dict[int, list[int]]:
        """Blocks with a trial left that are not at work, and all positions of each: a block is run again as a whole."""
        if self._blocks is None:
            found: dict[int, list[int]] = {}
            record = self.store.load(study_id)
            for trial in record.trials:
                found.setdefault(trial.planned.block, []).append(trial.planned.position)
            left = {trial.planned.block for trial in record.trials if trial.is_left}
            self._blocks = {block: places for block, places in found.items() if block in left}
        at_work = {claim.block for claim in self._claims.values()}
        return {block: places for block, places in self._blocks.items() if block not in at_work}

    def _give_out(self, study_id: int, drained: DrainedHosts, begun: float) -> None:
        if self._out_of_time(begun) or len(self._early) >= GIVE_UP:
            return
        left = {block: places for block, places in self._left(study_id).items() if self._lost[block] < RUNS}
        if not left:
            return
        gone = set(drained.all())
        for block, places in list(left.items())[: self.pool.room(len(self._claims), gone)]:
            host = self.pool.choose(gone)
            claim = self.store.claims.take(study_id, block, host=host, left=places)
            if claim is None:  # another centre has it, or has run it
                self._blocks = None
                continue
            self._claims[claim.token] = claim
            directory = write_order(self.store.directory, self._order(claim, host))
            job = self.pool.start(directory, claim.token, host, gone)
            self.store.claims.renew(claim.token, job=job)
            again = f", run {claim.run}" if claim.run > 1 else ""
            self.watcher.message(f"block {block}{again}: job {job}{f' on {host}' if host else ''}")

    def _order(self, claim: Claim, host: str) -> Order:
        file = on_host(self.file, host).file if host else self.file
        return Order(
            file.study.model_dump_json(),
            self.file.text,
            self.file.source,
            plan_to_json(self.planned.plan),
            claim.block,
            claim.token,
            self.disposable,
            self.truth,
            host,
        )

    def _look(self, study_id: int, drained: DrainedHosts) -> None:
        """Take in what has ended, renew what runs, take back what is lost."""
        lab = self.store.directory
        asked = {token: folder(lab, token) for token in self._claims}
        jobs = self.pool.jobs(asked)
        for token, directory in asked.items():
            if read_ended(directory) is not None:
                self._take_in(study_id, token, directory, drained)
            else:
                self._follow(token, jobs[token])

    def _follow(self, token: str, job: Job) -> None:
        claim = self._claims[token]
        late = self.elapsed() - self._late.setdefault(token, self.elapsed()) if job.state is JobState.ENDED else 0.0
        if job.state is JobState.GONE or late > LATE:
            where = job.host or claim.host
            why = job.why or f"its job ended and left no {BUNDLE}"
            self._lost[claim.block] += 1
            self.store.claims.give_up(token)
            del self._claims[token]
            self.watcher.message(f"block {claim.block} is lost{f' on {where}' if where else ''}: {why}; it runs again")
            self.pool.end(token, folder(self.store.directory, token), kill=True)
            return
        if job.host and job.state is JobState.RUNNING and self._hosts.get(token) != job.host:
            self._hosts[token] = job.host
            self.watcher.message(f"block {claim.block} runs on {job.host}")
        if self.elapsed() - self._renewed.get(token, -LEASE) > LEASE / 4:
            self.store.claims.renew(token)
            self._renewed[token] = self.elapsed()

    def _take_in(self, study_id: int, token: str, directory: Path, drained: DrainedHosts) -> None:
        claim, ended = self._claims.pop(token), read_ended(directory)
        self._blocks = None
        assert ended is not None
        if ended.unfit:
            drained.add(ended.host, ended.unfit)
            self.watcher.message(f"{ended.host} gets no more blocks: {ended.unfit}")
        if not (directory / BUNDLE).is_dir():
            self.store.claims.give_up(token)
            self._lost[claim.block] += not ended.unfit
            why = ended.stopped or ended.unfit
            self.watcher.message(f"block {claim.block} did not run on {ended.host}: {why}")
            shutil.rmtree(directory, ignore_errors=True)
            return
        try:
            take_block(self.store, directory / BUNDLE)
        except LostClaimError as error:
            self.watcher.message(f"not taken in: {error}")
            return
        except LeadlineError as error:
            self.store.claims.give_up(token)
            self._lost[claim.block] += 1
            self.watcher.message(f"block {claim.block} is lost: {error}; it runs again")
            return
        self._tell(study_id, claim, ended.host, ended.stopped)
        shutil.rmtree(directory, ignore_errors=True)

    def _tell(self, study_id: int, claim: Claim, host: str, stopped: str) -> None:
        record = self.store.load(study_id)
        for trial in record.trials:
            if trial.planned.block == claim.block and not trial.is_left:
                self.watcher.trial_ended(trial)
        self._early = [*self._early, stopped] if stopped else []
        done = sum(not trial.is_left for trial in record.trials)
        early = f", ended early: {stopped}" if stopped else ""
        self.watcher.message(f"block {claim.block} came from {host}{early}; {done} of {len(record.trials)} trials done")

    def _wind_down(self, study_id: int, drained: DrainedHosts) -> None:
        """Jobs end in order and hand in what they have; those that do not are taken back."""
        self.watcher.message(f"ending {_blocks(len(self._claims))} at work")
        begun = self.elapsed()
        for token in self._claims:
            self.pool.end(token, folder(self.store.directory, token))
        while self._claims and self.elapsed() - begun < WIND_DOWN:
            self._look(study_id, drained)
            if self._claims:
                self.sleep(_POLL)
        for token, claim in list(self._claims.items()):
            self.store.claims.give_up(token)
            self.pool.end(token, folder(self.store.directory, token), kill=True)
            self.watcher.message(f"block {claim.block} did not end in {WIND_DOWN:.0f} s: taken back")
        self._claims.clear()


def _blocks(count: int) -> str:
    return f"{count} block{'' if count == 1 else 's'}"


def progress(record: StudyRecord, running: Mapping[int, str]) -> str:
    """How far a study is, in a line."""
    done = sum(not trial.is_left for trial in record.trials)
    blocks = ", ".join(f"block {block} on {where}" for block, where in sorted(running.items())) or "no block at work"
    return f"{record.study.study}@{record.id}: {done} of {len(record.trials)} trials done; {blocks}"
