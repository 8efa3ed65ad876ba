"""Who sets and reads a knob: the host, a service, the application; and the one map that knows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

from leadline.model.errors import UsageError
from leadline.model.knob import Knob, Level


@runtime_checkable
class KnobOwner(Protocol):
    """A part of the system under test that has knobs. A service is given levels for its next start when it is
    configured; ``apply`` is for what runs.
    """

    def knobs(self) -> Sequence[Knob]: ...
    def apply(self, levels: Mapping[str, Level]) -> None:
        """Set levels in what runs. Raises UsageError for a level that is illegal or takes effect at a start only,
        TrialFailure: ``configuration`` when it is refused or another level is read back.
        """

    def read_back(self, name: str) -> Level:
        """The level in force. Raises LookupError where it cannot be asked, NotInPlay where its part is left out."""


class AtStart:
    """An owner whose knobs all take effect at a start."""

    def apply(self, levels: Mapping[str, Level]) -> None:
        """Raises UsageError."""
        raise UsageError(f"{', '.join(levels)}: cannot be changed while it runs")


class Owners:
    """Knob's name to its owner, made once a study; itself an owner of all."""

    def __init__(self, *owners: KnobOwner) -> None:
        self._knobs = {knob.name: knob for owner in owners for knob in owner.knobs()}
        self._of = {knob.name: owner for owner in owners for knob in owner.knobs()}

    def __contains__(self, name: str) -> bool:
        return name in self._of

    def knobs(self) -> Sequence[Knob]:
        return list(self._knobs.values())

    def levels(self, levels: Mapping[str, Level], owner: KnobOwner) -> dict[str, Level]:
        """Those of the knobs of ``owner``; names without an owner (pseudo-factors) are nobody's."""
        return {name: level for name, level in levels.items() if self._of.get(name) is owner}

    def apply(self, levels: Mapping[str, Level]) -> None:
        """Set levels in what runs, one owner after the other."""
        for owner in dict.fromkeys(self._owner(name) for name in levels):
            owner.apply(self.levels(levels, owner))

    def read_back(self, name: str) -> Level:
        return self._owner(name).read_back(name)

    def _owner(self, name: str) -> KnobOwner:
        if name not in self._of:
            raise LookupError(f"no part of this system has a knob {name}")
        return self._of[name]
