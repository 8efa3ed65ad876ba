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
    for one in findings:
        if not one.testable or one.knob is None:
            raise UsageError(f"{one.name} has no setting to try: {one.remedy or one.reason}")
        if one.knob in factors:
            raise UsageError(f"two findings are of {one.knob}: choose one with --finding")
        now = one.now if one.now is not None else one.start
        factors[one.knob] = [_raw(one.knob, now, knobs), _raw(one.knob, one.then, knobs)]
        responses += [name for name in one.responses if name not in responses]
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
