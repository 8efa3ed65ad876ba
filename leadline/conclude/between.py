"""Two runs against each other, and all runs of a study over time: what moved, and what else differs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from leadline.analysis.changepoints import FEWEST, Change, changes
from leadline.conclude.answer import SIMULATED
from leadline.conclude.wording import signed
from leadline.model import distributions
from leadline.model.errors import UsageError
from leadline.model.naming import level_text
from leadline.model.record import STUDY_FILE, StudyRecord
from leadline.model.result import RESPONSES, Effect, Interval, ResponseAnalysis, StudyAnalysis
from leadline.model.units import rounded

_FEW = 1.0  # degrees of freedom where an analysis tells none


@dataclass(frozen=True)
class Estimate:
    """A positive figure with its 95 % interval and the degrees of freedom behind it."""

    value: float
    interval: Interval
    df: float

    def __post_init__(self) -> None:
        if min(self.value, self.interval.low) <= 0 or not math.isfinite(self.interval.high):
            raise ValueError(f"an estimate is positive with its interval, got {self.value} {self.interval}")

    @property
    def error(self) -> float:
        """Standard error on the log scale; of an interval that is not symmetric there, by its longer side."""
        sides = (math.log(self.interval.high / self.value), math.log(self.value / self.interval.low))
        return max(*sides, 0.0) / float(distributions.t.ppf((1 + self.interval.level) / 2, max(self.df, _FEW)))


@dataclass(frozen=True)
class Ratio:
    """Percent by which the second figure is larger. ``simultaneous`` holds for all comparisons of the table."""

    percent: float
    interval: Interval
    simultaneous: Interval


def ratio(first: Estimate, second: Estimate, comparisons: int = 1, level: float = 0.95) -> Ratio:
    """Welch's interval on the log scale with Satterthwaite's degrees of freedom; Bonferroni over ``comparisons``."""
    change = math.log(second.value / first.value)
    errors = np.array([first.error, second.error])
    total = float(np.hypot(*errors))
    degrees = np.maximum([first.df, second.df], _FEW)
    df = total**4 / float(np.sum(errors**4 / degrees)) if total > 0 else float(degrees.sum())

    def interval(at: float) -> Interval:
        reach = total * float(distributions.t.isf((1 - at) / 2, df))
        return Interval(100 * math.expm1(change - reach), 100 * math.expm1(change + reach), level)

    return Ratio(100 * math.expm1(change), interval(level), interval(1 - (1 - level) / max(comparisons, 1)))


BASELINE = "baseline"
# keys of a study file that make the system what it is
_SYSTEM = ("stack", "guest", "workload", "factors", "baseline", "settings", "placement", "drivers")


@dataclass(frozen=True)
class Run:
    """One finished run of a study. ``name``: ``study@number``."""

    record: StudyRecord
    analysis: StudyAnalysis

    @property
    def name(self) -> str:
        return f"{self.record.study.study}@{self.record.id}"


@dataclass(frozen=True)
class Moved:
    """One figure in two runs: the baseline's mean in ``unit``, or an effect in percent. ``ratio``: the second over the
    first, of effects of the two ratios to the baseline; None where ``reason`` says why.
    """

    response: str
    what: str  # baseline, or factor=level
    unit: str
    first: float | None
    second: float | None
    ratio: Ratio | None
    verdict: str  # higher, lower, equivalent or undetermined
    reason: str = ""


@dataclass(frozen=True)
class Between:
    """``differs``: a sentence for each fact of the system that differs."""

    first: str
    second: str
    moved: tuple[Moved, ...]
    differs: tuple[str, ...]
    answer: str


@dataclass(frozen=True)
class Point:
    """One run in a history: unix seconds of its start, the figure with its 95 % interval, what differs from the run
    before.
    """

    run: str
    started: float
    value: float
    interval: Interval | None
    differs: tuple[str, ...]


@dataclass(frozen=True)
class History:
    """One figure over all runs of a study, oldest first. ``changes``: indices into ``points``."""

    study: str
    response: str
    what: str
    unit: str
    points: tuple[Point, ...]
    changes: tuple[Change, ...]
    answer: str


def between(first: Run, second: Run) -> Between:
    """Raises UsageError for runs that cannot be compared."""
    _check(first, second)
    theirs = {response.response: response for response in second.analysis.responses}
    common = [
        (response, theirs[response.response]) for response in first.analysis.responses if response.response in theirs
    ]
    if not common:
        names = [", ".join(response.response for response in run.analysis.responses) for run in (first, second)]
        raise UsageError(f"{first.name} has the responses {names[0]}; {second.name} has {names[1]}: none in common")
    same_baseline = _baseline(first) == _baseline(second)
    moved = tuple(row for pair in common for row in _response(first, *pair, same_baseline))
    differs = differences(first.record, second.record)
    return Between(first.name, second.name, moved, differs, _answer(first, second, moved, differs))


def differences(first: StudyRecord, second: StudyRecord) -> tuple[str, ...]:
    """What differs between the systems of two runs: the study's settings, then versions and the host."""
    facts: dict[str, tuple[Any, Any]] = {}
    for record, place in ((first, 0), (second, 1)):
        settings = record.study.model_dump(mode="json", include=set(_SYSTEM))
        for name, value in (*_flat(settings), *record.environment.items()):
            if name == STUDY_FILE:
                continue
            pair = facts.get(name, (None, None))
            facts[name] = (value, pair[1]) if place == 0 else (pair[0], value)
    return tuple(f"{name}: {_told(a)}, then {_told(b)}" for name, (a, b) in facts.items() if a != b)


def history(runs: Sequence[Run], response: str, factor: str = "", level: str = "") -> History:
    """The baseline's mean of a response, or the effect of a level, over the runs that have it; oldest first.

    Raises UsageError where no run has it.
    """
    what = f"{factor}={level}" if factor else BASELINE
    if not runs:
        raise UsageError("no finished run of this study")
    values: list[tuple[Run, float, Interval | None]] = []
    for run in sorted(runs, key=lambda each: each.record.created):
        analysed = next((response_ for response_ in run.analysis.responses if response_.response == response), None)
        figure = None if analysed is None else _figure(run.record, analysed, factor, level)
        if figure is not None:
            values.append((run, *figure))
    if not values:
        raise UsageError(_unknown(runs, response, what))
    points = tuple(
        Point(
            run.name,
            run.record.created,
            value,
            interval,
            differences(values[at - 1][0].record, run.record) if at else (),
        )
        for at, (run, value, interval) in enumerate(values)
    )
    unit = "%" if factor else RESPONSES[response].unit if response in RESPONSES else ""
    moved = tuple(changes([point.value for point in points]))
    last = values[-1][0]
    answer = _told_history(response, what, unit, points, moved)
    if last.analysis.simulated:
        answer = SIMULATED + answer
    return History(last.record.study.study, response, what, unit, points, moved, answer)


def _check(first: Run, second: Run) -> None:
    if first.record.study.time != second.record.study.time:
        times = {run.name: run.record.study.time for run in (first, second)}
        raise UsageError(
            "; ".join(f"{name} ran in {time} time" for name, time in times.items())
            + ": figures in virtual time are never compared with real ones"
        )
    if first.record.simulated != second.record.simulated:
        made_up = first.name if first.record.simulated else second.name
        raise UsageError(f"{made_up} is simulated, the other is real: they cannot be compared")


def _baseline(run: Run) -> dict[str, Any]:
    return run.record.plan.baseline.as_dict()


def _response(run: Run, first: ResponseAnalysis, second: ResponseAnalysis, same_baseline: bool) -> Iterable[Moved]:
    keyed = {(effect.factor, effect.level, effect.baseline): effect for effect in second.effects}
    pairs = [
        (effect, keyed[key])
        for effect in first.effects
        if (key := (effect.factor, effect.level, effect.baseline)) in keyed
    ]
    margin = first.margin if first.margin == second.margin else None
    kind = RESPONSES.get(first.response)
    count = len(pairs) + same_baseline
    if same_baseline:
        yield _moved(
            first.response,
            BASELINE,
            kind.unit if kind else "",
            (first.baseline_mean, second.baseline_mean),
            (_mean(first), _mean(second)),
            count,
            margin,
        )
    for effect, other in pairs:
        what = f"{effect.factor}={level_text(run.record.study, effect.factor, effect.level)}"
        estimates = (_effect(effect), _effect(other))
        yield _moved(first.response, what, "%", (effect.percent, other.percent), estimates, count, margin)


def _moved(
    response: str,
    what: str,
    unit: str,
    values: tuple[float | None, float | None],
    estimates: tuple[Estimate | None, Estimate | None],
    count: int,
    margin: float | None,
) -> Moved:
    first, second = estimates
    if first is None or second is None:
        reason = f"no interval in the {'first' if first is None else 'second'} run"
        return Moved(response, what, unit, *values, None, "undetermined", reason)
    moved = ratio(first, second, count)
    bound = moved.simultaneous
    verdict = "undetermined"
    if margin is not None and -margin <= bound.low and bound.high <= margin:
        verdict = "equivalent"
    elif not bound.contains(0.0):
        verdict = "higher" if moved.percent > 0 else "lower"
    return Moved(response, what, unit, *values, moved, verdict)


def _mean(one: ResponseAnalysis) -> Estimate | None:
    blocks = one.baseline_blocks or one.baseline_trials
    return _estimate(one.baseline_mean, one.baseline_interval, blocks - 1)


def _effect(one: Effect) -> Estimate | None:
    if one.percent is None or one.interval is None:
        return None
    low, high = (1 + end / 100 for end in (one.interval.low, one.interval.high))
    return _estimate(1 + one.percent / 100, Interval(low, high, one.interval.level), one.df or 1)


def _estimate(value: float | None, interval: Interval | None, df: float) -> Estimate | None:
    if value is None or interval is None:
        return None
    try:
        return Estimate(value, interval, df)
    except ValueError:  # a figure around zero has no ratio
        return None


def _figure(
    record: StudyRecord, one: ResponseAnalysis, factor: str, level: str
) -> tuple[float, Interval | None] | None:
    if not factor:
        return None if one.baseline_mean is None else (one.baseline_mean, one.baseline_interval)
    for effect in one.effects:
        written = (str(effect.level), level_text(record.study, factor, effect.level))
        if effect.factor == factor and level in written and effect.percent is not None:
            return effect.percent, effect.interval
    return None


def _unknown(runs: Sequence[Run], response: str, what: str) -> str:
    last = runs[-1]
    responses = ", ".join(response.response for response in last.analysis.responses)
    levels = [
        f"{effect.factor}={level_text(last.record.study, effect.factor, effect.level)}"
        for effect in (last.analysis.responses[0].effects if last.analysis.responses else ())
    ]
    return (
        f"no run of {last.record.study.study} has {what} of {response}; "
        f"{last.name} has the responses {responses} and the levels {', '.join(levels)}"
    )


def _answer(first: Run, second: Run, moved: Sequence[Moved], differs: Sequence[str]) -> str:
    words = []
    shifted = [row for row in moved if row.verdict in ("higher", "lower")]
    for row in shifted:
        assert row.ratio is not None
        bound = row.ratio.simultaneous
        subject = f"the baseline's {row.response}" if row.what == BASELINE else f"{row.what} on {row.response}"
        words.append(f"{subject} {signed(row.ratio.percent)} % [{signed(bound.low)}, {signed(bound.high)}]")
    same = sum(row.verdict == "equivalent" for row in moved)
    undetermined = sum(row.verdict == "undetermined" for row in moved)
    sentence = f"From {first.name} to {second.name}: " + ("; ".join(words) if words else "no figure is told apart")
    counts = [f"{same} of {len(moved)} figures equivalent"] if same else []
    counts += [f"{undetermined} undetermined"] if undetermined else []
    more = f" ({', '.join(counts)})" if counts else ""
    facts = (
        f" {len(differs)} facts differ." if len(differs) > 1 else f" {len(differs)} fact differs." if differs else ""
    )
    return f"{SIMULATED if first.analysis.simulated else ''}{sentence}{more}.{facts}"


def _told_history(response: str, what: str, unit: str, points: Sequence[Point], moved: Sequence[Change]) -> str:
    subject = f"{response}, {what}"
    runs = f"{len(points)} run{'s' if len(points) != 1 else ''}"
    if len(points) < FEWEST:
        return f"{subject}: {runs}; a change can be told from luck from {FEWEST} runs on."
    if not moved:
        return f"{subject}: no change point in {runs}."
    sentences = []
    for point in moved:
        place = points[point.at].run
        if (point.from_, point.until) != (point.at, point.at):
            place += f" (95 %: {points[point.from_].run} to {points[point.until].run})"
        sentences.append(f"from {rounded(point.before, 4)} to {rounded(point.after, 4)} {unit} with {place}")
    return f"{subject}: changed {'; '.join(sentences)}."


def _flat(tree: Mapping[str, Any], above: str = "") -> Iterable[tuple[str, Any]]:
    for name, value in tree.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{above}{name}.")
        else:
            yield f"{above}{name}", value


def _told(value: Any) -> str:
    return "absent" if value is None else str(value)
