"""One simulated trial: per-second series under a schedule of levels, with every trouble the truth has switched on."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from leadline.model.disturbance import MachineUse
from leadline.model.knob import Level
from leadline.model.plan import Turn
from leadline.model.workload import Workload
from leadline.places.simulated.model import (
    CPU,
    LATENCIES,
    RESPONSES,
    Failure,
    Floats,
    Model,
    Truth,
    holds,
    move,
)
from leadline.places.simulated.timing import taken

_LATENCY = slice(1, 1 + len(LATENCIES))
_CPU = slice(1 + len(LATENCIES), len(RESPONSES))
_FAILING = 0.05  # share of transactions that fail in a trial with a workload failure


@dataclass(frozen=True)
class Instance:
    """A server instance: what makes a trial's noise its own.

    ``number`` counts trials that were begun, ``block_seed`` is the plan's seed of the block, ``plot`` names the levels
    of the whole plot, ``hours`` tells the start of the load since the study began. With ``turns`` the noise of the
    seconds is the machine's: all instances of the block meet the same one. ``warmed``: seconds of load before this one.
    ``changes``: of a fork, what differs from its world's baseline in levels that have an effect; all else is the
    world's. ``host`` (from 0): where several hosts run blocks; ``usual`` are the baseline levels of real factors.
    """

    seed: int
    number: int
    block_seed: int
    plot: str
    hours: float
    turns: tuple[Turn, ...] = ()
    warmed: float = 0.0
    changes: tuple[str, ...] | None = None
    host: int | None = None
    usual: Mapping[str, Level] = field(default_factory=dict)

    def random(self, purpose: int, *more: int) -> np.random.Generator:
        """The noise of this trial, of forks of its whole world."""
        seed = self.number if self.changes is None else self.block_seed
        return np.random.default_rng([self.seed, seed, purpose, *more])


def changes_of(model: Model, levels: Mapping[str, Level], baseline: Mapping[str, Level]) -> tuple[str, ...]:
    """What a fork has other than its world's baseline, of what has an effect."""
    names = (name for name in model.relevant if name in baseline and levels[name] != baseline[name])
    return tuple(f"{name}={levels[name]}" for name in names)


@dataclass(frozen=True)
class TrialSeries:
    """A simulated load. ``logs``: logarithms of ``RESPONSES``, shape (responses, seconds), from the load's start;
    ``failed``: failed transactions of each second; ``steady``: seconds from and until.
    """

    logs: Floats
    failed: Floats
    steady: tuple[float, float]
    driver_was_limit: bool
    evidence: str
    others: Floats | None = None  # share of all CPUs that a neighbour took in each second

    def over(self, windows: Sequence[tuple[float, float]]) -> dict[str, float] | None:
        """The same of the whole seconds of several windows together."""
        seconds = [at for begin, end in windows for at in range(*whole_seconds(begin, end))]
        if not seconds or seconds[0] < 0 or seconds[-1] >= self.logs.shape[1]:
            return None
        return figures(np.exp(self.logs[:, seconds]).mean(axis=1), self.failed[seconds].mean())

    def machine(self, windows: Sequence[tuple[float, float]], name: str) -> MachineUse | None:
        """What the neighbour took in windows of the load, seconds from its start; None without a neighbour."""
        if self.others is None:
            return None
        seconds = [
            at for begin, end in windows for at in range(*whole_seconds(begin, end)) if 0 <= at < len(self.others)
        ]
        share = float(self.others[seconds].mean()) if seconds else 0.0
        return MachineUse({"others_cpu": share, "steal": 0.0}, {name: share} if share else {})

    def window(self, begin: float, end: float) -> dict[str, float] | None:
        """Responses of the whole seconds inside [begin, end), None where there is none.

        Throughput and latencies are means of the seconds; a percentile is the mean of the seconds' percentiles.
        """
        first, last = whole_seconds(begin, end)
        if last <= first or first < 0 or last > self.logs.shape[1]:
            return None
        return figures(np.exp(self.logs[:, first:last]).mean(axis=1), self.failed[first:last].mean())


def whole_seconds(begin: float, end: float) -> tuple[int, int]:
    """First and last (exclusive) whole second inside a window, as the driver's files are read."""
    return math.ceil(begin - 1e-6), math.floor(end + 1e-6)


def figures(means: Floats, failed: float) -> dict[str, float]:
    """Responses by name from the means of a window, shape (responses,)."""
    figures = {name: float(value) for name, value in zip(RESPONSES, means, strict=True)}
    ok = figures["throughput"]
    figures["cpu_per_transaction"] = figures["steady_cpu_per_transaction"] = sum(figures[name] for name in CPU)
    figures["errors"] = float(failed) / (ok + float(failed)) if ok + failed > 0 else 0.0
    return figures


def failure_of(truth: Truth, instance: Instance, levels: Mapping[str, Level]) -> Failure | None:
    """The failure that this trial meets, if any: the first of the truth's that strikes."""
    if not truth.failures:
        return None
    draws = np.random.default_rng([instance.seed, instance.number, 0]).random(len(truth.failures))
    for failure, draw in zip(truth.failures, draws, strict=True):
        if draw < failure.probability and holds(failure.when, levels):
            return failure
    return None


def startup_of(model: Model, instance: Instance, levels: Mapping[str, Level]) -> float:
    """Seconds of this trial's server start, noise included."""
    spread = lognormal_sigma(model.truth.noise.startup)
    noise = math.exp(np.random.default_rng([instance.seed, instance.number, 2]).normal(0.0, spread)) if spread else 1.0
    return model.startup(levels) * noise


def trial_series(
    model: Model,
    instance: Instance,
    schedule: Sequence[tuple[float, Mapping[str, Level]]],
    steady: float,
    failing: Failure | None = None,
) -> TrialSeries:
    """The load of one trial second by second.

    ``schedule``: (seconds since the load's start, levels from then on), ascending, the first at 0. ``steady``: length
    of the steady state in seconds. ``failing``: a failure that shows in the load itself.
    """
    truth, workload = model.truth, model.workload
    count = max(1, math.ceil(workload.ramp_up + steady + workload.ramp_down - 1e-6))
    middle = np.arange(count, dtype=np.float64) + 0.5
    targets = [(begin, model.logs(levels) + host_logs(truth, instance, levels)) for begin, levels in schedule]
    logs = _levels(targets, middle, truth.carry_over)
    speed, latency, cpu = _noise(truth, instance, middle)
    logs[0] += speed
    logs[_LATENCY] += latency - speed
    logs[_CPU] += cpu
    logs[0] += np.log(_ramp(workload, steady, middle))
    if instance.turns:
        logs[0, ~_loaded(instance.turns, middle)] = -np.inf
    others = None
    if truth.neighbour is not None and instance.changes is None:
        others = taken(truth, instance.seed, instance.hours * 3600, schedule, count)
        slower = np.log1p(-truth.neighbour.harm * others)
        logs[0] += slower
        logs[_LATENCY] -= slower
        logs[_CPU] += np.log1p(truth.neighbour.cpu * others)
    begin, end = workload.ramp_up, workload.ramp_up + steady
    limited, evidence = _limit(truth, logs, begin, end, failing)
    failed = np.zeros(count)
    if failing is not None and failing.failure_class.value == "workload":
        failed = np.exp(logs[0]) * _FAILING / (1 - _FAILING)
    return TrialSeries(logs, failed, (begin, end), limited, evidence, others)


def lognormal_sigma(cv: float) -> float:
    """Standard deviation of the logarithm that gives a coefficient of variation."""
    return math.sqrt(math.log1p(cv * cv))


def plot_key(dear: Mapping[str, Level]) -> str:
    """Name of the whole plot with these levels of its dear knobs; empty when there are none."""
    return json.dumps(sorted(dear.items())) if dear else ""


def host_logs(truth: Truth, instance: Instance, levels: Mapping[str, Level]) -> Floats:
    """What the host adds to the logarithms of ``RESPONSES`` at these levels."""
    logs, hosts = np.zeros(len(RESPONSES)), truth.hosts
    if hosts is None or instance.host is None:
        return logs
    moved = [f"{name}={levels[name]}" for name, usual in instance.usual.items() if levels[name] != usual]
    speed = lognormal_sigma(hosts.spread) * _of_host(instance, "")
    speed += lognormal_sigma(hosts.effects) * sum(_of_host(instance, move) for move in moved)
    logs[0] += speed
    logs[_LATENCY] -= speed
    for host in hosts.own:
        if host.host == instance.host + 1 and holds(host.when, levels):
            move(logs, host.percent)
    return logs


def _of_host(instance: Instance, what: str) -> float:
    """A standard normal figure of this host."""
    digest = hashlib.sha256(f"{instance.seed}/host {instance.host}/{what}".encode()).digest()
    return float(np.random.default_rng(int.from_bytes(digest[:8], "big")).standard_normal())


def _levels(schedule: Sequence[tuple[float, Floats]], middle: Floats, carry_over: float) -> Floats:
    """Noise-free logarithms; a change is approached exponentially with the time constant ``carry_over``."""
    logs = np.empty((len(RESPONSES), len(middle)))
    bounds = [*(int(np.searchsorted(middle, begin)) for begin, _ in schedule), len(middle)]
    state: Floats | None = None
    for (begin, target), first, last in zip(schedule, bounds, bounds[1:], strict=False):
        if state is None or carry_over <= 0:
            logs[:, first:last] = target[:, None]
            state = target
            continue
        logs[:, first:last] = target[:, None] + np.outer(
            state - target, np.exp(-(middle[first:last] - begin) / carry_over)
        )
        following = next((later for later, _ in schedule if later > begin), float(len(middle)))
        state = target + (state - target) * math.exp(-(following - begin) / carry_over)
    return logs


def _noise(truth: Truth, instance: Instance, middle: Floats) -> tuple[Floats, Floats, float]:
    """Logarithmic noise of throughput by second, of latencies on top by second, and of CPU for the whole trial."""
    noise, outliers = truth.noise, truth.outliers
    rng = instance.random(1)
    trial, latency, cpu = rng.standard_normal(3)
    if instance.warmed:  # another load of the same instance: other seconds
        rng = instance.random(1, round(instance.warmed))
    count = len(middle)
    shocks = (_shared(instance, "seconds") if instance.turns else rng).standard_normal(count)
    white = rng.standard_normal(count)
    strikes = rng.random(count + 1)
    r = noise.autocorrelation
    shocks[1:] *= math.sqrt(1 - r * r)
    from scipy.signal import lfilter  # half a second

    series = lognormal_sigma(noise.seconds) * lfilter([1.0], [1.0, -r], shocks)
    level = lognormal_sigma(noise.trials) * trial
    if noise.blocks:
        level += lognormal_sigma(noise.blocks) * float(_shared(instance, "block").standard_normal())
    if noise.plots and instance.plot:
        level += lognormal_sigma(noise.plots) * float(_shared(instance, instance.plot).standard_normal())
    if strikes[count] < outliers.trials:
        level += math.log1p(-outliers.trial_depth)
    more_cpu = 0.0
    for change in instance.changes or ():
        own_level, own_cpu = lognormal_sigma(noise.worlds) * _shared(instance, change).standard_normal(2)
        level, more_cpu = level + float(own_level), more_cpu + float(own_cpu)
    hours = instance.hours + middle / 3600 if instance.changes is None else 0.0
    speed = series + level + math.log1p(truth.drift) * hours
    speed = speed + np.log(
        _warm_up(truth, instance.warmed + (_under_load(instance.turns, middle) if instance.turns else middle))
    )
    speed[strikes[:count] < outliers.seconds] += math.log1p(-outliers.second_depth)
    more = lognormal_sigma(noise.latency_trials) * latency + lognormal_sigma(noise.latency_seconds) * white
    return speed, np.asarray(more), lognormal_sigma(noise.cpu_trials) * float(cpu) + more_cpu


def _shared(instance: Instance, what: str) -> np.random.Generator:
    """Noise that all trials of a block, or of a whole plot in it, have in common."""
    digest = hashlib.sha256(f"{instance.seed}/{instance.block_seed}/{what}".encode()).digest()
    return np.random.default_rng(int.from_bytes(digest[:8], "big"))


def _warm_up(truth: Truth, middle: Floats) -> Floats:
    shape, depth, seconds = truth.warm_up.shape, truth.warm_up.depth, truth.warm_up.seconds
    if shape == "exponential":
        return np.asarray(1 - depth * np.exp(-middle / seconds))
    if shape == "step":
        return np.where(middle < seconds, 1 - depth, 1.0)
    if shape == "never-steady":
        return np.asarray(1 + depth / 2 * np.sin(2 * np.pi * middle / seconds))
    if shape == "slowing-down":
        return np.asarray(1 - depth * middle / len(middle))
    return np.ones(len(middle))


def _loaded(turns: Sequence[Turn], middle: Floats) -> NDArray[np.bool_]:
    """Whether each second lies in a turn."""
    return np.asarray(np.any([(turn.begin <= middle) & (middle < turn.end) for turn in turns], axis=0), dtype=np.bool_)


def _under_load(turns: Sequence[Turn], middle: Floats) -> Floats:
    """How long there has been load until each moment."""
    return np.asarray(np.sum([np.clip(middle - turn.begin, 0.0, turn.seconds) for turn in turns], axis=0))


def _ramp(workload: Workload, steady: float, middle: Floats) -> Floats:
    """Share of the load that is on: rises and falls along a straight line."""
    up = middle / workload.ramp_up if workload.ramp_up > 0 else np.ones(len(middle))
    remaining = workload.ramp_up + steady + workload.ramp_down - middle
    down = remaining / workload.ramp_down if workload.ramp_down > 0 else np.ones(len(middle))
    return np.asarray(np.clip(np.minimum(up, down), 1e-3, 1.0))


def _limit(truth: Truth, logs: Floats, begin: float, end: float, failing: Failure | None) -> tuple[bool, str]:
    """Cuts throughput to what the driver can do; tells whether that was the limit."""
    if failing is not None and failing.failure_class.value == "bottleneck":
        return True, failing.message or "simulated: the driver's core was busy throughout"
    capacity = truth.driver.capacity
    if capacity is None:
        return False, ""
    first, last = whole_seconds(begin, end)
    wanted = float(np.exp(logs[0, first:last]).mean()) if last > first else 0.0
    np.minimum(logs[0], math.log(capacity), out=logs[0])
    if wanted <= capacity:
        return False, ""
    return True, f"simulated: {wanted:.0f} transactions a second were due, the driver can do {capacity:g}"
