"""A new lab opened by several at once, as by a run and by who looks at it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

from leadline.lab.store import Store

OPENERS = 8


def test_a_new_lab_is_opened_by_several_at_once(tmp_path: Path) -> None:
    for attempt in range(10):
        together = Barrier(OPENERS)
        lab = tmp_path / str(attempt)

        def opened(lab: Path = lab, together: Barrier = together) -> int:
            together.wait()
            return len(Store(lab).studies())

        with ThreadPoolExecutor(OPENERS) as pool:
            found = [pool.submit(opened) for _ in range(OPENERS)]
        assert [each.result() for each in found] == [0] * OPENERS
