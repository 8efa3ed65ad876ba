"""From what rules saw in single trials to findings of a run, with its evidence.

``why``: what the parts of a change suggest, of CPU per transaction or of a response time. They name the knob or the
code.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from leadline.advice import rules
from leadline.advice.facts import Look, Rule, Sign, TrialFacts
from leadline.advice.rules import POOLS, STATEMENTS, WORKERS
from leadline.model import frames
from leadline.model.knob import Knob, Level
from leadline.model.units import format_size

LAYERS = ("kernel", "database", "server", "jvm", "driver", "application")
RULES: tuple[Rule, ...] = (
    *rules.KERNEL_RULES,
    *rules.DATABASE_RULES,
    *rules.SERVER_RULES,
    *rules.JVM_RULES,
    *rules.DRIVER_RULES,
    *rules.APPLICATION_RULES,
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


_MOST_OF_IT = 0.5  # share of the total's change from which on a part is what to mend
_EXPLAIN = "EXPLAIN (ANALYZE, BUFFERS) {statements}: an index, or fewer of them"
_COLLECT = "jvm.heap larger, or another jvm.collector"
# Of a part, or a layer of CPU: the layer of the finding, and what to do; {pool} and {threads} are knobs.
_REMEDIES: Mapping[str, tuple[str, str]] = {
    frames.CONNECTION_WAIT: ("server", "raise {pool}, or have {code} keep its connection for less time"),
    frames.THREAD_WAIT: ("server", "raise {threads}, or shorten what the threads wait for"),
    frames.DATABASE_WAIT: ("database", _EXPLAIN),
    frames.LOCK_WAIT: ("application", "do less with the lock that {code} waits for, or split it"),
    frames.SLEEP: ("application", "see what {code} sleeps or is parked for"),
    frames.OTHER_WAIT: ("application", "see the service that {code} calls: its time, a cache, calls at once"),
    frames.PAUSED: ("jvm", _COLLECT),
    frames.DELAYED: ("kernel", "more CPUs for the server (placement.server_cpus), or less load"),
    frames.DRIVING: ("driver", "CPUs of its own for the driver (placement.driver_cpus), or several drivers"),
    frames.APPLICATION: ("application", "see {code}: it uses this CPU, with what it calls"),
    frames.DRIVER: ("server", "see {code}: fewer statements or rows, or larger fetches"),
    frames.MEASURED[0]: ("database", _EXPLAIN),
    frames.MEASURED[2]: ("jvm", _COLLECT),
    frames.MEASURED[3]: ("jvm", "a longer warm-up; a larger -XX:ReservedCodeCacheSize where code is thrown away"),
}


def why(levels: Iterable[frames.LevelWaits | frames.LevelProfile], knobs: Mapping[str, Knob]) -> list[Finding]:
    """Of each level with a change that some part carries most of: what to do about it, on the side that is worse."""
    findings = []
    for level in levels:
        total = level.effects.total
        carriers = [path for path in level.effects.carriers if path.change * total.change > 0]
        main = max(carriers, key=lambda path: abs(path.change), default=None)
        if main is None or main.path[0] not in _REMEDIES or abs(main.change) < _MOST_OF_IT * abs(total.change):
            continue
        layer, remedy = _REMEDIES[main.path[0]]
        if main.path[0] == frames.DRIVER and any(
            "prepare" in name.lower() or "parse" in name.lower() for name in main.path
        ):
            remedy = f"a statement cache: raise {STATEMENTS}; {{code}} prepares what was prepared before"
        part = main.path[0].strip("()")
        response, unit = (
            (level.response, 1.0) if isinstance(level, frames.LevelWaits) else ("cpu_per_transaction", level.ms)
        )
        low, high = (main.interval.low, main.interval.high) if main.interval else (main.change, main.change)
        name = level.sentence.partition(":")[0].partition(", ")[0]
        findings.append(
            Finding(
                name=f"why.{level.factor}",
                rule="why",
                layer=layer,
                title=f"most of the change of {response.replace('_', ' ')} is {part}",
                subject=name,
                says="of " + level.sentence.removesuffix("."),
                example=0,
                evidence=(Evidence(part, "ms", main.change * unit, low * unit, high * unit),),
                treatments=(name if total.change > 0 else "baseline",),
                seen=level.effects.recordings[1],
                trials=level.effects.recordings[1],
                responses=(response,),
                remedy=remedy.format(
                    code=_code(main),
                    statements=_statements(main),
                    pool=_there(POOLS, knobs),
                    threads=_there(WORKERS, knobs),
                ),
            )
        )
    return findings


def _code(path: frames.FrameEffect) -> str:
    """Of the application, else of the layer: the innermost frame."""
    names = [name for name in path.path[1:] if not frames.is_jdk(name)] or list(path.path[1:])
    return ".".join(names[-1].replace("/", ".").split(".")[-2:]) if names else "the code"


def _statements(path: frames.FrameEffect) -> str:
    if " " in path.name and len(path.path) > 1:
        return path.name
    return "the statements" + (f" of {_code(path)}" if len(path.path) > 1 else "")


def _there(names: tuple[str, ...], knobs: Mapping[str, Knob]) -> str:
    return next((name for name in names if name in knobs), names[0])
