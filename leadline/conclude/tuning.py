"""The answer of a tuning over all responses: tuned against untuned, each step over all its modes, what was not kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from leadline.analysis.contrasts import Change, contrasts, mean_contrasts
from leadline.analysis.table import inside
from leadline.conclude.answer import SIMULATED, changes
from leadline.conclude.wording import MOST, listed, noun
from leadline.model.result import Disturbance, Verdict
from leadline.model.tuning import Tuning
from leadline.planning.sequence import Measured, Progress, Stage
from leadline.planning.sequence.compare import TUNED, UNTUNED, sharing
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


Gains = Mapping[str, Mapping[str, Change]]  # response -> mode -> tuned against untuned
Tried = Mapping[str, Mapping[tuple[str, str, int], Change]]  # response -> step, mode, candidate


@dataclass(frozen=True)
class TuningConclusion:
    """``gains``: of every response, simultaneous over the modes; the first response's are the comparison's own.
    ``tried``: of every response, what each step did by mode and candidate, simultaneous over all steps.
    ``over_modes``: of every response, what each step did over all its modes, simultaneous over all steps.
    """

    gains: Gains
    tried: Tried
    over_modes: Averages
    answer: str


def conclude_tuning(
    tuning: Tuning,
    progress: Progress,
    results: Mapping[str, Measured],
    disturbance: Disturbance | None = None,
    simulated: bool = False,
) -> TuningConclusion:
    """What has been measured so far says. ``results``: key of a part -> what it gave."""
    gains = _gains(tuning, progress, results)
    sentences = [] if disturbance is None or not disturbance.found else [disturbance.sentence.removesuffix(".")]
    if progress.comparison is not None:
        sentences += [_of_mode(tuning, progress, gains, mode) for mode in tuning.modes]
    elif progress.next is None:
        sentences.append("No step was kept, so there is nothing to compare")
    else:
        kept = sum(decision.kept for decision in progress.decisions)
        count = f"{kept} {'step' if kept == 1 else 'steps'}"
        sentences.append(f"Not finished: {count} kept so far; the comparison of untuned and tuned is still to run")
    tried = _tried(tuning, progress, results)
    averages = over_modes(tuning, progress, results)
    sentences += told_over_modes(tuning, averages)
    moved = _not_kept(tuning, progress, tried)
    sentences += moved[:MOST]
    if len(moved) > MOST:
        sentences.append(f"{len(moved) - MOST} more candidates changed a response and were not kept")
    if progress.comparison is None and progress.next is None and not moved:
        sentences.append("What is not distinguishable from noise may still help: the steps' intervals say by how much")
    return TuningConclusion(gains, tried, averages, (SIMULATED if simulated else "") + ". ".join(sentences) + ".")


def _gains(tuning: Tuning, progress: Progress, results: Mapping[str, Measured]) -> Gains:
    part = next((part for part in progress.done if part.stage is Stage.COMPARE), None)
    if part is None or progress.comparison is None:
        return {}
    result = results[part.key]
    gains: dict[str, Mapping[str, Change]] = {tuning.responses[0]: progress.comparison.gains}
    modes = list(progress.comparison.gains)
    pairs = [(result.treatments[f"{mode} {TUNED}"], result.treatments[f"{mode} {UNTUNED}"]) for mode in modes]
    for response in tuning.responses[1:]:
        gains[response] = dict(zip(modes, contrasts(result.plan, result.observations, response, pairs), strict=True))
    return gains


def _of_mode(tuning: Tuning, progress: Progress, gains: Gains, mode: str) -> str:
    names = [one.step for one in progress.of(mode) if one.kept]
    mine = [(response, by_mode[mode]) for response, by_mode in gains.items() if mode in by_mode]
    if not names or not mine:
        return f"{mode}: no step kept"
    head = f"{mode} tuned by {', '.join(names)} against untuned"
    first = mine[0][1]
    if first.percent is None:
        return f"{head}: no figure, {first.reason}"
    better, worse, same, open_ = ([pair for pair in mine if _kind(tuning, pair[1]) == kind] for kind in _KINDS)
    parts = [changes(better)] if better else []
    if worse:
        parts.append(f"{'at the cost of ' if better else 'worse: '}{changes(worse)}")
    if same:
        parts.append(
            f"no difference in {listed(noun(name) for name, _ in same)} (within {100 * tuning.equivalence:g} %)"
        )
    if open_:
        parts.append(f"not distinguishable from noise: {changes(open_)}")
    return f"{head}: {'; '.join(parts)}"


_KINDS = (Verdict.BETTER, Verdict.WORSE, Verdict.EQUIVALENT, Verdict.UNDETERMINED)


def _kind(tuning: Tuning, change: Change) -> Verdict:
    if inside(change.simultaneous, 100 * tuning.equivalence):
        return Verdict.EQUIVALENT
    return change.verdict if change.verdict in (Verdict.BETTER, Verdict.WORSE) else Verdict.UNDETERMINED


def _tried(tuning: Tuning, progress: Progress, results: Mapping[str, Measured]) -> Tried:
    """Candidates against the best so far: simultaneous over all steps, 95 %."""
    level = 1 - FALSE_KEEP / len(tuning.steps)
    tried: dict[str, dict[tuple[str, str, int], Change]] = {response: {} for response in tuning.responses}
    for part in progress.done:
        if part.stage is not Stage.STEP:
            continue
        step = next(step for step in tuning.steps if step.name == part.step)
        trials_of_steps = [
            (mode, candidate) for mode in modes_of(tuning, step) for candidate in range(1, step.candidates + 1)
        ]
        result = results[part.key]
        pairs = [candidate_pair(result, mode, step, candidate) for mode, candidate in trials_of_steps]
        for response, by_step in tried.items():
            judged = contrasts(result.plan, result.observations, response, pairs, family_level=level)
            for (mode, candidate), change in zip(trials_of_steps, judged, strict=True):
                by_step[step.name, mode, candidate] = change
    return tried


def _not_kept(tuning: Tuning, progress: Progress, tried: Tried) -> list[str]:
    """Candidates that were tried, not kept, and changed some response."""
    sentences = []
    kept = {(decision.step, decision.mode) for decision in progress.decisions if decision.kept}
    steps = {step.name: step for step in tuning.steps}
    for name, mode, candidate in tried[tuning.responses[0]]:
        step = steps[name]
        if (name, mode) in kept:
            continue
        moved = [(response, by_step[name, mode, candidate]) for response, by_step in tried.items()]
        better = [pair for pair in moved if _kind(tuning, pair[1]) is Verdict.BETTER]
        worse = [pair for pair in moved if _kind(tuning, pair[1]) is Verdict.WORSE]
        where = f" in {mode}" if len(tuning.modes) > 1 else ""
        what = f"Not kept: {describe(step, candidate)}{where}"
        if better and worse:
            sentences.append(f"{what} helps: {changes(better)}; at the cost of {changes(worse)}")
        elif better or worse:
            sentences.append(f"{what} {'helps' if better else 'hurts'}: {changes(better or worse)}")
    return sentences
