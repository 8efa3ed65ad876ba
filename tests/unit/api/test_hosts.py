"""Putting this host back, as the command does it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from leadline.api import hosts
from leadline.host.journal import UndoJournal
from leadline.host.local import LocalHost


def test_what_a_watchdog_did_meanwhile_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEADLINE_STATE", str(tmp_path))
    journal = UndoJournal(tmp_path / "undo" / "local.jsonl")
    journal.record("process", "server", token="of nobody")

    @contextmanager
    def lease(_host: LocalHost) -> Iterator[None]:
        journal.restore()  # the watchdog, while the lease is waited for
        yield

    monkeypatch.setattr(LocalHost, "lease", lease)
    (line,) = hosts.restore()
    assert line.startswith("put back by the watchdog of the leadline that died, journal entries: 1; ")
    assert hosts.restore() == []
