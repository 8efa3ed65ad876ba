"""GC logs of JDK 8 and of OpenJ9, written for the test after the forms that these JVMs print."""

from pathlib import Path

import pytest

from leadline.gcanalysis.summary import summary
from leadline.model.errors import UsageError
from leadline.observe.gclog.files import parse

KIB = 1024
JDK8 = """\
OpenJDK 64-Bit Server VM (25.392-b08) for linux-amd64 JRE (1.8.0_392-b08), built on Oct 2023 by "builder" with gcc
Memory: 4k page, physical 16384000k(8192000k free), swap 0k(0k free)
CommandLine flags: -XX:+PrintGCDetails -XX:+PrintGCDateStamps
2026-01-02T03:04:05.000+0000: 1.000: [GC (Allocation Failure) [PSYoungGen: 1000K->200K(2000K)] 1500K->900K(9000K), \
0.0100000 secs] [Times: user=0.02 sys=0.01, real=0.01 secs]
2026-01-02T03:04:07.000+0000: 3.000: [Full GC (Ergonomics) [PSYoungGen: 200K->0K(2000K)] [ParOldGen: 700K->600K(7000K)]\
 900K->600K(9000K), [Metaspace: 20K->20K(1067K)], 0.0500000 secs] [Times: user=0.05 sys=0.00, real=0.05 secs]
2026-01-02T03:04:08.000+0000: 4.000: Total time for which application threads were stopped: 0.0510000 seconds, \
Stopping threads took: 0.0001000 seconds
"""
SERIAL = (
    "1.500: [GC (Allocation Failure) 1.500: [DefNew: 1000K->100K(1100K), 0.0020000 secs] 1000K->300K(3000K), "
    "0.0025000 secs] [Times: user=0.01 sys=0.00, real=0.00 secs]\n"
)
G1 = """\
1.000: [GC pause (G1 Evacuation Pause) (young), 0.0200000 secs]
   [Parallel Time: 19.0 ms, GC Workers: 2]
      [GC Worker Start (ms): Min: 1000.0, Avg: 1000.1, Max: 1000.2, Diff: 0.2]
   [Eden: 24.0M(24.0M)->0.0B(13.0M) Survivors: 0.0B->3072.0K Heap: 24.0M(256.0M)->5.5M(256.0M)]
 [Times: user=0.03 sys=0.00, real=0.02 secs]
2.000: [GC pause (Metadata GC Threshold) (young) (initial-mark), 0.0100000 secs]
   [Eden: 8.0M(13.0M)->0.0B(13.0M) Survivors: 3072.0K->3072.0K Heap: 13.5M(256.0M)->6.0M(256.0M)]
2.100: [GC concurrent-root-region-scan-start]
2.101: [GC concurrent-root-region-scan-end, 0.0010000 secs]
2.200: [GC remark 2.200: [Finalize Marking, 0.0001000 secs] 2.201: [GC ref-proc, 0.0001000 secs], 0.0030000 secs]
 [Times: user=0.00 sys=0.00, real=0.00 secs]
2.300: [GC cleanup 6144K->6144K(256M), 0.0005000 secs]
3.000: [GC pause (G1 Evacuation Pause) (mixed) (to-space exhausted), 0.0400000 secs]
4.000: [Full GC (System.gc())  20M->4096K(256M), 0.1000000 secs]
   [Eden: 8.0M(13.0M)->0.0B(13.0M) Survivors: 0.0B->0.0B Heap: 20.0M(256.0M)->4096.0K(256.0M)]
"""
CMS = """\
1.000: [GC (Allocation Failure) 1.000: [ParNew
Desired survivor size 557056 bytes, new threshold 15 (max 15)
- age   1:     400000 bytes,     400000 total
: 1000K->100K(1100K), 0.0020000 secs] 1000K->300K(3000K), 0.0100000 secs] [Times: user=0.01 sys=0.0, real=0.01 secs]
2.000: [GC (CMS Initial Mark) [1 CMS-initial-mark: 500K(2000K)] 700K(3000K), 0.0020000 secs]
2.100: [CMS-concurrent-mark-start]
3.000: [GC (CMS Final Remark) [YG occupancy: 50 K (1100 K)]3.000: [Rescan (parallel) , 0.0010000 secs]3.001: \
[weak refs processing, 0.0000100 secs][1 CMS-remark: 500K(2000K)] 550K(3000K), 0.0030000 secs]
"""


def read(text: str, folder: Path) -> list[tuple[str, float, tuple[int, int] | None]]:
    path = folder / "gc.log"
    path.write_text(text)
    log = parse(path)
    assert not log.unknown
    return [
        (one.kind, one.ms, (one.heap.before // KIB, one.heap.after // KIB) if one.heap else None) for one in log.pauses
    ]


@pytest.mark.parametrize("cause", ["", "(Allocation Failure) "])
def test_a_record_is_not_taken_for_what_stands_behind_each_line(cause: str, tmp_path: Path) -> None:
    """A log of one record: the time of the young generation in it is not the record's end."""
    line = f"1.000: [GC {cause}1.000: [DefNew: 900K->100K(1100K), 0.002 secs] 900K->300K(3000K), 0.005 secs]\n"
    assert [(ms, heap) for _, ms, heap in read(line, tmp_path)] == [(pytest.approx(5), (900, 300))]


def test_parallel_of_jdk_8(tmp_path: Path) -> None:
    assert read(JDK8, tmp_path) == [
        ("Pause Young (Allocation Failure)", pytest.approx(10), (1500, 900)),
        ("Pause Full (Ergonomics)", pytest.approx(50), (900, 600)),
    ]
    log = parse(tmp_path / "gc.log")
    assert log.jvms[0].collector == "Parallel"
    assert log.jvms[0].version == "1.8.0_392-b08"
    young = log.pauses[0]
    assert young.at == pytest.approx(1.01)  # the log has the beginning
    assert young.begin == pytest.approx(1.0)
    assert young.promoted == 200 * KIB  # 500 before, 700 after
    assert log.safepoints[0].total_ms == pytest.approx(51)
    figures = summary(log)
    assert figures.interval_s == pytest.approx(1.99)
    assert figures.cpu_s == pytest.approx(0.08)
    assert figures.full == 1


def test_serial_of_jdk_8_without_dates(tmp_path: Path) -> None:
    assert read(SERIAL, tmp_path) == [("Pause Young (Allocation Failure)", pytest.approx(2.5), (1000, 300))]


def test_g1_of_jdk_8(tmp_path: Path) -> None:
    assert read(G1, tmp_path) == [
        ("Pause Young (Normal) (G1 Evacuation Pause)", pytest.approx(20), (24 * KIB, 5632)),
        ("Pause Young (Concurrent Start) (Metadata GC Threshold)", pytest.approx(10), (13824, 6 * KIB)),
        ("Pause Remark", pytest.approx(3), None),
        ("Pause Cleanup", pytest.approx(0.5), (6144, 6144)),
        ("Pause Young (Mixed) (G1 Evacuation Pause) (to-space exhausted)", pytest.approx(40), None),
        ("Pause Full (System.gc())", pytest.approx(100), (20 * KIB, 4096)),
    ]


def test_cms_of_jdk_8_over_several_lines(tmp_path: Path) -> None:
    assert read(CMS, tmp_path) == [
        ("Pause Young (Allocation Failure)", pytest.approx(10), (1000, 300)),
        ("Pause Initial Mark", pytest.approx(2), None),
        ("Pause Remark", pytest.approx(3), None),
    ]


BESIDE = """\
6.500: [CMS-concurrent-sweep: 0.002/0.002 secs]6.501: [GC (Allocation Failure) 6.501: [ParNew [Times: user=0.00 \
sys=0.00, real=0.00 secs]
: 1000K->100K(1100K), 0.0020000 secs] 1000K->300K(3000K), 0.0070000 secs] [Times: user=0.01 sys=0.00, real=0.01 secs]
7.000: [GC (Allocation Failure) 7.000: [ParNew7.002: [CMS-concurrent-preclean: 0.001/0.057 secs] [Times: user=0.02 \
sys=0.01, real=0.06 secs]
: 1100K->200K(1100K), 0.0030000 secs] 1300K->600K(3000K), 0.0050000 secs] [Times: user=0.01 sys=0.00, real=0.01 secs]
8.000: [GC pause (G1 Evacuation Pause) (young)
Desired survivor size 2097152 bytes, new threshold 1 (max 15)
8.001: [GC concurrent-root-region-scan-start]
8.001: [GC concurrent-root-region-scan-end, 0.0003773 secs]
8.002: [GC concurrent-mark-start]
 8.000: [G1Ergonomics (CSet Construction) start choosing CSet, _pending_cards: 261, target pause time: 200.00 ms]
, 0.0090000 secs]
"""


def test_threads_beside_that_write_into_a_record_of_jdk_8(tmp_path: Path) -> None:
    """Lines of JDK 8 as they were found in real logs in which the recorder had all these pauses."""
    assert read(BESIDE, tmp_path) == [
        ("Pause Young (Allocation Failure)", pytest.approx(7), (1000, 300)),
        ("Pause Young (Allocation Failure)", pytest.approx(5), (1300, 600)),
        ("Pause Young (Normal) (G1 Evacuation Pause)", pytest.approx(9), None),
    ]
    pauses = parse(tmp_path / "gc.log").pauses
    assert [one.begin for one in pauses] == pytest.approx([6.501, 7.0, 8.0])
    assert [one.promoted for one in pauses[:2]] == [200 * KIB, 200 * KIB]


SCAVENGED = """\
3.580: [GC (CMS Final Remark) [YG occupancy: 900 K (1100 K)]{Heap before GC invocations=17 (full 1):
  eden space 900K, 100% used [0x00000000fa000000, 0x00000000fb9a0000, 0x00000000fb9a0000)
3.580: [GC (CMS Final Remark) 3.580: [ParNew
: 900K->100K(1100K), 0.0498211 secs] 1900K->1100K(3000K), 0.0498422 secs] [Times: user=0.00 sys=0.00, real=0.06 secs]
Heap after GC invocations=18 (full 1):
  eden space 900K,   0% used [0x00000000fa000000, 0x00000000fa000000, 0x00000000fb9a0000)
}
3.630: [Rescan (parallel) , 0.1287625 secs]3.759: [class unloading, 0.0653031 secs][1 CMS-remark: 1000K(2000K)] \
1100K(3000K), 0.2448824 secs] [Times: user=0.00 sys=0.01, real=0.25 secs]
"""


def test_a_young_collection_inside_a_remark_is_one_pause_with_it(tmp_path: Path) -> None:
    assert read(SCAVENGED, tmp_path) == [("Pause Remark", pytest.approx(244.8824), None)]
    path = tmp_path / "gc.log"
    lost = SCAVENGED.splitlines(keepends=True)
    path.write_text("".join(lost[:7]) + SERIAL.replace("1.500", "4.500"))
    log = parse(path)
    assert [one.name for one in log.pauses] == ["Young"]
    assert [one.number for one in log.unknown] == [1]


def test_records_of_jdk_7_without_causes(tmp_path: Path) -> None:
    text = (
        "2014-04-09T15:27:23.456+0200: 0.304: [GC2014-04-09T15:27:23.456+0200: 0.304: [ParNew: 900K->100K(1100K), "
        "0.0317664 secs] 900K->300K(3000K), 0.0318639 secs] [Times: user=0.05 sys=0.06, real=0.03 secs]\n"
        "2014-04-09T15:27:23.486+0200: 0.337: [GC [1 CMS-initial-mark: 200K(2000K)] 300K(3000K), 0.0001983 secs]\n"
        "2014-04-09T15:27:23.496+0200: 0.347: [GC[YG occupancy: 50 K (1100 K)]2014-04-09T15:27:23.496+0200: 0.348: "
        "[Rescan (parallel) , 0.0004158 secs][1 CMS-remark: 200K(2000K)] 300K(3000K), 0.0011000 secs]\n"
    )
    assert read(text, tmp_path) == [
        ("Pause Young", pytest.approx(31.8639), (900, 300)),
        ("Pause Initial Mark", pytest.approx(0.1983), None),
        ("Pause Remark", pytest.approx(1.1), None),
    ]


def test_a_record_of_jdk_8_that_never_ends_is_loud(tmp_path: Path) -> None:
    path = tmp_path / "gc.log"
    path.write_text("1.000: [GC (Allocation Failure) 1.000: [ParNew\n" + SERIAL)
    log = parse(path)
    assert len(log.pauses) == 1
    assert len(log.unknown) == 1
    assert log.unknown[0].number == 1
    path.write_text(SERIAL + SERIAL.replace("1.500", "2.500")[:60])
    cut = parse(path)
    assert cut.truncated
    assert not cut.unknown
    assert len(cut.pauses) == 1


OPENJ9 = """\
<?xml version="1.0" ?>
<verbosegc xmlns="http://www.ibm.com/j9/verbosegc" version="abc123">
<initialized id="1" timestamp="2026-01-02T03:04:05.000">
  <attribute name="gcPolicy" value="-Xgcpolicy:gencon" />
  <attribute name="maxHeapSize" value="0x10000000" />
</initialized>
<exclusive-start id="2" timestamp="2026-01-02T03:04:06.000" intervalms="1000.0">
  <response-info timems="0.02" idlems="0.02" threads="0" lastid="0000" lastname="main" />
</exclusive-start>
<af-start id="3" threadId="0000" totalBytesRequested="24" timestamp="2026-01-02T03:04:06.000" type="nursery" />
<gc-start id="5" type="scavenge" contextid="4" timestamp="2026-01-02T03:04:06.001">
  <mem-info id="6" free="1048576" total="5242880" percent="20">
    <mem type="nursery" free="0" total="1048576" percent="0" />
  </mem-info>
</gc-start>
<gc-end id="8" type="scavenge" contextid="4" durationms="4.0" usertimems="6.0" systemtimems="1.0" \
timestamp="2026-01-02T03:04:06.005" activeThreads="2">
  <mem-info id="9" free="3145728" total="5242880" percent="60">
  </mem-info>
</gc-end>
<exclusive-end id="11" timestamp="2026-01-02T03:04:06.005" durationms="5.5" />
<exclusive-start id="12" timestamp="2026-01-02T03:04:08.000" intervalms="2000.0">
</exclusive-start>
<sys-start reason="explicit" id="13" timestamp="2026-01-02T03:04:08.000" intervalms="3000.0" />
<gc-start id="15" type="global" contextid="14" timestamp="2026-01-02T03:04:08.000">
  <mem-info id="16" free="1048576" total="5242880" percent="20"></mem-info>
</gc-start>
<gc-end id="18" type="global" contextid="14" durationms="19.0" timestamp="2026-01-02T03:04:08.020">
  <mem-info id="19" free="4194304" total="5242880" percent="80"></mem-info>
</gc-end>
<exclusive-end id="20" timestamp="2026-01-02T03:04:08.020" durationms="20.0" />
"""


def test_openj9(tmp_path: Path) -> None:
    assert read(OPENJ9, tmp_path) == [
        ("Pause Young (Allocation Failure)", 5.5, (4096, 2048)),
        ("Pause Full (System.gc())", 20.0, (4096, 1024)),
    ]
    figures = summary(parse(tmp_path / "gc.log"))
    assert figures.collector == "gencon"
    assert figures.heap_max == 256 << 20
    assert figures.cpu_s == pytest.approx(0.007)
    assert figures.interval_s == pytest.approx(1.995)
    assert figures.allocation_rate == pytest.approx((4096 - 2048) * KIB / 1.995)


BALANCED = [("partial gc", 9.25, 5, 3), ("global mark phase", 2.5, 5, 5), ("global garbage collect", 31.0, 6, 1)]


def test_openj9_balanced(tmp_path: Path) -> None:
    lines = [
        '<verbosegc xmlns="http://www.ibm.com/j9/verbosegc" version="v1">',
        '<initialized id="1" timestamp="2026-01-02T03:04:05.000">',
        '<attribute name="gcPolicy" value="-Xgcpolicy:balanced" />',
        "</initialized>",
    ]
    for n, (kind, ms, before, after) in enumerate(BALANCED):
        stamp = f'timestamp="2026-01-02T03:04:{10 + n}.000"'
        lines.append(f'<exclusive-start id="{n}0" {stamp} intervalms="1000.0">')
        for place, used in (("start", before), ("end", after)):
            lines.append(f'<gc-{place} id="{n}1" type="{kind}" contextid="{n}" {stamp}>')
            lines.append(f'<mem-info id="{n}2" free="{(8 - used) << 20}" total="{8 << 20}" percent="50" />')
            lines.append(f"</gc-{place}>")
        lines.append(f'<exclusive-end id="{n}3" {stamp} durationms="{ms}" />')
    text = "".join(f"{line}\n" for line in lines)
    assert read(text, tmp_path) == [
        ("Pause Young", 9.25, (5120, 3072)),
        ("Pause Global Mark Phase", 2.5, (5120, 5120)),
        ("Pause Full", 31.0, (6144, 1024)),
    ]
    assert summary(parse(tmp_path / "gc.log")).collector == "balanced"


def test_openj9_that_is_still_being_written(tmp_path: Path) -> None:
    for part in range(0, len(OPENJ9), 50):
        path = tmp_path / "gc.log"
        path.write_text(OPENJ9[:part])
        if "<initialized" in OPENJ9[:part]:
            assert [one.ms for one in parse(path).pauses] == [5.5, 20.0][: len(parse(path).pauses)]


@pytest.mark.parametrize(
    "text",
    [
        JDK8.split("2026")[0] + "2.500: [Pause Of Tomorrow, 0.123 ms]\n",
        '<verbosegc version="20090417_AA">\n<af type="tenured" id="1" timestamp="Oct 07 11:46:23 2012">\n',
    ],
)
def test_forms_that_are_not_read_are_loud(text: str, tmp_path: Path) -> None:
    path = tmp_path / "gc.log"
    path.write_text(text)
    assert "not known" in "".join(parse(path).warnings)


def test_shenandoah_of_jdk_8(tmp_path: Path) -> None:
    """A pause and a phase a line, with the time at its end; a cycle is from its reset to its last cleanup."""
    lines = []
    for cycle in range(3):
        at = 5 + 3 * cycle
        lines += [
            f"{at}.000: [Concurrent reset, start]",
            "    Using 2 of 4 workers for concurrent reset",
            f"{at}.010: [Concurrent reset 300M->300M(512M), 5.000 ms]",
            f"{at}.100: [Pause Init Mark (process weakrefs), start]",
            f"{at}.102: [Pause Init Mark (process weakrefs), 1.500 ms]",
            f"{at}.300: [Pause Final Mark, 2.500 ms]",
            f"{at}.400: [Concurrent cleanup 310M->{120 + cycle}M(512M), 0.050 ms]",
            f"{at}.900: [Concurrent cleanup 200M->{100 + cycle}M(512M), 0.050 ms]",
        ]
    text = "\n".join([*lines, "20.000: [Pause Degenerated GC (Update Refs) 500M->90M(512M), 184.490 ms]", ""])
    pauses = read(text, tmp_path)
    assert pauses[:2] == [("Pause Init Mark (process weakrefs)", 1.5, None), ("Pause Final Mark", 2.5, None)]
    assert pauses[6:] == [("Pause Degenerated GC (Update Refs)", 184.49, (500 * KIB, 90 * KIB))]
    log = parse(tmp_path / "gc.log")
    assert [cycle.heap.after >> 20 for cycle in log.cycles if cycle.heap] == [100, 101, 102]
    assert [cycle.ms for cycle in log.cycles] == [pytest.approx(895)] * 3
    assert [jvm.collector for jvm in log.jvms] == ["Shenandoah"]
    assert {finding.name for finding in summary(log).findings} >= {"degenerated"}


def test_details_of_g1_that_lost_their_indentation_are_no_records(tmp_path: Path) -> None:
    assert read("\n".join(line.strip() for line in G1.splitlines()) + "\n", tmp_path) == read(G1, tmp_path)


def test_free_lists_of_cms_inside_a_record(tmp_path: Path) -> None:
    """-XX:PrintFLSStatistics=2: hundreds of rows, with brackets of their own."""
    rows = "".join(f"size[{size}] : demand: 1, old_rate: 0.0\n" for size in range(300))
    text = (
        "0.339: [GCBefore GC:\nStatistics for BinaryTreeDictionary:\nMax   Chunk Size: 9\n"
        "0.339: [ParNew: 900K->900K(1000K), 0.0001 secs]0.340: [CMS (concurrent mode failure)\n"
        f"{rows}: 1900K->500K(2000K), 0.0200000 secs] 2800K->500K(3000K), 0.0300000 secs]\n"
    )
    assert read(text, tmp_path) == [("Pause Full (concurrent mode failure)", pytest.approx(30), (2800, 500))]


def test_cms_with_one_thread_for_the_young_is_no_serial_collector(tmp_path: Path) -> None:
    text = SERIAL + "2.000: [GC [1 CMS-initial-mark: 500K(2000K)] 700K(3000K), 0.0020000 secs]\n"
    read(text, tmp_path)
    assert [jvm.collector for jvm in parse(tmp_path / "gc.log").jvms] == ["CMS"]


@pytest.mark.parametrize(
    ("line", "whose"),
    [
        ("<AF[1]: Allocation Failure. need 528 bytes, 0 ms since last AF>", "IBM before J9"),
        ("<GC(2): freed 9 bytes in 280 ms, 86% free (9/10)>", "IBM before J9"),
        ("GC 1: starting collection, threshold allocation reached.", "IBM before J9"),
        ("<GC: 2 4.020320 1 104 32 25179176 0 107544576 0 0 13369344 0.117212 >", "HP-UX"),
        ("gc 1 @0.058s 0%: 0+1.9+0 ms clock, 4->4->1 MB, 5 MB goal, 4 P", "Go"),
    ],
)
def test_older_formats_and_others_are_refused_by_name(line: str, whose: str, tmp_path: Path) -> None:
    path = tmp_path / "gc.log"
    path.write_text(f"{line}\n")
    with pytest.raises(UsageError, match=f"is a log of {whose}"):
        parse(path)
