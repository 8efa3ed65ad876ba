"""A study or a gate for pull requests and CI: Markdown, JUnit, JSON (``leadline-report/1``, ``leadline-gate/1``)."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any
from xml.etree import ElementTree

from leadline.conclude import answer
from leadline.conclude.gate import Gate, change_of
from leadline.model.conditions import State
from leadline.model.errors import UsageError, did_you_mean, printable, quoted
from leadline.model.result import Interval
from leadline.model.units import signed
from leadline.report import words
from leadline.report.document import plain
from leadline.report.summary import Comparison, Outcome, Summary
from leadline.report.words import escaped, markdown_table

FORMAT = "leadline-report/1"
HTML = "html"
SIMULATED = "SIMULATED: every figure comes from a simulated host; nothing was measured."
_STATES = {"good": "good", "warn": "warning", "bad": "failed", "unknown": "unknown"}


def text(found: Summary, format_: str) -> str:
    """The summary in one of ``FORMATS``. Raises UsageError with the nearest format."""
    if format_ not in FORMATS:
        hint = did_you_mean(format_, [*FORMATS, HTML]) or ", ".join([HTML, *FORMATS])
        raise UsageError(f"unknown format {quoted(format_)}; {hint}")
    return FORMATS[format_](found)


def markdown(found: Summary) -> str:
    """For a pull request: the answer, effects with the intervals that hold for all comparisons together, checks."""
    parts = [f"## leadline: {escaped(found.run)}"]
    if found.simulated:
        parts.append(f"> **{SIMULATED}**")
    parts.append(f"**{escaped(found.answer)}**")
    rows = [
        (
            words.kind_of(comparison.response).name,
            comparison.setting,
            *_change(comparison, found.digits),
            str(comparison.trials) + (f" ({comparison.failures} failed)" if comparison.failures else ""),
            comparison.verdict.value + (f": {comparison.reason}" if comparison.reason else ""),
        )
        for comparison in found.comparisons
    ]
    if rows:
        head = ("response", "setting", "change", "all comparisons", "trials", "verdict")
        parts.append(markdown_table(head, rows, "llrrrl"))
    if found.interactions:
        parts.append("\n".join(f"- Interaction: {escaped(sentence)}." for sentence in found.interactions))
    checks = [(check.name, _STATES[check.state], check.value, check.detail) for check in found.checks]
    parts.append(markdown_table(("check", "state", "value", "detail"), checks, "llll"))
    if found.failures:
        failed = [
            (str(failure.trial), failure.treatment, failure.failure, failure.message) for failure in found.failures
        ]
        parts.append(markdown_table(("failed trial", "treatment", "class", "message"), failed, "rlll"))
    if found.warnings:
        parts.append("\n".join(f"- {escaped(warning)}" for warning in found.warnings))
    return "\n\n".join(parts) + "\n"


def junit(found: Summary) -> str:
    """A test case a comparison and a check. A failure: harm is shown, or a check failed; an error: every trial
    of a level failed, or there is no answer; skipped: inconclusive, or not recorded.
    """
    suite = ElementTree.Element("testsuite", name=printable(found.run))
    properties = ElementTree.SubElement(suite, "properties")
    for name, value in (("answer", found.answer), ("simulated", "yes" if found.simulated else "no")):
        ElementTree.SubElement(properties, "property", name=name, value=printable(value))
    for comparison in found.comparisons:
        change, interval = _change(comparison, found.digits)
        detail = f"{comparison.verdict.value}: {comparison.response} {change} {interval}" + (
            f"; {comparison.reason}" if comparison.reason else ""
        )
        _case(suite, found, comparison.response, comparison.setting, comparison.outcome, detail, _failures(found))
    for check in found.checks:
        detail = f"{check.value}; {check.detail}" if check.detail else check.value
        _case(suite, found, "checks", check.name, check.outcome, detail, _failures(found))
    suite.set("tests", str(len(found.outcomes)))
    for name, outcome in (("failures", Outcome.FAILED), ("errors", Outcome.ERROR), ("skipped", Outcome.SKIPPED)):
        suite.set(name, str(found.outcomes.count(outcome)))
    root = ElementTree.Element("testsuites")
    root.append(suite)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=False) + "\n"


def document(found: Summary) -> dict[str, Any]:
    """JSON types (docs/reference/json.md); intervals have ``low``, ``high`` and ``level``."""
    row: dict[str, Any] = plain(found)
    row["judgement"]["standing"] = found.judgement.standing
    del row["digits"]
    return {"format": FORMAT, "outcome": found.outcome.value, **row}


def _json(found: Summary) -> str:
    return json.dumps(document(found), indent=2, allow_nan=False) + "\n"


FORMATS: Mapping[str, Callable[[Summary], str]] = {"md": markdown, "junit": junit, "json": _json}


def _case(
    suite: ElementTree.Element,
    found: Summary,
    group: str,
    name: str,
    outcome: Outcome,
    told: str,
    detail: str = "",
) -> None:
    told = ("SIMULATED: " if found.simulated else "") + printable(told)
    case = ElementTree.SubElement(
        suite, "testcase", classname=printable(f"{found.study}.{group}"), name=printable(name)
    )
    kinds = {Outcome.FAILED: "failure", Outcome.ERROR: "error", Outcome.SKIPPED: "skipped"}
    if outcome is Outcome.PASSED:
        ElementTree.SubElement(case, "system-out").text = told
        return
    bad = ElementTree.SubElement(case, kinds[outcome], message=told)
    if outcome is Outcome.ERROR and detail:
        bad.text = detail


def _failures(found: Summary) -> str:
    return "\n".join(
        printable(f"trial {one.trial} ({one.treatment}) failed, {one.failure}: {one.message}") for one in found.failures
    )


def _change(one: Comparison, digits: int) -> tuple[str, str]:
    wide: Interval | None = one.simultaneous
    change = "–" if one.percent is None else f"{words.signed(one.percent, digits)} %"
    return change, words.change_interval(wide, digits)


GATE_FORMAT = "leadline-gate/1"


def gate_document(gate: Gate) -> dict[str, Any]:
    """JSON types (docs/reference/json.md)."""
    rates = gate.rates
    return {
        "format": GATE_FORMAT,
        "verdict": gate.verdict.name.lower(),
        "line": gate.line,
        "base": gate.base,
        "head": gate.head,
        "conditions": [row.document() for row in gate.judged],
        "blocks": gate.blocks,
        "of": gate.of,
        "seconds": gate.seconds,
        "error_rate": gate.error_rate,
        "rates": rates
        and {
            **asdict(rates),
            "found": [
                {"condition": condition.text, "harm_percent": effect, "share": share}
                for condition, effect, share in rates.found
            ],
        },
    }


def gate_markdown(gate: Gate, details: str) -> str:
    """For a pull request: verdict, conditions, error rate; below it the details, which are Markdown."""
    rows = []
    for row in gate.judged:
        change = row.change
        interval = change.interval if change else None
        percent = "–" if change is None or change.percent is None else f"{signed(change.percent, 3)} %"
        ends = f"[{signed(interval.low, 3)}, {signed(interval.high, 3)}] %" if interval else "–"
        rows.append((row.condition.text, row.state.value, percent, ends))
    interval_of = "least and most of the layouts" if gate.counted else "interval at any moment, 95 %"
    parts = [
        f"## leadline gate: {answer.SIMULATED if gate.simulated else ''}{gate.verdict.value}",
        escaped(f"{gate.head} against {gate.base}, {gate.size}."),
        markdown_table(("fails where", "state", "change", interval_of), rows, "llrr"),
        escaped(gate.error_rate),
        f"<details><summary>All of it</summary>\n\n{details}\n</details>",
    ]
    return "\n\n".join(parts) + "\n"


def gate_junit(gate: Gate, undecided_fails: bool) -> str:
    """A test case for each condition: a failure where it is broken; where it is undecided an error, or skipped."""
    suite = ElementTree.Element("testsuite", name="leadline gate", tests=str(len(gate.judged)))
    properties = ElementTree.SubElement(suite, "properties")
    for name, value in (("verdict", gate.line), ("error_rate", gate.error_rate)):
        ElementTree.SubElement(properties, "property", name=name, value=printable(value))
    elements = {State.BROKEN: "failure", State.UNDECIDED: "error" if undecided_fails else "skipped"}
    for row in gate.judged:
        case = ElementTree.SubElement(suite, "testcase", classname="gate", name=printable(row.condition.text))
        if row.state is State.KEPT:
            ElementTree.SubElement(case, "system-out").text = printable(change_of(row))
        else:
            ElementTree.SubElement(case, elements[row.state], message=printable(change_of(row)))
    for name, element in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(name, str(len(suite.findall(f"testcase/{element}"))))
    root = ElementTree.Element("testsuites")
    root.append(suite)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode") + "\n"
