"""Transparent huge pages and the multi-generation LRU: /sys/kernel/mm.

Source: Linux Documentation/admin-guide/mm/transhuge.rst and multigen_lru.rst.
"""

from __future__ import annotations

from pathlib import Path

from leadline.host.knobs.files import FileKnobs, setting
from leadline.model.knob import Kind, Knob, Risk

_THP = "sys/kernel/mm/transparent_hugepage"
_THP_MANUAL = "Linux Documentation/admin-guide/mm/transhuge.rst"
_LRU_MANUAL = "Linux Documentation/admin-guide/mm/multigen_lru.rst"


def _table() -> list[tuple[Knob, str]]:
    choice = Kind.CHOICE
    return [
        (
            setting(
                "mm.transparent_hugepage.enabled",
                "Huge pages for anonymous memory: always, on request (-XX:+UseTransparentHugePages), or never",
                kind=choice,
                choices=("always", "madvise", "never"),
                source=_THP_MANUAL,
            ),
            f"{_THP}/enabled",
        ),
        (
            setting(
                "mm.transparent_hugepage.defrag",
                "How hard a page fault works to get a huge page",
                "madvise",
                kind=choice,
                choices=("always", "defer", "defer+madvise", "madvise", "never"),
                source=_THP_MANUAL,
            ),
            f"{_THP}/defrag",
        ),
        (
            setting(
                "mm.transparent_hugepage.shmem_enabled",
                "Huge pages for shared memory and tmpfs (a heap with -XX:+UseTransparentHugePages and ZGC lies there)",
                "never",
                kind=choice,
                choices=("always", "within_size", "advise", "never", "deny", "force"),
                risk=Risk.CAUTION,
                source=_THP_MANUAL,
            ),
            f"{_THP}/shmem_enabled",
        ),
        (
            setting(
                "mm.transparent_hugepage.use_zero_page",
                "Whether a read of untouched memory may map the huge zero page",
                True,
                kind=Kind.BOOLEAN,
                source=_THP_MANUAL,
            ),
            f"{_THP}/use_zero_page",
        ),
        (
            setting(
                "mm.transparent_hugepage.khugepaged.defrag",
                "Whether the background collapse may compact memory",
                True,
                kind=Kind.BOOLEAN,
                source=_THP_MANUAL,
            ),
            f"{_THP}/khugepaged/defrag",
        ),
        (
            setting(
                "mm.transparent_hugepage.khugepaged.pages_to_scan",
                "Pages the background collapse looks at in one pass",
                4096,
                (1, 2**31 - 1),
                "pages",
                source=_THP_MANUAL,
            ),
            f"{_THP}/khugepaged/pages_to_scan",
        ),
        (
            setting(
                "mm.transparent_hugepage.khugepaged.scan_sleep_millisecs",
                "Pause between two passes of the background collapse; 0 keeps one core busy",
                10000,
                (0, 2**31 - 1),
                "ms",
                source=_THP_MANUAL,
            ),
            f"{_THP}/khugepaged/scan_sleep_millisecs",
        ),
        (
            setting(
                "mm.transparent_hugepage.khugepaged.alloc_sleep_millisecs",
                "Pause of the background collapse after a huge page could not be had",
                60000,
                (0, 2**31 - 1),
                "ms",
                source=_THP_MANUAL,
            ),
            f"{_THP}/khugepaged/alloc_sleep_millisecs",
        ),
        (
            setting(
                "mm.transparent_hugepage.khugepaged.max_ptes_none",
                "Pages not yet touched that a collapse may add; large values cost memory",
                511,
                (0, 511),
                "pages",
                risk=Risk.CAUTION,
                source=_THP_MANUAL,
            ),
            f"{_THP}/khugepaged/max_ptes_none",
        ),
        (
            setting(
                "mm.lru_gen.enabled",
                "Multi-generation LRU as bits: 1 on, 2 leaf entries' accessed bits cleared in batches, 4 others' too",
                None,
                (0, 7),
                source=_LRU_MANUAL,
            ),
            "sys/kernel/mm/lru_gen/enabled",
        ),
        (
            setting(
                "mm.lru_gen.min_ttl_ms",
                "Working set of so many milliseconds is kept from eviction; out-of-memory kills come earlier",
                0,
                (0, None),
                "ms",
                risk=Risk.CAUTION,
                above=60000,
                source=_LRU_MANUAL,
            ),
            "sys/kernel/mm/lru_gen/min_ttl_ms",
        ),
    ]


class MmKnobs(FileKnobs):
    """``mm.*``"""

    def __init__(self, root: Path) -> None:
        super().__init__(root, _table())


FAMILY = MmKnobs
