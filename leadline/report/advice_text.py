"""Advice in words, the same in the terminal and on the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from leadline.advice import Finding
from leadline.advice.document import status
from leadline.advice.findings import Evidence, written
from leadline.report import words
from leadline.report.advising import Advice

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
        text.append(f"  {finding.name}: {finding.title} ({_subject(finding)}{seen(finding)})")
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
    return f"{one.says[0].upper()}{one.says[1:]} (trial {one.example})."


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
