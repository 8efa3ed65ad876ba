"""One map from a knob's name to its owner."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from leadline.model.errors import UsageError
from leadline.model.knob import ApplyCost, Kind, Knob, Level
from leadline.model.owners import AtStart, Owners


class FakeRunning:
    """A part whose knobs can be changed while it runs."""

    def __init__(self, *names: str) -> None:
        self.levels: dict[str, Level] = dict.fromkeys(names, 1)
        self.applied: list[Mapping[str, Level]] = []

    def knobs(self) -> Sequence[Knob]:
        return [Knob(name, Kind.INTEGER, ApplyCost.LIVE, "a number") for name in self.levels]

    def apply(self, levels: Mapping[str, Level]) -> None:
        self.applied.append(levels)
        self.levels.update(levels)

    def read_back(self, name: str) -> Level:
        return self.levels[name]


class FakeAtStart(AtStart, FakeRunning):
    """A part that must be started anew."""


def test_each_owner_sets_and_reads_its_own() -> None:
    host, service = FakeRunning("vm.a", "vm.b"), FakeRunning("server.c")
    owners = Owners(host, service)
    owners.apply({"vm.b": 3, "server.c": 4, "vm.a": 5})
    assert host.applied == [{"vm.b": 3, "vm.a": 5}], "in one call, in the order given"
    assert {name: owners.read_back(name) for name in ("vm.a", "vm.b", "server.c")} == {
        "vm.a": 5,
        "vm.b": 3,
        "server.c": 4,
    }
    assert [knob.name for knob in owners.knobs()] == ["vm.a", "vm.b", "server.c"]
    assert owners.levels({"vm.a": 1, "server.c": 2, "a pseudo-factor": "x"}, host) == {"vm.a": 1}
    assert "server.c" in owners
    with pytest.raises(LookupError, match=r"no part of this system has a knob jvm\.heap"):
        owners.read_back("jvm.heap")


def test_a_map_is_an_owner_itself() -> None:
    service = FakeRunning("server.c")
    owners = Owners(FakeRunning("vm.a"), Owners(service))
    owners.apply({"server.c": 7})
    assert service.levels == {"server.c": 7}


def test_what_takes_effect_at_a_start_is_not_set_in_what_runs() -> None:
    service = FakeAtStart("server.c", "server.d")
    with pytest.raises(UsageError, match=r"server\.c, server\.d: cannot be changed while it runs"):
        Owners(service).apply({"server.c": 7, "server.d": 8})
    assert service.levels == {"server.c": 1, "server.d": 1}
