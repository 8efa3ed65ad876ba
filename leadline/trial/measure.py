"""From a trial's files to its responses: the warm-up cut first, then the window that is left.

The warm-up before a load is cycles of load and pause, ended by a rule fixed before the study. The rule looks at warm-up
cycles only, the same way at every trial, and all instances of a rotation end theirs together: none of the seconds that
are measured takes part in it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from leadline.analysis.steady import steady_state, steady_verdict
from leadline.design.order import block_seed
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
from leadline.model.errors import FailureClass, TrialFailure
from leadline.model.plan import Turn
from leadline.model.record import NOT_SETTLED, WARM_UP, Phases
from leadline.model.result import COMPILES, STARVES, MachineUse, SteadyState
from leadline.model.units import format_duration, rounded
from leadline.model.workload import WarmUp
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
from leadline.store.schema import PARTS
from leadline.trial.system import InTurns, LoadOutcome, Measured, SecondSeries, Window, WindowMeasured

if TYPE_CHECKING:
    from leadline.trial.lifecycle import Attempt, TrialRunner


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


BETTER_RATE, BETTER_LATENCY = 0.05, 0.10  # than the best cycle before: a change of throughput or median latency
RESTS = 0.1  # of a CPU, for each second of load: a compiler that works more has not ended its warm-up
_FIRST = 2  # seconds of a cycle in which users log in


@dataclass(frozen=True)
class Cycle:
    """What one cycle did to one instance: transactions a second, median latency in ms, the compiler's seconds of work
    for each second of load, and how many methods wait for it at the end; None where that is not known.
    """

    throughput: float
    latency: float
    work: float | None
    waiting: float | None


def unsettled(earlier: Sequence[Cycle], now: Cycle) -> str:
    """Why the warm-up has not ended with this cycle; empty where it has. What is slower than it was is a disturbance of
    the machine, and warming on would not mend that.
    """
    if not earlier:
        return "one cycle"
    rate, latency = max(cycle.throughput for cycle in earlier), min(cycle.latency for cycle in earlier)
    if not now.throughput > 0:
        return "no transaction succeeded"
    if now.throughput > (1 + BETTER_RATE) * rate:
        return f"throughput rose from {rounded(rate, 3)} to {rounded(now.throughput, 3)} a second"
    if now.latency < (1 - BETTER_LATENCY) * latency:
        return f"median latency fell from {rounded(latency, 3)} to {rounded(now.latency, 3)} ms"
    if now.work is None:
        return "what the compiler does is not known"
    if now.work > RESTS:
        return f"the compiler worked {now.work:.2f} s for each second of load"
    return f"{now.waiting:.0f} methods waited for the compiler" if now.waiting else ""


def warm_up(runner: TrialRunner, attempts: Sequence[Attempt]) -> None:
    """Warm the attempts that run side by side, where their study says so. One that fails leaves the others to go on."""
    plan, running = runner.study.workload.warm_up, [attempt for attempt in attempts if attempt.failure is None]
    if plan is None or not running:
        return
    with running[0].failing():
        runner.interruption.check()
        steps = [runner.store.begin_step(attempt.trial, attempt.number, WARM_UP) for attempt in running]
        runner.watcher.step(WARM_UP)
        cycles = _cycles(runner, plan, running)
        for step, attempt in zip(steps, running, strict=True):
            runner.store.end_step(step, cycles)
            attempt.warmed = cycles
        return
    for attempt in running[1:]:
        attempt.failure = attempt.failure or running[0].failure


def _cycles(runner: TrialRunner, plan: WarmUp, attempts: Sequence[Attempt]) -> str:
    why, before = "", {attempt.trial: list[Cycle]() for attempt in attempts}
    for number in range(1, plan.cycles + 1):
        running = [attempt for attempt in attempts if attempt.failure is None]
        if not running:
            return "every instance failed"
        _load(runner, plan, number, running)
        for rest in range(math.ceil(plan.pause)):
            runner.interruption.check()
            runner.host.busy(min(1.0, plan.pause - rest))
        if plan.until == "cycles":
            continue
        whys = []
        for attempt_ in running:
            if attempt_.failure is None:
                now = cycle_of(attempt_, plan, number)
                whys.append(unsettled(before[attempt_.trial], now))
                before[attempt_.trial].append(now)
        why = next(filter(None, whys), "")
        if whys and not why:
            return f"steady and compiled after {_told(plan, number, attempts)}"
    head = "as planned" if plan.until == "cycles" else NOT_SETTLED
    return f"{head} after {_told(plan, plan.cycles, attempts)}{f': {why}' if why else ''}"


def _told(plan: WarmUp, cycles: int, attempts: Sequence[Attempt]) -> str:
    of = f" of at most {plan.cycles}" if plan.until == "steady" else ""
    seconds = plan.seconds(len(attempts), cycles)
    return f"{format_duration(seconds)}, {cycles}{of} cycle{'s' if plan.cycles > 1 else ''}"


def _load(runner: TrialRunner, plan: WarmUp, number: int, running: Sequence[Attempt]) -> None:
    """One cycle's load, which another instance begins each time."""
    first = number % len(running)
    loads = [
        InTurns(
            attempt.system,
            attempt.directory / WARM_UP / str(number),
            block_seed(attempt.planned.seed, number),  # another: whoever registered in one cycle cannot in the next
            (Turn(at * plan.load, plan.load),),
        )
        for at, attempt in enumerate([*running[first:], *running[:first]])
    ]
    for load in loads:
        for name in PARTS:
            (load.directory / name).mkdir(parents=True)
    outcomes = runner.system.load_in_turns(loads, runner.watcher.load, lambda *_: None)
    for attempt, outcome in zip([*running[first:], *running[:first]], outcomes, strict=True):
        if isinstance(outcome, TrialFailure):
            attempt.failure = outcome
        else:
            attempt.counts = counted(attempt.counts, outcome)


def counted(before: Mapping[str, Mapping[str, int]], outcome: LoadOutcome) -> dict[str, dict[str, int]]:
    """Transactions of a load and of those before it: what the audits hold against the database."""
    nothing: Mapping[str, int] = {}
    return {
        name: {key: count + before.get(name, nothing).get(key, 0) for key, count in counts.items()}
        for name, counts in outcome.counts.items()
    }


def cycle_of(attempt: Attempt, plan: WarmUp, number: int) -> Cycle:
    """From the files of a cycle that has ended, its pause included."""
    series = attempt.system.recording.seconds(attempt.directory / WARM_UP / str(number))
    throughput, latency = (series.values[name] for name in ("throughput", "p50"))
    loaded = [at for at, rate in enumerate(throughput) if rate > 0][_FIRST if plan.load > 2 * _FIRST else 0 :]
    done = attempt.system.compiled(attempt.directory, series.begins[0])
    return Cycle(
        median(throughput[at] for at in loaded) if loaded else 0.0,
        median(latency[at] for at in loaded) if loaded else 0.0,
        None if done is None else done.work / plan.load,
        None if done is None else done.waiting,
    )
