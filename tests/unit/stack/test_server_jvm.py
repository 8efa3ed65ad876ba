"""The JVM's knobs: options for levels, levels from flags."""

import os
import subprocess
from pathlib import Path

import pytest

from leadline.host.files import LocalFiles
from leadline.model.errors import UsageError
from leadline.model.knob import Level
from leadline.stack.servers import jvm, large_pages

MIB = 1024**2
FLAGS = {
    "MaxHeapSize": str(512 * MIB),
    "InitialHeapSize": str(256 * MIB),
    "UseSerialGC": "false",
    "UseG1GC": "true",
    "UseLargePages": "false",
    "UseTransparentHugePages": "false",
    "ParallelGCThreads": "2",
    "ThreadStackSize": "512",
}


def test_without_levels_the_jvm_keeps_its_defaults() -> None:
    assert jvm.options({}, None) == ["-XX:+EnableDynamicAgentLoading"]


def test_the_heap_is_fixed_unless_the_initial_one_is_named() -> None:
    assert {f"-Xms{512 * MIB}", f"-Xmx{512 * MIB}"} <= set(jvm.options({"jvm.heap": 512 * MIB}, None))
    both = jvm.options({"jvm.heap": 512 * MIB, "jvm.heap_initial": 64 * MIB}, None)
    assert {f"-Xms{64 * MIB}", f"-Xmx{512 * MIB}"} <= set(both)


def test_an_initial_heap_above_the_maximum_is_refused_with_the_largest_legal_value() -> None:
    with pytest.raises(UsageError, match=r"jvm.heap_initial 1g is larger than jvm.heap 512m.*512m"):
        jvm.options({"jvm.heap": 512 * MIB, "jvm.heap_initial": 1024 * MIB}, None)


@pytest.mark.parametrize(
    ("collector", "flag"),
    [("serial", "Serial"), ("parallel", "Parallel"), ("g1", "G1"), ("zgc", "Z"), ("shenandoah", "Shenandoah")],
)
def test_every_collector_has_its_flag(collector: str, flag: str) -> None:
    assert f"-XX:+Use{flag}GC" in jvm.options({"jvm.collector": collector}, None)
    assert jvm.level("jvm.collector", {f"Use{flag}GC": "true"}, LocalFiles(), 0) == collector


def test_large_pages() -> None:
    assert "-XX:+UseTransparentHugePages" in jvm.options({"jvm.large_pages": "transparent"}, None)
    assert "-XX:+UseLargePages" in jvm.options({"jvm.large_pages": "explicit"}, None)
    off = jvm.options({"jvm.large_pages": "off"}, None)
    assert {"-XX:-UseTransparentHugePages", "-XX:-UseLargePages"} <= set(off)


def test_explicit_large_pages_count_only_if_the_kernel_gave_them() -> None:
    asked = {**FLAGS, "UseLargePages": "true"}  # this test's own process has none
    assert jvm.level("jvm.large_pages", asked, LocalFiles(), os.getpid()) == "off"


def test_transparent_pages_count_only_if_the_kernel_gave_them() -> None:
    asked = {**FLAGS, "UseLargePages": "true", "UseTransparentHugePages": "true"}
    own = Path("/proc/self/smaps").read_text()
    if not any(row.startswith("AnonHugePages:") and int(row.split()[1]) for row in own.splitlines()):
        assert jvm.level("jvm.large_pages", asked, LocalFiles(), os.getpid()) == "off"
    with pytest.raises(LookupError, match="cannot ask the kernel for the pages of JVM 0"):
        jvm.level("jvm.large_pages", asked, LocalFiles(), 0)


MEMINFO = """\
MemTotal:       24684000 kB
HugePages_Total:     {total}
HugePages_Free:      {free}
HugePages_Rsvd:        {reserved}
HugePages_Surp:        0
Hugepagesize:       2048 kB
"""


def test_too_few_reserved_pages_are_told_before_the_start(tmp_path: Path) -> None:
    meminfo, files = tmp_path / "proc/meminfo", LocalFiles(tmp_path)
    meminfo.parent.mkdir()
    levels: dict[str, Level] = {"jvm.large_pages": "explicit", "jvm.heap": 256 * MIB}
    meminfo.write_text(MEMINFO.format(total=140, free=130, reserved=10))
    why = large_pages.shortage(files, levels)
    assert "120 huge pages of 2m are free, the heap of 256m needs 128;" in why
    assert why.endswith("vm.nr_hugepages 164")
    meminfo.write_text(MEMINFO.format(total=164, free=164, reserved=10))
    assert large_pages.shortage(files, levels) == ""
    meminfo.write_text("MemTotal: 1 kB\n")
    assert "this kernel has no explicit huge pages" in large_pages.shortage(files, levels)


def test_a_kernel_without_transparent_pages_is_told_before_the_start(tmp_path: Path) -> None:
    place, files = tmp_path / "sys/kernel/mm/transparent_hugepage", LocalFiles(tmp_path)
    place.mkdir(parents=True)
    switch, never = place / "enabled", place / "shmem_enabled"
    switch.write_text("always madvise [never]\n")
    levels: dict[str, Level] = {"jvm.large_pages": "transparent"}
    assert "set mm.transparent_hugepage.enabled to madvise" in large_pages.shortage(files, levels)
    switch.write_text("always [madvise] never\n")
    assert large_pages.shortage(files, levels) == ""
    never.write_text("always advise [never]\n")
    zgc = {**levels, "jvm.collector": "zgc"}
    assert "shmem_enabled to advise" in large_pages.shortage(files, zgc)
    assert large_pages.shortage(LocalFiles(tmp_path / "none"), {"jvm.large_pages": "off"}) == ""


@pytest.mark.parametrize(
    ("levels", "option"),
    [
        ({"jvm.gc_pause_target": 0.05}, "-XX:MaxGCPauseMillis=50"),
        ({"jvm.g1_region_size": 2 * MIB}, f"-XX:G1HeapRegionSize={2 * MIB}"),
        ({"jvm.young_size": 64 * MIB}, f"-Xmn{64 * MIB}"),
        ({"jvm.young_ratio": 1}, "-XX:NewRatio=1"),
        ({"jvm.thread_stack": 512 * 1024}, f"-Xss{512 * 1024}"),
        ({"jvm.pre_touch": True}, "-XX:+AlwaysPreTouch"),
        ({"jvm.zgc_generational": False, "jvm.collector": "zgc"}, "-XX:-ZGenerational"),
        ({"jvm.shenandoah_heuristics": "compact", "jvm.collector": "shenandoah"}, "-XX:ShenandoahGCHeuristics=compact"),
    ],
)
def test_levels_become_options(levels: dict[str, Level], option: str) -> None:
    assert option in jvm.options(levels, None)


@pytest.mark.parametrize(
    ("levels", "why"),
    [
        (
            {"jvm.collector": "zgc", "jvm.young_size": MIB},
            r"young_size has no effect with the zgc.*serial, parallel, g1",
        ),
        ({"jvm.collector": "serial", "jvm.gc_threads": 2}, "gc_threads has no effect with the serial collector"),
        ({"jvm.g1_region_size": 3 * MIB}, "g1_region_size 3m is not a power of two; the nearest below is 2m"),
        ({"jvm.young_size": MIB, "jvm.young_ratio": 2}, "keep one of them"),
        ({"jvm.heap": MIB, "jvm.soft_max_heap": 2 * MIB}, "soft_max_heap 2m is larger than jvm.heap 1m"),
    ],
)
def test_levels_that_contradict_each_other_are_refused(levels: dict[str, Level], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        jvm.options(levels, None)


def test_a_level_without_effect_in_the_collector_is_not_read_as_in_force() -> None:
    assert jvm.level("jvm.gc_pause_target", {"UseG1GC": "true", "MaxGCPauseMillis": "50"}, LocalFiles(), 0) == 0.05
    with pytest.raises(LookupError, match="gc_pause_target has no effect with the serial collector"):
        jvm.level("jvm.gc_pause_target", {"UseSerialGC": "true", "MaxGCPauseMillis": "50"}, LocalFiles(), 0)
    with pytest.raises(LookupError, match="aims at no pause"):
        jvm.level("jvm.gc_pause_target", {"UseParallelGC": "true", "MaxGCPauseMillis": str(2**64 - 1)}, LocalFiles(), 0)
    with pytest.raises(LookupError, match="may have 1 to 2 bytes"):
        jvm.level("jvm.young_size", {"UseG1GC": "true", "NewSize": "1", "MaxNewSize": "2"}, LocalFiles(), 0)
    assert jvm.level("jvm.zgc_generational", {"UseZGC": "true"}, LocalFiles(), 0) is True


def test_levels_are_read_from_the_flags() -> None:
    assert jvm.level("jvm.heap", FLAGS, LocalFiles(), 0) == 512 * MIB
    assert jvm.level("jvm.heap_initial", FLAGS, LocalFiles(), 0) == 256 * MIB
    assert jvm.level("jvm.collector", FLAGS, LocalFiles(), 0) == "g1"
    assert jvm.level("jvm.gc_threads", FLAGS, LocalFiles(), 0) == 2
    assert jvm.level("jvm.thread_stack", FLAGS, LocalFiles(), 0) == 512 * 1024
    with pytest.raises(LookupError, match="names none of serial"):
        jvm.level("jvm.collector", {}, LocalFiles(), 0)
    with pytest.raises(LookupError, match=r"jvm.nonsense is not a knob of the JVM"):
        jvm.level("jvm.nonsense", FLAGS, LocalFiles(), 0)


def test_arenas_are_those_of_the_level_and_not_those_of_who_started_leadline() -> None:
    assert jvm.environment({}) == {}
    for level in (0, 2):
        environment = {**os.environ, "MALLOC_ARENA_MAX": "7", **jvm.environment({"jvm.malloc_arenas": level})}
        command = ["sh", "-c", "echo; read line"]  # with one environment from the first line on
        with subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            try:
                assert process.stdout is not None
                process.stdout.readline()  # its environment can be read once it runs
                assert jvm.level("jvm.malloc_arenas", {}, LocalFiles(), process.pid) == level
            finally:
                process.kill()
    with pytest.raises(LookupError):  # of no process nothing is known
        jvm.level("jvm.malloc_arenas", {}, LocalFiles(), process.pid)


def test_the_collectors_log_is_not_rotated_and_its_path_is_quoted_where_needed() -> None:
    plain = jvm.options({}, Path("/trial/raw/gc.log"))[-1]
    assert plain == "-Xlog:gc*,safepoint:file=/trial/raw/gc.log:uptime,time,level,tags:filecount=0"
    odd = jvm.options({}, Path("/a:b%t/raw/gc.log"))[-1]
    assert 'file="/a:b%%t/raw/gc.log":' in odd
