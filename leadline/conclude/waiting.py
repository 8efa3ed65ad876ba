"""What response times consist of, and of which parts their changes: per slot or trial, compared as any response is.

The mean is known by part from counters (Little's law). Where every wait of the server's threads was recorded with its
stack (``profile: full``), a request is what a thread does from one wait for work, or read of a request, to the next:
p50 and p99 then are those of the requests about as slow, and each wait has the code that waited. What remains of the
response time is a part, too.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from types import MappingProxyType

import numpy as np

from leadline.analysis.frames import Recording, frame_effects
from leadline.conclude.explanation import MOST_TOLD, Group, Statements, Unit, grouped, layer_of, short
from leadline.conclude.explanation import sentence as frames_sentence
from leadline.design.profiling import Place
from leadline.model import frames
from leadline.model.knob import Level
from leadline.model.naming import Describe
from leadline.model.plan import Factor, Plan
from leadline.model.result import Observation
from leadline.model.units import rounded

Parts = dict[str, float]  # ms by part and, behind a semicolon, the code that waited
# Response of each part of the mean; those of the server's threads are taken from their waits where these are recorded.
_COUNTED = {
    frames.CODE: "application_cpu_per_transaction",
    frames.DELAYED: "run_delay",
    frames.THREAD_WAIT: "thread_wait",
    frames.DRIVING: "driver_wait",
    frames.CONNECTION_WAIT: "connection_wait",
    frames.DATABASE_WAIT: "statement_time",
    frames.PAUSED: "pause_wait",
}
_RECORDED = (frames.CONNECTION_WAIT, frames.DATABASE_WAIT, frames.PAUSED, frames.DELAYED)
_BANDS = {"p50": (0.4, 0.6), "p99": (0.98, 0.998)}  # ranks of the requests that are about as slow
_FEWEST = 200  # requests of a slot or trial whose p99 is told
_ONE_EACH = (0.8, 1.25)  # requests of a transaction from and until which a request's parts are the transaction's
_GET = (".getConnection", ".borrowObject", ".borrowConnection")  # of pools
_LOCKS = ("ReentrantLock", "ReentrantReadWriteLock", "StampedLock")
_IDLE = "idle"
_OFTEN = 0.1  # change of calls from which on it is told
_SHARE = 0.1  # of the difference of a slow request from a median one, from which on a part is told


@dataclass(frozen=True)
class Request:
    """What a thread of the server did for a request that waits for something: ``ms`` in all, and by part."""

    ms: float
    parts: Parts

    @property
    def kind(self) -> str:
        """The code that waits in it first."""
        return next((code for key in self.parts if (code := key.partition(";")[2])), "")


@dataclass(frozen=True)
class Served:
    """The requests of a slot or trial, and its seconds."""

    requests: Sequence[Request]
    seconds: float


@dataclass(frozen=True)
class _Unit:
    """``parts`` of each response, in ms: they sum to the response. ``calls`` per transaction, by statement."""

    observation: Observation
    parts: Mapping[str, Parts] = field(default_factory=dict)
    calls: Mapping[str, float] = field(default_factory=dict)


def requests_of(
    waits: Sequence[tuple[str, str, float, float]], pauses: Sequence[tuple[float, float]] = ()
) -> list[Request]:
    """``waits``: event, thread and stack, begin and end in ms of one clock; ``pauses``: begin and end of all threads'
    pauses, which belong to no wait.
    """
    begins, ends = (np.array([wait[at] for wait in waits], dtype=np.float64) for at in (2, 3))
    edges, paused = np.array(sorted(pauses), dtype=np.float64).reshape(-1, 2), np.zeros(1)
    paused = np.repeat(np.concatenate([[0.0], np.cumsum(edges[:, 1] - edges[:, 0])]), 2)[1:-1]

    def before(times: np.ndarray) -> list[float]:
        return list(np.interp(times, edges.ravel(), paused) if len(edges) else np.zeros(len(times)))

    threads = defaultdict[str, list[tuple[float, float, float, float, str]]](list)
    for (event, subject, begin, end), first, last in zip(waits, before(begins), before(ends), strict=True):
        thread, _, stack = subject.partition(";")
        threads[thread].append((begin, end, first, last, part_of(event, stack)))
    requests = []
    for events in threads.values():
        since: tuple[float, float] | None = None
        parts = defaultdict[str, float](float)
        for begin, end, first, last, part in (
            sorted(events) if any(event[-1] not in ("", _IDLE) for event in events) else ()
        ):
            if part == _IDLE:
                if since is not None and parts:
                    whole = begin - since[0]
                    parts[frames.PAUSED] = first - since[1]
                    parts[frames.CODE] = whole - sum(parts.values())
                    requests.append(Request(whole, dict(parts)))
                since, parts = (end, last), defaultdict(float)
            elif part:
                parts[part] += end - begin - (last - first)
    return requests


@cache
def part_of(event: str, stack: str) -> str:
    """Of a wait: its part and the code that waits, ``_IDLE`` for one for work, empty for one of neither."""
    names = stack.split(";")
    at = next((at for at, name in enumerate(names) if name.endswith(_GET)), len(names))
    code = next((short(name) for name in reversed(names[:at]) if layer_of(name) == frames.APPLICATION), "")
    drives = any(layer_of(name) == frames.DRIVER for name in names)
    if event == "jdk.SocketRead":
        part = frames.DATABASE_WAIT if drives else frames.OTHER_WAIT if code else _IDLE
    elif event == "jdk.JavaMonitorEnter":
        part = frames.LOCK_WAIT
    elif not code:
        return _IDLE if event != "jdk.ThreadSleep" else ""
    elif at < len(names):
        part = frames.CONNECTION_WAIT
    elif any(name.rpartition(".")[0].endswith(_LOCKS) or f"{lock}$" in name for name in names for lock in _LOCKS):
        part = frames.LOCK_WAIT
    else:
        part = frames.DATABASE_WAIT if drives else frames.SLEEP
    return f"{part};{code}" if part and code else part


def explain_waits(
    plan: Plan,
    observations: Sequence[Observation],
    served: Mapping[Place, Served],
    describe: Describe,
    statements: Mapping[Place, Statements] = MappingProxyType({}),
) -> frames.StudyWaits | None:
    """``served`` and ``statements``: by number of the trial, and slot. None where nothing tells what response times
    consist of.
    """
    requests = {place: of for place, of in served.items() if of.requests}
    units = [
        _Unit(observation, parts)
        for observation in observations
        if not requests or (observation.trial, observation.slot) in requests  # parts by counters are others
        if (parts := _parts(observation, requests.get((observation.trial, observation.slot))))
    ]
    units += [
        _by_statement(observation, of_place)
        for observation in observations
        if (of_place := statements.get((observation.trial, observation.slot)))
        and observation.responses.get("throughput")
    ]
    responses = [name for name in (frames.STATEMENT_TIME, "mean", *_BANDS) if any(name in unit.parts for unit in units)]
    levels = []
    for comparison in plan.comparisons:
        factor = next(factor for factor in plan.factors if factor.name == comparison.factor)
        name = f"{factor.name}={describe(factor.name, comparison.level)}"
        for response in responses:
            of_response = [unit for unit in units if response in unit.parts]
            groups = grouped(of_response, factor.name, comparison.level, factor.baseline)
            try:
                recordings = [_recording(group, response) for group in groups]
                effects = frame_effects(recordings, sampled=False, comparisons=len(plan.comparisons) * len(responses))
            except ValueError:  # one of both levels tells nothing
                continue
            if min(effects.recordings) > 1:
                parts_alone = sum(path.change for path in effects.paths if len(path.path) == 1)
                effects = replace(effects, methods=(), rest=effects.total.change - parts_alone)
                sentence = frames_sentence(effects, unit_of(name, response)) + _calls(
                    of_response, effects, factor, comparison.level
                )
                levels.append(frames.LevelWaits(factor.name, comparison.level, name, response, effects, sentence))
    if not levels:
        return None
    slow = _slow(plan, observations, served, describe)
    recorded = any(level.response in _BANDS for level in levels)
    note = "In p50 and p99 server code has its waiting for a CPU in it."
    if not recorded:
        note = (
            "Parts that go on at once overlap. `profile: full` also tells p50, p99, locks, sleeps, and what code waits."
        )
    return frames.StudyWaits(tuple(levels), tuple(slow), (note,))


def unit_of(name: str, response: str) -> Unit:
    """Of the figures of a level, called ``name``."""
    of_statements = response == frames.STATEMENT_TIME
    what = "time of statements" if of_statements else response
    return Unit(f"{name}, {what}", "ms", absolute=True, whole=what if of_statements else "response time")


def _by_statement(observation: Observation, statements: Statements) -> _Unit:
    throughput = observation.responses["throughput"]
    parts = {f"{frames.DATABASE_WAIT};{text}": ms / throughput for text, (_, ms) in statements.items()}
    calls = {text: count / throughput for text, (count, _) in statements.items()}
    return _Unit(observation, {frames.STATEMENT_TIME: parts}, calls)


def _calls(units: Sequence[_Unit], effects: frames.FrameEffects, factor: Factor, level: Level) -> str:
    """Of the statements that carry the change and are called more often, or less, how often they are."""
    texts = []
    for effect in effects.carriers[:MOST_TOLD] if effects.carriers and units[0].calls else ():
        counts = [
            [unit.calls.get(effect.name, 0.0) for unit in units if unit.observation.treatment[factor.name] == of]
            for of in (factor.baseline, level)
        ]
        base, changed = (sum(rates) / len(rates) for rates in counts)
        if abs(changed - base) > _OFTEN * max(base, changed):
            texts.append(f" {effect.name}: {rounded(base, 3)} → {rounded(changed, 3)} calls per transaction.")
    return "".join(texts)


def _parts(observation: Observation, served: Served | None) -> dict[str, Parts]:
    responses = observation.responses
    counted = {part: responses[name] for part, name in _COUNTED.items() if name in responses}
    if "mean" not in responses or not counted.keys() - {frames.DRIVING, frames.PAUSED}:
        return {}
    transactions = responses["throughput"] * served.seconds if served is not None else 0.0
    by_response = {"mean": counted}
    if served is not None and served.requests and transactions:
        by_response["mean"] = {part: ms for part, ms in counted.items() if part not in _RECORDED}
        waits = _mean(served.requests, transactions)
        waits[frames.DELAYED] = max(0.0, waits[frames.CODE] - counted.get(frames.CODE, waits[frames.CODE]))
        by_response["mean"] |= waits | {frames.CODE: waits[frames.CODE] - waits[frames.DELAYED]}
        each = len(served.requests) / transactions
        if len(served.requests) >= _FEWEST and _ONE_EACH[0] <= each <= _ONE_EACH[1]:
            for response in _BANDS:
                near = _near(served.requests, response)
                by_response[response] = _mean(near, len(near))
    for response, parts in by_response.items():
        parts[frames.OUTSIDE] = responses[response] - sum(parts.values())
    return by_response


def _mean(requests: Sequence[Request], count: float) -> Parts:
    sums = defaultdict[str, float](float)
    for request in requests:
        for part, ms in request.parts.items():
            sums[part] += ms / count
    return dict(sums)


def _near(requests: Sequence[Request], response: str) -> Sequence[Request]:
    ranked = sorted(requests, key=lambda request: request.ms)
    low, high = (int(rank * len(ranked)) for rank in _BANDS[response])
    return ranked[low : max(high, low + 1)]


def _recording(group: Group[_Unit], response: str) -> Recording:
    stacks = defaultdict[str, float](float)
    for unit in group.units:
        for part, ms in unit.parts[response].items():
            stacks[part] += ms
    return Recording(stacks, group.treated, len(group.units), group.block, group.others)


def _slow(
    plan: Plan, observations: Sequence[Observation], served: Mapping[Place, Served], describe: Describe
) -> list[str]:
    """Of each treatment, the slowest 1 % of the kind that is most frequent among them, against the median ones."""
    by_treatment = defaultdict[str, list[Request]](list)
    for observation in observations:
        if (of := served.get((observation.trial, observation.slot))) is not None:
            levels = [(name, level) for name, level in observation.treatment.levels if level != plan.baseline[name]]
            name = ", ".join(f"{name}={describe(name, level)}" for name, level in levels) or "baseline"
            by_treatment[name] += of.requests
    sentences = []
    for name, requests in by_treatment.items():
        if len(requests) < _FEWEST:
            continue
        slowest = sorted(requests, key=lambda request: -request.ms)[: len(requests) // 100]
        kinds = [request.kind for request in slowest]
        kind = max(sorted(set(kinds)), key=kinds.count)
        alike = [request for request in requests if request.kind == kind]
        slow = [request for request in slowest if request.kind == kind]
        means = [_mean(some, len(some)) for some in (_near(alike, "p50"), slow)]
        times = [sum(mean.values()) for mean in means]
        more = {part: means[1].get(part, 0.0) - means[0].get(part, 0.0) for part in {**means[0], **means[1]}}
        carried = sorted(
            (part for part in more if more[part] >= _SHARE * (times[1] - times[0])), key=lambda part: -more[part]
        )
        if not carried:
            continue
        parts = ", ".join(f"{more[part]:.1f} ms {' in '.join(part.split(';'))}" for part in carried)
        what = f"requests that wait in {kind}" if kind else "requests that wait for nothing"
        sentences.append(
            f"{name}: of {what} the slowest take {times[1]:.1f} ms in the server, the median ones {times[0]:.1f} ms; "
            f"of the difference {parts}."
        )
    return sentences
