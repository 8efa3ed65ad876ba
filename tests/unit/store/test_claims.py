"""Blocks of a study are given to one owner at a time, and only who has a block writes what it leaves."""

from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest
from sqlalchemy import text

from bench.claims import study_of, take_all
from leadline.model.errors import FailureClass, LeadlineError, TrialFailure
from leadline.model.record import AuditRecord, Phases, Reading, TrialState
from leadline.model.result import SteadyState
from leadline.store.claims import LEASE, BlockState, ClaimedError, LostClaimError
from leadline.store.database import MIGRATIONS
from leadline.store.lab import Store
from leadline.store.rows import SlotSet

BLOCKS = 60


class Clock:
    def __init__(self) -> None:
        self.seconds = 1_700_000_000.0

    def now(self) -> float:
        return self.seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def lab(place: Callable[[str], Path], clock: Clock) -> Path:
    study_of(Store(place("lab"), now=clock.now), 3)
    return place("lab")


def test_two_takers_never_get_the_same_block(place: Callable[[str], Path]) -> None:
    lab = place("lab")
    study = study_of(Store(lab), BLOCKS)
    with ProcessPoolExecutor(2, get_context("spawn")) as pool:
        told = [pool.submit(take_all, lab, study, BLOCKS, f"taker {number}") for number in range(2)]
        got = [one.result() for one in told]
    assert sorted(got[0] + got[1]) == list(range(BLOCKS))
    assert [trial.attempt for trial in Store(lab).load(study).trials] == [1] * BLOCKS


def test_a_block_stays_its_owners_for_as_long_as_its_lease(lab: Path, clock: Clock) -> None:
    one, other = Store(lab, now=clock.now, owner="one"), Store(lab, now=clock.now, owner="other")
    claim = one.claims.take(1, 0)
    assert claim is not None
    clock.seconds += LEASE - 1
    assert other.claims.take(1, 0) is None
    one.claims.renew(claim.token)
    clock.seconds += LEASE - 1
    assert other.claims.take(1, 0) is None
    with pytest.raises(ClaimedError, match="block 0 of study 1 is run by one, which has it until "):
        other.begin_attempt(1, 0)
    clock.seconds += 2
    taken = other.claims.take(1, 0)
    assert taken is not None
    assert (taken.run, taken.owner) == (2, "other")
    assert one.claims.find(claim.token) == (claim, BlockState.LOST)


def test_a_killed_owner_is_closed_by_itself_or_after_its_lease(lab: Path, clock: Clock) -> None:
    Store(lab, now=clock.now, owner="killed").begin_attempt(1, 0)
    other = Store(lab, now=clock.now, owner="other")
    other.begin_attempt(2, 1)
    assert other.claims.close_orphans(1) == [1]
    assert [trial.state for trial in other.load(1).trials[:2]] == ["running", "failed"]
    again = Store(lab, now=clock.now, owner="killed")
    assert again.claims.close_orphans(1) == [0]  # its own, at once
    again.begin_attempt(1, 0)
    clock.seconds += LEASE + 1
    assert other.claims.close_orphans(1) == [0]
    assert other.load(1).trials[0].failure is FailureClass.INTERRUPTED


def test_who_comes_back_from_the_dead_writes_nothing(lab: Path, clock: Clock) -> None:
    gone, heir = Store(lab, now=clock.now, owner="gone"), Store(lab, now=clock.now, owner="heir")
    attempt, directory = gone.begin_attempt(1, 0)
    gone.begin_slot(1, attempt, 0, 0, {"vm.swappiness": 2})
    step = gone.begin_step(1, attempt, "load")
    clock.seconds += LEASE + 1
    attempt_2, _ = heir.begin_attempt(1, 0)
    heir.add_responses(1, attempt_2, {"throughput": 2.0})
    before = rows(lab)
    (directory / "logs" / "server.log").write_text("ready\n")
    failure = TrialFailure(FailureClass.WORKLOAD, "late")
    late: list[Callable[[], object]] = [
        lambda: gone.add_responses(1, attempt, {"throughput": 1.0}),
        lambda: gone.add_audits(1, attempt, [AuditRecord("ledger", True, "")]),
        lambda: gone.add_readings(1, attempt, [Reading("vm.swappiness", "after", "1", "1", True)]),
        lambda: gone.add_artefacts(1, attempt, directory),
        lambda: gone.begin_slot(1, attempt, 1, 0, {"vm.swappiness": 1}),
        lambda: gone.end_slot(1, attempt, 0, SlotSet(0, 0, {}, True)),
        lambda: gone.fail_slot(1, attempt, 0, failure),
        lambda: gone.set_slots_measured(1, attempt, []),
        lambda: gone.set_steady(1, SteadyState("steady", 0.0, ""), Phases(0, 1, 2, 3)),
        lambda: gone.begin_step(1, attempt, "audit"),
        lambda: gone.end_step(step),
        lambda: gone.finish(1, attempt),
        lambda: gone.finish(1, attempt, failure),
        lambda: gone.begin_attempt(1, 0),
        lambda: gone.claims.release(),
    ]
    for write in late:
        with pytest.raises(LostClaimError, match=r"taken from gone .*is run by heir"):
            write()
    assert rows(lab) == before
    with pytest.raises(LostClaimError, match=r"trial 1 of the lab .* is run by another"):
        Store(lab, now=clock.now, owner="stranger").finish(1, attempt_2)
    heir.finish(1, attempt_2)
    trial = heir.load(1).trials[0]
    assert (trial.state, trial.responses) == (TrialState.DONE, {"throughput": 2.0})


def rows(lab: Path) -> dict[str, int]:
    """Everything that is in the tables of an attempt, as one number a table."""
    names = ("trials", "attempts", "blocks", "steps", "responses", "audits", "readings", "artefacts", "slots")
    with Store(lab).transaction() as connection:
        found = {name: connection.execute(text(f"SELECT * FROM {name}")).all() for name in names}
    return {name: hash(tuple(sorted(map(repr, every)))) for name, every in found.items()}


def change(lab: Path, *statements: str) -> None:
    with Store(lab).transaction() as connection:
        for statement in statements:
            connection.execute(text(statement))


def test_a_lease_is_renewed_while_nothing_is_written(lab: Path) -> None:
    store = Store(lab)
    store.claims._lease = 0.3
    store.begin_attempt(1, 0)
    told: list[LostClaimError] = []

    def until() -> float:
        with store.transaction() as connection:
            return float(connection.execute(text("SELECT leased_until FROM blocks")).scalar_one())

    with store.claims.alive(told.append):
        first = until()
        while until() <= first:
            pass
        claim = store.claims.hold(1, 0)
        Store(lab).claims.give_up(claim.token)
        while not told:
            pass
    assert "was taken from" in str(told[0])


def test_a_lab_of_before_is_brought_up_to_date(lab: Path) -> None:
    change(
        lab,
        *("DROP TABLE migrations", "DROP TABLE blocks", "ALTER TABLE attempts DROP COLUMN token"),
        "UPDATE trials SET state = 'running', attempt = 1, started = 1 WHERE id = 1",
        "INSERT INTO attempts (trial_id, attempt, started, failure_message, evidence) VALUES (1, 1, 1, '', '')",
    )
    store = Store(lab)
    assert store.claims.close_orphans(1) == [0]
    store.finish(2, store.begin_attempt(2, 1)[0])
    assert [trial.state for trial in Store(lab).load(1).trials] == ["failed", "done", "planned"]


def test_a_lab_of_a_later_version_is_left_alone(lab: Path) -> None:
    change(lab, "INSERT INTO migrations VALUES (99, 0)")
    with pytest.raises(LeadlineError, match=f"have version 99, this leadline knows versions up to {len(MIGRATIONS)}"):
        Store(lab)
