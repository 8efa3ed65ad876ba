"""The time that a run still takes."""

from __future__ import annotations

from leadline.lab.run import Clock


def test_time_left_follows_the_trials_that_were_timed() -> None:
    now = [0.0]
    clock = Clock(40.0, 1000.0, lambda: now[0])
    assert clock.left(10) == 400
    now[0] = 100.0
    clock.done(2)
    assert clock.left(10) == 500
    assert not clock.exhausted(18)
    assert clock.exhausted(19)


def test_the_boot_of_a_world_counts_once_all_of_its_forks_have_ended() -> None:
    now = [0.0]
    clock = Clock(40.0, None, lambda: now[0])
    now[0] = 300.0  # a boot and its first fork
    clock.done(1, settled=False)
    assert clock.left(10) == 400
    now[0] = 500.0
    clock.done(4)
    assert clock.left(10) == 1000
