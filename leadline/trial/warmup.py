"""The warm-up before a load: cycles of load and pause, ended by a rule fixed before the study.

The rule looks at warm-up cycles only, the same way at every trial, and all instances of a rotation end theirs together:
none of the seconds that are measured takes part in it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from leadline.design.seeds import block_seed
from leadline.model.errors import TrialFailure
from leadline.model.plan import Turn
from leadline.model.record import NOT_SETTLED, WARM_UP
from leadline.model.units import format_duration, rounded
from leadline.model.workload import WarmUp
from leadline.store.schema import PARTS
from leadline.trial.system import InTurns, LoadOutcome

if TYPE_CHECKING:
    from leadline.trial.lifecycle import Attempt, TrialRunner

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
