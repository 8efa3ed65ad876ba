"""The last comparison: untuned against tuned in all modes, from trials that decided nothing before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from leadline.analysis.contrasts import Change, contrasts
from leadline.model.plan import Treatment
from leadline.model.tuning import Tuning
from leadline.planning.sequence.parts import Kept, Levels, Measured, Part, Stage, levels_of, part_of

UNTUNED, TUNED = "untuned", "tuned"


@dataclass(frozen=True)
class Rung:
    """A configuration on the way from untuned to tuned. ``steps``: kept ones that are in force, in order.

    ``relative``: against the reference mode untuned, None for that itself; ``change``: against the rung before.
    """

    mode: str
    name: str
    steps: tuple[str, ...]
    relative: Change | None
    change: Change | None


@dataclass(frozen=True)
class Comparison:
    """``rungs`` by mode in order, the last one tuned; ``gains``: mode -> tuned against untuned."""

    reference: str
    rungs: tuple[Rung, ...]
    gains: Mapping[str, Change]
    every: bool  # whether every rung was measured, or untuned and tuned only

    def of(self, mode: str) -> list[Rung]:
        return [rung for rung in self.rungs if rung.mode == mode]


def _rungs(tuning: Tuning, mode: str, kept: Kept) -> list[tuple[str, tuple[str, ...]]]:
    """Name and steps of each configuration of a mode."""
    order = [step.name for step in tuning.steps if kept.get(step.name)]
    if not order:
        return [(f"{mode} {UNTUNED}", ())]
    between = range(1, len(order)) if tuning.blocks.every_rung else ()
    middle = [(f"{mode} +{order[at - 1]}", tuple(order[:at])) for at in between]
    return [(f"{mode} {UNTUNED}", ()), *middle, (f"{mode} {TUNED}", tuple(order))]


def compare_part(tuning: Tuning, kept: Mapping[str, Kept], left_out: Mapping[str, str]) -> Part | None:
    """None where there is one configuration only, so nothing to compare."""
    configurations: dict[str, Levels] = {}
    for mode in tuning.modes:
        for name, steps in _rungs(tuning, mode, kept[mode]):
            chosen = {step: kept[mode][step] for step in steps}
            configurations[name] = levels_of(tuning, mode, chosen, left_out)
    if len(configurations) < 2:
        return None
    return part_of(tuning, Stage.COMPARE, configurations, tuning.blocks.compare)


def compared(tuning: Tuning, kept: Mapping[str, Kept], measured: Measured) -> Comparison:
    """All differences that the report shows, as one family of simultaneous intervals at 95 %."""
    at = measured.treatments
    reference = f"{tuning.modes[0]} {UNTUNED}"
    ladders = {mode: _rungs(tuning, mode, kept[mode]) for mode in tuning.modes}
    pairs: dict[tuple[str, str], tuple[Treatment, Treatment]] = {}

    def ask(name: str, other: str) -> None:
        if name != other:
            pairs[name, other] = (at[name], at[other])

    for ladder in ladders.values():
        for before, (name, _) in zip([None, *ladder], ladder, strict=False):
            ask(name, reference)
            if before is not None:
                ask(name, before[0])
        ask(ladder[-1][0], ladder[0][0])
    changes = contrasts(measured.plan, measured.observations, tuning.responses[0], list(pairs.values()))
    by_pair: dict[tuple[str, str], Change] = dict(zip(pairs, changes, strict=True))
    rungs = [
        Rung(mode, name, steps, by_pair.get((name, reference)), by_pair.get((name, before[0])) if before else None)
        for mode, ladder in ladders.items()
        for before, (name, steps) in zip([None, *ladder], ladder, strict=False)
    ]
    gains: dict[str, Change] = {
        mode: by_pair[ladder[-1][0], ladder[0][0]] for mode, ladder in ladders.items() if len(ladder) > 1
    }
    return Comparison(tuning.modes[0], tuple(rungs), gains, tuning.blocks.every_rung)


def product(changes: Sequence[Change]) -> float | None:
    """Percent of changes one after the other, as if each were what it was measured to be; None without all figures."""
    total = 1.0
    for change in changes:
        if change.percent is None:
            return None
        total *= 1 + change.percent / 100
    return 100 * (total - 1)
