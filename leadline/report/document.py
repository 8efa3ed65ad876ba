"""The study as one JSON document, format ``leadline-study/1`` (docs/reference/json.md)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from leadline.conclude import explanation, waiting
from leadline.conclude.explanation import Unit
from leadline.model.frames import LevelProfile, LevelWaits
from leadline.model.record import StudyRecord, TrialRecord
from leadline.model.result import AtLeast, StudyAnalysis
from leadline.report import flames, words

FORMAT = "leadline-study/1"


def document(record: StudyRecord, analysis: StudyAnalysis) -> dict[str, Any]:
    """Everything the lab keeps of the study and everything concluded; only JSON types, no NaN."""
    study = record.study
    conclusions = plain(analysis)
    conclusions["judgement"]["standing"] = analysis.judgement.standing
    if analysis.profile is not None:
        conclusions["profile"]["levels"] = [
            _level(
                record,
                level,
                explanation.unit_of(level.sentence.partition(":")[0], level.ms, analysis.profile.compiled),
            )
            for level in analysis.profile.levels
        ]
    if analysis.waits is not None:
        conclusions["waits"]["levels"] = [
            {"response": level.response, **_level(record, level, waiting.unit_of(level.name, level.response))}
            for level in analysis.waits.levels
        ]
    for entry, source in zip(conclusions["responses"], analysis.responses, strict=True):
        kind = words.kind_of(source.response)
        entry["unit"], entry["higher_is_better"] = kind.unit, kind.higher_is_better
        entry["baseline_at_least"] = isinstance(source.baseline_mean, AtLeast)
        for effect, of in zip(entry["effects"], source.effects, strict=True):
            effect["at_least"] = isinstance(of.percent, AtLeast)
            effect["setting"] = words.setting(study, of.factor, of.level)
    return {
        "format": FORMAT,
        "simulated": analysis.simulated,
        "time": study.time,
        "id": record.id,
        "study": study.model_dump(mode="json"),
        "document": record.document,
        "created": record.created,
        "environment": dict(record.environment),
        "skipped": list(record.skipped),
        "plan": {
            "kind": record.plan.kind,
            "seed": record.plan.seed,
            "notes": list(record.plan.notes),
            "baseline": record.plan.baseline.as_dict(),
            "factors": [plain(factor) for factor in record.plan.factors],
        },
        "trials": [_trial(record, trial) for trial in record.trials],
        "analysis": conclusions,
    }


def _level(record: StudyRecord, level: LevelProfile | LevelWaits, unit: Unit) -> dict[str, Any]:
    setting = words.setting(record.study, level.factor, level.level)
    return {"factor": level.factor, "setting": setting, **flames.document(level.effects, unit)}


def _trial(record: StudyRecord, trial: TrialRecord) -> dict[str, Any]:
    planned = trial.planned
    row: dict[str, Any] = plain(trial)
    row["at_least"] = words.lower_bounds(trial.responses)
    row["planned"] = {
        "position": planned.position,
        "block": planned.block,
        "replicate": planned.replicate,
        "role": planned.role.value,
        "seed": planned.seed,
        "treatment": words.trial_text(record.study, record.plan, planned),
        "treatment_key": planned.treatment.key,
        "levels": planned.treatment.as_dict(),
    }
    for entry, slot in zip(row["slots"], trial.slots, strict=True):
        entry["at_least"] = words.lower_bounds(slot.responses)
        entry["treatment"] = words.treatment_text(record.study, record.plan, slot.treatment)
        entry["treatment_key"] = slot.treatment.key
        entry["levels"] = slot.treatment.as_dict()
    return row


def with_simulated(rows: Iterable[Sequence[Any]], simulated: bool) -> list[list[Any]]:
    """A table, head first, with a last column that says of every row whether it comes from a simulated host."""
    return [[*row, ("yes" if simulated else "no") if at else "simulated"] for at, row in enumerate(rows)]


def plain(value: Any) -> Any:
    """Dataclasses, models, enums and paths as JSON types; numbers that JSON has no word for become null."""
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
