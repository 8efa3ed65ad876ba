"""A new lab opened by several at once, as by a run and by who looks at it."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

from leadline.lab.store import Store

OPENERS = 8


def test_a_new_lab_is_opened_by_several_at_once(place: Callable[[str], Path]) -> None:
    for attempt in range(4):
        together = Barrier(OPENERS)
        lab = place(str(attempt))

        def opened(lab: Path = lab, together: Barrier = together) -> int:
            together.wait()
            return len(Store(lab).studies())

        with ThreadPoolExecutor(OPENERS) as pool:
            found = [pool.submit(opened) for _ in range(OPENERS)]
        assert [each.result() for each in found] == [0] * OPENERS
