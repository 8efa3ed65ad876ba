"""Advice on a stored study: findings of its trials, the checks there are, the study that would check them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from leadline.advice import Check, Finding, advise, checked
from leadline.advice.check import CONFIRMED, checking_study, levels_set, status
from leadline.advice.findings import Evidence, why, written
from leadline.conclude.explanation import told_frames, told_waits
from leadline.experiments.confirm import fresh_seed
from leadline.model.bounds import RawLevel
from leadline.model.errors import UsageError, did_you_mean
from leadline.model.knob import Knob, Level
from leadline.model.record import StudyRecord
from leadline.model.result import StudyAnalysis
from leadline.report import files as trial_files
from leadline.report import words
from leadline.report.files import TrialFiles
from leadline.report.observed import observed

Analyse = Callable[[StudyRecord], StudyAnalysis]


@dataclass(frozen=True)
class Advice:
    """``trials`` were looked at; ``checks`` by a finding's name, of all studies of the lab, oldest first."""

    record: StudyRecord
    trials: int
    findings: tuple[Finding, ...]
    knobs: Mapping[str, Knob]
    checks: Mapping[str, Sequence[Check]] = field(default_factory=dict)
    answer: str = ""  # of the study, where it was analysed

    @property
    def run(self) -> str:
        return f"{self.record.study.study}@{self.record.id}"

    def chosen(self, names: Sequence[str]) -> list[Finding]:
        """The findings so named. Raises UsageError with the nearest name."""
        by_name = {finding.name: finding for finding in self.findings}
        for name in names:
            if name not in by_name:
                hint = did_you_mean(name, list(by_name)) or f"there is {', '.join(by_name) or 'none'}"
                raise UsageError(f"--finding {name}: {self.run} has no such finding; {hint}")
        return [by_name[name] for name in names]

    def together(self) -> list[Finding]:
        """Findings that one study can check: those with a level to try that were found under the first one's levels."""
        testable = [finding for finding in self.findings if finding.testable]
        findings: list[Finding] = []
        for finding in testable:
            if finding.knob in [other.knob for other in findings]:
                continue
            if not findings or _compatible([*findings, finding], self):
                findings.append(finding)
        return findings

    def study(self, findings: Sequence[Finding]) -> dict[str, Any]:
        """The study that would check them. Raises UsageError where they were found under different treatments."""
        if findings and not _compatible(findings, self):
            raise UsageError("these were found under different treatments: check them one at a time (--finding)")
        knobs = {finding.knob for finding in findings}
        levels = held(self.record, findings[0]) if findings else {}
        settings = {name: raw for name, raw in _raw(self.record, levels).items() if name not in knobs}
        return checking_study(findings, self.run, self.record.study, settings, self.knobs, fresh_seed(self.record))


def advice(
    record: StudyRecord,
    knobs: Mapping[str, Knob],
    others: Iterable[StudyRecord] = (),
    analyse: Analyse | None = None,
    files: Sequence[TrialFiles] | None = None,
) -> Advice:
    """Findings of a study. ``knobs``: what its stack and host have; empty where that is not known.

    With ``analyse``, those of ``others`` (and itself) in the same time that bear on a finding check it. What shows in
    disturbed trials is left out unless a study has confirmed it: a comparison within blocks holds on a busy machine.
    """
    read = files if files is not None else [trial_files.read(trial) for trial in record.trials]
    trials = observed(record, read, knobs)
    findings = tuple(advise(trials, knobs or None))
    checks: dict[str, Sequence[Check]] = {}
    answer, reasons = "", list[Finding]()
    if analyse is not None:
        analysis = analyse(record)
        answer = analysis.answer
        reasons = why(
            [
                *(told_waits(analysis.waits) if analysis.waits is not None else ()),
                *(told_frames(analysis.profile) if analysis.profile is not None else ()),
            ],
            knobs,
        )
        wanted = {finding.knob for finding in findings if finding.testable}
        records = sorted({record_.id: record_ for record_ in (*others, record)}.values(), key=lambda one: one.id)
        bearing = [
            record_
            for record_ in records
            if record_.study.time == record.study.time and wanted & {factor.name for factor in record_.plan.factors}
        ]
        results = [(record_, analysis if record_.id == record.id else analyse(record_)) for record_ in bearing]
        for finding in findings:
            levels = levels_set(record, held(record, finding), knobs)
            checks[finding.name] = checked(finding, record.study, levels, results, knobs)
    confirmed = {
        name for name, made_checks in checks.items() if any(check.status == CONFIRMED for check in made_checks)
    }
    kept_findings = tuple(finding for finding in findings if not finding.disturbed or finding.name in confirmed)
    return Advice(record, len(trials), (*kept_findings, *reasons), knobs, checks, answer)


def held(record: StudyRecord, finding: Finding) -> dict[str, Level]:
    """The factors' levels under which it was found: of the baseline where it was found there too."""
    if "baseline" in finding.treatments:
        return record.plan.baseline.as_dict()
    trial = next(trial for trial in record.trials if trial.id == finding.example)
    return trial.planned.treatment.as_dict()


def _compatible(findings: Sequence[Finding], found: Advice) -> bool:
    knobs = {finding.knob for finding in findings}
    bases = [
        {name: level for name, level in held(found.record, finding).items() if name not in knobs}
        for finding in findings
    ]
    pairs = [(finding.knob, finding.now) for finding in findings]
    base = found.record.plan.baseline.as_dict()
    moved = [knob for knob, now in pairs if knob in base and base[knob] != now]
    return all(base == bases[0] for base in bases) and (not moved or len(findings) == 1)


def _raw(record: StudyRecord, levels: Mapping[str, Level]) -> dict[str, RawLevel]:
    """Settings and the factors' levels as the study file has them; pseudo-factors left out."""
    raw_levels: dict[str, RawLevel] = dict(record.study.settings)
    for factor in record.plan.factors:
        if factor.name in levels and not factor.pseudo:
            raws = record.study.factors.get(factor.name)  # a plan of named configurations has one of its own
            if raws is not None:
                raw_levels[factor.name] = raws[factor.levels.index(levels[factor.name])]
    return raw_levels


LAYER_NAMES = {
    "kernel": "kernel",
    "database": "database",
    "server": "server",
    "jvm": "JVM",
    "driver": "driver",
    "application": "application",
}
_MOST = 3  # treatments named


def lines(found: Advice, findings: Sequence[Finding], commands: Mapping[str, str]) -> list[str]:
    """The whole advice, one line each."""
    record = found.record
    head = f"Study {found.run}: {words.plural(len(findings), 'finding')} in {words.plural(found.trials, 'trial')} done"
    text = [head]
    layer = ""
    for finding in findings:
        if finding.layer != layer:
            layer = finding.layer
            text.append(f"{LAYER_NAMES[layer]}:")
        where = seen(finding) if finding.example else f"compared in {words.plural(finding.trials, 'recording')}"
        text.append(f"  {finding.name}: {finding.title} ({_subject(finding)}{where})")
        text.append(f"    {says(finding)}")
        text.append(f"    {evidence(finding)}")
        text.append(f"    {suggestion(finding, found)}")
        text += [f"    {line}" for line in verdicts(finding, found)]
        if finding.name in commands and status(found.checks.get(finding.name, ())) in ("suggestion", "open"):
            text.append(f"    check it: {commands[finding.name]}")
    if not findings and found.trials:
        text.append("No rule found anything: docs/guides/advise.md lists what was looked for.")
    if not found.trials:
        text.append(f"No trial of {record.study.study} is done, so there is nothing to analyse.")
    return [_line(finding) for finding in text]


def _subject(one: Finding) -> str:
    return f"{one.subject}; "


def seen(one: Finding) -> str:
    """``in 3 of 3 trials, under baseline``."""
    names = ", ".join(one.treatments[:_MOST])
    more = f" and {len(one.treatments) - _MOST} more" if len(one.treatments) > _MOST else ""
    return f"in {one.seen} of {words.plural(one.trials, 'trial')}; {names}{more}"


def says(one: Finding) -> str:
    return f"{one.says[0].upper()}{one.says[1:]}{f' (trial {one.example})' if one.example else ''}."


def evidence(one: Finding) -> str:
    """Medians over the trials with the range."""
    return "; ".join(_figure(figure) for figure in one.evidence) + "." if one.evidence else "No figures."


def _figure(one: Evidence) -> str:
    unit = f" {one.unit}" if one.unit else ""
    if one.low == one.high:
        return f"{one.name} {words.number(one.median)}{unit}"
    return f"{one.name} {words.number(one.median)}{unit} [{words.number(one.low)} to {words.number(one.high)}]"


def suggestion(one: Finding, found: Advice) -> str:
    """What to try, with the reason."""
    if one.knob is None or one.then is None:
        return f"To do: {one.remedy or one.reason}."
    knob = found.knobs.get(one.knob)
    now = "" if one.now is None else f" (now {written(one.now, knob, one.knob)})"
    return f"Try {one.knob} = {written(one.then, knob, one.knob)}{now}: {one.reason}."


def verdicts(one: Finding, found: Advice) -> list[str]:
    """What studies said of it; that none did."""
    if not one.testable:
        return []
    checks = found.checks.get(one.name, ())
    if not checks:
        return ["A suggestion: no study in this lab has checked it."]
    return [f"{check.sentence[0].upper()}{check.sentence[1:]}." for check in checks]


def _line(text: str) -> str:
    """Without control characters: names may come from servers."""
    start = len(text) - len(text.lstrip(" "))
    return " " * start + " ".join("".join(c if c.isprintable() else " " for c in text).split())
