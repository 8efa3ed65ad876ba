"""The JVM's knobs: options for levels, levels from flags."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from leadline.model.errors import UsageError
from leadline.stack.servers import jvm

MIB = 1024**2
FLAGS = {
    "MaxHeapSize": str(512 * MIB),
    "InitialHeapSize": str(256 * MIB),
    "UseSerialGC": "false",
    "UseG1GC": "true",
    "UseLargePages": "false",
    "UseTransparentHugePages": "false",
    "ParallelGCThreads": "2",
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
    assert jvm.level("jvm.collector", {f"Use{flag}GC": "true"}, 0) == collector


def test_large_pages() -> None:
    assert "-XX:+UseTransparentHugePages" in jvm.options({"jvm.large_pages": "transparent"}, None)
    assert "-XX:+UseLargePages" in jvm.options({"jvm.large_pages": "explicit"}, None)
    off = jvm.options({"jvm.large_pages": "off"}, None)
    assert {"-XX:-UseTransparentHugePages", "-XX:-UseLargePages"} <= set(off)


def test_explicit_large_pages_count_only_if_the_kernel_gave_them() -> None:
    asked = {**FLAGS, "UseLargePages": "true"}  # this test's own process has none
    assert jvm.level("jvm.large_pages", asked, os.getpid()) == "off"
    transparent = {**asked, "UseTransparentHugePages": "true"}
    assert jvm.level("jvm.large_pages", transparent, os.getpid()) == "transparent"


def test_levels_are_read_from_the_flags() -> None:
    assert jvm.level("jvm.heap", FLAGS, 0) == 512 * MIB
    assert jvm.level("jvm.heap_initial", FLAGS, 0) == 256 * MIB
    assert jvm.level("jvm.collector", FLAGS, 0) == "g1"
    assert jvm.level("jvm.gc_threads", FLAGS, 0) == 2
    with pytest.raises(LookupError, match="names none of serial"):
        jvm.level("jvm.collector", {}, 0)
    with pytest.raises(LookupError, match=r"jvm.nonsense is not a knob of the JVM"):
        jvm.level("jvm.nonsense", FLAGS, 0)


def test_the_collectors_log_is_not_rotated_and_its_path_is_quoted_where_needed() -> None:
    plain = jvm.options({}, Path("/trial/raw"))[-1]
    assert plain == "-Xlog:gc*,safepoint:file=/trial/raw/gc.log:uptime,time,level,tags:filecount=0"
    odd = jvm.options({}, Path("/a:b%t/raw"))[-1]
    assert 'file="/a:b%%t/raw/gc.log":' in odd
