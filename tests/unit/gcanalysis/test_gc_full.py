"""A heap that is full is not a plateau: a leak that has met the heap's limit is told, whatever comes behind it."""

from __future__ import annotations

import numpy as np
import pytest

from leadline.gcanalysis.live import LivePoint, leak
from leadline.gcanalysis.summary import summary
from leadline.observe.gclog.files import parse_lines

MIB = 1 << 20
BASIS = "after full collections"


def points(sizes: list[float]) -> list[LivePoint]:
    return [LivePoint(0, 10.0 * at, None, int(size * MIB)) for at, size in enumerate(sizes)]


@pytest.mark.parametrize("met", [0.3, 0.6, 0.9])
def test_a_leak_that_meets_the_limit_is_a_leak(met: float) -> None:
    rng = np.random.default_rng(3)
    sizes = [min(99.0, 20 + 79 * at / (200 * met) + rng.normal(0, 1)) for at in range(200)]
    found = leak(points(sizes), BASIS, 100 * MIB)
    assert found.verdict == "leak"
    assert found.full_in_s == 0
    assert "the heap was full from" in found.sentence


@pytest.mark.parametrize("behind", [[], [4.0]], ids=["to the end", "an error that was caught"])
def test_a_heap_that_is_full_is_told_with_few_points(behind: list[float]) -> None:
    found = leak(points([30, 60, 93, 93, 93, *behind]), BASIS, 96 * MIB)
    assert found.verdict == "full"
    assert "3 times in a row, after full collections, at least 93 of 96 MiB (97 %) stayed in use" in found.sentence


@pytest.mark.parametrize("sizes", [[80.0] * 40, [80.0, 95.0] * 20, [30.0] * 3])
def test_a_plateau_and_single_peaks_are_not_full(sizes: list[float]) -> None:
    assert leak(points(sizes), BASIS, 100 * MIB).verdict in ("none", "undetermined")


def test_what_is_committed_is_the_limit_where_a_survivor_space_is_left_out() -> None:
    lines = ["[0.1s][info][gc,init] Heap Max Capacity: 96M\n"]
    lines += [
        f"[{at}.000s][info][gc] GC({at}) Pause Full (Ergonomics) 82M->{after}M(85M) 100.000ms\n"
        for at, after in ((1, 60), (2, 82), (3, 82))
    ]
    assert summary(parse_lines(lines)).leak.verdict == "full"


def test_a_major_collection_of_zgc_that_collects_the_young_twice_is_of_one_jvm() -> None:
    lines = ["[0.1s][info][gc] Using The Z Garbage Collector\n"]
    lines += [
        f"[{at}.{part}00s][info][gc,phases] GC({at}) Y: Pause Mark Start (Major) 0.010ms\n"
        for at in range(1, 6)
        for part in (1, 5)
    ]
    assert not parse_lines(lines).alternating
