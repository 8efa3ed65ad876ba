"""What other programs on the host had to do with the figures."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from leadline.model.disturbance import BOUND, disturbed
from leadline.model.record import StudyRecord, TrialState
from leadline.model.result import Disturbance

_MOST = 6  # trials named
_PROGRAMS = 3  # named


def disturbance_of(records: Iterable[StudyRecord]) -> Disturbance | None:
    """Of one study, or of all the studies of a tuning. None where no observer recorded the host's CPUs."""
    trials = {trial.id: trial for record in records for trial in record.trials if trial.state == TrialState.DONE}
    uses = {trial: one.machine for trial, one in trials.items() if one.machine is not None}
    shares = {trial: use.taken for trial, use in uses.items() if use.taken is not None}
    if not shares:
        return None
    found = disturbed(shares)
    most, usual = max(shares.values()), statistics.median(shares.values())
    if not found:
        sentence = f"Other programs used {_percent(usual)} of the CPUs in the median trial, at most {_percent(most)}."
        return Disturbance(shares, (), sentence)
    used = Counter[str]()
    for trial in found:
        used.update(dict(uses[trial].programs))
    programs = tuple(name for name, _ in used.most_common(_PROGRAMS))
    return Disturbance(shares, found, _sentence(shares, found, programs), programs)


def _sentence(shares: Mapping[int, float], found: Sequence[int], programs: Sequence[str]) -> str:
    low, high = min(shares[trial] for trial in found), max(shares[trial] for trial in found)
    said = _percent(high) if _percent(low) == _percent(high) else f"{_percent(low)} to {_percent(high)}"
    if len(found) == len(shares):
        where = "every trial" if len(found) > 1 else "the only trial"
    else:
        named = ", ".join(str(trial) for trial in found[:_MOST]) + (" ..." if len(found) > _MOST else "")
        where = f"{len(found)} of {len(shares)} trials ({'trial' if len(found) == 1 else 'trials'} {named})"
    by = f" ({', '.join(programs)})" if programs else ""
    return (
        f"Other programs{by} used {said} of the CPUs in {where}: what changed may be their doing. Run the study again "
        f"on a quiet machine (less than {_percent(BOUND)})."
    )


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"
