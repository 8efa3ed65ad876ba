"""What of a lab is in use: claims with leases across machines, and locks of this one that the kernel frees."""

from __future__ import annotations

import fcntl
import threading
import time
import uuid
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import IO

from sqlalchemy import Connection, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from leadline.host.textfile import private_file
from leadline.model.errors import FailureClass, LeadlineError
from leadline.model.record import TrialState
from leadline.store import schema as t

LIVE = ".live"  # folder of what runs tell (``leadline.trial.progress``)
_FOLDER = ".in-use"
PATIENCE = 2.0  # seconds of a run, for one that only looks


class InUseError(LeadlineError):
    """Another leadline uses it."""


@contextmanager
def in_use(lab: Path, what: str, shared: bool = False, patience: float = 0.0) -> Iterator[None]:
    """Hold ``what`` of the lab (``study-12``, ``tuning-3``, ``services-NAME``) for the block, alone unless ``shared``.
    Raises InUseError where another holds it for ``patience`` seconds, OSError.
    """
    path = lab / _FOLDER / what
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with open(path, "a", opener=private_file) as lock:
        deadline = time.monotonic() + patience
        while not _locked(lock, shared):
            if time.monotonic() >= deadline:
                kind, _, name = what.partition("-")
                raise InUseError(f"{kind} {name} of the lab {lab} is in use by another leadline")
            time.sleep(0.02)
        yield


def is_used(lab: Path, what: str) -> bool:
    """Whether a run holds it alone."""
    if not (lab / _FOLDER / what).exists():
        return False
    try:
        with in_use(lab, what, shared=True):
            return False
    except InUseError:
        return True
    except OSError:  # nobody may write there, so nobody runs
        return False


def log_path(lab: Path, study_id: int) -> Path:
    """What the run of a study tells while it lasts."""
    return lab / LIVE / f"study-{study_id}.jsonl"


def stop_path(lab: Path, study_id: int) -> Path:
    """A file there ends the run in order."""
    return lab / LIVE / f"study-{study_id}.stop"


def _locked(lock: IO[str], shared: bool) -> bool:
    try:
        fcntl.flock(lock, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


LEASE = 60.0  # seconds after its last sign of life for which a block stays its owner's
_RENEWALS = 3  # in a lease


class BlockState(StrEnum):
    RUNNING = "running"
    ENDED = "ended"  # by its owner
    LOST = "lost"  # its owner was gone, or it was taken back
    PAST = "past"  # ended, and run once more since


class LostClaimError(LeadlineError):
    """The block was given to another: nothing more of this run of it is stored."""


class ClaimedError(LeadlineError):
    """Another owner runs the block."""


class _Refused(Exception):
    """Ends the transaction of a claim without a trace."""


@dataclass(frozen=True)
class Claim:
    """A run of a block. ``host``: where it runs; ``job``: what runs it there, as its pool names it."""

    study_id: int
    block: int
    run: int
    token: str
    owner: str
    host: str = ""
    job: str = ""


class Claims:
    """The table ``blocks``. ``owner``: who takes blocks; ``begin`` opens a transaction, ``now`` gives unix seconds."""

    def __init__(
        self,
        begin: Callable[[], AbstractContextManager[Connection]],
        now: Callable[[], float],
        owner: str,
        lease: float = LEASE,
    ) -> None:
        self._begin = begin
        self._now = now
        self._lease = lease
        self.owner = owner
        self._held: Claim | None = None
        self.host_of: Callable[[int], str] = lambda _: ""  # of blocks that are held one after the other

    def take(self, study_id: int, block: int, *, host: str = "", left: Collection[int] | None = None) -> Claim | None:
        """The block, or None where another has it. ``left``: positions of which one must be left to run."""
        now, token = self._now(), uuid.uuid4().hex
        of_block = (t.blocks.c.study_id == study_id, t.blocks.c.block == block)
        try:
            with self._begin() as connection:
                _alone(connection, study_id)
                # A change comes first: from here on SQLite lets nobody else write.
                running = t.blocks.c.state == BlockState.RUNNING
                over = update(t.blocks).where(*of_block, running, t.blocks.c.leased_until < now)
                connection.execute(over.values(state=BlockState.LOST, ended=now))
                ended = update(t.blocks).where(*of_block, t.blocks.c.state == BlockState.ENDED)
                connection.execute(ended.values(state=BlockState.PAST))
                if connection.execute(select(t.blocks.c.token).where(*of_block, running)).first():
                    raise _Refused
                self._close_trials(connection, study_id)
                if left is not None and not self._any_left(connection, study_id, left):
                    raise _Refused
                last = select(func.coalesce(func.max(t.blocks.c.run), 0)).where(*of_block)
                claim = Claim(study_id, block, connection.execute(last).scalar_one() + 1, token, self.owner, host)
                self._insert(connection, claim, now)
        except _Refused:
            return None
        return claim

    def _insert(self, connection: Connection, claim: Claim, now: float) -> None:
        values = {
            "token": claim.token,
            "study_id": claim.study_id,
            "block": claim.block,
            "run": claim.run,
            "owner": claim.owner,
            "host": claim.host,
            "job": claim.job,
            "state": BlockState.RUNNING,
            "begun": now,
            "leased_until": now + self._lease,
        }
        try:
            connection.execute(insert(t.blocks).values(values))
        except IntegrityError:  # another was faster with this run of the block
            raise _Refused from None

    def _any_left(self, connection: Connection, study_id: int, positions: Collection[int]) -> bool:
        wanted = (t.trials.c.study_id == study_id, t.trials.c.position.in_(positions))
        has_left = (t.trials.c.state == TrialState.PLANNED) | t.RUNS_AGAIN
        return connection.execute(select(t.trials.c.id).where(*wanted, has_left)).first() is not None

    def hold(self, study_id: int, block: int) -> Claim:
        """The block, for a run that goes through its blocks one after the other; the one before is ended. Raises
        ClaimedError where another has it.
        """
        claim = self._held
        if claim is not None and (claim.study_id, claim.block) == (study_id, block):
            return claim
        self.release()
        self._held = self.take(study_id, block, host=self.host_of(block))
        if self._held is None:
            raise ClaimedError(self._whose(study_id, block))
        return self._held

    def release(self) -> None:
        """Ends the block that is held, if any."""
        claim, self._held = self._held, None
        if claim is not None:
            self.end(claim.token)

    def renew(self, token: str, job: str | None = None) -> None:
        """Another lease from now on. Raises LostClaimError."""
        with self._begin() as connection:
            self.fence(connection, token, {} if job is None else {"job": job})

    def end(self, token: str, host: str | None = None) -> None:
        """The owner has ended its run of the block. Raises LostClaimError."""
        with self._begin() as connection:
            host_column = {} if host is None else {"host": host}
            self.fence(connection, token, {"state": BlockState.ENDED, "ended": self._now(), **host_column})

    def give_up(self, token: str) -> None:
        """Take a block back from what runs it: from here on nothing of it is stored, and it can be taken again."""
        with self._begin() as connection:
            statement = update(t.blocks).where(t.blocks.c.token == token, t.blocks.c.state == BlockState.RUNNING)
            connection.execute(statement.values(state=BlockState.LOST, ended=self._now()))

    def fence(self, connection: Connection, token: str, values: dict[str, object] | None = None) -> None:
        """Renew the lease, in the transaction of what is written under this token. Raises LostClaimError where it is
        no longer the block's.
        """
        current = t.blocks.c.state.in_((BlockState.RUNNING, BlockState.ENDED))
        lease = {"leased_until": self._now() + self._lease, **(values or {})}
        result = connection.execute(update(t.blocks).where(t.blocks.c.token == token, current).values(lease))
        if result.rowcount != 1:
            row = connection.execute(select(t.blocks).where(t.blocks.c.token == token)).first()
            if row is None:
                raise LostClaimError(f"no run of a block has the token {token} in this lab")
            raise LostClaimError(
                f"block {row.block} of study {row.study_id} was taken from {row.owner}"
                f" ({self._whose(row.study_id, row.block, connection)}): nothing more of that run is stored"
            )

    def elsewhere(self) -> dict[int, str]:
        """Studies of which another owner runs a block now, with the owner: no lock of this machine tells of them."""
        running = (t.blocks.c.state == BlockState.RUNNING, t.blocks.c.leased_until >= self._now())
        query = select(t.blocks.c.study_id, t.blocks.c.owner).where(*running, t.blocks.c.owner != self.owner)
        with self._begin() as connection:
            return {row.study_id: row.owner for row in connection.execute(query)}

    def running(self, study_id: int) -> list[Claim]:
        """Blocks that somebody runs."""
        query = select(t.blocks).where(t.blocks.c.study_id == study_id, t.blocks.c.state == BlockState.RUNNING)
        with self._begin() as connection:
            return [_claim(row) for row in connection.execute(query.order_by(t.blocks.c.block))]

    def find(self, token: str) -> tuple[Claim, BlockState] | None:
        with self._begin() as connection:
            row = connection.execute(select(t.blocks).where(t.blocks.c.token == token)).first()
            return (_claim(row), BlockState(row.state)) if row else None

    def _whose(self, study_id: int, block: int, within: Connection | None = None) -> str:
        query = select(t.blocks).where(t.blocks.c.study_id == study_id, t.blocks.c.block == block)
        query = query.order_by(t.blocks.c.run.desc())
        if within is None:
            with self._begin() as connection:
                row = connection.execute(query).first()
        else:
            row = within.execute(query).first()
        if row is None or row.state != BlockState.RUNNING:
            return f"nobody runs block {block} now"
        until = time.strftime("%H:%M:%S", time.localtime(row.leased_until))
        return f"block {block} of study {study_id} is run by {row.owner}, which has it until {until} at least"

    def close_orphans(self, study_id: int) -> list[int]:
        """Trials still marked running of which the owner is gone: one of this owner's earlier lives, or one whose lease
        is over. They are closed as interrupted; their positions.
        """
        now = self._now()
        self._held = None  # of a run that could not end it, its disk being full
        with self._begin() as connection:
            _alone(connection, study_id)
            gone = (t.blocks.c.owner == self.owner) | (t.blocks.c.leased_until < now)
            running = (t.blocks.c.study_id == study_id, t.blocks.c.state == BlockState.RUNNING)
            connection.execute(update(t.blocks).where(*running, gone).values(state=BlockState.LOST, ended=now))
            return self._close_trials(connection, study_id)

    def close_trials(self, study_id: int) -> None:
        """Close as interrupted what is marked running in blocks that nobody runs."""
        with self._begin() as connection:
            self._close_trials(connection, study_id)

    def _close_trials(self, connection: Connection, study_id: int) -> list[int]:
        """Those that are running in no running block."""
        last = (t.attempts.c.trial_id == t.trials.c.id) & (t.attempts.c.attempt == t.trials.c.attempt)
        tokens = select(t.blocks.c.token).where(t.blocks.c.study_id == study_id, t.blocks.c.state == BlockState.RUNNING)
        query = (
            select(t.trials.c.id, t.trials.c.attempt, t.trials.c.position)
            .join(t.attempts, last)
            .where(t.trials.c.study_id == study_id, t.RUNNING)
            .where(t.attempts.c.token.is_(None) | t.attempts.c.token.not_in(tokens))
            .order_by(t.trials.c.position)
        )
        rows = connection.execute(query).all()
        ending = {
            "ended": self._now(),
            "failure": FailureClass.INTERRUPTED.value,
            "failure_message": "leadline ended in the middle of this trial",
        }
        for row in rows:
            of_attempt = (t.attempts.c.trial_id == row.id, t.attempts.c.attempt == row.attempt)
            connection.execute(update(t.attempts).where(*of_attempt).values(ending))
            state = {"state": TrialState.FAILED, **ending}
            connection.execute(update(t.trials).where(t.trials.c.id == row.id).values(state))
        return [row.position for row in rows]

    @contextmanager
    def alive(self, lost: Callable[[LostClaimError], None]) -> Iterator[None]:
        """Renews what is held for as long as the block of the ``with`` runs, from a thread; ``lost`` is told, in that
        thread, that it was given to another.
        """
        ended = threading.Event()

        def renew() -> None:
            while not ended.wait(self._lease / _RENEWALS):
                claim = self._held
                try:
                    if claim is not None:
                        self.renew(claim.token)
                except LostClaimError as error:
                    if claim is self._held:
                        lost(error)
                        return
                except LeadlineError:  # a full disk, a database that is away: the lease has time for another try
                    continue

        thread = threading.Thread(target=renew, name="lease", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join(self._lease)


def _alone(connection: Connection, study_id: int) -> None:
    """Until this transaction ends, nobody else takes a block of the study or closes its trials. PostgreSQL shows every
    statement what was committed before it: two takers could find the same block free, one after the other had run it.
    """
    if connection.dialect.name == "postgresql":
        row = select(t.studies.c.id).where(t.studies.c.id == study_id)
        connection.execute(row.with_for_update(key_share=True))


def _claim(row: object) -> Claim:
    return Claim(*(getattr(row, name) for name in ("study_id", "block", "run", "token", "owner", "host", "job")))
