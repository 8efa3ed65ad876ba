"""Which treatments the slots and the trials of a switchback plan have: runs of one kind of design over two factor sets.

Slots hold the runs of the design's kind over the live factors, trials the runs of the same kind over the others. Both
hold the baseline, and each run once: blocks of slots and replicates of trials repeat them.
"""

from __future__ import annotations

from collections.abc import Sequence

from leadline.design.kinds import KINDS, DesignError, check_options
from leadline.model.design import Design
from leadline.model.errors import UsageError
from leadline.model.plan import Factor, Treatment

LARGEST = 100_000  # slots of a plan


def baseline_of(factors: Sequence[Factor]) -> Treatment:
    """Every factor at its baseline level."""
    return Treatment.of({factor.name: factor.baseline for factor in factors})


def slot_treatments(live: Sequence[Factor], design: Design) -> tuple[tuple[Treatment, ...], list[str]]:
    """The baseline first, then the distinct runs of ``design.kind`` over the live factors; and sentences on what they
    can tell, none for kinds that speak for themselves. Raises DesignError where the kind cannot serve these factors.
    """
    kind = KINDS[design.kind]
    check_options(kind, design)
    _check_size(kind.count(live, design), "slots in a block")
    runs = kind.treatments(live, design)
    notes = list(kind.notes(live, design))
    if notes:
        different = len(set(runs))
        if different < len(runs):
            notes.append(f"{different} of these runs are different; a block of slots holds each of them once.")
        if baseline_of(live) not in runs:
            notes.append("The baseline is none of these runs; every block of slots holds it besides.")
        notes.append(
            "An effect is the contrast of a level with its factor's baseline level over all slots, the other factors "
            "at all their levels."
        )
    return _distinct(live, runs), notes


def trial_treatments(others: Sequence[Factor], design: Design) -> tuple[tuple[Treatment, ...], list[str]]:
    """The baseline first, then the distinct runs over the factors that change between trials; and a sentence where the
    kind cannot serve them, so that they change one at a time.

    ``design.runs`` counts the runs in slots; trials take the number that their factors need.
    """
    if not others:
        return (Treatment(()),), []
    kind, unsized = KINDS[design.kind], design.model_copy(update={"runs": None})
    try:
        _check_size(kind.count(others, unsized), "different trials")
        return _distinct(others, kind.treatments(others, unsized)), []
    except DesignError as error:
        reason = str(error).removeprefix("design: ").partition("; ")[0].partition(": ")[0]
        note = f"Trials change one factor at a time, not as {design.kind}: {reason}."
        return KINDS["one-at-a-time"].treatments(others), [note]


def _check_size(treatments: int, what: str) -> None:
    """Before they are made."""
    if treatments > LARGEST:
        raise UsageError(
            f"this plan has {treatments:,} {what}, more than {LARGEST:,}; name fewer levels, or use one-at-a-time"
        )


def _distinct(factors: Sequence[Factor], runs: Sequence[Treatment]) -> tuple[Treatment, ...]:
    return tuple(dict.fromkeys([baseline_of(factors), *runs]))
