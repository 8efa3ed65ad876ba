"""From what rules saw in single trials to findings of a run."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from leadline.advice.facts import Look, Rule, Sign, TrialFacts
from leadline.advice.rules import machine, services
from leadline.model.knob import Knob, Level
from leadline.model.units import format_size

LAYERS = ("kernel", "database", "server", "jvm", "driver", "application")
RULES: tuple[Rule, ...] = (
    *machine.KERNEL_RULES,
    *services.DATABASE_RULES,
    *services.SERVER_RULES,
    *machine.JVM_RULES,
    *services.DRIVER_RULES,
    *services.APPLICATION_RULES,
)

MAJORITY = 0.5  # of the trials that could show it must be exceeded


@dataclass(frozen=True)
class Evidence:
    """One figure: the median over the trials that showed it, and their range."""

    name: str
    unit: str
    median: float
    low: float
    high: float


@dataclass(frozen=True)
class Finding:
    """A suggestion with its evidence. ``seen`` of ``trials`` trials that could have shown it did.

    ``says`` are the figures of the trial in the middle, ``example``. ``knob`` with ``then``: the level to try, ``now``
    the level it had, ``start`` what stands in for it where none was set; without a knob ``remedy`` says what to do.
    ``disturbed``: most trials that show it were disturbed by other programs, so that it may be theirs.
    """

    name: str
    rule: str
    layer: str
    title: str
    subject: str
    says: str
    example: int
    evidence: tuple[Evidence, ...]
    treatments: tuple[str, ...]
    seen: int
    trials: int
    responses: tuple[str, ...]
    knob: str | None = None
    now: Level | None = None
    start: Level | None = None
    then: Level | None = None
    reason: str = ""
    remedy: str = ""
    disturbed: bool = False

    @property
    def testable(self) -> bool:
        """Whether a study can hold the level to try against the present one."""
        return self.knob is not None and self.then is not None and (self.now is not None or self.start is not None)


def advise(
    trials: Sequence[TrialFacts], knobs: Mapping[str, Knob] | None = None, rules: Sequence[Rule] = RULES
) -> list[Finding]:
    """Findings by layer, of the trials that are done.

    Trials are grouped by the level the rule's knob had: a finding is of that level, wherever it was tried. It is told
    when more than half of the group's trials show it. With ``knobs`` (what the stack has) a knob it lacks is not
    suggested, and a level is kept within its range.
    """
    groups: dict[tuple[str, str, Level | None], list[tuple[TrialFacts, Look]]] = {}
    by_name = {rule.name: rule for rule in rules}
    for trial in trials:
        for look in _looks(trial, rules):
            groups.setdefault((look.rule, look.subject, look.now), []).append((trial, look))
    findings = []
    for (rule, _, _), looks in groups.items():
        signs = [(trial, look, look.sign) for trial, look in looks if look.sign is not None]
        if len(signs) > (MAJORITY * len(looks) if by_name[rule].majority else 0):
            findings.append(_finding(by_name[rule], signs, len(looks), knobs))
    order = {name: place for place, name in enumerate(by_name)}
    findings.sort(key=lambda one: (LAYERS.index(one.layer), order[one.rule], -one.seen, one.subject))
    return _named(findings)


def _looks(trial: TrialFacts, rules: Iterable[Rule]) -> list[Look]:
    judges = dict.fromkeys(rule.judge for rule in rules)  # two rules may share one
    names = {rule.name for rule in rules}
    return [look for judge in judges for look in judge(trial) if look.rule in names]


def _finding(
    rule: Rule, signs: Sequence[tuple[TrialFacts, Look, Sign]], trials: int, knobs: Mapping[str, Knob] | None
) -> Finding:
    ranked = sorted(signs, key=lambda one: one[2].size)
    trial, look, middle = ranked[(len(ranked) - 1) // 2]
    then, reason, remedy, knob = middle.then, middle.reason, middle.remedy, look.knob
    if knob is not None and knobs is not None and then is not None:
        if knob not in knobs:
            remedy, then, reason = f"{knob} would be the setting, which this stack does not have", None, ""
            knob = None
        else:
            then, reason = _within(knobs[knob], then, reason)
    evidence = []
    for name, (_, unit) in middle.figures.items():
        values = [sign.figures[name][0] for _, _, sign in signs if name in sign.figures]
        evidence.append(Evidence(name, unit, statistics.median(values), min(values), max(values)))
    return Finding(
        name=rule.name,
        rule=rule.name,
        layer=rule.layer,
        title=rule.title,
        subject=look.subject,
        says=middle.says,
        example=trial.trial,
        evidence=tuple(evidence),
        treatments=tuple(dict.fromkeys(sign.treatment for sign, _, _ in signs)),
        seen=len(signs),
        trials=trials,
        responses=rule.responses,
        knob=knob,
        now=look.now,
        start=middle.start,
        then=then,
        reason=reason,
        remedy=remedy,
        disturbed=rule.majority and not rule.counted and 2 * sum(sign.disturbed for sign, _, _ in signs) > len(signs),
    )


def _within(knob: Knob, level: Level, reason: str) -> tuple[Level, str]:
    if not isinstance(level, (int, float)) or isinstance(level, bool):
        return level, reason
    if knob.maximum is not None and level > knob.maximum:
        return type(level)(knob.maximum), f"{reason}; the largest legal level"
    return level, reason


def _named(found: Sequence[Finding]) -> list[Finding]:
    """Names that tell findings of one rule apart: the second and later ones get a number."""
    count: dict[str, int] = {}
    named = []
    for finding in found:
        count[finding.rule] = count.get(finding.rule, 0) + 1
        named.append(
            finding if count[finding.rule] == 1 else replace(finding, name=f"{finding.rule}.{count[finding.rule]}")
        )
    return named


def written(level: Level | None, knob: Knob | None = None, name: str = "") -> str:
    """A level as a study file has it."""
    if level is None:
        return "not set"
    if knob is not None:
        return knob.format(level)
    if isinstance(level, bool):
        return "on" if level else "off"
    if name in ("jvm.heap", "database.shared_buffers", "database.work_mem", "database.max_wal_size"):
        return format_size(int(level))
    return f"{level:g}" if isinstance(level, float) else str(level)
