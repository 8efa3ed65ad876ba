"""When slots begin: the driver's own seconds, followed on a clock that is never set."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from leadline.load.series import started_unix_ns
from leadline.model.errors import FailureClass, TrialFailure
from leadline.model.plan import Slot, Turn
from leadline.trial.system import SLOT_LEAD, OnSlot

_STEP = 0.05  # seconds by which the driver's start may seem to lie outside the time in which it was waited for


class MonotonicClock:
    """Unix nanoseconds that follow the monotonic clock from the moment this was made: NTP cannot move them."""

    def __init__(self) -> None:
        self._offset = time.time_ns() - time.monotonic_ns()

    def now_ns(self) -> int:
        return time.monotonic_ns() + self._offset

    def sleep_until(self, unix_ns: int) -> None:
        while (left_ns := unix_ns - self.now_ns()) > 0:
            time.sleep(left_ns / 1e9)


class Pacer:
    """Calls ``on_slot`` for each slot of a driver's run. Made just before the driver starts."""

    def __init__(self, driver: Path, ramp_up: float, slots: Sequence[Slot] | Sequence[Turn], on_slot: OnSlot) -> None:
        self._driver = driver
        self._ramp_up = ramp_up
        self._slots = slots
        self._on_slot = on_slot
        self._clock = MonotonicClock()
        self._made_ns = self._clock.now_ns()
        self._started_ns: int | None = None
        self._next = 0

    def pace(self, at_most: float) -> float:
        """Begin what is due; returns the seconds until it must be called again, ``at_most`` or less.

        Raises TrialFailure(infrastructure) when the wall clock was set while the driver started.
        """
        if self._started_ns is None:
            self._started_ns = self._start()
            if self._started_ns is None:
                return at_most
        while self._next < len(self._slots):
            due_ns = self._started_ns + round((self._ramp_up + self._slots[self._next].begin) * 1e9)
            seconds_left = (due_ns - self._clock.now_ns()) / 1e9 - SLOT_LEAD
            if seconds_left > 0:
                return min(at_most, seconds_left)
            self._next += 1
            self._on_slot(self._next - 1, due_ns, self._clock)
        return at_most

    def begin_at(self, unix_ns: int) -> None:
        """The load begins at that moment, as several drivers agreed."""
        self._started_ns = unix_ns

    def check_complete(self) -> None:
        """Raises TrialFailure(infrastructure) unless every slot was begun."""
        if self._next < len(self._slots):
            raise TrialFailure(
                FailureClass.INFRASTRUCTURE, f"the driver ended after {self._next} of {len(self._slots)} slots"
            )

    def _start(self) -> int | None:
        """When the driver began, by the wall clock as it wrote it."""
        started = started_unix_ns(self._driver)
        if started is None:
            return None
        if not self._made_ns - _STEP * 1e9 <= started <= self._clock.now_ns() + _STEP * 1e9:
            raise TrialFailure(
                FailureClass.INFRASTRUCTURE, "the host's clock was set while the driver started; slots cannot be timed"
            )
        return started
