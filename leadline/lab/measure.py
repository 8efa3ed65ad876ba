"""From a trial's files to its responses: the warm-up cut first, then the window that is left."""

from __future__ import annotations

from pathlib import Path

from leadline.analysis import steady_state
from leadline.lab.system import Measured
from leadline.load.driver import read_summary, responses_between, steady_series
from leadline.model.errors import FailureClass, TrialFailure
from leadline.model.record import Phases
from leadline.model.result import SteadyState
from leadline.observe.window import cpu_between, gc_share_between

_WORST_FIRST = ("never-steady", "slowing-down", "still-warming", "too-short", "steady")


def measure(directory: Path, startup: float) -> Measured:
    """Responses of the steady window. Where no steady state was found the whole planned window is used, and the
    verdict says so. Raises TrialFailure(workload) when no transaction succeeded in it.
    """
    driver = directory / "driver"
    summary = read_summary(driver)
    started = summary.started_unix_ns / 1e9
    begin, end = summary.phases.steady
    series = steady_series(driver)
    inside = [second for second in series if begin <= second.second and second.second + 1 <= end]
    verdict = worst(
        steady_state([second.ok_per_s for second in inside]),
        steady_state([second.response_mean_ms for second in inside], higher_is_better=False),
    )
    cut = verdict.cut or 0.0
    if end - (begin + cut) < 1.0:
        cut = 0.0
    window = responses_between(driver, begin + cut, end)
    if window.count == 0:
        raise TrialFailure(FailureClass.WORKLOAD, "no transaction succeeded in the steady state")
    responses = {
        "throughput": window.throughput,
        "mean": window.mean,
        "p50": window.p50,
        "p90": window.p90,
        "p95": window.p95,
        "p99": window.p99,
        "p999": window.p999,
        "max": window.max,
        "errors": window.errors,
        "startup": startup,
    }
    phases = Phases(started, started + begin + cut, started + end, started + summary.phases.drained)
    responses.update(_cpu(directory / "series", phases, window.throughput))
    pause_share = gc_share_between(directory / "series", phases.steady_from, phases.steady_until)
    if pause_share is not None:
        responses["gc_share"] = pause_share
    return Measured(responses, verdict, phases)


def _cpu(series: Path, phases: Phases, throughput: float) -> dict[str, float]:
    found = {}
    for role in ("server", "database"):
        use = cpu_between(series, role, phases.steady_from, phases.steady_until)
        if use is not None and throughput > 0:
            found[f"{role}_cpu_per_transaction"] = 1000 * use.share / throughput
    if len(found) == 2:
        found["cpu_per_transaction"] = sum(found.values())
    return found


def worst(*verdicts: SteadyState) -> SteadyState:
    """The least steady verdict; among steady ones the latest cut."""
    return min(verdicts, key=lambda verdict: (_WORST_FIRST.index(verdict.verdict), -(verdict.cut or 0.0)))
