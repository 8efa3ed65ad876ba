"""A study over a pool: plans and decides here, gives each block to a host, takes in what comes back.

Nothing is lost or counted twice: a block is claimed under a token before its job begins (``leadline.store.claims``), a
job that is given up loses its token, and a block that did not come back whole is run again from its first trial.
"""

from __future__ import annotations

import json
import shutil
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

import leadline
from leadline.checks.files.study import StudyFile
from leadline.checks.plan import Planned, first_guess
from leadline.host import ssh
from leadline.host.received import json_file_as, read_text
from leadline.model.errors import FailureClass, LeadlineError, TrialFailure
from leadline.model.received import ReceivedError
from leadline.model.record import StudyRecord, TrialRecord, TrialState
from leadline.places.pool.base import (
    JOB,
    OUTPUT,
    JobState,
    JobStatus,
    Pool,
    PoolSilentError,
    Wish,
    boots,
    kernels_of,
    without_hosts,
)
from leadline.places.pool.job import BUNDLE, END, FACTS, Ending, EndKind, blamed, hosts_of, job_of, read_ending, roles
from leadline.places.testbed import RunOptions
from leadline.store.bundle import take_block
from leadline.store.claims import LEASE, PATIENCE, BlockState, Claim, LostClaimError, in_use
from leadline.store.files import bring
from leadline.store.lab import Store
from leadline.trial.interruption import Interruption
from leadline.trial.livelog import LiveLog
from leadline.trial.looks import Looking, check_looks
from leadline.trial.progress import Watcher, treatment_label
from leadline.trial.run import GO_ON, Clock, RunResult, Streak

# Facts of the hosts that a study ran on, from what their jobs left with each trial.


def facts_of(record: StudyRecord) -> Mapping[str, str]:
    """A fact that all hosts share once; of one that differs each value with its hosts."""
    by_host: dict[str, dict[str, str]] = {}
    for trial in record.trials:
        if trial.directory is not None:
            try:
                facts = json_file_as(dict[str, str], trial.directory / "logs" / FACTS, 1 << 20)
                by_host[facts.pop("host")] = facts
            except (OSError, ReceivedError, KeyError):
                continue
    names = sorted({name for facts in by_host.values() for name in facts})
    return {"pool.hosts": ", ".join(sorted(by_host)), **{name: _said(name, by_host) for name in names}} if names else {}


def _said(name: str, by_host: Mapping[str, Mapping[str, str]]) -> str:
    values: dict[str, list[str]] = {}
    for host in sorted(by_host):
        values.setdefault(by_host[host].get(name, "unknown"), []).append(host)
    if len(values) == 1:
        return next(iter(values))
    return "; ".join(f"{value} on {', '.join(hosts)}" for value, hosts in values.items())


FOLDER = "pool"  # of the lab: a directory for each block that runs, in it one for each of its jobs
MOST_LOST = 3  # jobs of one block that may come to nothing
_LONGEST, _TIMES = 3600.0, 20.0  # seconds that a job may take, and times the length that its trials have
_BUSY = 20.0  # seconds until a block is given out again that met a host in use
_LAST = 90.0  # seconds that jobs may take to put their hosts back when the run is ended
_LATE = 10.0  # seconds that a shared file system may take to show what a job handed in
_AGAIN, _SILENT = 5.0, 1800.0  # seconds between tries to reach a pool that is silent, and until it is given up
_WAITING = 60.0  # seconds between two words about jobs that wait


@dataclass
class _Flight:
    """A block that was given out. ``boots``: kernel and positions of its jobs, one after the other; ``at``: that which
    runs.
    """

    claim: Claim
    home: Path
    boots: Sequence[tuple[str, list[int]]]
    at: int = 0
    job: str = ""
    renewed: float = field(default_factory=time.monotonic)
    host: str = ""
    over: float | None = None  # since when the pool says that it has ended
    began: float | None = None  # since when its job runs
    ending: Ending | None = None  # of the job that ended last

    def where(self, ending: Ending) -> str:
        """The host of a job that ended: what the pool says counts, unless that is a list."""
        return self.host if self.host and not set(self.host) & set("[],") else ending.host

    @property
    def directory(self) -> Path:
        """Of the job."""
        return _job_directory(self.home, self.at)

    def bundles(self) -> list[Path]:
        """What its jobs handed in so far."""
        return [path for at in range(self.at + 1) if (path := _job_directory(self.home, at) / BUNDLE).is_dir()]


def _job_directory(home: Path, at: int) -> Path:
    return home / f"job-{at + 1}"


@dataclass
class PoolRun:
    """One run of a study on a pool. ``most``: jobs at the same time. ``settle`` estimates a switchback's wash-out at
    the end, in a sentence.
    """

    file: StudyFile
    planned: Planned
    store: Store
    pool: Pool
    watcher: Watcher
    options: RunOptions
    most: int | None = None
    disposable: bool = False
    settle: Callable[[int], str] | None = None
    _study_id: int = field(default=0, init=False)
    _flights: dict[str, _Flight] = field(default_factory=dict, init=False)
    _lost: Counter[int] = field(default_factory=Counter, init=False)
    _not_before: dict[int, float] = field(default_factory=dict, init=False)
    _restored: list[str] = field(default_factory=list, init=False)
    _silent_since: float | None = field(default=None, init=False)
    _ending: bool = field(default=False, init=False)
    _per_trial: float = field(default=0.0, init=False)  # seconds
    _told: float = field(default=0.0, init=False)  # when it was last said that jobs wait

    def execute(self) -> RunResult:
        """Run what is left. Raises UsageError for looks that the plan has no room for, LeadlineError where the study is
        in use or the pool cannot be asked.
        """
        check_looks(self.file, self.planned.plan)
        lab = self.store.directory
        with Interruption() as interruption, ExitStack() as exit_stack:
            self.watcher = log = LiveLog(self.watcher, lab)
            exit_stack.callback(self.pool.close)
            self._study_id = self._open()
            exit_stack.enter_context(in_use(lab, f"study-{self._study_id}", patience=PATIENCE))
            exit_stack.enter_context(log.begin(self._study_id, interruption))
            self._follow()
            self.options.opened(self._study_id)
            stopped = ""
            try:
                with interruption.listening():
                    stopped = self._run()
            except TrialFailure as failure:
                stopped = failure.message + GO_ON
            finally:
                self._end_all()
            self._tell_facts()
            self._sweep()
            if self.settle is not None and (sentence := self.settle(self._study_id)):
                self.watcher.message(sentence)
            record = self.store.load(self._study_id)
        trials_left = [trial for trial in record.trials if trial.is_left]
        return RunResult(self._study_id, not trials_left, stopped, self._restored)

    def _open(self) -> int:
        study = self.file.study
        existing = self.options.go_on
        if existing is None and not self.options.fresh:
            existing = self.store.unfinished(study)
        if existing is not None:
            if self.store.load(existing).plan == self.planned.plan:
                bring(self.store, existing)
                return existing
            self.watcher.message("the plan made today differs from the stored one (other factors can be set now)")
        for sentence in (*self.planned.skipped, *self.planned.warnings):
            self.watcher.message(sentence)
        environment = {"leadline": leadline.__version__, "pool": self.pool.name, **self.file.facts}
        return self.store.add_study(study, self.file.text, self.planned.plan, environment, self.planned.skipped)

    def _follow(self) -> None:
        """Jobs that a leadline left behind: those that still run are followed, the others given up. Only for who holds
        the study: another may run it now.
        """
        claims = [
            claim for claim in self.store.claims.running(self._study_id) if claim.owner == self.store.claims.owner
        ]
        jobs = {claim.job for claim in claims if claim.job} if self.pool.outlives else set()
        states = self.pool.states(jobs) if jobs else {}
        trials = self.store.load(self._study_id).trials if claims else []
        for claim in claims:
            home = self._directory(claim)
            parts = self._boots([trial for trial in trials if trial.planned.block == claim.block])
            at = max(0, len(list(home.glob("job-*"))) - 1)
            status = states.get(claim.job, JobStatus(JobState.LOST))
            flight = _Flight(claim, home, parts, at, claim.job, host=status.host)
            if status.state is JobState.LOST and not (flight.directory / END).exists():
                self._give_up(claim)
                continue
            with suppress(LostClaimError):
                self.store.claims.renew(claim.token)
                self._flights[claim.token] = flight
                self.watcher.message(f"block {claim.block + 1}: job {claim.job} of an earlier leadline goes on")
        self.store.claims.close_trials(self._study_id)

    def _boots(self, trials: Sequence[TrialRecord]) -> list[tuple[str, list[int]]]:
        wanted = [trial.planned for trial in trials if trial.state is not TrialState.SKIPPED]
        return boots(wanted, self.planned.settings)

    def _directory(self, claim: Claim) -> Path:
        return self.store.directory.absolute() / FOLDER / claim.token

    def _give_up(self, claim: Claim) -> None:
        self.store.claims.give_up(claim.token)
        shutil.rmtree(self._directory(claim), ignore_errors=True)

    # the course of the run -------------------------------------------------------------------------------------

    def _run(self) -> str:
        """Everything up to the last block; why it ended before the plan's end, empty if it did not."""
        record = self.store.load(self._study_id)
        budget = self.file.study.budget if self.options.budget is None else self.options.budget
        clock = Clock(first_guess(self.file.study, record.plan), budget, time.monotonic)
        done = sum(not trial.is_left for trial in record.trials)
        self.watcher.study(self._study_id, record.plan, done, clock.left(len(record.trials) - done))
        looking = Looking.at(self.file.study, self.store, record, self.watcher.message)
        streak = Streak(self.options.give_up)
        self._told, self._per_trial = time.monotonic(), clock.per_trial()
        while True:
            try:
                for flight in self._landed():
                    if self._goes_on(flight, record):
                        continue
                    trials_left = sum(trial.is_left for trial in record.trials)
                    for trial in self._take(flight, record, clock.left(trials_left)):
                        clock.done(1)
                        if ended := streak.after(trial.planned, _failure(trial)):
                            return ended
                    record = self.store.load(self._study_id)
                over = self._give_out(record, looking, clock)
            except PoolSilentError as error:
                self._is_silent(error)
                continue
            self._silent_since = None
            if over is not None:
                return over
            time.sleep(self.pool.pause)

    def _is_silent(self, error: PoolSilentError) -> None:
        """Wait for a pool that does not answer. Raises the error where it stays so."""
        now = time.monotonic()
        if self._silent_since is None:
            self._silent_since = now
            self.watcher.message(f"the pool does not answer, its jobs go on: {error}")
        for flight in list(self._flights.values()):
            self._renew(flight)
        if now - self._silent_since > _SILENT:
            raise error
        time.sleep(_AGAIN)

    def _landed(self) -> list[_Flight]:
        """Jobs that handed something in; the leases of the others are renewed, those that are lost given up."""
        if not self._flights:
            return []
        landed = []
        states = self.pool.states([flight.job for flight in self._flights.values()])
        waiting = []
        for token, flight in list(self._flights.items()):
            status = states.get(flight.job, JobStatus(JobState.LOST))
            flight.host = status.host or flight.host
            if status.state in (JobState.WAITING, JobState.RUNNING):
                if status.state is JobState.WAITING:
                    waiting.append(f"block {flight.claim.block + 1} ({status.why or 'no host is free'})")
                elif self._takes_too_long(flight):
                    continue
                if time.monotonic() - flight.renewed > LEASE / 3:
                    self._renew(flight)
            else:
                flight.over = flight.over or time.monotonic()
                try:
                    flight.ending = read_ending(flight.directory)
                except ReceivedError as error:
                    self._refuse(flight, str(error))
                    continue
                handed_in = flight.ending is not None
                late = status.state is JobState.ENDED and time.monotonic() - flight.over < _LATE
                if not handed_in and late:
                    continue
                if not handed_in:
                    del self._flights[token]
                    self._was_lost(flight, status.why or "it ended without a word")
                else:
                    landed.append(flight)
        if waiting and time.monotonic() - self._told > _WAITING:
            self._told = time.monotonic()
            self.watcher.message(f"waiting for hosts: {', '.join(waiting)}")
        return landed

    def _renew(self, flight: _Flight) -> None:
        try:
            self.store.claims.renew(flight.claim.token)
            flight.renewed = time.monotonic()
        except LostClaimError as error:
            del self._flights[flight.claim.token]
            with suppress(LeadlineError):  # it runs for nothing
                self.pool.cancel(flight.job)
            self.watcher.message(str(error))

    def _takes_too_long(self, flight: _Flight) -> bool:
        """Whether a job runs for many times what its trials need: it is given up then, and its host."""
        flight.began = flight.began or time.monotonic()
        longest = _LONGEST + _TIMES * self._per_trial * len(flight.boots[flight.at][1])
        if time.monotonic() - flight.began < longest:
            return False
        with suppress(LeadlineError):
            self.pool.cancel(flight.job)
        self._refuse(flight, f"it did not end within {longest:.0f} s")
        return True

    def _refuse(self, flight: _Flight, why: str, ending: Ending | None = None) -> None:
        """What a job handed in is not taken, and its host gets no more jobs: the block is run again elsewhere."""
        self._flights.pop(flight.claim.token, None)
        host = flight.where(ending) if ending else flight.host
        if host:
            self._spare(hosts_of(host), why)
        self._was_lost(flight, why)

    def _was_lost(self, flight: _Flight, why: str) -> None:
        """Nothing of this job is stored, now or later."""
        block, place = flight.claim.block, f" on {flight.host}" if flight.host else ""
        last_word = ssh.last_line(_text(flight.directory / OUTPUT))
        self._give_up(flight.claim)
        if self._ending:
            self.watcher.message(f"block {block + 1}{place} was ended, it will run again")
            return
        self._lost[block] += 1
        evidence = f"; it last said: {last_word}" if last_word and why not in last_word else ""
        self.watcher.message(f"block {block + 1}{place} is lost, it will run again: {why}{evidence}")
        if self._lost[block] >= MOST_LOST:
            raise _gone(f"block {block + 1} was lost {MOST_LOST} times, last{place}: {why}{evidence}")

    def _take(self, flight: _Flight, record: StudyRecord, seconds: float = 0.0) -> list[TrialRecord]:
        """Take in what a job handed in; its trials, none where it measured nothing. ``seconds`` are left of the run."""
        ending = flight.ending
        assert ending is not None
        restored = [f"{flight.where(ending)}: {line}" for line in ending.restored]
        self._restored += [line for line in restored if line not in self._restored]
        block, before = flight.claim.block, record
        positions = {trial.planned.position for trial in before.trials if trial.planned.block == block}
        trials_taken = 0
        if bundles := flight.bundles():
            try:
                trials_taken = take_block(self.store, *bundles, token=flight.claim.token)
            except LostClaimError as error:
                self.watcher.message(str(error))
            except TrialFailure:  # of the lab's own disk
                raise
            except LeadlineError as error:
                self._refuse(flight, str(error), ending)
                return []
        del self._flights[flight.claim.token]  # not before: what is interrupted here is taken in at the end
        if not trials_taken:
            self.store.claims.give_up(flight.claim.token)
        self._heed(flight, ending, bool(trials_taken))
        shutil.rmtree(flight.home, ignore_errors=True)
        if not trials_taken:
            return []
        after = self.store.load(self._study_id)
        trials = [after.trials[at] for at in sorted(positions)]
        came = [trial for trial in trials if trial.attempt > before.trials[trial.planned.position].attempt]
        for trial in came:
            label = treatment_label(trial.planned, after.plan, self.planned.knobs)
            self.watcher.trial(trial.planned, trial.attempt, f"{label} on {flight.where(ending)}", seconds)
            self.watcher.trial_ended(trial)
        return came

    def _heed(self, flight: _Flight, ending: Ending, measured: bool) -> None:
        """What a job's end means for its host and for its block."""
        block, host = flight.claim.block, flight.where(ending)
        reason = ending.said or "no reason was given"
        if ending.how in (EndKind.REFUSED, EndKind.NOT_RESTORED):
            self._spare(blamed(host, reason) or hosts_of(host), reason)
        elif ending.how is EndKind.BUSY:
            self._not_before[block] = time.monotonic() + _BUSY
            self.watcher.message(f"block {block + 1} waits: {host}: {reason}")
        elif not measured:
            self._spare(blamed(host, reason), reason)
            self._was_lost(flight, reason)
        elif ending.said:
            self._spare(blamed(host, reason), reason)
            self.watcher.message(f"block {block + 1} on {host}: {reason}")
            self._lost[block] += 1
            if self._lost[block] >= MOST_LOST:
                raise _gone(f"block {block + 1} ended early {MOST_LOST} times, last on {host}: {reason}")

    def _spare(self, hosts: Sequence[str], why: str) -> None:
        """They get no more jobs of this run."""
        for host in hosts:
            self.pool.drain(host, why)
        if hosts:
            self.watcher.message(f"{', '.join(hosts)} {'gets' if len(hosts) == 1 else 'get'} no more jobs: {why}")

    # giving blocks out -----------------------------------------------------------------------------------------

    def _give_out(self, record: StudyRecord, looking: Looking, clock: Clock) -> str | None:
        """Give out the blocks that hosts are free for; why the run is over, None while it is not."""
        blocks: dict[int, list[TrialRecord]] = {}
        flying = {flight.claim.block for flight in self._flights.values()}
        for trial in record.trials:
            if trial.state != TrialState.SKIPPED and trial.planned.position not in looking.skipped:
                blocks.setdefault(trial.planned.block, []).append(trial)
        blocks_left = [
            block for block, trials in sorted(blocks.items()) if block not in flying and any(t.is_left for t in trials)
        ]
        if not blocks_left and not self._flights:
            return ""
        room: int | None = None
        for block in blocks_left:
            trials = blocks[block]
            if looking.looks_before(trials[0]):
                if self._flights:  # the look is at all blocks before this one
                    return None
                if ended := looking.before(trials[0]):
                    return ended
                return None  # with the plan as it is now
            if time.monotonic() < self._not_before.get(block, 0.0):
                continue
            if room is None:
                room = self._room()
            if room <= 0:
                return None if self._flights or self.pool.usable() else self._without_hosts()
            if clock.exhausted(len(trials)):
                if self._flights:
                    return None
                return (
                    f"the budget is used up with {sum(len(blocks[b]) for b in blocks_left)} trials left; run "
                    "again to go on"
                )
            room -= self._submit(block, trials, record)
        return None

    def _without_hosts(self) -> str:
        return without_hosts(self.pool.name, self.pool.hosts(), len(roles(self.file.study)))

    def _room(self) -> int:
        flying = len(self._flights)
        room = self.pool.room(flying)
        return room if self.most is None else min(room, self.most - flying)

    def _submit(self, block: int, trials: list[TrialRecord], record: StudyRecord) -> int:
        """Claim a block and start its job; how many jobs were started."""
        positions = [trial.planned.position for trial in trials]
        claim = self.store.claims.take(self._study_id, block, left=positions)
        if claim is None:
            self._not_before[block] = time.monotonic() + _BUSY
            return 0
        self._start(_Flight(claim, self._directory(claim), self._boots(trials)), record)
        return 1

    def _start(self, flight: _Flight, record: StudyRecord, host: str = "") -> None:
        """Start the flight's job, of its further ones on the ``host`` of the first."""
        claim, (kernel, positions) = flight.claim, flight.boots[flight.at]
        flight.directory.mkdir(parents=True)
        repeat, plan = self.file.study.repeat, record.plan
        repeats = max(0, repeat.at_most - record.repeats) if repeat else 0
        kernels = kernels_of(plan, self.planned.settings)
        job = job_of(self.file, plan, claim.block, positions, claim.token, repeats, self.disposable, kernels)
        (flight.directory / JOB).write_text(json.dumps(asdict(job)), encoding="utf-8")
        title = f"leadline-{self.file.study.study}-{self._study_id}-b{claim.block + 1}"
        try:
            name = self.pool.submit(flight.directory, title, Wish(kernel, host, flight.job))
        except LeadlineError:
            self._give_up(claim)
            self._flights.pop(claim.token, None)
            raise
        self.store.claims.renew(claim.token, job=name)
        flight.job, flight.renewed, flight.over, flight.began = name, time.monotonic(), None, None
        self._flights[claim.token] = flight
        on = f" on kernel {kernel}" if kernel else ""
        self.watcher.message(
            f"block {claim.block + 1}: job {name}, trials {positions[0] + 1} to {positions[-1] + 1}{on}"
        )

    def _goes_on(self, flight: _Flight, record: StudyRecord) -> bool:
        """Start the next job of a block of which one ended well; false where there is none."""
        ending = flight.ending
        if ending is None or ending.how is not EndKind.DONE or ending.said or flight.at + 1 == len(flight.boots):
            return False
        self._restored += [f"{flight.where(ending)}: {line}" for line in ending.restored]
        flight.at += 1
        self._start(flight, record, flight.where(ending))
        return True

    # the end ---------------------------------------------------------------------------------------------------

    def _end_all(self) -> None:
        """Jobs that still run end in order: their hosts are put back, and what they measured is taken in."""
        self._ending = True
        for flight in self._flights.values():
            with suppress(LeadlineError):
                self.pool.cancel(flight.job)
        deadline, error_text = time.monotonic() + _LAST, ""
        while self._flights and time.monotonic() < deadline:
            try:
                for flight in self._landed():
                    self._take(flight, self.store.load(self._study_id))
            except LeadlineError as error:
                if str(error) != error_text:
                    error_text = str(error)
                    self.watcher.message(error_text)
            time.sleep(self.pool.pause)
        for flight in self._flights.values():
            self.watcher.message(f"block {flight.claim.block + 1}: job {flight.job} did not end within {_LAST:.0f} s")
            self._give_up(flight.claim)
        self._flights.clear()

    def _sweep(self) -> None:
        """Remove what jobs left that were given up and came back."""
        folder = self.store.directory / FOLDER
        for path in folder.glob("*"):
            claim = self.store.claims.find(path.name)
            if claim is None or claim[1] is not BlockState.RUNNING:
                shutil.rmtree(path, ignore_errors=True)
        with suppress(OSError):
            folder.rmdir()

    def _tell_facts(self) -> None:
        """What the hosts are, among the study's facts."""
        record = self.store.load(self._study_id)
        self.store.tell_environment(self._study_id, {**record.environment, **facts_of(record)})


def _failure(trial: TrialRecord) -> TrialFailure | None:
    """That says something of its setting."""
    again = (FailureClass.INTERRUPTED, FailureClass.DISTURBED)
    if trial.failure is None or trial.failure in again:
        return None
    return TrialFailure(trial.failure, trial.failure_message)


def _gone(why: str) -> TrialFailure:
    return TrialFailure(FailureClass.INFRASTRUCTURE, why)


def _text(path: Path) -> str:
    try:
        return read_text(path)
    except (OSError, ReceivedError):
        return ""
