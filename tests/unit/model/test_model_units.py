"""Durations as people write them, as the driver reads them too."""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from scipy import stats

from leadline.model import distributions
from leadline.model.errors import UsageError
from leadline.model.knob import ApplyCost, AtStart, Kind, Knob, Level, Owners
from leadline.model.units import parse_duration, rounded, signed


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        (3, 3.0), ("1.5", 1.5), (".5s", 0.5), ("5.us", 5e-6), ("7ns", 7e-9), ("250ms", 0.25), ("2 m", 120),
        ("2min", 120), ("1h30m", 5400), (" 1h 30m ", 5400), ("1D", 86400),
    ],
)  # fmt: skip
def test_durations(text: str | float, seconds: float) -> None:
    assert parse_duration(text) == pytest.approx(seconds, rel=1e-12)


@pytest.mark.parametrize("text", ["", "s", ".", "-1s", "1 0s", "1e3ms", "10 parsecs", "1.5.2s", "NaN", "5 5"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration such as 20s, 5m or 1h30m"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [
        (100, 2, "100"),
        (2160, 2, "2,160"),
        (1.5e6, 3, "1,500,000"),
        (0.5, 3, "0.5"),
        (-99.6, 2, "-100"),
        (3e-7, 2, "3e-07"),
    ],
)
def test_digits_without_exponents(value: float, digits: int, text: str) -> None:
    assert rounded(value, digits) == text
    assert signed(value, digits) == (text.replace("-", "−") if value < 0 else f"+{text}")


MIDDLE = [0.0, 1e-8, 1e-4, 0.01, 0.025, 0.3, 0.5, 0.7, 0.975, 0.99, 1 - 1e-9, 1.0]
TAILS = [1e-300, 1e-100, 1e-16]  # in which scipy's own F and beta are off or nan
PLACES = np.array([-1e6, -300.0, -38.0, -8.0, -2.0, -0.1, 0.0, 1e-9, 0.1, 1.0, 2.0, 8.0, 38.0, 300.0, 1e6])
FREE = np.array([0.3, 1.0, 1.5, 2.0, 3.0, 7.7, 30.0, 200.0, 1e5])
SHAPES: dict[str, tuple[np.ndarray, ...]] = {
    "norm": (),
    "t": (np.append(FREE, [np.inf, 0.0, -1.0, np.nan]),),
    "chi2": (np.append(FREE, [0.0, np.nan]),),
    "f": (np.array([1.0, 2.5, 8.0, 90.0]), np.array([0.0, 1.0, 3.3, 12.0, 400.0])),
    "beta": (np.array([0.5, 1.0, 4.0, 300.0]), np.array([1.0, 2.5, 70.0])),
}


def functions() -> list[tuple[str, str]]:
    return [
        (law, name)
        for law in SHAPES
        for name in ("cdf", "sf", "ppf", "isf")
        if hasattr(getattr(distributions, law), name)
    ]


def places(law: str, name: str) -> np.ndarray:
    if name not in ("ppf", "isf"):
        return PLACES
    return np.array(MIDDLE if law in ("f", "beta") else TAILS + MIDDLE)


@pytest.mark.parametrize(("law", "name"), functions())
def test_same_as_scipy(law: str, name: str) -> None:
    grid: Any = np.meshgrid(places(law, name), *SHAPES[law], indexing="ij")
    ours = getattr(getattr(distributions, law), name)(*grid)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        theirs = getattr(getattr(stats, law), name)(*grid)
    np.testing.assert_allclose(ours, theirs, rtol=1e-7 if name in ("ppf", "isf") else 1e-10, atol=1e-300)


@pytest.mark.parametrize("degrees", [(1, 1), (2, 12), (8, 3.3), (90, 400)])
def test_far_tail_of_f_is_its_own_inverse(degrees: tuple[float, float]) -> None:
    tails = np.array([1e-100, 1e-16, 1e-12])
    np.testing.assert_allclose(distributions.f.sf(distributions.f.isf(tails, *degrees), *degrees), tails, rtol=1e-8)


def test_noncentral_t_same_as_scipy() -> None:
    grid = np.meshgrid([-3.0, 0.0, 1.0, 2.2, 4.0, 9.0], [1.0, 4.0, 12.5, 80.0], [0.0, 0.4, 2.0, 5.0], indexing="ij")
    for name in ("cdf", "sf"):
        ours, theirs = (getattr(of.nct, name)(*grid) for of in (distributions, stats))
        np.testing.assert_allclose(ours, theirs, rtol=1e-7, atol=1e-12)


def test_a_number_gives_a_number() -> None:
    assert isinstance(float(distributions.t.isf(0.025, 4)), float)
    assert distributions.t.isf(0.025, [3, 4]).shape == (2,)


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
