"""One stop is one pause, whatever the order of the lines; full collections are counted; what cannot be is said."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from leadline.gcanalysis.events import GcLog
from leadline.gcanalysis.summary import summary
from leadline.observe.gclog.files import parse_lines

LINES = [
    f"[2031-03-04T05:{at // 60:02d}:{at % 60:02d}.000+0000][{100 + at}.000s][info][gc] GC({number}) "
    f"Pause Young (Normal) (G1 Evacuation Pause) {40 + number % 4}M->{11 + number % 5}M(64M) {1.5 + number % 7:.3f}ms\n"
    for number, at in enumerate(range(10, 190, 3))
]
BY_UPTIME = [line[line.index("][") + 1 :] for line in LINES]
BY_DATE = [line[: line.index("][") + 1] + line[line.index("[info]") :] for line in LINES]
OLD = [
    f"2031-03-04T05:{at // 60:02d}:{at % 60:02d}.000+0000: {at}.000: [GC (Allocation Failure) [DefNew: "
    "80000K->8000K(90000K), 0.0299 secs] 200000K->140000K(290000K), 0.0300 secs]\n"
    for at in range(10, 190, 3)
]
ORDERS: dict[str, Callable[[list[str]], list[str]]] = {
    "newest first": lambda lines: lines[::-1],
    "pages": lambda lines: [line for page in (3, 0, 2, 4, 1) for line in lines[12 * page : 12 * page + 12]],
    "shuffled": lambda lines: random.Random(4).sample(lines, len(lines)),
    "swapped": lambda lines: [lines[at ^ 1] for at in range(len(lines))],
}


def figures(log: GcLog) -> tuple[object, ...]:
    (jvm,) = log.jvms
    return [(one.gc_id, one.at, one.ms, one.heap) for one in log.pauses], jvm.first, jvm.last, log.timeless


@pytest.mark.parametrize("order", ORDERS)
def test_so_has_one_of_less_than_a_second(order: str) -> None:
    """Within the time by which threads' lines may be late; a line at each pause's beginning."""
    lines = []
    for number in range(30):
        kind = f"GC({number}) Pause Young (Normal) (G1 Evacuation Pause)"
        lines.append(f"[0.{10 * number:03}s][info][gc,start] {kind}\n")
        lines.append(f"[0.{10 * number + 2:03}s][info][gc] {kind} 40M->11M(64M) 1.500ms\n")
    log = parse_lines(ORDERS[order](lines))
    assert figures(log) == figures(parse_lines(lines))
    if order != "swapped":
        assert log.warnings == ("the lines were not in the order of time: the events were put in order",)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("lines", [LINES, BY_UPTIME, BY_DATE], ids=["time and uptime", "uptime", "time"])
def test_a_log_in_another_order_has_the_figures_of_the_sorted_one(lines: list[str], order: str) -> None:
    mixed = parse_lines(ORDERS[order](lines))
    assert figures(mixed) == figures(parse_lines(lines))
    assert any("were put in order" in text for text in mixed.warnings)


@pytest.mark.parametrize("order", ORDERS)
def test_so_has_one_of_jdk_8(order: str) -> None:
    mixed = parse_lines(ORDERS[order](OLD))
    assert figures(mixed) == figures(parse_lines(OLD))


def test_a_jvm_that_starts_over_stays_another() -> None:
    assert len(parse_lines([*BY_UPTIME, *BY_UPTIME[:20], *BY_UPTIME[:9]]).jvms) == 3


def test_pauses_that_overlap_are_told_and_take_figures_of_time_away() -> None:
    torn = [line.replace(" 1.500ms", " 9000.000ms") for line in BY_UPTIME]
    found = parse_lines(torn)
    assert found.timeless
    assert any("a JVM stops once at a time" in text for text in found.warnings)


NESTED = """\
[2.000s][info][gc,start] GC(1) Pause Young (Allocation Failure)
[2.000s][info][gc,start] GC(2) Pause Full (Allocation Failure)
[2.200s][info][gc] GC(2) Pause Full (Allocation Failure) 215M->130M(247M) 200.000ms
[2.200s][info][gc] GC(1) Pause Young (Allocation Failure) 220M->130M(247M) 200.060ms
[2.900s][info][gc] GC(3) Pause Full (System.gc()) 215M->130M(247M) 200.000ms
[3.020s][info][gc] GC(4) Pause Young (Allocation Failure) 151M->91M(247M) 20.000ms
"""


def test_a_young_collection_that_turned_full_is_one_stop() -> None:
    pauses = parse_lines(NESTED.splitlines(keepends=True)).pauses
    assert [(one.name, one.ms) for one in pauses] == [("Full", 200.06), ("Full", 200.0), ("Young", 20.0)]
    assert pauses[0].heap is not None
    assert pauses[0].heap.before == 220 << 20


FULL_INSIDE = """\
10.000: [GC (Allocation Failure) 10.000: [DefNew: 88000K->8000K(90000K), 0.05 secs]10.050: [Tenured: \
199000K->90000K(200000K), 0.4 secs] 280000K->90000K(290000K), [Metaspace: 5000K->5000K(1056768K)], 0.45 secs]
20.000: [GC (Allocation Failure) 20.000: [ParNew (promotion failed): 334000K->334000K(334000K), 1.2 secs]21.200: \
[CMS: 1500000K->400000K(1666000K), 6.3 secs] 1800000K->400000K(2000000K), 7.5 secs]
30.000: [Full GC (System.gc()) 30.000: [Class Histogram (before full gc):\x20
 num     #instances         #bytes  class name
----------------------------------------------
   1:       1000000       90000000  [B
Total       1020000       91600000
, 1.5 secs] 31.500: [CMS: 1500000K->450000K(1666000K), 3.3 secs] 1700000K->450000K(2000000K), 6.4 secs]
40.000: [GC (Allocation Failure) 40.000: [ParNew: 300000K->30000K(334000K), 0.04 secs] 500000K->250000K(2000000K), \
0.05 secs]
"""


def test_full_collections_of_jdk_8_are_full_whatever_they_are_called() -> None:
    log = parse_lines(FULL_INSIDE.splitlines(keepends=True))
    assert [one.kind for one in log.pauses] == [
        "Pause Full (Allocation Failure)",
        "Pause Full (promotion failed)",
        "Pause Full (System.gc())",
        "Pause Young (Allocation Failure)",
    ]
    assert [one.ms for one in log.pauses] == [450, 7500, 6400, 50]
    assert not log.unknown


def test_native_images_are_read_in_their_three_forms() -> None:
    old = "[Incremental GC (CollectOnAllocation) 200000K->20000K, 0.0010521 secs]\n"
    full = "[Full GC (CollectOnAllocation) 200400K->20040K, 0.0014521 secs]\n"
    log = parse_lines([old, old, full])
    assert [(one.name, one.ms) for one in log.pauses] == [("Young", 1.0521), ("Young", 1.0521), ("Full", 1.4521)]
    assert log.timeless
    log = parse_lines(
        line for at in range(100, 103) for line in (f"[[{at}000000000 GC: before  epoch: 0  cause: X]\n", old)
    )
    assert [round(one.at, 3) for one in log.pauses] == [100.001, 101.001, 102.001]
    new = "[1.000s] GC(0) Pause Incremental GC (Collect on allocation) 256.00M->20.50M 3.000ms\n"
    (pause,) = parse_lines([new]).pauses
    assert pause.heap is not None
    assert (pause.name, pause.heap.after) == ("Young", 41 << 19)


PHYSICS = {
    "the times are wrong": [
        f"[{n}.0s][info][gc] GC({n}) Pause Young (x) 30M->10M(100M) 1040.0ms" for n in range(1, 90)
    ],
    "safepoints take less time": [
        f"[{n}.0s][info][gc] {text}"
        for n in range(1, 9)
        for text in (
            f"GC({n}) Pause Young (x) 30M->10M(100M) 50.0ms",
            'Safepoint "GenCollectForAllocation", Reaching safepoint: 1 ns, At safepoint: 9 ns, Total: 10 ns',
        )
    ],
    "the heap shrank 7 times": [
        f"[{n}.0s][info][gc] GC({n}) Pause Young (x) 30M->40M(100M) 5.0ms" for n in range(1, 9)
    ],
}


@pytest.mark.parametrize("words", list(PHYSICS))
def test_what_no_jvm_can_have_done_is_told_and_its_figures_go(words: str) -> None:
    log = parse_lines(f"{line}\n" for line in ["[0.0s][info][gc] Using Serial", *PHYSICS[words]])
    assert any(words in note for note in log.notes)
    figures = summary(log)
    if words == "the times are wrong":
        assert figures.share is None
    elif words == "safepoints take less time":
        assert not figures.safepoints.count
    else:
        assert figures.allocation_rate is None
        assert "shrank" in figures.reasons["allocation_rate"]


@pytest.mark.parametrize("order", ORDERS)
def test_a_full_collection_right_after_a_young_one_is_a_stop_of_its_own(order: str) -> None:
    lines = []
    for number in range(0, 60, 2):
        lines.append(
            f"[{number}.008s][info][gc] GC({number}) Pause Young (Normal) (G1 Evacuation Pause) 77M->25M(96M) 8.3ms\n"
        )
        lines.append(f"[{number}.015s][info][gc] GC({number + 1}) Pause Full (System.gc()) 25M->20M(96M) 6.9ms\n")
    assert figures(parse_lines(ORDERS[order](lines))) == figures(parse_lines(lines))
