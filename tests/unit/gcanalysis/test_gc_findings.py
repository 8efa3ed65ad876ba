"""Each rule on the fewest lines that show its cause, and on those that do not."""

from __future__ import annotations

import pytest

from leadline.checks.files.study import parse_study
from leadline.gcanalysis.summary import GcSummary, summary
from leadline.observe.gclog.files import parse_lines

HEAD = ["Using {collector}", "CPUs: 4 total, 4 available", "Heap Region Size: 1M", "Heap Max Capacity: 100M"]


def figures(messages: list[str], collector: str = "G1", step: float = 1.0) -> GcSummary:
    lines = [f"[0.{n:03d}s][info][gc] {text.format(collector=collector)}\n" for n, text in enumerate(HEAD)]
    lines += [f"[{1 + n * step:.3f}s][info][gc] {text.format(n=n)}\n" for n, text in enumerate(messages)]
    return summary(parse_lines(lines))


def names(found: GcSummary) -> list[str]:
    return [finding.name for finding in found.findings]


YOUNG = "GC({n}) Pause Young (Normal) (G1 Evacuation Pause) 50M->20M(100M) 5.000ms"
SAFEPOINT = (
    'Safepoint "{}", Time since last: 1 ns, Reaching safepoint: {} ns, Cleanup: 1 ns, At safepoint: {} ns, Total: {} ns'
)


def safepoint(operation: str, reaching_ms: int, at_ms: int) -> str:
    ns = 10**6
    return SAFEPOINT.format(operation, reaching_ms * ns, at_ms * ns, (reaching_ms + at_ms) * ns)


CAUSES = {
    "heap-exhausted": ("G1", [YOUNG] * 3 + ["GC({n}) Pause Full (G1 Compaction Pause) 96M->95M(100M) 90.000ms"] * 3),
    "metaspace-exhausted": ("Serial", ["GC({n}) Pause Full (Metadata GC Clear Soft References) 9M->9M(100M) 9.000ms"]),
    "metaspace-threshold": ("Serial", ["GC({n}) Pause Full (Metadata GC Threshold) 9M->9M(100M) 9.000ms"] * 3),
    "direct-memory-exhausted": (
        "G1",
        ["java.lang.OutOfMemoryError: Cannot reserve 1048576 bytes of direct buffer memory (allocated: 1, limit: 1)"],
    ),
    "threads-exhausted": ("G1", ["java.lang.OutOfMemoryError: unable to create native thread: possibly out of memory"]),
    "to-space-exhausted": ("G1", [YOUNG, "GC(1) To-space exhausted", YOUNG]),
    "promotion-failed": ("Parallel", ["GC({n}) Promotion failed"]),
    "concurrent-mode-failure": ("Concurrent Mark Sweep", ["GC({n}) Concurrent mode failure"]),
    "g1-full": ("G1", [YOUNG, "GC({n}) Pause Full (G1 Compaction Pause) 90M->20M(100M) 90.000ms", YOUNG]),
    "humongous": ("G1", ["GC({n}) Pause Young (Concurrent Start) (G1 Humongous Allocation) 50M->20M(100M) 2.0ms"] * 3),
    "allocation-stalls": ("The Z Garbage Collector", ["Allocation Stall (main) 12.5ms"]),
    "relocation-stalls": ("The Z Garbage Collector", ["Relocation Stall (main) 82.5ms"]),
    "degenerated": ("Shenandoah", ["GC({n}) Pause Degenerated GC (Mark) 90M->20M(100M) 50.000ms"]),
    "pacing": ("Shenandoah", ["Pacing                         =    0.950 s (a =    1 us) (n =   5)"] * 4),
    "pinned": ("G1", [YOUNG, YOUNG.replace("Pause) ", "Pause) (Evacuation Failure: Pinned) ")]),
    "explicit-gc": ("Serial", ["GC({n}) Pause Full (System.gc()) 50M->20M(100M) 50.000ms"] * 3),
    "asked-by-tool": ("Serial", ["GC({n}) Pause Full (Heap Dump Initiated GC) 50M->20M(100M) 50.000ms"]),
    "time-to-safepoint": ("G1", [YOUNG, safepoint("G1CollectForAllocation", 300, 5)]),
    "stops-without-collection": ("G1", [YOUNG, safepoint("ThreadDump", 1, 300)]),
    "references": ("G1", ["GC({n}) Reference Processing: 80.0ms", YOUNG.replace(" 5.", " 90.")]),
    "heap-small": ("Serial", ["GC({n}) Pause Young (Allocation Failure) 50M->40M(100M) 300.000ms"] * 12),
    "starved": ("G1", [YOUNG.replace(" 5.", " 90."), "GC(0) User=0.01s Sys=0.00s Real=0.09s"] * 6),
    "kernel-time": ("G1", [YOUNG.replace(" 5.", " 90."), "GC(0) User=0.00s Sys=0.09s Real=0.09s"] * 6),
    "messages-dropped": ("G1", ["     12 messages dropped due to async logging", YOUNG]),
}


@pytest.mark.parametrize("name", list(CAUSES))
def test_a_cause_is_named_with_lines_and_a_study_that_parses(name: str) -> None:
    collector, messages = CAUSES[name]
    (finding,) = figures(messages, collector).findings
    assert finding.name == name
    assert finding.count
    assert finding.lines or name in ("starved", "kernel-time")
    if finding.study:
        assert set(parse_study(finding.study, "test").study.factors) == set(finding.factors)


@pytest.mark.parametrize(
    "messages",
    [
        [YOUNG] * 30,
        [YOUNG, "GC({n}) Pause Full (System.gc()) 50M->20M(100M) 50.000ms"],
        [YOUNG, "GC({n}) Pause Young (Concurrent Start) (Metadata GC Threshold) 50M->20M(100M) 5.000ms", *[YOUNG] * 20],
        [YOUNG, safepoint("G1CollectForAllocation", 1, 300), safepoint("ICBufferFull", 0, 1)],
        [YOUNG, "GC(1) User=0.02s Sys=0.01s Real=0.03s"] * 10,
        [YOUNG, "GC({n}) Pause Young (Normal) (GCLocker Initiated GC) 50M->20M(100M) 5.000ms", YOUNG],
        [YOUNG, "INFO Order 12 failed: an OutOfMemoryError was feared", YOUNG],
    ],
    ids=["plain", "one System.gc()", "one at start", "short", "busy", "one locker", "a program's words"],
)
def test_a_healthy_log_has_no_finding(messages: list[str]) -> None:
    assert names(figures(messages)) == []


def test_one_cpu_is_told() -> None:
    lines = ["[0.001s][info][gc] Using G1\n", "[0.002s][info][gc,init] CPUs: 1 total, 1 available\n"]
    assert names(summary(parse_lines(lines))) == ["one-cpu"]


def test_a_full_heap_explains_what_follows_from_it() -> None:
    full = "GC({n}) Pause Full (G1 Compaction Pause) 96M->95M(100M) 900.000ms"
    found = figures(["GC(0) To-space exhausted", "Allocation Stall (main) 12.5ms", *[full] * 12])
    assert names(found) == ["heap-exhausted"]
    assert "gave back 1 MiB each" in found.findings[0].sentence


def test_promotion_failed_of_jdk_8_is_told() -> None:
    young = "[ParNew (promotion failed): 300K->300K(300K), 0.1 secs]"
    old = "[CMS (concurrent mode failure): 900K->500K(1000K), 0.9 secs] 1200K->500K(1300K), [Metaspace: 3K->3K(9K)]"
    lines = [
        f"{at}.000: [GC (Allocation Failure) {at}.000: {young}{at}.100: {old}, 1.0 secs] "
        "[Times: user=1.00 sys=0.00, real=1.00 secs]\n"
        for at in (1, 20)
    ]
    assert "concurrent-mode-failure" in names(summary(parse_lines(lines)))
