"""The study that would check findings: each level to try against the level it had, everything else as it was."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from leadline.advice.findings import Finding, written
from leadline.model.bounds import RawLevel
from leadline.model.errors import UsageError
from leadline.model.guest import FORKS
from leadline.model.knob import Knob, Level
from leadline.model.study import Study

REPLICATES = 5
_KEPT = (
    "stack",
    "guest",
    "workload",
    "reset",
    "placement",
    "drivers",
    "limits",
    "equivalence",
    "dead_man",
    "ready_timeout",
)


def checking_study(
    findings: Sequence[Finding],
    run: str,
    study: Study,
    held: Mapping[str, RawLevel],
    knobs: Mapping[str, Knob],
    seed: int,
) -> dict[str, Any]:
    """The study file's content. ``held``: the other knobs' levels as a study file has them.

    Raises UsageError where no finding has a level to try, or two are of one knob.
    """
    factors: dict[str, list[RawLevel]] = {}
    responses = list(study.responses)
    for finding in findings:
        if not finding.testable or finding.knob is None:
            raise UsageError(f"{finding.name} has no setting to try: {finding.remedy or finding.reason}")
        if finding.knob in factors:
            raise UsageError(f"two findings concern {finding.knob}: choose one with --finding")
        now = finding.now if finding.now is not None else finding.start
        factors[finding.knob] = [_raw(finding.knob, now, knobs), _raw(finding.knob, finding.then, knobs)]
        responses += [name for name in finding.responses if name not in responses]
    if not factors:
        raise UsageError(f"{run} has no finding with a setting to try: there is nothing to check")
    dumped = study.model_dump(mode="json", exclude_unset=True)
    changes = ", ".join(f"{name} {levels[1]} instead of {levels[0]}" for name, levels in factors.items())
    document: dict[str, Any] = {
        "study": f"{study.study}-advice",
        "question": f"Does what was advised after {run} help: {changes}?",
        **{key: dumped[key] for key in _KEPT if key in dumped},
        "factors": factors,
        "settings": {name: level for name, level in held.items() if name not in factors},
        "design": {**_design(study), "seed": seed},
        "responses": responses,
    }
    return {key: value for key, value in document.items() if value not in ({}, None)}


def _design(study: Study) -> dict[str, Any]:
    if study.design.kind == FORKS:
        return {"kind": FORKS, "worlds": study.design.worlds}
    return {"kind": "one-at-a-time", "replicates": REPLICATES}


def _raw(knob: str, level: Level | None, knobs: Mapping[str, Knob]) -> RawLevel:
    if isinstance(level, (bool, float)):
        return level
    if isinstance(level, int) and (knob not in knobs or knobs[knob].format(level) == str(level)):
        return level
    return written(level, knobs.get(knob), knob)
