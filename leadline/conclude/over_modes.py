"""What each step of a tuning does over all modes in which it is tried, beside what it does in each of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from leadline.analysis.contrasts import Change, mean_contrasts
from leadline.conclude.answer import changes
from leadline.conclude.wording import MOST
from leadline.model.result import Verdict
from leadline.model.tuning import Tuning
from leadline.planning.sequence import Measured, Progress, Stage
from leadline.planning.sequence.advance import sharing
from leadline.planning.sequence.keep import FALSE_KEEP, candidate_pair, describe, modes_of, noise_of_others


@dataclass(frozen=True)
class OverModes:
    """A candidate of a step against the best so far.

    ``change``: the mean over ``modes``, equally weighted (of positive responses the geometric mean of the ratios); its
    ``interval`` is of this step alone, ``simultaneous`` of all steps, each at 95 %. ``by_mode``: step x mode, likewise.
    """

    step: str
    candidate: int
    setting: str
    modes: tuple[str, ...]
    change: Change
    by_mode: Mapping[str, Change]


Averages = Mapping[str, Sequence[OverModes]]  # response -> steps in order


def over_modes(tuning: Tuning, progress: Progress, results: Mapping[str, Measured]) -> Averages:
    """Of every response and measured step; empty for a tuning of one mode.

    Steps of the same load and slots share their noise (``leadline.analysis.linear``), later ones too: nothing is
    decided by these figures.
    """
    if len(tuning.modes) < 2:
        return {}
    level = 1 - FALSE_KEEP / len(tuning.steps)
    steps = {step.name: step for step in tuning.steps}
    averages: dict[str, list[OverModes]] = {response: [] for response in tuning.responses}
    for part in progress.done:
        if part.stage is not Stage.STEP:
            continue
        step, result = steps[part.step], results[part.key]
        modes, numbers = modes_of(tuning, step), range(1, step.candidates + 1)
        groups = [[candidate_pair(result, mode, step, number) for mode in modes] for number in numbers]
        beside = [other for other in progress.done if other.key != part.key] if tuning.shares_slots(step) else []
        for response, rows in averages.items():
            others = noise_of_others(sharing(tuning, beside, results), response)
            means, single = (
                mean_contrasts(result.plan, result.observations, response, asked, family_level=level, others=others)
                for asked in (groups, [[pair] for group in groups for pair in group])
            )
            for at_group, (number, change) in enumerate(zip(numbers, means, strict=True)):
                mine = single[at_group * len(modes) : (at_group + 1) * len(modes)]
                by_mode = dict(zip(modes, mine, strict=True))
                rows.append(OverModes(step.name, number, describe(step, number), tuple(modes), change, by_mode))
    return averages


def told_over_modes(tuning: Tuning, averages: Averages) -> list[str]:
    """A sentence for the steps that change the first response over their modes."""
    response = tuning.responses[0]
    moved = [
        average for average in averages.get(response, ()) if average.change.verdict in (Verdict.BETTER, Verdict.WORSE)
    ]
    sentences = [
        f"{average.setting} over {', '.join(average.modes)}: {changes([(response, average.change)])}"
        for average in moved[:MOST]
    ]
    if len(moved) > MOST:
        sentences.append(f"{len(moved) - MOST} more steps change {response} over their modes")
    return sentences
