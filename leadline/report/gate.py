"""A gate's verdict for pull requests and CI: Markdown, JUnit XML, and JSON of format ``leadline-gate/1``."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any
from xml.etree import ElementTree

from leadline.conclude.answer import SIMULATED
from leadline.conclude.gate import Gate, change_of
from leadline.model.conditions import State
from leadline.model.errors import printable
from leadline.model.units import signed
from leadline.report.words import escaped, markdown_table

FORMAT = "leadline-gate/1"


def document(gate: Gate) -> dict[str, Any]:
    """JSON types (docs/reference/json.md)."""
    rates = gate.rates
    return {
        "format": FORMAT,
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
        f"## leadline gate: {SIMULATED if gate.simulated else ''}{gate.verdict.value}",
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
