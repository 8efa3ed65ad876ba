"""A new lab opened by several at once, as by a run and by who looks at it."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

from sqlalchemy import inspect

from leadline.lab import schema as t
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


def test_a_lab_of_before_files_were_kept_by_content_gets_a_name_and_indexes(place: Callable[[str], Path]) -> None:
    store = Store(place("old"))
    with store.transaction() as connection:
        for index in (*t.artefacts.indexes, t.running_trials):
            index.drop(connection)
        t.identity.drop(connection)
        connection.execute(t.migrations.delete().where(t.migrations.c.number > 1))
    again = Store(store.directory)
    assert len(again.identity) == 32
    assert Store(store.directory).identity == again.identity
    with again.transaction() as connection:
        known = {index["name"] for name in ("artefacts", "trials") for index in inspect(connection).get_indexes(name)}
    assert {"artefacts_by_trial", "artefacts_by_content", "running_trials"} <= known
