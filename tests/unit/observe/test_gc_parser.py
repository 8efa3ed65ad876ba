"""Lines of unified GC logs, written for the test after the forms that JVMs print."""

from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pytest

from leadline.gcanalysis.events import GcLog, Heap
from leadline.model.errors import UsageError
from leadline.observe.base import ObserverContext
from leadline.observe.gc import UNITS, GcObserver
from leadline.observe.gclog.files import parse, parse_lines

MIB = 1 << 20


def lines(*messages: str, tags: str = "gc", start: float = 1.0) -> list[str]:
    """One log line a message, a second apart; "tags|message" where the tags differ."""
    made = []
    for n, text in enumerate(messages):
        head, bar, message = text.partition("|")
        chosen, message = (head, message) if bar else (tags, text)
        made.append(f"[2026-01-02T03:04:{5 + n:02d}.250+0100][{start + n:.3f}s][info][{chosen:<10}] {message}\n")
    return made


def log(*messages: str) -> GcLog:
    return parse_lines(lines(*messages))


@pytest.mark.parametrize(
    ("message", "kind", "name", "cause", "ms", "heap"),
    [
        (
            "GC(3) Pause Young (Allocation Failure) 24M->4M(256M) 3.125ms",
            "Pause Young (Allocation Failure)",
            "Young",
            "Allocation Failure",
            3.125,
            (24, 4, 256),
        ),
        (
            "GC(3) Pause Full (System.gc()) 24M->4M(256M) 30.500ms",
            "Pause Full (System.gc())",
            "Full",
            "System.gc()",
            30.5,
            (24, 4, 256),
        ),
        (
            "GC(3) Pause Young (Mixed) (G1 Evacuation Pause) (Evacuation Failure: Allocation) 24M->4M(256M) 3.1ms",
            "Pause Young (Mixed) (G1 Evacuation Pause) (Evacuation Failure: Allocation)",
            "Young",
            "G1 Evacuation Pause",
            3.1,
            (24, 4, 256),
        ),
        (
            "GC(3) Pause Young (Concurrent Start) (Metadata GC Threshold) 24M->4M(256M) 3.1ms",
            "Pause Young (Concurrent Start) (Metadata GC Threshold)",
            "Young",
            "Metadata GC Threshold",
            3.1,
            (24, 4, 256),
        ),
        ("GC(3) Pause Remark 24M->24M(256M) 1.0ms", "Pause Remark", "Remark", "", 1.0, (24, 24, 256)),
        ("GC(3) Pause Cleanup 24M->23M(256M) 0.025ms", "Pause Cleanup", "Cleanup", "", 0.025, (24, 23, 256)),
        (
            "GC(3) Pause Final Mark (unload classes) 0.250ms",
            "Pause Final Mark (unload classes)",
            "Final Mark",
            "",
            0.25,
            None,
        ),
        (
            "GC(3) Pause Degenerated GC (Young) (Roots) 24M->4M(256M) 16.0ms",
            "Pause Degenerated GC (Young) (Roots)",
            "Degenerated GC",
            "",
            16.0,
            (24, 4, 256),
        ),
        ("gc,phases|GC(3) Pause Mark Start 0.010ms", "Pause Mark Start", "Mark Start", "", 0.01, None),
        ("gc,phases|GC(3) y: Pause Mark End 0.010ms", "y: Pause Mark End", "Mark End", "", 0.01, None),
        (
            "gc,phases|GC(3) Y: Pause Mark Start (Major) 0.010ms",
            "Y: Pause Mark Start (Major)",
            "Mark Start",
            "",
            0.01,
            None,
        ),
    ],
)
def test_pauses(message: str, kind: str, name: str, cause: str, ms: float, heap: tuple[int, int, int] | None) -> None:
    read = log("Using G1", message)
    assert not read.unknown
    (pause,) = read.pauses
    assert (pause.kind, pause.name, pause.cause, pause.ms, pause.gc_id) == (kind, name, cause, ms, 3)
    assert pause.heap == (Heap(*(n * MIB for n in heap)) if heap else None)
    assert pause.at == 2.0
    assert pause.unix == datetime(2026, 1, 2, 2, 4, 6, 250_000, UTC).timestamp()
    assert pause.begin == pytest.approx(2.0 - ms / 1e3)


def test_what_is_no_pause_is_not_counted_and_not_unknown() -> None:
    read = log(
        "Using G1",
        "gc,start|GC(3) Pause Young (Normal) (G1 Evacuation Pause)",
        "gc,stats|Pause Init Mark (N)           33 us",
        "gc,stats|GC(3) Pause Init Mark 3.000ms",
        "gc,phases|GC(3)   Pre Evacuate Collection Set: 0.1ms",
        "gc,task|GC(3) Using 2 workers of 2 for evacuation",
        "gc,heap|GC(3) Eden regions: 10->0(12)",
        "compilation|Pause Young 1.0ms",
    )
    assert not read.pauses
    assert not read.unknown
    assert read.jvms[0].collector == "G1"


@pytest.mark.parametrize(
    "message",
    [
        "GC(9) Pause Sideways (Allocation Failure) 24M->4M(256M) 3.125ms",
        "GC(9) Pause Young (Allocation Failure) 24M->4M(256M)",
        "GC(9) Pause Young (Allocation Failure) 24M->4M(256M) 3125us",
        "gc,phases|GC(9) Pause Something 3.1ms",
        "GC(9) Pause",
    ],
)
def test_a_pause_line_that_is_not_known_is_loud(message: str) -> None:
    read = log("Using G1", message, "GC(10) Pause Remark 1M->1M(2M) 1.0ms")
    assert len(read.pauses) == 1
    (unknown,) = read.unknown
    assert unknown.number == 2
    assert "GC(9) Pause" in unknown.text
    assert "line 2" in read.warnings[0]


def test_zgc_collections_causes_capacity_and_stalls() -> None:
    read = log(
        "gc,init|Initializing The Z Garbage Collector",
        "gc,init|Version: 25.0.3+9-LTS (release)",
        "Using The Z Garbage Collector",
        "GC(0) Minor Collection (Allocation Rate)",
        "gc,phases|GC(0) y: Pause Mark Start 0.020ms",
        "Allocation Stall (http-nio-1 (x)) 12.500ms",
        "Relocation Stall (main) 0.500ms",
        "gc,heap|GC(0) y:  Capacity:      200M (78%)        210M (80%)   220M (81%)  224M (82%)  256M (100%) ",
        "gc,phases|GC(0) y: Young Generation 102M(40%)->60M(23%) 0.004s",
        "GC(0) Minor Collection (Allocation Rate) 102M(40%)->60M(23%) 0.005s",
        "gc,start|GC(1) Garbage Collection (Warmup)",
        "GC(1) Garbage Collection (Warmup) 102M(40%)->60M(23%)",
    )
    assert (read.jvms[0].collector, read.jvms[0].version, len(read.jvms)) == ("Z", "25.0.3+9-LTS", 1)
    assert read.pauses[0].cause == "Allocation Rate"
    assert [(stall.kind, stall.thread, stall.ms) for stall in read.stalls] == [
        ("Allocation Stall", "http-nio-1 (x)", 12.5),
        ("Relocation Stall", "main", 0.5),
    ]
    minor, warmup = read.cycles
    assert (minor.kind, minor.cause) == ("Minor Collection", "Allocation Rate")
    assert minor.ms == pytest.approx(6000)
    assert minor.heap == Heap(102 * MIB, 60 * MIB, 224 * MIB)
    assert warmup.kind == "Garbage Collection"
    assert warmup.ms == pytest.approx(1000)


def test_shenandoah_cycles_and_what_degenerated_them() -> None:
    read = log(
        "Using Shenandoah",
        "GC(4) Concurrent reset (Young) 500.000ms",
        "GC(4) Pause Init Mark (Young) 0.030ms",
        "GC(4) Concurrent cleanup (Young) 90M->80M(128M) 0.050ms",
        "Cancelling GC: Allocation Failure",
        "GC(4) Concurrent cleanup (Young) 100M->20M(128M) 0.050ms",
        "GC(5) Pause Degenerated GC (Outside of Cycle) 120M->30M(128M) 18.000ms",
    )
    (cycle,) = read.cycles
    assert (cycle.kind, cycle.heap) == ("Shenandoah Cycle (Young)", Heap(90 * MIB, 20 * MIB, 128 * MIB))
    assert cycle.ms == pytest.approx(4500)
    assert read.pauses[-1].cause == "Allocation Failure"


def test_safepoints_of_all_releases() -> None:
    read = log(
        'safepoint|Safepoint "G1CollectForAllocation", Time since last: 97 ns, Reaching safepoint: 1000000 ns, '
        "Cleanup: 4036 ns, At safepoint: 2000000 ns, Total: 3000000 ns",
        'safepoint|Safepoint "ZMarkEndYoung", Time since last: 97 ns, Reaching safepoint: 500000 ns, At safepoint: '
        "9 ns, Leaving safepoint: 7 ns, Total: 4000000 ns, Threads: 2 runnable, 12 total",
        "safepoint|Entering safepoint region: RevokeBias",
        "safepoint|Leaving safepoint region",
        "safepoint|Total time for which application threads were stopped: 0.0025000 seconds, "
        "Stopping threads took: 0.0001000 seconds",
    )
    assert [(point.operation, point.reaching_ms, point.total_ms) for point in read.safepoints] == [
        ("G1CollectForAllocation", 1.0, 3.0),
        ("ZMarkEndYoung", 0.5, 4.0),
        ("RevokeBias", pytest.approx(0.1), pytest.approx(2.5)),
    ]


def test_cpu_of_a_pause() -> None:
    (cpu,) = log("gc,cpu|GC(7) User=0.02s Sys=0.01s Real=0.05s").cpu
    assert (cpu.gc_id, cpu.user, cpu.system, cpu.real) == (7, 0.02, 0.01, 0.05)


@pytest.mark.parametrize(
    ("decorators", "at", "unix"),
    [
        ("[12.345s][info][gc]", 12.345, None),
        ("[info][gc   ][12345ms]", 12.345, None),
        ("[gc][12345000000ns]", 12.345, None),
        ("[2026-01-02T03:04:05.678+0000][12.345s][my-host][4711][4712][info][gc]", 12.345, 1767323045.678),
        ("[gc][info][12.345s][2026-01-02T03:04:05.678+0000]", 12.345, 1767323045.678),
        ("[1767323045678ms][12.345s][localhost][gc,x]", 12.345, 1767323045.678),
        ("[2026-01-02T03:04:05.678+0000][gc]", 1767323045.678, 1767323045.678),
        ("[12.345s]", 12.345, None),
    ],
)
def test_decorators_in_any_order(decorators: str, at: float, unix: float | None) -> None:
    read = parse_lines([f"{decorators} GC(0) Pause Young (Allocation Failure) 2M->1M(4M) 1.0ms\n"])
    (pause,) = read.pauses
    assert pause.at == pytest.approx(at)
    assert pause.unix == (pytest.approx(unix) if unix else None)


def test_a_log_without_tags_has_beginnings_that_are_no_pauses() -> None:
    read = parse_lines(
        [
            "[1.000s] GC(0) Pause Young (Normal) (G1 Evacuation Pause)\n",
            "[1.002s] GC(0) Pause Young (Normal) (G1 Evacuation Pause) 2M->1M(4M) 1.0ms\n",
        ]
    )
    assert len(read.pauses) == 1
    assert not read.unknown


def test_a_cut_last_line_is_told_and_nothing_is_invented() -> None:
    whole = "".join(
        lines("Using G1", "GC(0) Pause Remark 1M->1M(2M) 1.0ms", "GC(1) Pause Full (Ergonomics) 3M->1M(4M) 12.345ms")
    )
    text = whole.rstrip("\n")
    last = text.rindex("\n") + 1
    for end in range(last + 1, len(text) + 1):
        read = parse_lines(text[:end].splitlines(keepends=True))
        assert read.truncated
        assert not read.unknown
        assert len(read.pauses) == (2 if end == len(text) else 1)
    assert not parse_lines(whole.splitlines(keepends=True)).truncated


def test_two_jvms_in_one_file_are_told_apart() -> None:
    first = lines("Using G1", "GC(0) Pause Remark 1M->1M(2M) 1.0ms", "GC(1) Pause Remark 1M->1M(2M) 1.0ms", start=100)
    second = lines("Using Serial", "GC(0) Pause Full (System.gc()) 1M->1M(2M) 1.0ms", start=0.005)
    read = parse_lines(first + second)
    assert [jvm.collector for jvm in read.jvms] == ["G1", "Serial"]
    assert [pause.jvm for pause in read.pauses] == [0, 0, 1]
    assert any("2 JVMs" in text for text in read.warnings)


def test_lines_of_several_threads_out_of_order_are_one_jvm() -> None:
    read = parse_lines(
        [
            "[5.010s][info][gc] Using G1\n",
            "[5.020s][info][gc,cpu] GC(0) User=0.00s Sys=0.00s Real=0.00s\n",
            "[5.019s][info][gc,task] GC(1) Using 2 workers of 2 for evacuation\n",
            "[5.018s][info][gc] GC(1) Pause Remark 1M->1M(2M) 1.0ms\n",
        ]
    )
    assert len(read.jvms) == 1
    assert read.jvms[0].last == 5.020
    assert len(read.pauses) == 1


def test_files_that_are_no_collector_log(tmp_path: Path) -> None:
    other = tmp_path / "server.log"
    other.write_text("12:00:01 INFO started\nin 3 ms\n")
    with pytest.raises(UsageError, match=r"server\.log is no GC log"):
        parse(other)
    empty = tmp_path / "empty.log"
    empty.write_text("")
    assert parse(empty).lines == 0
    with pytest.raises(FileNotFoundError):
        parse(tmp_path / "none.log")
    noise = tmp_path / "noise.log"
    noise.write_bytes(bytes(range(256)) * 50)
    with pytest.raises(UsageError):
        parse(noise)


def test_the_observer_writes_series_and_passes_warnings_on(tmp_path: Path) -> None:
    observer = GcObserver()
    observer.start(ObserverContext(tmp_path))
    observer.stop()
    assert observer.collect() is None
    (tmp_path / "raw").mkdir()
    messages = lines(
        "Using G1",
        "GC(0) Pause Young (Normal) (G1 Evacuation Pause) 100M->20M(256M) 500.0ms",
        "gc,cpu|GC(0) User=0.02s Sys=0.01s Real=0.05s",
        "GC(1) Pause Young (Normal) (G1 Evacuation Pause) 120M->30M(256M) 500.0ms",
        "GC(1) Pause Backwards 1.0ms",
        "GC(2) Concurrent Mark Cycle 250.0ms",
    )
    (tmp_path / "raw" / "gc.log").write_text("".join(messages))
    path = observer.collect()
    assert path is not None
    table = pl.read_parquet(path)
    assert set(table["metric"]) <= set(UNITS)
    pauses = table.filter(pl.col("metric") == "gc.pause")
    assert pauses["subject"].unique().to_list() == ["Pause Young (Normal) (G1 Evacuation Pause)"]
    assert pauses["value"].to_list() == [500, 500]
    end = datetime(2026, 1, 2, 2, 4, 6, 250_000, UTC).timestamp()
    assert pauses["time_ns"][0] == round(end * 1e9)
    before = table.filter(pl.col("metric") == "heap.before")
    assert before["time_ns"][0] == round((end - 0.5) * 1e9)
    rate = table.filter(pl.col("metric") == "gc.allocation_rate")["value"].to_list()
    assert rate == [pytest.approx(100 * MIB / 1.5)]
    assert "Pause Backwards" in observer.warnings[0]
    observer.collect()
    assert len(observer.warnings) == 1
