"""A tuning as one JSON document, format ``leadline-tuning/1`` (docs/guides/tuning.md)."""

from __future__ import annotations

from typing import Any

from leadline.report.document import plain
from leadline.report.tuning.view import TuningView

FORMAT = "leadline-tuning/1"


def document(view: TuningView) -> dict[str, Any]:
    """Everything that was decided and measured; only JSON types, no NaN. The trials are in the studies it names."""
    record, progress = view.record, view.progress
    return {
        "format": FORMAT,
        "simulated": view.simulated,
        "id": record.id,
        "tuning": record.tuning.model_dump(mode="json"),
        "document": record.document,
        "created": record.created,
        "finished": record.finished,
        "left_out": dict(record.left_out),
        "passed_over": list(record.passed_over),
        "environment": dict(view.environment),
        "studies": [{"study": name, "id": number} for name, number in view.studies],
        "trials": view.trials,
        "done": view.done,
        "failures": [{"failure": text, "trials": count, "first": first} for text, count, first in view.failures],
        "response": view.response,
        "decisions": [plain(decision) for decision in progress.decisions],
        "kept": plain(progress.kept),
        "comparison": plain(progress.comparison),
        "gains": {response: plain(by_mode) for response, by_mode in view.gains.items()},
        "over_modes": {response: [plain(row) for row in rows] for response, rows in view.averages.items()},
        "measured": [plain(measurement) for measurement in view.measured],
        "waterfall": {mode: [plain(bar) for bar in bars] for mode, bars in view.bars.items()},
        "steps_together": plain(view.sums),
        "factorials": [
            {"mode": factorial.mode, "kind": factorial.plan.kind, "analysis": plain(factorial.analysis)}
            for factorial in progress.factorials
        ],
        "next": None if progress.next is None else progress.next.key,
        "notes": list(view.notes),
        "answer": view.answer,
    }
