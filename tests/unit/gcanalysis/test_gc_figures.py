"""Figures of collections that have a known truth: study B's table, utilisation by brute force, rates, live sets."""

import random

import pytest

from leadline.gcanalysis.events import Cleanup, Events, GcLog, Heap, Jvm
from leadline.gcanalysis.live import heap_line, overhead
from leadline.gcanalysis.summary import allocation, summary, utilisation
from leadline.observe.gclog.files import parse_lines
from leadline.observe.gclog.report import sizes, table

MIB = 1 << 20

# Published heap sizes of a stock-trading application: MiB, interval s, mean pause s, and both shares in percent.
PUBLISHED = [
    (256, 0.6, 0.062, 9.37, 10.33),
    (512, 1.5, 0.069, 4.40, 4.60),
    (1024, 3.2, 0.083, 2.53, 2.59),
    (2048, 6.7, 0.117, 1.72, 1.75),
]


def log_of(heap: int, interval: float, pause: float, count: int = 50) -> list[str]:
    """The log of a JVM that pauses for ``pause`` s every ``interval`` s and allocates 300 MiB/s."""
    lines = ["[0.000s][info][gc] Using Parallel\n", f"[0.001s][info][gc,init] Heap Max Capacity: {heap}M\n"]
    at = 0.0
    for n in range(count):
        at += interval + pause
        before = 60 + round(interval * 300)
        lines.append(f"[{at:.6f}s][info][gc] GC({n}) Pause Young (Allocation Failure) ")
        lines[-1] += f"{before}M->60M({heap}M) {pause * 1e3:.3f}ms\n"
    return lines


@pytest.mark.parametrize(("heap", "interval", "pause", "of_cycle", "of_interval"), PUBLISHED)
def test_the_published_table(heap: int, interval: float, pause: float, of_cycle: float, of_interval: float) -> None:
    figures = summary(parse_lines(log_of(heap, interval, pause)))
    assert figures.heap_max == heap * MIB
    assert figures.interval_s == pytest.approx(interval, abs=1e-5)
    assert figures.pauses.mean_ms == pytest.approx(pause * 1e3)
    assert figures.share_cycle is not None
    assert round(100 * figures.share_cycle, 2) == of_cycle
    assert figures.share_interval is not None
    assert round(100 * figures.share_interval, 2) == of_interval
    assert figures.allocation_rate == pytest.approx(300 * MIB, rel=0.01)


def test_the_line_through_the_published_table() -> None:
    figures = [summary(parse_lines(log_of(*row[:3]))) for row in PUBLISHED]
    line = sizes(figures)
    assert line is not None
    assert line.allocation / MIB == pytest.approx(294.4, abs=0.05)
    assert line.live / MIB == pytest.approx(76.8, abs=0.05)
    assert line.r_squared == pytest.approx(0.99996, abs=5e-6)
    text = table(["d", "c", "b", "a"], figures[::-1], line)
    assert [row.split()[0] for row in text.splitlines()[1:5]] == ["256", "512", "1024", "2048"]
    assert "heap = 76.8 MiB + 294.4 MiB/s x interval" in text
    assert heap_line([1.0, 2.0], [1.0, 2.0]) is None
    assert heap_line([1.0, 2.0, 3.0], [2.0, 2.1, 2.2]) is None  # a negative live set


def test_both_formulas_where_one_has_no_divisor() -> None:
    assert overhead(0.0, 0.5).of_cycle == 1
    assert overhead(0.0, 0.5).of_interval is None
    assert overhead(0.0, 0.0).of_cycle is None


def brute(stops: list[tuple[float, float]], begin: float, end: float, window: float) -> float:
    """On a grid a hundred times finer than anything in the data."""
    worst, steps = 0.0, round((end - window - begin) / 0.001)
    for n in range(steps + 1):
        low = begin + n * 0.001
        stopped = sum(max(0.0, min(stop, low + window) - max(start, low)) for start, stop in stops)
        worst = max(worst, stopped)
    return 1 - worst / window


def test_utilisation_is_that_of_every_window() -> None:
    rng = random.Random(3)
    for _ in range(5):
        stops, at = [], 0.0
        for _ in range(8):
            at = round(at + rng.choice((0.05, 0.1, 0.3)), 3)
            stops.append((at, round(at + rng.choice((0.01, 0.02, 0.15)), 3)))
            at = stops[-1][1]
        for found in utilisation(stops, 0.0, at + 0.1, (50.0, 200.0, 600.0)):
            assert found.share == pytest.approx(brute(stops, 0.0, at + 0.1, found.window_ms / 1e3), abs=1e-9)


def test_utilisation_by_hand() -> None:
    shares = {one.window_ms: one.share for one in utilisation([(1.0, 1.1), (1.3, 1.4)], 0, 10, (50, 100, 400, 20000))}
    assert shares == {50: 0, 100: pytest.approx(0, abs=1e-12), 400: pytest.approx(0.5), 20000: None}
    assert [one.share for one in utilisation([], 0, 10, (50,))] == [1.0]
    # By the log's resolution the second begins before the first has ended.
    overlapping = utilisation([(1.0, 1.1), (1.0995, 1.2)], 0, 10, (400,))
    assert overlapping[0].share == pytest.approx(0.5)


def test_rates_of_zgc_count_what_was_freed_meanwhile() -> None:
    lines = ["[0.1s][info][gc] Using The Z Garbage Collector\n"]
    for n, at in enumerate((1.0, 3.0, 5.0)):
        lines += [
            f"[{at:.3f}s][info][gc] GC({n}) Minor Collection (Allocation Rate)\n",
            f"[{at + 0.5:.3f}s][info][gc,heap] GC({n}) y:      Live:   -   24M (16%)   6M (4%)   6M (4%)  \n",
            f"[{at + 0.5:.3f}s][info][gc,heap] GC({n}) y: Reclaimed:   -   -   1M (1%)   80M (32%)  \n",
            f"[{at + 0.5:.3f}s][info][gc,heap] GC({n}) y:  Promoted:   -   -   8M (1%)   10M (4%)  \n",
            f"[{at + 0.5:.3f}s][info][gc] GC({n}) Minor Collection (Allocation Rate) 100M(50%)->40M(20%) 0.5s\n",
        ]
    lines.append("[10.1s][info][gc,heap,exit] Heap\n")
    log = parse_lines(lines)
    assert [(cycle.reclaimed, cycle.promoted, cycle.live) for cycle in log.cycles] == [(80 * MIB, 10 * MIB, None)] * 3
    figures = summary(log)
    assert figures.allocation_rate == pytest.approx(160 * MIB / 4)  # as full in the end; twice 80 MiB in 4 s
    assert figures.promotion_rate == pytest.approx(30 * MIB / 10)


def test_rates_of_shenandoah_leave_its_own_copies_out() -> None:
    log = GcLog(jvms=[Jvm("Shenandoah", last=10.0)])
    rows = []
    for n, at in enumerate((1.0, 3.0, 5.0)):
        rows.append(Cleanup(at, None, 0, n, Heap(80 * MIB, 70 * MIB), False))
        rows.append(Cleanup(at + 1, None, 0, n, Heap(95 * MIB, 30 * MIB), True))
    log.cleanups = Events.of(Cleanup, rows)
    found = allocation(log)
    assert found.size == 100 * MIB
    assert found.rate == pytest.approx(50 * MIB)


def test_promotion_is_growth_of_the_old_generation() -> None:
    read = parse_lines(
        [
            "[0.1s][info][gc] Using G1\n",
            "[0.1s][info][gc,init] Heap Region Size: 2M\n",
            "[1.0s][info][gc,heap] GC(0) Old regions: 2->5\n",
            "[1.0s][info][gc] GC(0) Pause Young (Normal) (G1 Evacuation Pause) 30M->12M(64M) 1.000ms\n",
            "[2.0s][info][gc,heap] GC(1) Old regions: 5->3\n",
            "[2.0s][info][gc] GC(1) Pause Young (Mixed) (G1 Evacuation Pause) 30M->8M(64M) 1.000ms\n",
            "[3.1s][info][gc,heap] GC(2) Tenured: 4096K(87424K)->6144K(87424K)\n",
            "[3.1s][info][gc] GC(2) Pause Young (Allocation Failure) 30M->12M(64M) 1.000ms\n",
        ]
    )
    assert [pause.promoted for pause in read.pauses] == [6 * MIB, None, 2 * MIB]
    assert summary(read).promotion_rate == pytest.approx(8 * MIB / 3)


def test_the_working_set_is_what_old_collections_leave() -> None:
    def pause(n: int, what: str, after: int) -> str:
        return f"[{n}.0s][info][gc] GC({n}) Pause {what} 60M->{after}M(64M) 1.000ms\n"

    young = [pause(n, "Young (Allocation Failure)", 30 + n) for n in range(1, 5)]
    only_young = summary(parse_lines(["[0.1s][info][gc] Using Serial\n", *young])).working_set
    assert only_young is not None
    assert (only_young.size, only_young.at_most) == (33 * MIB, True)
    full = [pause(5, "Full (Ergonomics)", 20), pause(6, "Young (Allocation Failure)", 40)]
    working = summary(parse_lines(["[0.1s][info][gc] Using Serial\n", *young, *full])).working_set
    assert working is not None
    assert (working.size, working.at_most, working.basis) == (20 * MIB, False, "after full collections")


def test_mixed_collections_count_from_one_marking_to_the_next() -> None:
    lines = ["[0.1s][info][gc] Using G1\n"]
    for n in range(18):
        at = 10.0 * (n + 1)
        lines.append(f"[{at:.1f}s][info][gc] GC({4 * n}) Concurrent Mark Cycle 5.000ms\n")
        for step, after in enumerate((50, 22 + n, 41), 1):
            what = "Pause Young (Mixed) (G1 Evacuation Pause)"
            lines.append(f"[{at + step:.1f}s][info][gc] GC({4 * n + step}) {what} 60M->{after}M(64M) 1.000ms\n")
    figures = summary(parse_lines(lines))
    assert figures.leak.verdict == "leak"
    assert figures.leak.slope == pytest.approx(MIB / 10)
    assert figures.working_set is not None
    assert figures.working_set.size == 34 * MIB  # the later half of 22 ... 38; the last stretch is left out


def test_what_is_not_known_has_a_reason() -> None:
    figures = summary(parse_lines(["[0.1s][info][gc] Using Serial\n"]))
    for name in (
        "interval_s",
        "share_cycle",
        "allocation_rate",
        "promotion_rate",
        "heap_after",
        "working_set",
        "cpu_s",
    ):
        assert getattr(figures, name) is None
        assert figures.reasons[name]
    assert figures.leak.verdict == "undetermined"
