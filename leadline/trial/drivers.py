"""The load of a trial from several drivers in step."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from leadline.load.cluster.hosts import Starter
from leadline.load.cluster.run import Cluster, DriverJob, told
from leadline.load.driver import DriverRun
from leadline.load.scenario import find_scenario
from leadline.load.series import started_unix_ns
from leadline.model.errors import FailureClass, LeadlineError, TrialFailure, UsageError
from leadline.model.hosts import DriverHost
from leadline.model.plan import Slot, Turn
from leadline.trial.system import SLOT_LEAD, OnLoad, OnSlot

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


_AWAY = (10.0, 20.0, 30.0)  # seconds between tries to reach hosts again


def check_drivers(drivers: Sequence[DriverHost], place: Path, start: Starter, message: Callable[[str], None]) -> None:
    """Reach every host before the first trial. Raises LeadlineError naming the one that cannot be used."""
    try:
        with Cluster(drivers, place, place / "logs", start) as cluster:
            for line in told(cluster.open()):
                message(line)
    except TrialFailure as error:
        raise LeadlineError(f"{error.message}; the study needs every host in `drivers`") from error


def reach_drivers(drivers: Sequence[DriverHost], place: Path, start: Starter, message: Callable[[str], None]) -> None:
    """Wait for hosts of which one was lost. Raises TrialFailure(interrupted) for one that stays away: that says nothing
    of the trial, which runs again with the next run.
    """
    for pause in (*_AWAY, None):
        try:
            with Cluster(drivers, place, place / "logs", start) as cluster:
                cluster.open()
            return
        except TrialFailure as lost:
            if pause is None:
                raise TrialFailure(FailureClass.INTERRUPTED, lost.message, lost.evidence) from None
            message(f"waiting for {lost.message}")
        time.sleep(pause)


def load_together(
    drivers: Sequence[DriverHost],
    run: DriverRun,
    logs: Path,
    start: Starter,
    on_load: OnLoad,
    look: Callable[[], None],
    pacer: Pacer | None,
    poll: float,
    overtime: float,
) -> None:
    """As one driver would do it; ``look`` is called at every poll and may raise.

    Raises TrialFailure(infrastructure) when a host is lost; on every host all that was started is ended.
    """
    at_home = [
        driver.model_copy(update={"cpus": run.cpus}) if driver.via == "local" and not driver.cpus else driver
        for driver in drivers
    ]
    job = DriverJob(find_scenario(run.workload.scenario), [run.url], run.options())
    with Cluster(at_home, run.out, logs, start) as cluster:
        cluster.open()
        try:
            began = cluster.begin(job)
        except UsageError as error:
            raise TrialFailure(FailureClass.CONFIGURATION, f"the drivers refuse the load: {error}") from error
        if pacer:
            pacer.begin_at(began)
        deadline = time.monotonic() + run.seconds + overtime
        while True:
            running = cluster.running()
            for second in cluster.poll():
                on_load(second)
            if not running:
                break
            look()
            if time.monotonic() > deadline:
                raise TrialFailure(
                    FailureClass.INFRASTRUCTURE, f"the drivers did not end within {run.seconds + overtime:.0f} s"
                )
            time.sleep(pacer.pace(poll) if pacer else poll)
        if pacer:
            pacer.check_complete()
        cluster.collect()
