"""Other plans that answer the same question: other kinds of designs, other blocks, slots."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from leadline.design import KINDS
from leadline.design.squares import williams_rows
from leadline.layouts import layout_of, switchback_plan
from leadline.model.design import Design, Switchback
from leadline.model.errors import UsageError
from leadline.model.plan import Factor, Plan
from leadline.model.workload import Workload

_KINDS = (
    *("one-at-a-time", "full-factorial", "fractional-factorial", "plackett-burman", "definitive-screening"),
    "d-optimal",
)
_IN_SLOTS = ("one-at-a-time", "fractional-factorial", "plackett-burman", "definitive-screening", "d-optimal")
_EXCHANGED = 60  # comparisons for which a D-optimal design is still searched
_SQUARE = 12  # runs of a replicate up to which squares are worth naming
_NOTES = {
    "fractional-factorial": "main effects, if interactions are small",
    "plackett-burman": "main effects, if interactions are small",
    "d-optimal": "main effects, if interactions are small",
    "definitive-screening": "main effects free of two-factor interactions",
}
_BLOCKS = {
    "latin": "free of what comes with a trial's place in its block",
    "williams": "free of places, and balanced for what a trial leaves behind",
    "incomplete": "short blocks, for a machine that changes within a replicate; that they are calmer is not forecast",
}


def name_of(plan: Plan) -> str:
    """The kind of a plan, and what its blocks are if they are not replicates."""
    layout = "in slots" if any(trial.slots for trial in plan.trials) else layout_of(plan).words.plan
    if layout:
        return f"{plan.kind}, {layout}"
    return plan.kind if plan.blocks == "by-replicate" else f"{plan.kind}, {plan.blocks} blocks"


def rows_of_a_square(plan: Plan) -> int:
    """Replicates that a plan can grow by: those of a whole square, else one."""
    treatments = len({trial.treatment for trial in plan.trials})
    return {"latin": treatments, "williams": williams_rows(treatments), "abba": 2}.get(plan.blocks, 1)


def alternatives(factors: Sequence[Factor], design: Design, workload: Workload) -> Iterator[tuple[Plan, str]]:
    """Plans and what must be known of each; those that the factors do not allow are left out."""
    levels = sum(len(factor.levels) - 1 for factor in factors)
    kinds = [kind for kind in _KINDS if kind != "d-optimal" or levels <= _EXCHANGED]
    layout = layout_of(design)
    beside = {"rotation": design.rotation} if layout.side_by_side else {}
    tried: list[tuple[Design, str]] = [(_as(kind, design, beside), _NOTES.get(kind, "")) for kind in kinds]
    tried += [] if beside else _in_blocks(factors, design)
    for chosen, note in tried:
        try:
            yield layout_of(chosen).plan(factors, chosen, workload), note
        except UsageError:
            continue
    if beside:  # its noise is not that of slots in one instance
        return
    for kind in [kind for kind in _IN_SLOTS if kind in kinds]:
        switched = _as(kind, design, {"switchback": design.switchback or Switchback()})
        try:
            notes = (_NOTES.get(kind, ""), "all factors change inside warm trials")
            yield switchback_plan(factors, switched, workload), "; ".join(filter(None, notes))
        except UsageError:
            continue


def _in_blocks(factors: Sequence[Factor], design: Design) -> Iterator[tuple[Design, str]]:
    kind = design.kind if design.kind in _KINDS else "one-at-a-time"
    try:
        runs = KINDS[kind].count(factors, _as(kind, design))
    except UsageError:
        return
    notes = _NOTES.get(kind, "")
    for blocks, rows in (("latin", runs), ("williams", williams_rows(runs))):
        if runs <= _SQUARE:
            replicates = rows * max(1, round(design.replicates / rows))
            changed = _as(kind, design, {"blocks": blocks, "replicates": replicates})
            yield changed, "; ".join(filter(None, (notes, _BLOCKS[blocks])))
    size = max(2, round(runs**0.5) + 1)
    if size < runs:
        changed = _as(kind, design, {"blocks": "incomplete", "block_size": size})
        yield changed, "; ".join(filter(None, (notes, _BLOCKS["incomplete"])))


def _as(kind: str, design: Design, changed: Mapping[str, object] | None = None) -> Design:
    """The same design as another kind, or in other blocks, or in slots; keys of a kind stay with that kind."""
    changed = changed or {}
    kept_keys = {"sentinels", "seed"} | (
        KINDS[kind].options & design.model_fields_set if kind == design.kind else set()
    )
    keys = {key: getattr(design, key) for key in kept_keys}
    replicates = design.replicates if "switchback" in changed else max(2, design.replicates)
    return Design.model_validate({**keys, "kind": kind, "replicates": replicates, **changed})
