"""Large pages behind a JVM's heap: what the kernel must offer before the start, and what it gave.

Sources: Linux Documentation/admin-guide/mm/hugetlbpage.rst, transhuge.rst; proc_pid_smaps(5).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from leadline import catalogue
from leadline.host.base import PROC, SYS, Files
from leadline.host.files import rows
from leadline.model.knob import Level
from leadline.model.units import format_size

_KNOBS = catalogue.load("jvm")
LARGE_PAGES, COLLECTOR = _KNOBS["jvm.large_pages"], _KNOBS["jvm.collector"]
HEAP, HEAP_INITIAL = _KNOBS["jvm.heap"], _KNOBS["jvm.heap_initial"]
_LARGE_PAGE = 2 * 1024**2  # the smallest explicit large page of the CPUs that leadline runs on
_OVERCOMMIT = f"{PROC}/sys/vm/nr_overcommit_hugepages"
_TRANSPARENT = f"{SYS}/kernel/mm/transparent_hugepage/enabled"
_SHARED = f"{SYS}/kernel/mm/transparent_hugepage/shmem_enabled"
_HEADER = re.compile(r"^[0-9a-f]+-[0-9a-f]+ (\S{4}) \S+ \S+ \d+ *(.*)$")


def options(level: str) -> list[str]:
    """The JVM's options for a level of ``jvm.large_pages``."""
    if level == "transparent":
        return ["-XX:+UseTransparentHugePages"]
    if level == "explicit":
        return ["-XX:+UseLargePages"]
    return ["-XX:-UseTransparentHugePages", "-XX:-UseLargePages"]


def shortage(files: Files, settings: Mapping[str, Level]) -> str:
    """Why the kernel cannot give the large pages of these levels now, with what would; empty if it can."""
    wanted_pages = settings.get(LARGE_PAGES.name)
    if wanted_pages == "transparent":
        zgc = settings.get(COLLECTOR.name) == "zgc"  # its heap is shared memory
        for needed, file, level in (
            (True, _TRANSPARENT, "mm.transparent_hugepage.enabled to madvise"),
            (zgc, _SHARED, "mm.transparent_hugepage.shmem_enabled to advise"),
        ):
            chosen = "".join(rows(files, file))
            if needed and (not chosen or "[never]" in chosen or "[deny]" in chosen):
                return f"{LARGE_PAGES.name}=transparent, but the kernel gives no such pages; set {level}"
    if wanted_pages != "explicit":
        return ""
    facts = {
        name: int(value.split()[0]) for name, _, value in (row.partition(":") for row in rows(files, f"{PROC}/meminfo"))
    }
    if not facts.get("Hugepagesize"):
        return f"{LARGE_PAGES.name}=explicit, but this kernel has no explicit huge pages"
    page = facts["Hugepagesize"] * 1024
    surplus = int("".join(rows(files, _OVERCOMMIT)) or 0) - facts.get("HugePages_Surp", 0)
    free = facts.get("HugePages_Free", 0) - facts.get("HugePages_Rsvd", 0) + max(surplus, 0)
    heap = settings.get(HEAP_INITIAL.name, settings.get(HEAP.name))
    wanted = -(-int(heap) // page) if isinstance(heap, int) else 1
    if free >= wanted:
        return ""
    total = facts.get("HugePages_Total", 0) - free + wanted + wanted // 8
    what = f"the heap of {format_size(int(heap))} needs {wanted}" if isinstance(heap, int) else "the heap needs some"
    return (
        f"{LARGE_PAGES.name}=explicit: {free} huge pages of {format_size(page)} are free, {what};"
        f" reserve them beforehand, with room for the collector's tables: vm.nr_hugepages {total}"
    )


def found(flags: Mapping[str, str], files: Files, pid: int) -> str:
    """The level in force in the JVM ``pid``: its flags, and the pages that the kernel gave it.

    Raises LookupError if the kernel does not tell.
    """
    mappings = _mappings(files, pid)
    # The flag stays on when too few pages were reserved and the JVM fell back to small ones; the kernel knows.
    if flags.get("UseLargePages") == "true" and flags.get("UseTransparentHugePages") != "true":
        reserved = sum(mapping.size for mapping in mappings if mapping.page >= _LARGE_PAGE)
        return "explicit" if reserved >= int(flags["InitialHeapSize"]) else "off"
    # A kernel that gives huge pages to everybody gives them to a heap that did not ask for them, too.
    shared = [mapping for mapping in mappings if mapping.heap_file]  # ZGC's heap
    heap = shared or [mapping for mapping in mappings if mapping.anonymous]
    return "transparent" if any(mapping.huge for mapping in heap) else "off"


@dataclass(frozen=True)
class _Mapping:
    """One row of smaps, writable or not; sizes in bytes. ``anonymous`` ones are writable."""

    anonymous: bool
    heap_file: bool
    size: int
    page: int
    huge: int


def _mappings(files: Files, pid: int) -> list[_Mapping]:
    try:
        lines = files.read(f"{PROC}/{pid}/smaps").splitlines()
    except OSError as error:
        raise LookupError(f"cannot ask the kernel for the pages of JVM {pid}: {error}") from error
    result: list[_Mapping] = []
    anonymous = heap_file = False
    values: dict[str, int] = {}
    for row in [*lines, "0-0 ---- 0 0 0"]:
        header = _HEADER.match(row)
        if header is None:
            name, _, value = row.partition(":")
            values[name] = int(value.split()[0]) * 1024 if value.endswith(" kB") else 0
            continue
        if values:
            huge = values.get("AnonHugePages", 0) + values.get("ShmemPmdMapped", 0)
            result.append(_Mapping(anonymous, heap_file, values.get("Size", 0), values.get("KernelPageSize", 0), huge))
        anonymous, heap_file = header[1].startswith("rw") and not header[2], "java_heap" in header[2]
        values = {}
    return result
