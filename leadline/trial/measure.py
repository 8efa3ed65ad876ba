"""From a trial's files to its responses: the warm-up cut first, then the window that is left."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl

from leadline.analysis.steady import steady_state, steady_verdict
from leadline.host.received import csv_file
from leadline.load.result import read_summary
from leadline.load.series import (
    WindowResult,
    driver_wait,
    responses_between,
    responses_in_windows,
    responses_of,
    responses_over,
    started_unix_ns,
    steady_series,
    within_limits,
)
from leadline.model.disturbance import MachineUse
from leadline.model.errors import FailureClass, TrialFailure
from leadline.model.record import Phases
from leadline.model.result import COMPILES, STARVES, SteadyState
from leadline.model.units import rounded
from leadline.observe.window import (
    CpuLines,
    MachineLines,
    Recorded,
    Windows,
    compiling,
    context_switches,
    cpu_per_transaction,
    database_work,
    deoptimised,
    gc_share,
    modes_and_memory,
    services_cpu,
    waiting_to_compile,
    waits,
)
from leadline.trial.system import Measured, SecondSeries, Window, WindowMeasured
from leadline.trial.warmup import RESTS

FILE = Path("raw") / "completions.csv"  # of a trial's directory: accepted_us,effective_us
_PERCENTILES = {"p50": 50, "p90": 90, "p99": 99}


def completion_between(directory: Path, from_s: float, until_s: float) -> Mapping[str, float]:
    """``completion_mean`` and percentiles in milliseconds of the orders accepted in the window of Unix seconds.

    Empty where no order went through a queue or none was accepted in the window.
    """
    try:
        rows = csv_file(directory / FILE, {"accepted_us": pl.Int64, "effective_us": pl.Int64})
    except FileNotFoundError:
        return {}
    accepted, effective = (rows[name].to_numpy() for name in rows.columns)
    inside = (accepted >= from_s * 1e6) & (accepted < until_s * 1e6)
    times = (effective - accepted)[inside] / 1e3
    if not times.size:
        return {}
    figures = {f"completion_{name}": float(np.percentile(times, share)) for name, share in _PERCENTILES.items()}
    return {"completion_mean": float(times.mean()), **figures}


# Responses that observers recorded: of windows of the load in unix seconds, and its transactions a second there.
RECORDED: tuple[Callable[[Recorded, Windows, float], Mapping[str, float]], ...] = (
    modes_and_memory,
    cpu_per_transaction,
    context_switches,
    database_work,
    gc_share,
)
STARVING = 0.5  # of the samples: a compiler that always has methods waiting gets too little CPU
_WORST_FIRST = ("never-steady", "slowing-down", "still-warming", "too-short", "steady")


def measure(directory: Path, startup: float) -> Measured:
    """Responses of the steady window. Where no steady state was found the whole planned window is used, and the
    verdict says so. Raises TrialFailure(workload) when no transaction succeeded in it.
    """
    driver = directory / "driver"
    summary = read_summary(driver)
    started = summary.started_unix_ns / 1e9
    begin, end = summary.phases.steady
    rows = steady_series(driver)
    inside = [row for row in rows if begin <= row.second and row.second + 1 <= end]
    verdict = worst(
        steady_verdict([second.ok_per_s for second in inside], [second.p99 for second in inside]),
        steady_state([second.response_mean_ms for second in inside], higher_is_better=False),
    )
    cut = verdict.cut or 0.0
    if end - (begin + cut) < 1.0:
        cut = 0.0
    window = responses_between(driver, begin + cut, end)
    if window.ok == 0:
        raise TrialFailure(FailureClass.WORKLOAD, "no transaction succeeded in the steady state")
    responses = {**_figures(window), **driver_wait(rows, [(begin + cut, end)]), "startup": startup}
    phases = Phases(started, started + begin + cut, started + end, started + summary.phases.drained)
    recorded = Recorded(directory / "series")
    responses.update(_recorded(recorded, [(phases.steady_from, phases.steady_until)], window))
    responses.update(completion_between(directory, phases.steady_from, phases.steady_until))
    responses.update(responses_of(within_limits(driver, begin + cut, end, summary.limits)))
    return Measured(responses, while_compiling(verdict, recorded, phases), phases)


def while_compiling(verdict: SteadyState, recorded: Recorded, phases: Phases) -> SteadyState:
    """With a word on the compiler where it still works in the second half of what was measured."""
    middle = (phases.steady_from + phases.steady_until) / 2
    work = compiling(recorded, middle, phases.steady_until)
    waited, methods = waiting_to_compile(recorded, middle, phases.steady_until) or (0.0, 0.0)
    if waited > STARVING:
        sentence = (
            f"{STARVES}: in {waited:.0%} of the samples of its second half methods waited for it, "
            f"{methods:.1f} on average; warm up with pauses, or longer"
        )
    elif work is not None and work >= RESTS:
        given_up = deoptimised(recorded, middle, phases.steady_until)
        sentence = (
            f"{COMPILES}: compiler threads were busy for {work:.0%} of its second half"
            f"{f', and {rounded(given_up, 2)} methods a second lost their optimised code' if given_up else ''}"
            "; a longer ramp-up may be faster"
        )
    else:
        return verdict
    return replace(verdict, sentence=f"{verdict.sentence.removesuffix('.')}; {sentence}")


def measure_turns(directory: Path, startup: float, windows: Sequence[tuple[float, float]]) -> Measured:
    """Responses of all windows together (seconds since the start of the load, whole ones). CPU per transaction is the
    CPU in the windows by the transactions that ended there; ``completion`` is of the whole steady state. The verdict is
    on the seconds of the windows, one after the other; nothing is cut. Raises TrialFailure(workload) when no
    transaction succeeded.
    """
    driver, recorded = directory / "driver", Recorded(directory / "series")
    summary = read_summary(driver)
    started = summary.started_unix_ns / 1e9
    inside = {second for begin, end in windows for second in range(round(begin), round(end))}
    rows = [row for row in steady_series(driver) if row.second in inside]
    verdict = worst(
        steady_verdict([row.ok_per_s for row in rows], [row.p99 for row in rows]),
        steady_state([row.response_mean_ms for row in rows], higher_is_better=False),
    )
    window = responses_over(driver, windows)
    if window.ok == 0:
        raise TrialFailure(FailureClass.WORKLOAD, "no transaction succeeded in the turns of this instance")
    begin, end = summary.phases.steady
    phases = Phases(started, started + begin, started + end, started + summary.phases.drained)
    responses = {**_figures(window), **driver_wait(rows, windows), "startup": startup}
    unix = [(started + begin, started + end) for begin, end in windows]
    responses.update(_recorded(recorded, unix, window))
    responses.update(completion_between(directory, phases.steady_from, phases.steady_until))
    return Measured(responses, while_compiling(verdict, recorded, phases), phases)


def idle_cpu(directory: Path, others: Sequence[Path], windows: Sequence[tuple[float, float]]) -> list[float | None]:
    """CPU that the services of the ``others`` used in each window of the load of ``directory``, all together, as a
    share of one CPU; None where one of them was not recorded.
    """
    started, recorded = _started(directory / "driver"), [CpuLines(other / "series") for other in others]
    found: list[float | None] = []
    for begin, end in windows:
        used = [services_cpu(lines, started + begin, started + end) for lines in recorded]
        found.append(None if None in used else sum(cpu for cpu in used if cpu is not None))
    return found


def measure_windows(directory: Path, windows: Sequence[Window]) -> list[WindowMeasured]:
    """Responses of the whole seconds inside each window, in the order of ``windows``."""
    driver, recorded = directory / "driver", Recorded(directory / "series")
    started, rows = _started(driver), steady_series(driver)
    # Unix seconds as floats are good to a microsecond; the driver's seconds start on whole ones of its own clock.
    relative = [(round(window.begin - started, 4), round(window.end - started, 4)) for window in windows]
    measured = []
    for asked, (begin, end), result in zip(windows, relative, responses_in_windows(driver, relative), strict=True):
        if result is None:
            measured.append(WindowMeasured(asked, reason="it holds no whole second"))
            continue
        first, last = float(np.ceil(begin - 1e-6)), float(np.floor(end + 1e-6))
        window = Window(started + first, started + last)
        if result.ok == 0:
            measured.append(WindowMeasured(window, reason="no transaction succeeded"))
            continue
        responses = {**_figures(result), **driver_wait(rows, [(first, last)])}
        responses.update(_recorded(recorded, [(window.begin, window.end)], result))
        responses.update(completion_between(directory, window.begin, window.end))
        measured.append(WindowMeasured(window, responses))
    return measured


def seconds(directory: Path) -> SecondSeries:
    """The driver's rows as series by unix time."""
    driver = directory / "driver"
    started, rows = _started(driver), steady_series(driver)
    values: Mapping[str, Sequence[float]] = {
        "throughput": [row.ok_per_s for row in rows],
        "mean": [row.response_mean_ms for row in rows],
        "p50": [row.p50 for row in rows],
        "p99": [row.p99 for row in rows],
    }
    return SecondSeries([started + row.second for row in rows], values)


class DriverRecording:
    """What the driver and the observers of a trial wrote. ``elsewhere``: roles that do not run on this machine."""

    def __init__(self, elsewhere: Sequence[str] = ()) -> None:
        self._elsewhere = elsewhere

    def measure(self, directory: Path, startup: float) -> Measured:
        return measure(directory, startup)

    def machine_use(
        self, directory: Path, stretches: Sequence[Sequence[tuple[float, float]]], beside: Sequence[Path] = ()
    ) -> Sequence[MachineUse | None]:
        lines = MachineLines(directory / "series", [other / "series" for other in beside], self._elsewhere)
        return [lines.use(windows) for windows in stretches]

    measure_windows = staticmethod(measure_windows)
    measure_turns = staticmethod(measure_turns)
    idle_cpu = staticmethod(idle_cpu)
    seconds = staticmethod(seconds)


def _recorded(recorded: Recorded, windows: Windows, result: WindowResult) -> dict[str, float]:
    responses = {name: value for row in RECORDED for name, value in row(recorded, windows, result.throughput).items()}
    return responses | waits(recorded, windows, result.throughput, result.mean)


def _started(driver: Path) -> float:
    began = started_unix_ns(driver)
    if began is None:
        raise TrialFailure(FailureClass.INFRASTRUCTURE, "the driver wrote no second")
    return began / 1e9


def _figures(window: WindowResult) -> dict[str, float]:
    return {
        "throughput": window.throughput,
        "mean": window.mean,
        "p50": window.p50,
        "p90": window.p90,
        "p95": window.p95,
        "p99": window.p99,
        "p999": window.p999,
        "max": window.max,
        "errors": window.errors,
    }


def worst(*verdicts: SteadyState) -> SteadyState:
    """The least steady verdict; among steady ones the latest cut."""
    return min(verdicts, key=lambda verdict: (_WORST_FIRST.index(verdict.verdict), -(verdict.cut or 0.0)))
