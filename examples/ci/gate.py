"""The reports of a study, and whether they keep a policy: gate.py STUDY LAB POLICY. Needs the Python of leadline."""

import json
import os
import sys
from pathlib import Path

import leadline

NAME = "leadline-report"
FORMATS = {"md": "md", "junit": "xml", "json": "json"}


def outcome(report: dict, policy: str) -> str:
    """``error`` and ``failed`` as the report has it; ``inconclusive`` where some response may still have suffered."""
    if report["outcome"] != "passed":
        return report["outcome"]
    open_ = any(one["outcome"] == "skipped" for one in report["comparisons"])
    return "inconclusive" if open_ and policy == "equivalence" else "passed"


def told(report: dict, policy: str) -> list[str]:
    """A line for each comparison, and the answer."""
    lines = []
    for one in report["comparisons"]:
        held = one["simultaneous"]
        interval = f"[{held['low']:+.1f}, {held['high']:+.1f}] %" if held else "no interval"
        lines.append(f"{one['response']}, {one['setting']}: {one['verdict']}, {interval}")
    return [*lines, f"{policy}: {outcome(report, policy)}. {report['answer']}"]


def append(variable: str, text: str) -> None:
    """To the file that the runner names."""
    if name := os.environ.get(variable):
        with Path(name).open("a", encoding="utf-8") as stream:
            stream.write(text)


def main(study: str, lab: str, policy: str) -> int:
    result = leadline.load_lab(lab).study(study)
    result.report(Path(f"{NAME}.html"))
    texts = {name: result.report_text(name) for name in FORMATS}
    for name, ending in FORMATS.items():
        Path(f"{NAME}.{ending}").write_text(texts[name], encoding="utf-8")
    report = json.loads(texts["json"])
    print(*told(report, policy), sep="\n")
    append("GITHUB_STEP_SUMMARY", texts["md"])
    append("GITHUB_OUTPUT", f"outcome={outcome(report, policy)}\n")
    return int(outcome(report, policy) != "passed")


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
