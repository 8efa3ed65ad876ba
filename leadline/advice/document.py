"""Findings as JSON types (docs/reference/json.md)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from leadline.advice.check import Check
from leadline.advice.findings import Finding


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
