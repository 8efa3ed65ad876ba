"""From factors and a study's design to a plan, or a refusal that names a design that would do."""

from __future__ import annotations

from collections.abc import Sequence

from leadline.design.kinds import KINDS, DesignKind
from leadline.design.order import blocked_order, with_sentinels
from leadline.design.seeds import block_seed
from leadline.model.errors import UsageError, nearest
from leadline.model.plan import Factor, Plan, PlannedTrial, Role, Treatment
from leadline.model.study import Design

LARGEST = 100_000  # trials of a plan


def make_plan(factors: Sequence[Factor], design: Design) -> Plan:
    """A complete, seeded, ordered plan.

    Every block holds every treatment once, the baseline among them, in random order; sentinels are added as the
    design says. Raises UsageError when the design cannot answer the question, and says which design would.
    """
    kind = _kind(design.kind)
    _check_factors(factors)
    if design.replicates == 1 and design.sentinels is None:
        raise UsageError(
            "design: one replicate without sentinels cannot tell a drift of the machine from an effect; "
            "set replicates to 2 or more, or sentinels to a number such as 6"
        )
    trials = kind.count(factors) * design.replicates
    if trials > LARGEST:
        raise UsageError(
            f"design: {design.kind} of these {len(factors)} factors takes {trials:,} trials, more than {LARGEST:,}; "
            "name fewer levels, or use one-at-a-time"
        )
    baseline = Treatment.of({factor.name: factor.baseline for factor in factors})
    rows = blocked_order(kind.treatments(factors), baseline, design.replicates, design.seed)
    if design.sentinels is not None:
        rows = with_sentinels(rows, baseline, design.sentinels)
    return Plan(
        kind=design.kind,
        seed=design.seed,
        factors=tuple(factors),
        trials=tuple(
            PlannedTrial(position, row.block, row.block, row.role, row.treatment, block_seed(design.seed, row.block))
            for position, row in enumerate(rows)
        ),
        notes=tuple(_notes(design, sum(row.role is not Role.TREATMENT for row in rows))),
    )


def _kind(name: str) -> DesignKind:
    if name in KINDS:
        return KINDS[name]
    near = nearest(name, list(KINDS)) or "one of " + ", ".join(KINDS)
    raise UsageError(f"design: unknown kind {name!r}; did you mean {near}?")


def _check_factors(factors: Sequence[Factor]) -> None:
    if not factors:
        raise UsageError("design: nothing to compare; name a factor with two levels, or a pseudo-factor")
    names = [factor.name for factor in factors]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"design: factor {name} is named twice; merge its levels into one list")
    for factor in factors:
        for index, level in enumerate(factor.levels):
            if level in factor.levels[:index]:
                raise UsageError(f"design: level {level} of factor {factor.name} is named twice; name it once")
        if len(factor.levels) < 2:
            raise UsageError(
                f"design: factor {factor.name} has the one level {factor.baseline}, so there is nothing to compare; "
                "add a level, or hold the knob under `settings`"
            )


def _notes(design: Design, baselines: int) -> list[str]:
    notes = []
    if design.replicates == 1:
        notes.append(
            f"One replicate: the noise is known from the {baselines} baseline trials alone, so intervals will be very "
            "wide; two or more replicates narrow them."
        )
    if design.replicates == 2 and design.sentinels is None:
        notes.append("Two replicates without sentinels: drift can be seen from two baseline trials only, that is, not.")
    return notes
