"""The answer of a study whose one factor is its load: how far throughput follows, which limits broke, and how busy the
CPUs were. A load is no setting: more of it neither helps nor hurts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from leadline.conclude.wording import size
from leadline.model.errors import BLAMED
from leadline.model.load import RATE, USERS, is_load
from leadline.model.naming import Describe, plain_level
from leadline.model.record import StudyRecord, TrialRecord

_FEWEST = 3  # loads that show how far it goes
_FOLLOWS = 0.95  # of what the load asks by the lightest load
_PROPORTIONAL = 0.1  # by which the second lightest load may differ from that
_BUSY = 0.95  # of the CPUs: nothing is left
_ROLES = ("server", "database", "web", "driver")


@dataclass(frozen=True)
class _Load:
    """The good trials at one load; ``asked``: throughput of the lightest load in proportion."""

    level: float
    name: str
    trials: tuple[Mapping[str, float], ...]
    failed: int
    asked: float = 0.0

    def values(self, response: str) -> list[float]:
        return [trial[response] for trial in self.trials if response in trial]

    def mean(self, response: str) -> float | None:
        return fmean(self.values(response)) if len(self.values(response)) == len(self.trials) > 0 else None

    @property
    def throughput(self) -> float:
        return fmean(self.values("throughput"))

    @property
    def follows(self) -> bool:
        return not self.failed and self.throughput >= _FOLLOWS * self.asked

    @property
    def kept(self) -> int:
        """Trials in which every type of transaction kept its limits."""
        return sum(use <= 1 for use in self.values("limit_use"))


def load_of(record: StudyRecord) -> str | None:
    """The factor that is the study's load: users, the rate, or a number of the scenario that throughput follows from
    the lightest of three levels or more to the next.
    """
    names = [factor.name for factor in record.plan.factors if is_load(factor.name)]
    if own := [name for name in names if name in (USERS, RATE)]:
        return own[0]
    for name in names:
        loads = _loads(record, name)
        if len(loads) >= _FEWEST and abs(loads[1].throughput / loads[1].asked - 1) <= _PROPORTIONAL:
            return name
    return None


def of_loads(record: StudyRecord, describe: Describe) -> list[str]:
    """Sentences without their stops; none for a study that varies something else, too, or fewer than three loads."""
    factor = load_of(record)
    if factor is None or len(record.plan.factors) > 1:
        return []
    loads = _loads(record, factor, describe)
    if len(loads) < _FEWEST:
        return []
    found = [_reach(factor, loads)]
    if all(len(one.values("limit_use")) == len(one.trials) for one in loads):
        found.append(_limits(loads))
    return found + _resource(loads)


def _loads(record: StudyRecord, factor: str, describe: Describe = plain_level) -> list[_Load]:
    """Ascending, those with a good trial."""
    trials: dict[float, list[TrialRecord]] = {}
    for trial in record.trials:
        level = trial.planned.treatment.as_dict()[factor]
        if isinstance(level, int | float):
            trials.setdefault(float(level), []).append(trial)
    found: list[_Load] = []
    for level, own in sorted(trials.items()):
        good = tuple(one.responses for one in own if one.failure is None and one.responses.get("throughput", 0.0) > 0)
        if not good:
            continue
        load = _Load(level, describe(factor, own[0].planned.treatment.as_dict()[factor]), good, len(_failed(own)))
        rate = found[0].throughput / found[0].level if found else load.throughput / level
        found.append(_Load(level, load.name, good, load.failed, rate * level))
    return found


def _failed(trials: Sequence[TrialRecord]) -> list[TrialRecord]:
    return [trial for trial in trials if trial.failure in BLAMED]


def _reach(factor: str, loads: Sequence[_Load]) -> str:
    last, beyond = _first(loads, lambda load: load.follows)
    if last is None:
        return f"Trials failed at the lightest load already, {loads[0].name}"
    if beyond is None:
        return f"Throughput follows {factor} to the heaviest load, {last.name}, {_range(last)}: its end was not reached"
    share = f"{beyond.throughput / beyond.asked:.0%}".replace("%", " %")
    lost = f", and {beyond.failed} of {beyond.failed + len(beyond.trials)} trials failed" if beyond.failed else ""
    told = f"Throughput follows {factor} to {last.name}, {_range(last)}"
    return f"{told}, and at {beyond.name} is {share} of what that asks{lost}"


def _limits(loads: Sequence[_Load]) -> str:
    last, beyond = _first(loads, lambda load: load.kept == len(load.trials) and not load.failed)
    if beyond is None:
        return "All loads kept the limits"
    worst = max(beyond.values("limit_use"))
    trials = beyond.failed + len(beyond.trials)
    told = f"at {beyond.name} {beyond.kept} of {trials} did, the worst used {size(worst)} times its limit"
    return f"Limits were kept to {last.name}; {told}" if last is not None else f"No load kept all limits; {told}"


def _resource(loads: Sequence[_Load]) -> list[str]:
    """How busy the CPUs were at the first load that throughput or limits did not follow."""
    held = [load for load in loads if load.follows and load.kept == len(load.values("limit_use"))]
    beyond = next((load for load in loads if load not in held), None)
    if beyond is None or (busy := beyond.mean("host_cpu")) is None:
        return []
    shares = [(role, beyond.mean(f"{role}_cpu_per_transaction")) for role in _ROLES]
    parts = ", ".join(f"{role} {size(share)} ms" for role, share in shares if share is not None)
    used = f"of a transaction {parts}" if parts else "by all processes"
    told = f"{100 * busy:.0f} % busy at {beyond.name}, {used}"
    if busy >= _BUSY:
        return [f"The CPUs gave out first: {told}"]
    return [f"The CPUs did not give out: {told}; `leadline advise` tells what waits"]


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
