"""What other programs on the host had to do with the figures."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

from leadline.analysis.study import analyse
from leadline.model.disturbance import BOUND, OTHERS, disturbed
from leadline.model.plan import Plan
from leadline.model.record import NOT_QUIET, QUIET, StudyRecord, TrialState
from leadline.model.result import Disturbance, Observation, StudyAnalysis
from leadline.model.units import format_duration

_NOTICED = 0.05
_DAY = 86_400.0  # moments before are no clock's
_MOST = 6  # trials named
_PROGRAMS = 3  # named
_OF_IT = 0.1  # of what others used: who used less is not named


def disturbance_of(
    records: Sequence[StudyRecord], wider: float | None = None, taken_out: bool = False
) -> Disturbance | None:
    """Of one study, or of all the studies of a tuning; None where no observer recorded the host's CPUs.

    ``wider`` as :func:`width_cost` tells; ``taken_out``: what others did is a covariate in the model.
    """
    trials = {trial.id: trial for record in records for trial in record.trials if trial.state == TrialState.DONE}
    uses = {trial: one.machine for trial, one in trials.items() if one.machine is not None}
    shares = {trial: use.taken for trial, use in uses.items() if use.taken is not None}
    if not shares:
        return None
    waits = [step for trial in trials.values() for step in trial.steps if step.name == QUIET]
    disturbance = Disturbance(
        shares,
        disturbed(shares),
        "",
        asked=any(OTHERS in record.study.covariates for record in records),
        repeats=sum(record.repeats for record in records),
        waited=sum((step.ended or step.started) - step.started for step in waits),
        not_quiet=sum(step.detail.startswith(NOT_QUIET) for step in waits),
    )
    if not disturbance.found:
        most, usual = _percent(max(shares.values())), _percent(statistics.median(shares.values()))
        sentence = f"Other programs used {usual} of the CPUs in the median trial, at most {most}."
        return replace(disturbance, sentence=_with_measures(sentence, disturbance))
    used = Counter[str]()
    for trial in disturbance.trials:
        used.update(dict(uses[trial].programs))
    least = _OF_IT * sum(shares[trial] for trial in disturbance.trials)
    most_used = {name: share / len(disturbance.trials) for name, share in used.most_common(_PROGRAMS) if share >= least}
    phases = [phase for trial in disturbance.trials if (phase := trials[trial].phases) is not None]
    when = (min(phase.steady_from for phase in phases), max(phase.steady_until for phase in phases)) if phases else None
    disturbance = replace(
        disturbance, programs=tuple(most_used), used=most_used, when=when, wider=wider, taken_out=taken_out
    )
    return replace(disturbance, sentence=_with_measures(_sentence(disturbance), disturbance))


def width_cost(plan: Plan, observations: Sequence[Observation], analysis: StudyAnalysis) -> float | None:
    """How many times as wide as without others the intervals of the first response are where no covariate is used: from
    an analysis of covariance with their CPU. None where it cannot be told, or is less than a twentieth.
    """
    if not analysis.responses:
        return None
    response = analysis.responses[0].response
    analysed = analyse(plan, observations, [response], verdicts_only=True, covariates=[OTHERS]).responses[0]
    narrower = analysed.covariates[0].narrower if analysed.covariates else None
    return None if narrower is None or narrower < _NOTICED else 1 / (1 - narrower)


def _sentence(found: Disturbance) -> str:
    trials, shares = found.trials, found.shares
    low, high = min(shares[trial] for trial in trials), max(shares[trial] for trial in trials)
    said = _percent(high) if _percent(low) == _percent(high) else f"{_percent(low)} to {_percent(high)}"
    if len(trials) == len(shares):
        where = "every trial" if len(trials) > 1 else "the only trial"
    else:
        named = ", ".join(str(trial) for trial in trials[:_MOST]) + (" ..." if len(trials) > _MOST else "")
        where = f"{len(trials)} of {len(shares)} trials ({'trial' if len(trials) == 1 else 'trials'} {named})"
    by = f" ({', '.join(found.programs)})" if found.programs else ""
    sentence = f"Other programs{by} used {said} of the CPUs in {where}"
    if found.when is not None and found.when[0] > _DAY:
        sentence += f", {clock_times(found.when)}"
    if found.wider is not None:
        sentence += f", which makes intervals about {found.wider:.1f} times as wide"
    if found.taken_out:
        return f"{sentence}; what they did is taken out by analysis of covariance."
    if found.slight:
        return f"{sentence}."
    other = "" if found.asked else f", or with `covariates: [{OTHERS}]`"
    remedy = f"Run the study again on a quiet machine (less than {_percent(BOUND)}){other}."
    return f"{sentence}: what changed may be their doing. {remedy}"


def _with_measures(sentence: str, found: Disturbance) -> str:
    """What was done about them."""
    measures_ = measures(found)
    return f"{sentence} {measures_[0].upper()}{measures_[1:]}." if measures_ else sentence


def measures(found: Disturbance) -> str:
    """Repeats and waits in words, empty without any."""
    parts = [f"{found.repeats} measured again"] if found.repeats else []
    if found.waited:
        without = f" ({found.not_quiet} in vain)" if found.not_quiet else ""
        parts.append(f"waited {format_duration(round(found.waited))} for a quiet machine{without}")
    return ", ".join(parts)


def clock_times(when: tuple[float, float]) -> str:
    """``10:41 to 10:49 UTC``."""
    begin, end = (datetime.fromtimestamp(moment, UTC) for moment in when)
    day = "%Y-%m-%d %H:%M" if begin.date() != end.date() else "%H:%M"
    return f"{begin:{day}} to {end:{day}} UTC"


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"
