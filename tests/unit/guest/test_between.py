"""Kernels between two, by lists as Debian has them."""

from __future__ import annotations

import pytest

from leadline.guest import kernels
from leadline.guest.between import between, is_name
from leadline.guest.debian import Package
from leadline.model.errors import UsageError

VERSIONS = {
    "5.10.0-46-cloud-amd64": "5.10.262-1",
    "6.1.0-55-cloud-amd64": "6.1.192-1",
    "6.1.0-56-cloud-amd64": "6.1.192-2",
    "6.1.0-0.deb11.56-cloud-amd64": "6.1.192-2~deb11u1",
    "6.1.0-57-cloud-amd64": "6.1.193-1",
    "6.1.0-57-rt-amd64": "6.1.193-1",
    "6.12.9+deb13-cloud-amd64": "6.12.9-1",
    "6.12.10+deb13-cloud-amd64": "6.12.10-1",
}
RELEASES = list(VERSIONS)


@pytest.fixture(autouse=True)
def _lists(monkeypatch: pytest.MonkeyPatch) -> None:
    class Lists:
        def packages(self, _progress: object, _age: float) -> list[Package]:
            return [
                Package(f"linux-image-{name}", version, "suite", "00", 10) for name, version in sorted(VERSIONS.items())
            ]

    monkeypatch.setattr(kernels, "_archive", Lists)


def found(first: str, last: str) -> list[str]:
    return between(first, last, lambda _text: None)


def test_lines_of_a_flavour_are_ordered_by_number() -> None:
    assert found("5.10-cloud", "6.12-cloud") == ["5.10-cloud", "6.1-cloud", "6.12-cloud"]
    assert found("6.12-cloud", "6.1-cloud") == ["6.12-cloud", "6.1-cloud"]
    assert found("6.1-cloud", "6.1-cloud") == ["6.1-cloud", "6.1-cloud"]


def test_releases_are_ordered_by_version_and_one_build_of_each_counts() -> None:
    assert found(RELEASES[1], RELEASES[-1]) == [*RELEASES[1:3], RELEASES[4], *RELEASES[6:]]
    assert found(RELEASES[-1], RELEASES[4]) == [RELEASES[-1], RELEASES[-2], RELEASES[4]]
    assert found(RELEASES[3], RELEASES[4]) == RELEASES[3:5]  # the build that is named


@pytest.mark.parametrize(
    ("first", "last", "said"),
    [
        ("6.1-cloud", "6.1-rt", "6.1-cloud and 6.1-rt are two flavours, which have no order: name two of one flavour"),
        ("6.1-cloud", RELEASES[-1], f"6.1-cloud is a line of kernels and {RELEASES[-1]} one release"),
        ("6.1-clod", "6.12-cloud", "no kernel '6.1-clod'; did you mean 6.1-cloud?"),
    ],
)
def test_what_has_no_order_is_refused(first: str, last: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        found(first, last)
    assert str(caught.value).startswith(said)


@pytest.mark.parametrize(
    ("text", "kernel"),
    [("6.1-cloud", True), (RELEASES[-1], True), ("./bzImage-6.1-x", False), ("256m", False), ("0.5", False)],
)
def test_names_of_kernels_are_told_from_other_levels(text: str, kernel: bool) -> None:
    assert is_name(text) is kernel
