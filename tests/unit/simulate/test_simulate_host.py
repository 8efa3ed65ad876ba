"""The simulated host and its clock keep the host's contract."""

import pytest

from leadline.host.base import Host
from leadline.model.errors import FailureClass, TrialFailure, UsageError
from leadline.model.knob import ApplyCost, Kind, Knob
from leadline.simulate.clock import VirtualClock
from leadline.simulate.host import SimulatedHost, usual_level

KNOBS = (
    Knob("vm.ratio", Kind.INTEGER, ApplyCost.LIVE, "", default=10),
    Knob("vm.other", Kind.INTEGER, ApplyCost.LIVE, "", minimum=3),
    Knob("vm.mode", Kind.CHOICE, ApplyCost.LIVE, "", choices=("always", "never")),
)


def test_levels_are_set_read_and_put_back() -> None:
    host: Host = SimulatedHost(KNOBS, VirtualClock(), levels={"vm.ratio": 20})
    host.set_knob("vm.ratio", 40)
    host.set_knob("vm.ratio", 50)
    host.set_knob("vm.mode", "never")
    assert host.read_back("vm.ratio") == 50
    assert host.restore() == ["vm.ratio is 20 again", "vm.mode is always again"]
    assert host.read_back("vm.ratio") == 20
    assert host.restore() == []


def test_a_silent_knob_is_found_out_when_it_is_set() -> None:
    host = SimulatedHost(KNOBS, VirtualClock(), silent=["vm.ratio"])
    host.set_knob("vm.ratio", 10)
    with pytest.raises(TrialFailure, match="was set to 40 and reads 10") as error:
        host.set_knob("vm.ratio", 40)
    assert error.value.failure_class is FailureClass.CONFIGURATION


def test_unknown_knobs_are_refused() -> None:
    host = SimulatedHost(KNOBS, VirtualClock())
    with pytest.raises(UsageError, match=r"did you mean vm\.ratio"):
        host.set_knob("vm.ration", 1)


def test_every_knob_has_a_level() -> None:
    assert [usual_level(knob) for knob in KNOBS] == [10, 3, "always"]
    assert usual_level(Knob("a", Kind.DURATION, ApplyCost.LIVE, "")) == 0.0
    assert usual_level(Knob("a", Kind.BOOLEAN, ApplyCost.LIVE, "")) is False
    assert usual_level(Knob("a", Kind.TEXT, ApplyCost.LIVE, "")) == ""


def test_time_only_goes_forward() -> None:
    clock = VirtualClock(100.0)
    clock.advance(2.5)
    clock.sleep_until(101 * 10**9)
    assert clock.now() == 102.5
    clock.sleep_until(110 * 10**9)
    assert clock.now_ns() == 110 * 10**9
    with pytest.raises(ValueError, match="go back"):
        clock.advance(-1)
