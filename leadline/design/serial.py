"""Plans as JSON."""

from __future__ import annotations

import json
import math
from typing import Any

from leadline.model.errors import UsageError, quoted, shortened
from leadline.model.knob import ApplyCost, Level
from leadline.model.plan import Factor, Plan, PlannedTrial, Role, Slot, Treatment, Turn
from leadline.model.received import from_json

FORMAT = 1


def plan_to_json(plan: Plan) -> str:
    """The plan as a JSON document (format 1, described in docs/concepts/designs.md)."""
    document = {
        "format": FORMAT,
        "kind": plan.kind,
        "blocks": plan.blocks,
        "seed": plan.seed,
        "factors": [
            {
                "name": f.name,
                "levels": list(f.levels),
                "baseline": f.baseline,
                "pseudo": f.pseudo,
                "apply_cost": f.apply_cost.value,
            }
            for f in plan.factors
        ],
        "trials": [
            {
                "position": t.position,
                "block": t.block,
                "replicate": t.replicate,
                "role": t.role.value,
                "levels": t.treatment.as_dict(),
                "seed": t.seed,
                "plot": t.plot,
                "slots": [{"begin": s.begin, "seconds": s.seconds, "levels": s.treatment.as_dict()} for s in t.slots],
            }
            | ({"turns": [[turn.begin, turn.seconds, turn.warm_up] for turn in t.turns]} if t.turns else {})
            for t in plan.trials
        ],
        "notes": list(plan.notes),
    }
    return json.dumps(document, indent=1, allow_nan=False)


def plan_from_json(text: str) -> Plan:
    """The plan that ``plan_to_json`` wrote. Raises UsageError for anything else; does not check the design."""
    try:
        document = from_json(text)
        if document["format"] != FORMAT:
            raise ValueError(f"format {document['format']} is not known, this version reads {FORMAT}")
        return Plan(
            kind=str(document["kind"]),
            seed=int(document["seed"]),
            factors=tuple(
                Factor(
                    name=str(f["name"]),
                    levels=tuple(_level(level) for level in f["levels"]),
                    baseline=_level(f["baseline"]),
                    pseudo=bool(f["pseudo"]),
                    apply_cost=ApplyCost(f.get("apply_cost", ApplyCost.RESTART)),
                )
                for f in document["factors"]
            ),
            trials=tuple(
                PlannedTrial(
                    position=int(t["position"]),
                    block=int(t["block"]),
                    replicate=int(t["replicate"]),
                    role=Role(t["role"]),
                    treatment=_treatment(t["levels"]),
                    seed=int(t["seed"]),
                    plot=None if t.get("plot") is None else int(t["plot"]),
                    slots=tuple(
                        Slot(index, float(s["begin"]), float(s["seconds"]), _treatment(s["levels"]))
                        for index, s in enumerate(t.get("slots", ()))
                    ),
                    turns=tuple(
                        Turn(float(begin), float(seconds), bool(warm_up))
                        for begin, seconds, warm_up in t.get("turns", ())
                    ),
                )
                for t in document["trials"]
            ),
            notes=tuple(str(note) for note in document["notes"]),
            blocks=str(document.get("blocks", "by-replicate")),
        )
    except KeyError as error:
        raise UsageError(f"plan: the key {quoted(error.args[0])} is missing") from error
    except (TypeError, AttributeError, ValueError, OverflowError) as error:
        raise UsageError(f"plan: not a saved plan: {shortened(str(error), 200)}") from error


def _treatment(levels: dict[str, Any]) -> Treatment:
    return Treatment.of({str(name): _level(level) for name, level in levels.items()})


def _level(raw: object) -> Level:
    if isinstance(raw, (bool, int, str)):
        return raw
    if isinstance(raw, float) and math.isfinite(raw):
        return raw
    raise ValueError(f"{raw!r} is not a level")
