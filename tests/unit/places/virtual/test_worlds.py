"""Worlds: warmed once each, forked for every order, removed when nothing asks for them any more."""

import threading
from pathlib import Path
from typing import cast

import pytest

from leadline.model.errors import FailureClass, TrialFailure
from leadline.places.guest.machine import Outcome, Saved
from leadline.places.virtual.guests import Order, Past, Worlds, levels_of

FIRST, SECOND, THIRD = (Past(seed, (), ()) for seed in (1, 2, 3))


def order(past: Past, swappiness: int) -> Order:
    return Order(past, levels_of({"vm.swappiness": swappiness}))


class FakeGuests:
    """Saved guests and outcomes are their orders."""

    def __init__(self) -> None:
        self.warmed: list[Past] = []
        self.forked: list[Order] = []
        self.removed: list[object] = []
        self.broken: set[object] = set()
        self.go = threading.Event()
        self.go.set()

    def warm(self, past: Past, directory: Path) -> Saved:
        self.warmed.append(past)
        self.go.wait()
        if past in self.broken:
            raise TrialFailure(FailureClass.INFRASTRUCTURE, "no disk")
        return cast(Saved, past)

    def fork(self, saved: Saved, one: Order, directory: Path) -> Outcome:
        assert cast(object, saved) == one.past
        self.forked.append(one)
        if one in self.broken:
            raise TrialFailure(FailureClass.CONFIGURATION, "out of memory")
        return cast(Outcome, one)

    def worlds(self, home: Path, parallel: int = 2) -> Worlds:
        return Worlds(home, parallel, self.warm, self.fork, self.removed.append)


def test_a_world_is_warmed_once_for_all_its_forks(tmp_path: Path) -> None:
    guests = FakeGuests()
    worlds = guests.worlds(tmp_path)
    orders = [order(past, level) for past in (FIRST, SECOND) for level in (60, 10, 100)]
    worlds.run_ahead(orders)
    found = [worlds.result(one)[1] for one in orders]
    worlds.close(wait=True)
    assert cast(object, found) == orders
    assert sorted(guests.warmed, key=lambda past: past.seed) == [FIRST, SECOND]
    assert sorted(guests.forked, key=orders.index) == orders


def test_forks_run_in_the_order_in_which_they_were_asked_for(tmp_path: Path) -> None:
    """The second world is warm first; what it still waits for comes after the first world's."""
    guests = FakeGuests()
    forking, two = threading.Event(), threading.Event()

    def warm(past: Past, directory: Path) -> Saved:
        assert past != FIRST or forking.wait(30)
        return guests.warm(past, directory)

    def fork(saved: Saved, one: Order, directory: Path) -> Outcome:
        outcome = guests.fork(saved, one, directory)
        forking.set()
        if len(guests.forked) > 1:
            two.set()
        assert two.wait(30)
        return outcome

    worlds = Worlds(tmp_path, 2, warm, fork, guests.removed.append)
    orders = [order(past, level) for past in (FIRST, SECOND) for level in (60, 10, 100)]
    worlds.run_ahead(orders)
    for one in orders:
        worlds.result(one)
    worlds.close(wait=True)
    assert guests.forked[:2] == [order(SECOND, 60), order(FIRST, 60)]


def test_two_worlds_at_most_are_begun_ahead(tmp_path: Path) -> None:
    guests = FakeGuests()
    worlds = guests.worlds(tmp_path, parallel=4)
    worlds.run_ahead([order(past, 60) for past in (FIRST, SECOND, THIRD)])
    worlds.result(order(FIRST, 60))
    worlds.result(order(SECOND, 60))
    worlds.close(wait=True)
    assert THIRD not in guests.warmed


def test_a_failed_fork_is_told_and_is_run_anew_when_asked_again(tmp_path: Path) -> None:
    guests = FakeGuests()
    worlds = guests.worlds(tmp_path)
    bad, good = order(FIRST, 1), order(FIRST, 2)
    guests.broken = {bad}
    for _ in range(2):
        with pytest.raises(TrialFailure, match="out of memory"):
            worlds.result(bad)
    assert cast(object, worlds.result(good)[1]) == good
    worlds.close(wait=True)
    assert guests.forked == [bad, bad, good]
    assert guests.warmed == [FIRST]


def test_a_world_that_could_not_be_made_is_made_again(tmp_path: Path) -> None:
    guests = FakeGuests()
    worlds = guests.worlds(tmp_path)
    guests.broken = {FIRST}
    with pytest.raises(TrialFailure, match="no disk"):
        worlds.result(order(FIRST, 60))
    guests.broken = set()
    assert cast(object, worlds.result(order(FIRST, 60))[0]) == FIRST
    worlds.close(wait=True)


def test_saved_guests_that_nothing_asks_for_are_removed(tmp_path: Path) -> None:
    guests = FakeGuests()
    worlds = guests.worlds(tmp_path)
    for past in (FIRST, SECOND):
        worlds.result(order(past, 60))
    worlds.keep_only([SECOND])
    assert guests.removed == [FIRST]
    worlds.close(wait=True)
    assert guests.removed == [FIRST, SECOND]


def test_a_run_that_begins_by_ending_what_an_earlier_one_left_makes_its_guests(tmp_path: Path) -> None:
    guests = FakeGuests()
    worlds = guests.worlds(tmp_path)
    worlds.close()
    assert worlds.result(order(FIRST, 60))
    worlds.close(wait=True)


def test_what_waits_when_the_run_ends_is_interrupted(tmp_path: Path) -> None:
    guests = FakeGuests()
    guests.go.clear()
    worlds = guests.worlds(tmp_path, parallel=1)
    worlds.run_ahead([order(FIRST, 60), order(SECOND, 60)])
    worlds.close()
    guests.go.set()
    with pytest.raises(TrialFailure) as told:
        worlds.result(order(SECOND, 60))
    assert told.value.failure_class is FailureClass.INTERRUPTED
    with pytest.raises(TrialFailure):
        worlds.result(order(FIRST, 60))


def test_a_world_that_fails_because_the_run_ends_says_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    guests = FakeGuests()
    guests.go.clear()
    guests.broken = {FIRST}
    worlds = guests.worlds(tmp_path, parallel=1)
    worlds.run_ahead([order(FIRST, 60)])
    worlds.close()  # its forks are cancelled
    guests.go.set()
    worlds.close(wait=True)
    assert caplog.text == ""
    with pytest.raises(TrialFailure):
        worlds.result(order(FIRST, 60))
