"""The load of a trial from several drivers in step."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from leadline.load.cluster.hosts import Starter
from leadline.load.cluster.run import Cluster, DriverJob, told
from leadline.load.driver import DriverRun
from leadline.load.scenario import find_scenario
from leadline.model.drivers import DriverHost
from leadline.model.errors import FailureClass, LeadlineError, TrialFailure, UsageError
from leadline.trial.pacing import Pacer
from leadline.trial.system import OnLoad

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
