"""A host without hardware: knobs in a dictionary, time from a virtual clock."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext

from leadline.host.base import Elsewhere
from leadline.model.errors import FailureClass, TrialFailure, UsageError
from leadline.model.knob import Catalogue, Kind, Knob, Level, Machine
from leadline.places.simulated.clock import VirtualClock


def usual_level(knob: Knob) -> Level:
    """A level for a knob whose default depends on the host: its first choice, its minimum, zero or nothing."""
    if knob.default is not None:
        return knob.default
    if knob.choices:
        return knob.choices[0]
    if knob.kind is Kind.BOOLEAN:
        return False
    if knob.kind in (Kind.TEXT, Kind.CHOICE, Kind.VECTOR):
        return ""
    least = knob.minimum or 0
    return float(least) if knob.kind in (Kind.NUMBER, Kind.DURATION) else int(least)


class SimulatedHost(Elsewhere):
    """Implements ``leadline.host.base.TrialHost``. ``silent`` knobs take a level and keep the one they had.

    ``levels``: what knobs have when the simulation begins, where that is not their usual level. ``others``: share of
    all CPUs that other programs take at a moment, unix seconds.
    """

    name = "simulated"

    def __init__(
        self,
        knobs: Sequence[Knob],
        clock: VirtualClock,
        silent: Sequence[str] = (),
        levels: Mapping[str, Level] | None = None,
        others: Callable[[float], float] = lambda _moment: 0.0,
    ) -> None:
        self.clock = clock
        self._others = others
        self._catalogue = Catalogue(knobs)
        self._silent = frozenset(silent)
        first = levels or {}
        self._levels: dict[str, Level] = {knob.name: first.get(knob.name, usual_level(knob)) for knob in knobs}
        self._originals: dict[str, Level] = {}

    def held(self) -> AbstractContextManager[object]:
        return nullcontext()

    def guard(self, dead_man: float) -> AbstractContextManager[object]:  # noqa: ARG002
        """Nothing else uses it, and nothing is left by a process that ends."""
        return nullcontext()

    def cpus(self) -> Sequence[int]:
        return range(self.machine().cpus)

    def machine(self) -> Machine:
        """A large one: what is simulated need not fit into this machine."""
        return Machine(memory=1 << 40, cpus=64)

    def knobs(self) -> Sequence[Knob]:
        return list(self._catalogue)

    def read_back(self, name: str) -> Level:
        """Today's level. Raises UsageError for an unknown knob."""
        return self._levels[self._catalogue.get(name).name]

    def apply(self, levels: Mapping[str, Level]) -> None:
        """``set_knob`` for each."""
        for name, level in levels.items():
            self.set_knob(name, level)

    def set_knob(self, name: str, level: Level) -> None:
        """Raises UsageError for an unknown knob, TrialFailure(configuration) for one that does not keep its level."""
        knob = self._catalogue.get(name)
        if name in self._silent:
            if level != self._levels[name]:
                raise TrialFailure(
                    FailureClass.CONFIGURATION,
                    f"{name} was set to {knob.format(level)} and reads {knob.format(self._levels[name])}",
                )
            return
        self._originals.setdefault(name, self._levels[name])
        self._levels[name] = level

    def writable(self, name: str) -> str:
        """Every known knob can be set. Raises UsageError for an unknown one."""
        self._catalogue.get(name)
        return ""

    def busy(self, seconds: float) -> float:
        """What its neighbour takes at this moment."""
        share = self._others(self.clock.now())
        self.clock.advance(seconds)
        return share

    def drop_page_cache(self) -> None:
        """Nothing is cached."""

    def swap_off(self) -> None:
        """Nothing is swapped."""

    def restore(self) -> Sequence[str]:
        """Every knob that was changed gets its first level back."""
        lines = [
            f"{name} is {self._catalogue.get(name).format(level)} again" for name, level in self._originals.items()
        ]
        self._levels.update(self._originals)
        self._originals.clear()
        return lines

    def temporary(self) -> Mapping[str, tuple[str, str]]:
        """Nothing is made."""
        return {}

    def facts(self) -> Mapping[str, str]:
        return {"SIMULATED": "no real host, server or load: every figure comes from a truth file, in virtual time"}

    def levels(self) -> Mapping[str, Level]:
        """All levels in force."""
        return dict(self._levels)


def known_levels(host: SimulatedHost, settings: Mapping[str, Level]) -> dict[str, Level]:
    """Levels in force on the host and in the services. Raises UsageError where both claim a knob."""
    both = set(host.levels()) & set(settings)
    if both:
        raise UsageError(f"{', '.join(sorted(both))}: a knob of the host and of a service")
    return {**host.levels(), **settings}
