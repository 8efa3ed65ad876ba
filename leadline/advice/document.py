"""Findings as JSON types (docs/reference/json.md)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from leadline.advice.check import Check
from leadline.advice.findings import Finding


def status(checks: Sequence[Check]) -> str:
    """``suggestion`` until a study has checked it, then what the newest conclusive check said."""
    settled = [one.status for one in checks if one.status != "open"]
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
    for one in findings:
        row = {key: value for key, value in asdict(one).items() if key != "start" or value is not None}
        row["status"] = status(checks.get(one.name, ()))
        row["checks"] = [asdict(check) for check in checks.get(one.name, ())]
        row["command"] = commands.get(one.name)
        rows.append(row)
    return {"run": run, "trials": trials, "findings": rows}
