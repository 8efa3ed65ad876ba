"""The virtual-memory manager: /proc/sys/vm.

Ranges and defaults are those of the kernel's documentation (sysctl/vm.rst) and of kernel/sysctl.c, mm/*.c where it
is silent. Where they changed, today's kernel decides (see ``_swappiness_maximum``).
"""

from __future__ import annotations

from pathlib import Path

from leadline.host.knobs.files import FileKnobs, kernel_version, memory_kib, setting, sysctl_path, vector
from leadline.model.knob import Knob, Risk

_PERCENT = (0, 100)


def _writeback() -> list[Knob]:
    adapts = "from dirty_ratio on upwards the kernel silently uses half of dirty_ratio"
    return [
        setting(
            "vm.dirty_background_ratio",
            f"Share of available memory that may be dirty before write-back starts in the background; {adapts}",
            10,
            _PERCENT,
            "%",
        ),
        setting(
            "vm.dirty_ratio",
            "Share of available memory that may be dirty before writers have to write themselves",
            20,
            _PERCENT,
            "%",
            below=1,
        ),
        setting(
            "vm.dirty_background_bytes",
            "Like dirty_background_ratio in bytes; setting one clears the other",
            0,
            (1, None),
            "bytes",
            risk=Risk.CAUTION,
        ),
        setting(
            "vm.dirty_bytes",
            "Like dirty_ratio in bytes (two pages at least); setting one clears the other",
            0,
            (8192, None),
            "bytes",
            below=1 << 20,
        ),
        setting(
            "vm.dirty_expire_centisecs",
            "Age at which dirty data must be written by the next pass of write-back",
            3000,
            (0, 2**31 - 1),
            "cs",
        ),
        setting(
            "vm.dirty_writeback_centisecs",
            "Interval between two passes of write-back; 0 switches periodic write-back off",
            500,
            (0, 2**31 - 1),
            "cs",
        ),
        setting(
            "vm.dirtytime_expire_seconds",
            "Age at which lazily kept time stamps of inodes are written",
            43200,
            (1, None),
            "s",
        ),
    ]


def _reclaim(root: Path, memory: int) -> list[Knob]:
    return [
        setting(
            "vm.swappiness",
            "Cost of swapping relative to that of dropping file pages: low spares anonymous memory",
            60,
            (0, _swappiness_maximum(root)),
        ),
        setting(
            "vm.page-cluster",
            "Pages read from swap at once, as a power of two (3: eight pages)",
            3,
            (0, 31),
            "log2 pages",
            above=10,
        ),
        setting(
            "vm.vfs_cache_pressure",
            "How readily inode and directory caches are reclaimed; 0 never, which can use up all memory",
            100,
            (0, 2**31 - 1),
            below=1,
        ),
        setting(
            "vm.min_free_kbytes",
            "Memory kept free for allocations that cannot wait; a large share of memory starves or hangs the host",
            None,
            (1, memory or None),
            "KiB",
            above=_min_free_limit(memory),
            below=1024,
        ),
        vector(
            "vm.lowmem_reserve_ratio",
            "Protection of the lower memory zones, a divisor for each zone: small values protect more",
            "256 256 32 0 0",
            "Linux Documentation/admin-guide/sysctl/vm.rst",
        ),
        setting(
            "vm.watermark_scale_factor",
            "Distance between the marks at which background reclaim wakes and sleeps, in 1/10000 of memory",
            10,
            (1, 3000),
            "1/10000",
            above=1000,
        ),
        setting(
            "vm.watermark_boost_factor",
            "How far reclaim goes beyond the mark after fragmentation, in 1/10000 of the high mark; 0 off",
            15000,
            (0, 2**31 - 1),
            "1/10000",
            risk=Risk.CAUTION,
        ),
        setting(
            "vm.percpu_pagelist_high_fraction",
            "Fraction of each zone that per-CPU lists may hold (at least 8); 0 lets the kernel choose",
            0,
            (0, 2**31 - 1),
            risk=Risk.CAUTION,
        ),
        setting("vm.zone_reclaim_mode", "NUMA: bits 1 reclaim locally first, 2 write pages, 4 swap pages", 0, (0, 7)),
        setting("vm.laptop_mode", "Groups disk writes to let a disk spin down; 0 off", 0, (0, 2**31 - 1), "s"),
    ]


def _allocation(memory: int, huge: int) -> list[Knob]:
    return [
        setting(
            "vm.overcommit_memory",
            "0 heuristic, 1 always grant, 2 never beyond swap plus overcommit_ratio (any program may then fail)",
            0,
            (0, 2),
            above=1,
        ),
        setting(
            "vm.overcommit_ratio",
            "Share of memory that may be promised when overcommit_memory is 2",
            50,
            (0, 10000),
            "%",
        ),
        setting(
            "vm.overcommit_kbytes", "Like overcommit_ratio in KiB; setting one clears the other", 0, (0, None), "KiB"
        ),
        setting(
            "vm.admin_reserve_kbytes",
            "Memory kept for the administrator under strict overcommit",
            8192,
            (0, memory // 4 or None),
            "KiB",
            risk=Risk.CAUTION,
        ),
        setting(
            "vm.max_map_count",
            "Mappings one process may have; large Java heaps with many regions and threads need more",
            65530,
            (1, 2**31 - 1),
            below=4096,
        ),
        setting(
            "vm.nr_hugepages",
            "Huge pages set aside in advance (for -XX:+UseLargePages); they serve nothing else",
            0,
            (0, memory // huge if memory and huge else None),
            "pages",
            above=memory // huge // 2 if memory and huge else None,
        ),
        setting(
            "vm.nr_overcommit_hugepages",
            "Huge pages that may be added on demand beyond nr_hugepages",
            0,
            (0, memory // huge if memory and huge else None),
            "pages",
            risk=Risk.CAUTION,
        ),
    ]


def _fragmentation() -> list[Knob]:
    return [
        setting(
            "vm.compaction_proactiveness", "How hard memory is compacted in the background; 0 not at all", 20, _PERCENT
        ),
        setting("vm.compact_unevictable_allowed", "Whether locked pages may be moved by compaction", 1, (0, 1)),
        setting("vm.extfrag_threshold", "Fragmentation above which compaction is preferred to reclaim", 500, (0, 1000)),
        setting("vm.stat_interval", "Interval at which memory statistics are brought up to date", 1, (1, None), "s"),
        setting("vm.page_lock_unfairness", "How often a page lock may be stolen from a waiter", 5, (0, 2**31 - 1)),
    ]


def _swappiness_maximum(root: Path) -> int:
    version = kernel_version(root)
    return 100 if (0, 0) < version < (5, 8) else 200


def _min_free_limit(memory: int) -> float | None:
    """A tenth of memory; study A's host of 512 MB hung at a half."""
    return memory // 10 if memory else None


class VmKnobs(FileKnobs):
    """``vm.*``"""

    def __init__(self, root: Path) -> None:
        memory = memory_kib(root)
        huge = memory_kib(root, "Hugepagesize")
        knobs = [*_writeback(), *_reclaim(root, memory), *_allocation(memory, huge), *_fragmentation()]
        super().__init__(root, ((knob, sysctl_path(knob.name)) for knob in knobs))


FAMILY = VmKnobs
