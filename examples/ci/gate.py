"""Whether a report (leadline report --format json) keeps a policy: gate.py REPORT POLICY OUTPUT."""

import json
import sys
from pathlib import Path


def outcome(report: dict, policy: str) -> str:
    """``error`` and ``failed`` as the report has it; ``inconclusive`` where some response may still have suffered."""
    if report["outcome"] != "passed":
        return report["outcome"]
    open_ = any(one["outcome"] == "skipped" for one in report["comparisons"])
    return "inconclusive" if open_ and policy == "equivalence" else "passed"


def main(file: str, policy: str, output: str) -> int:
    report = json.loads(Path(file).read_text(encoding="utf-8"))
    found = outcome(report, policy)
    for one in report["comparisons"]:
        held = one["simultaneous"]
        interval = f"[{held['low']:+.1f}, {held['high']:+.1f}] %" if held else "no interval"
        print(f"{one['response']}, {one['setting']}: {one['verdict']}, {interval}")
    print(f"{policy}: {found}. {report['answer']}")
    with Path(output).open("a", encoding="utf-8") as stream:
        stream.write(f"outcome={found}\n")
    return int(found != "passed")


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
