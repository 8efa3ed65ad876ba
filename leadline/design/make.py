"""From factors and a study's design to a plan, or a refusal that names a design that would do."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

from leadline.design.arrange import arrange
from leadline.design.coding import model_width
from leadline.design.forks import WORLDS, in_worlds
from leadline.design.kind import DesignError, DesignKind
from leadline.design.kinds import KINDS, check_options
from leadline.design.order import dear_changes, dear_factors, dear_levels
from leadline.design.seeds import block_seed
from leadline.model.design import Design
from leadline.model.errors import UsageError, nearest, quoted, shortened
from leadline.model.guest import FORKS
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


LARGEST = 10_000  # trials of a plan: 60 hours at the least


def make_plan(factors: Sequence[Factor], design: Design) -> Plan:
    """A seeded, ordered plan.

    Runs are those of the design's kind; they are put into blocks as the design says, in random order inside a block,
    trials that share levels of dear factors together; sentinels are added as the design says. Raises DesignError (a
    UsageError) when the design cannot answer the question, and says which design would.
    """
    kind, forks = _kind(design.treatments), design.kind == FORKS
    _check_factors(factors)
    check_options(kind, design)
    if design.replicates == 1 and design.sentinels is None and not forks:
        raise DesignError(
            "design: one replicate without sentinels cannot distinguish a drift of the machine from an effect; "
            "set replicates to 2 or more, or sentinels to a number such as 6"
        )
    trials = kind.count(factors, design) * design.replicates
    if trials > LARGEST:
        raise DesignError(
            f"design: {kind.name} of these {len(factors)} factors takes {trials:,} trials, more than {LARGEST:,}; "
            f"{_fewer(kind.name, trials // design.replicates, 'worlds' if forks else 'replicates')}",
            ("design", "kind"),
        )
    runs = kind.treatments(factors, design)
    if forks:
        arranged = in_worlds(factors, runs, design.replicates)
    else:
        _check_plots(factors, runs, design)
        arranged = arrange(factors, runs, kind.cells, design)
    plan = Plan(
        kind=kind.name,
        seed=design.seed,
        factors=tuple(factors),
        trials=tuple(
            PlannedTrial(
                position,
                entry.block,
                entry.replicate,
                entry.role,
                entry.treatment,
                block_seed(design.seed, entry.block),
                plot=entry.plot,
            )
            for position, entry in enumerate(arranged.entries)
        ),
        blocks=WORLDS if forks else design.blocks,
    )
    notes = [*kind.notes(factors, design), *arranged.notes]
    notes += _reference_notes(kind, plan, runs) if forks else _notes(kind, plan, design, runs)
    return Plan(plan.kind, plan.seed, plan.factors, plan.trials, tuple(notes), plan.blocks)


def _fewer(kind: str, runs: int, repeats: str) -> str:
    if kind == "d-optimal":
        return "set runs to a smaller number"
    if runs <= LARGEST // 2:
        return f"set {repeats} to {LARGEST // runs} or less"
    return "name fewer levels, or use one-at-a-time"


def _kind(name: str) -> DesignKind:
    if name in KINDS:
        return KINDS[name]
    near = nearest(name, list(KINDS)) or "one of " + ", ".join(KINDS)
    raise DesignError(f"design: unknown kind {name!r}; did you mean {near}?", ("design", "kind"))


def _check_factors(factors: Sequence[Factor]) -> None:
    if not factors:
        raise DesignError("design: nothing to compare; name a factor with two levels, or a pseudo-factor", ("factors",))
    names = [factor.name for factor in factors]
    for name in names:
        if names.count(name) > 1:
            raise DesignError(
                f"design: factor {name} is named twice; merge its levels into one list", ("factors", name)
            )
    for factor in factors:
        for index, level in enumerate(factor.levels):
            if level in factor.levels[:index]:
                raise DesignError(
                    f"design: level {level} of factor {factor.name} is named twice; name it once",
                    ("factors", factor.name),
                )
        if len(factor.levels) < 2:
            raise DesignError(
                f"design: factor {factor.name} has the one level {factor.baseline}, so there is nothing to compare; "
                "add a level, or hold the knob under `settings`",
                ("factors", factor.name),
            )


def _check_plots(factors: Sequence[Factor], runs: Sequence[Treatment], design: Design) -> None:
    """The noise between whole plots must be known: more plots than blocks and effects of dear factors."""
    dear = dear_factors(factors)
    if not dear or design.replicates > 1:
        return
    plots = len({dear_levels(factors, run) for run in runs})
    effects = sum(len(factor.levels) - 1 for factor in dear)
    if plots - 1 <= effects:
        names = ", ".join(factor.name for factor in dear)
        raise DesignError(
            f"design: with one replicate every level of {names} has one whole plot, so what the plot does cannot be "
            "told from what the level does; set replicates to 2 or more",
            ("design", "replicates"),
        )


def _notes(kind: DesignKind, plan: Plan, design: Design, runs: Sequence[Treatment]) -> list[str]:
    baselines = sum(trial.role is not Role.TREATMENT for trial in plan.trials)
    notes = [*_reference_notes(kind, plan, runs), *_dear_notes(plan)]
    if design.replicates == 1:
        blocks = len({trial.block for trial in plan.trials})
        interactions = kind.name == "d-optimal" and design.model == "interactions"
        spare = len(runs) - blocks - model_width(plan.factors, interactions) + 1
        if kind.cells or spare <= 0 or kind.name == "full-factorial":
            notes.append(
                f"One replicate: the noise is known from the {baselines} baseline trials alone, so intervals will be "
                "very wide; two or more replicates narrow them."
            )
        else:
            notes.append(
                f"One replicate: the noise is known from {spare} degrees of freedom that hold unmodelled "
                f"interactions, too, and "
                f"from the {baselines} baseline trials."
            )
    if design.replicates == 2 and design.sentinels is None and plan.blocks == "by-replicate" and baselines <= 2:
        notes.append("Two replicates without sentinels: drift can be seen from two baseline trials only, that is, not.")
    return notes


def _reference_notes(kind: DesignKind, plan: Plan, runs: Sequence[Treatment]) -> list[str]:
    whole = kind.cells or kind.name in ("full-factorial", "within-each")
    return [] if whole else [_reference(plan, runs)]


def _reference(plan: Plan, runs: Sequence[Treatment]) -> str:
    """How effects of a screening design are referred to the baseline."""
    sentence = (
        "An effect is the contrast of a level with its factor's baseline level over all runs, the other factors at "
        "all their levels"
    )
    if plan.baseline in runs:
        return f"{sentence}; the baseline itself is a run of every replicate."
    if any(trial.role is Role.SENTINEL for trial in plan.trials):
        return f"{sentence}; the baseline itself is run as sentinels only."
    return f"{sentence}; the baseline itself is never run: set sentinels to run it."


def _dear_notes(plan: Plan) -> list[str]:
    dear = dear_factors(plan.factors)
    if not dear:
        return []
    names = ", ".join(factor.name for factor in dear)
    changes = dear_changes(plan.factors, [trial.treatment for trial in plan.trials])
    counted = ", ".join(f"{number} of {cost}" for cost, number in changes.items())
    plots = len({trial.plot for trial in plan.trials})
    return [
        f"Split plot: {plots} whole plots; main effects of {names} are whole-plot effects, compared between plots and "
        f"less exact; all others are compared inside plots. Costly changes: {counted}."
    ]
