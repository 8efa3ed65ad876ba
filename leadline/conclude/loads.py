"""The answer of a study whose one factor is its load: how far throughput follows, which limits broke, and how busy the
CPUs were. A load is no setting: more of it neither helps nor hurts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from leadline.conclude.wording import loaded, size
from leadline.model.disturbance import BOUND
from leadline.model.errors import BLAMED
from leadline.model.naming import Describe, plain_level
from leadline.model.record import StudyRecord, TrialRecord
from leadline.model.workload import RATE, USERS, is_load

_FEWEST = 3  # loads that show how far it goes
_FOLLOWS = 0.95  # of what the load asks by the lightest load
_PROPORTIONAL = 0.1  # by which the second lightest load may differ from that
_BUSY = 0.95  # of the CPUs: nothing is left
_ROLES = ("server", "database", "web", "driver")


@dataclass(frozen=True)
class _Load:
    """One load: its good trials, and how many failed by its own doing. ``share``: its throughput in that which the
    lightest load's asks of it, 0 without a good trial.
    """

    name: str
    good: tuple[TrialRecord, ...]
    failed: int
    share: float

    @property
    def trials(self) -> int:
        return len(self.good) + self.failed

    def values(self, response: str) -> list[float]:
        return [trial.responses[response] for trial in self.good if response in trial.responses]

    def mean(self, response: str) -> float | None:
        values = self.values(response)
        return fmean(values) if 0 < len(values) == len(self.good) else None

    @property
    def follows(self) -> bool:
        return not self.failed and self.share >= _FOLLOWS

    @property
    def broken(self) -> _Load:
        """With its good trials that did not keep their limits; all of them where throughput does not follow."""
        trials = [trial for trial in self.good if not self.follows or trial.responses.get("limit_use", 0.0) > 1]
        return replace(self, good=tuple(trials))

    @property
    def kept(self) -> int:
        """Trials in which every type of transaction kept its limits, as far as that is known."""
        return sum(trial.responses.get("limit_use", 0.0) <= 1 for trial in self.good)


def load_of(record: StudyRecord) -> str | None:
    """The factor that is the study's load: users, the rate, or a number of the scenario that throughput follows from
    the lightest of three levels or more to the next.
    """
    names = [factor.name for factor in record.plan.factors if is_load(factor.name)]
    if own := [name for name in names if name in (USERS, RATE)]:
        return own[0]
    for name in names:
        loads = _loads(record, name)
        if len(loads) >= _FEWEST and abs(loads[1].share - 1) <= _PROPORTIONAL:
            return name
    return None


def of_loads(record: StudyRecord, describe: Describe) -> list[str]:
    """Sentences without their stops; none for a study that varies something else, too, or fewer than three loads."""
    factor = load_of(record)
    if factor is None or len(record.plan.factors) > 1:
        return []
    loads = _loads(record, factor, describe)
    if len(loads) < _FEWEST or not any(load.good for load in loads):
        return []
    sentences = [_reach(loads)]
    if any(load.values("limit_use") for load in loads):
        sentences.append(_limits(loads))
        reach, within = (_first(loads, holds)[0] for holds in (_follows, _keeps))
        if reach is not None and (within is None or loads.index(within) < loads.index(reach)):
            sentences.reverse()
    return [*sentences, *_resource(loads)]


def _loads(record: StudyRecord, factor: str, describe: Describe = plain_level) -> list[_Load]:
    """Ascending, those that have run."""
    trials: dict[float, list[TrialRecord]] = {}
    for trial in record.trials:
        level = trial.planned.treatment[factor]
        ran = trial.failure in BLAMED or (trial.failure is None and trial.responses.get("throughput", 0.0) > 0)
        if ran and isinstance(level, int | float):
            trials.setdefault(float(level), []).append(trial)
    loads, rate = list[_Load](), 0.0
    for level, trials_of_level in sorted(trials.items()):
        good = tuple(trial for trial in trials_of_level if trial.failure is None)
        per_unit = fmean(trial.responses["throughput"] for trial in good) / level if good else 0.0
        rate = per_unit if not loads else rate
        name = loaded(factor, describe(factor, trials_of_level[0].planned.treatment[factor]))
        loads.append(_Load(name, good, len(trials_of_level) - len(good), per_unit / rate if rate else 0.0))
    return loads


def _follows(load: _Load) -> bool:
    return load.follows


def _keeps(load: _Load) -> bool:
    return load.kept == load.trials


def _reach(loads: Sequence[_Load]) -> str:
    last, beyond = _first(loads, _follows)
    if last is None:
        return (
            f"{loads[0].name} are too many: {loads[0].failed} of {loads[0].trials} trials failed at this lightest load"
        )
    sentence = f"The system carries {last.name} ({_range(last)})"
    if beyond is None:
        return f"{sentence}: that is the heaviest load tried, and its end was not reached"
    parts = [f"throughput is {100 * beyond.share:.0f} % of what that asks"] if beyond.good else []
    parts += [f"{beyond.failed} of {beyond.trials} trials failed"] if beyond.failed else []
    return f"{sentence}, not {beyond.name}: there {', and '.join(parts)}"


def _limits(loads: Sequence[_Load]) -> str:
    last, beyond = _first(loads, _keeps)
    if beyond is None:
        return "All loads kept the limits"
    sentence = f"at {beyond.name} {beyond.kept} of {beyond.trials} trials did"
    if uses := beyond.values("limit_use"):
        sentence += f", the worst used {size(max(uses))} times its limit"
    return (
        f"The limits are kept to {last.name}; {sentence}"
        if last is not None
        else f"No load keeps all limits; {sentence}"
    )


def _resource(loads: Sequence[_Load]) -> list[str]:
    """How busy the CPUs were at the first load of which no trial followed or kept its limits, or else in the trials
    of the first one that did not. Where other programs took some, it cannot be told what would have given out first
    without them.
    """
    beyond = next((load for load in loads if load.good and len(load.broken.good) == len(load.good)), None)
    beyond = beyond or next((load.broken for load in loads if load.broken.good), None)
    busy = None if beyond is None else beyond.mean("host_cpu")
    if beyond is None or busy is None:
        return []
    shares = [(role, beyond.mean(f"{role}_cpu_per_transaction")) for role in _ROLES]
    parts = ", ".join(f"{role} {size(share)} ms" for role, share in shares if share is not None)
    sentence = f"{100 * busy:.0f} % busy at {beyond.name}" + (f", of a transaction {parts}" if parts else "")
    others = fmean((trial.machine.taken if trial.machine else None) or 0.0 for trial in beyond.good)
    if busy < _BUSY:
        return [f"The CPUs did not give out: {sentence}; `leadline advise` tells what waits"]
    if others > BOUND:
        return [
            f"What gave out first cannot be told: the CPUs were {sentence}, but other programs took "
            f"{100 * others:.0f} %"
        ]
    return [f"The CPUs gave out first: {sentence}"]


def _first(loads: Sequence[_Load], holds: Callable[[_Load], bool]) -> tuple[_Load | None, _Load | None]:
    """The last load of those from the lightest on that hold, and the first one that does not."""
    for at, load in enumerate(loads):
        if not holds(load):
            return (loads[at - 1] if at else None), load
    return loads[-1], None


def _range(load: _Load) -> str:
    values = load.values("throughput")
    low, high = f"{min(values):,.0f}", f"{max(values):,.0f}"
    return f"{low} transactions/s" if low == high else f"{low} to {high} transactions/s"
