"""What trials said of a suggestion: the studies that hold the level to try against the level it had."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from leadline.advice.findings import Finding, written
from leadline.model.bounds import RawLevel
from leadline.model.errors import UsageError
from leadline.model.guest import FORKS
from leadline.model.knob import Knob, Level
from leadline.model.record import StudyRecord
from leadline.model.result import Effect, Interval, StudyAnalysis, Verdict
from leadline.model.study import Study
from leadline.model.units import MINUS

_LOAD = (
    *("scenario", "preset", "arrivals", "users", "rate", "clients", "threads", "profile", "bursts", "replay", "speed"),
    *("http", "requests_per_connection", "cpu_latency", "grid", "generator", "load_units", "variables"),
)
_WIDE = 1000.0  # percent
CONFIRMED, REFUTED, OPEN = "confirmed", "not confirmed", "open"


@dataclass(frozen=True)
class Check:
    """One study's word on a finding, for the response that says most.

    ``status``: "confirmed" (a response that the change should better is better, none of them worse), "not confirmed"
    (worse, or no difference that matters), "open" (the interval allows both). ``percent`` and ``interval`` are of
    ``level`` against the level it had; the interval holds for all comparisons of that response together.
    """

    run: str
    status: str
    response: str
    level: Level
    percent: float | None
    interval: Interval | None
    trials: int
    sentence: str


def checked(
    finding: Finding,
    context: Study,
    held: Mapping[str, Level],
    results: Iterable[tuple[StudyRecord, StudyAnalysis]],
    knobs: Mapping[str, Knob],
) -> list[Check]:
    """The checks of a finding among ``results``, in their order.

    ``context``: the study in which it was found; ``held``: the levels set where it was found. A study counts when it
    has the same stack and load, the same levels of all other knobs, and besides the level it had one further the same
    way: the level to try, or the one nearest to it.
    """
    if finding.knob is None or finding.then is None or finding.now is None:
        return []
    checks = []
    for record, analysis in results:
        pair = _pair(finding, record)
        if pair is None or not _same(context, held, record, finding.knob, knobs):
            continue
        check = _check(finding, record, analysis, *pair, knobs.get(finding.knob))
        if check is not None:
            checks.append(check)
    return checks


def levels_set(record: StudyRecord, treatment: Mapping[str, Level], knobs: Mapping[str, Knob]) -> dict[str, Level]:
    """Every level that a study sets under a treatment, as its knob holds it."""
    settings = {name: _parsed(name, level, knobs) for name, level in record.study.settings.items()}
    return {**settings, **treatment}


def _parsed(name: str, level: Level, knobs: Mapping[str, Knob]) -> Level:
    try:
        return knobs[name].parse(level) if name in knobs else level
    except ValueError:
        return level


def _same(context: Study, held: Mapping[str, Level], record: StudyRecord, knob: str, knobs: Mapping[str, Knob]) -> bool:
    study = record.study
    if any(getattr(context.stack, key) != getattr(study.stack, key) for key in ("app", "mode", "server", "database")):
        return False
    if any(getattr(context.workload, key) != getattr(study.workload, key) for key in _LOAD):
        return False
    theirs = levels_set(record, record.plan.baseline.as_dict(), knobs)
    return all(held.get(name) == theirs.get(name) for name in ({*held} | {*theirs}) - {knob})


def _pair(finding: Finding, record: StudyRecord) -> tuple[Level, Level] | None:
    """The level it had and the one to hold against it, among the levels of the study's factor; one is its baseline."""
    factor = next((factor for factor in record.plan.factors if factor.name == finding.knob), None)
    if factor is None or finding.now not in factor.levels:
        return None
    others = [level for level in factor.levels if level != finding.now]
    if finding.now != factor.baseline:
        others = [level for level in others if level == factor.baseline]
    if finding.then in others:
        return finding.now, finding.then
    same_way = [level for level in others if _towards(finding.now, finding.then, level)]
    if not same_way:
        return None
    return finding.now, min(same_way, key=lambda level: _far(level, finding.then))


def _towards(now: Level, then: Level | None, level: Level) -> bool:
    if isinstance(now, str) or isinstance(then, str) or isinstance(level, str) or then is None:
        return False
    if then < 0 <= now:  # -1 stands for no limit
        return level > now or level < 0
    return (level - now) * (then - now) > 0


def _far(level: Level, then: Level | None) -> float:
    if isinstance(level, str) or isinstance(then, str) or then is None:
        return math.inf
    if level > 0 and then > 0:
        return abs(math.log(level / then))
    return abs(level - then)


def _check(
    finding: Finding, record: StudyRecord, analysis: StudyAnalysis, now: Level, then: Level, knob: Knob | None
) -> Check | None:
    changes: list[tuple[Effect, float | None, Interval | None, Verdict]] = []
    for response in analysis.responses:
        if response.response not in finding.responses:
            continue
        for effect in response.effects:
            if effect.factor != finding.knob:
                continue
            if (effect.baseline, effect.level) == (now, then):
                changes.append((effect, effect.percent, effect.simultaneous, effect.verdict))
            elif (effect.baseline, effect.level) == (then, now):
                changes.append((effect, _turned(effect.percent), _turned_interval(effect), _opposite(effect.verdict)))
    if not changes:
        return None
    verdicts = {verdict for _, _, _, verdict in changes}
    if Verdict.WORSE in verdicts:
        status, wanted = REFUTED, Verdict.WORSE
    elif Verdict.BETTER in verdicts:
        status, wanted = CONFIRMED, Verdict.BETTER
    elif verdicts <= {Verdict.EQUIVALENT, Verdict.FAILED}:
        status, wanted = REFUTED, Verdict.EQUIVALENT if Verdict.EQUIVALENT in verdicts else Verdict.FAILED
    else:
        status, wanted = OPEN, Verdict.UNDETERMINED
    telling = [change for change in changes if change[3] is wanted]
    effect, percent, interval, verdict = min(telling, key=lambda one: one[0].p_adjusted or 0.0)
    name = f"{record.study.study}@{record.id}"
    levels = [written(level, knob, finding.knob or "") for level in (then, now)]
    what = f"{status} by {name}: {finding.knob} {levels[0]} instead of {levels[1]}"
    sentence = _sentence(what, effect, percent, interval, verdict)
    return Check(name, status, effect.response, then, percent, interval, effect.trials, sentence)


def _turned(percent: float | None) -> float | None:
    """The change the other way round: +25 % one way is -20 % the other."""
    return None if percent is None or percent <= -100 else 100 * (1 / (1 + percent / 100) - 1)


def _turned_interval(effect: Effect) -> Interval | None:
    interval = effect.simultaneous
    if interval is None:
        return None
    low, high = _turned(interval.high), _turned(interval.low)
    return None if low is None or high is None else Interval(low, high, interval.level)


def _opposite(verdict: Verdict) -> Verdict:
    turned = {Verdict.BETTER: Verdict.WORSE, Verdict.WORSE: Verdict.BETTER}
    return turned.get(verdict, verdict)


def _sentence(what: str, effect: Effect, percent: float | None, interval: Interval | None, verdict: Verdict) -> str:
    if verdict is Verdict.FAILED:
        return f"{what} failed in every trial"
    if percent is None:
        return f"{what} has no figure for {effect.response}"
    by = f"{round(percent, 1) + 0.0:+.1f} %"  # adding zero takes the sign off a zero
    if interval is not None and interval.high > _WIDE:
        by += " with an interval beyond tenfold"
    elif interval is not None:
        by += f" [{interval.low:+.1f}, {interval.high:+.1f}]"
    ends = {
        Verdict.BETTER: ", better",
        Verdict.WORSE: ", worse",
        Verdict.EQUIVALENT: ", no difference that matters",
        Verdict.UNDETERMINED: ": the interval allows both",
    }
    return f"{what} changes {effect.response} by {by.replace('-', MINUS)}{ends[verdict]}"


REPLICATES = 5
_KEPT = (
    "stack",
    "guest",
    "workload",
    "reset",
    "placement",
    "drivers",
    "limits",
    "equivalence",
    "dead_man",
    "ready_timeout",
)


def checking_study(
    findings: Sequence[Finding],
    run: str,
    study: Study,
    held: Mapping[str, RawLevel],
    knobs: Mapping[str, Knob],
    seed: int,
) -> dict[str, Any]:
    """The study file's content. ``held``: the other knobs' levels as a study file has them.

    Raises UsageError where no finding has a level to try, or two are of one knob.
    """
    factors: dict[str, list[RawLevel]] = {}
    responses = list(study.responses)
    for finding in findings:
        if not finding.testable or finding.knob is None:
            raise UsageError(f"{finding.name} has no setting to try: {finding.remedy or finding.reason}")
        if finding.knob in factors:
            raise UsageError(f"two findings concern {finding.knob}: choose one with --finding")
        now = finding.now if finding.now is not None else finding.start
        factors[finding.knob] = [_raw(finding.knob, now, knobs), _raw(finding.knob, finding.then, knobs)]
        responses += [name for name in finding.responses if name not in responses]
    if not factors:
        raise UsageError(f"{run} has no finding with a setting to try: there is nothing to check")
    dumped = study.model_dump(mode="json", exclude_unset=True)
    changes = ", ".join(f"{name} {levels[1]} instead of {levels[0]}" for name, levels in factors.items())
    document: dict[str, Any] = {
        "study": f"{study.study}-advice",
        "question": f"Does what was advised after {run} help: {changes}?",
        **{key: dumped[key] for key in _KEPT if key in dumped},
        "factors": factors,
        "settings": {name: level for name, level in held.items() if name not in factors},
        "design": {**_design(study), "seed": seed},
        "responses": responses,
    }
    return {key: value for key, value in document.items() if value not in ({}, None)}


def _design(study: Study) -> dict[str, Any]:
    if study.design.kind == FORKS:
        return study.design.model_dump(include={"kind", "worlds"})
    return {"kind": "one-at-a-time", "replicates": REPLICATES}


def _raw(knob: str, level: Level | None, knobs: Mapping[str, Knob]) -> RawLevel:
    if isinstance(level, (bool, float)):
        return level
    if isinstance(level, int) and (knob not in knobs or knobs[knob].format(level) == str(level)):
        return level
    return written(level, knobs.get(knob), knob)


def status(checks: Sequence[Check]) -> str:
    """``suggestion`` until a study has checked it, then what the newest conclusive check said."""
    settled = [check.status for check in checks if check.status != "open"]
    return settled[-1] if settled else "open" if checks else "suggestion"


def document(
    run: str,
    trials: int,
    findings: Sequence[Finding],
    checks: Mapping[str, Sequence[Check]],
    commands: Mapping[str, str],
) -> dict[str, Any]:
    """``checks`` and ``commands`` by a finding's name."""
    rows = []
    for finding in findings:
        row = {key: value for key, value in asdict(finding).items() if key != "start" or value is not None}
        row["status"] = status(checks.get(finding.name, ()))
        row["checks"] = [asdict(check) for check in checks.get(finding.name, ())]
        row["command"] = commands.get(finding.name)
        rows.append(row)
    return {"run": run, "trials": trials, "findings": rows}
