"""Putting this host back, as the command does it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from leadline.api import hosts
from leadline.host.journal import UndoJournal
from leadline.host.local import LocalHost
from leadline.model.errors import LeadlineError, RestoreError, UsageError


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


def test_several_hosts_are_all_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def far(name: str, _tell: object) -> list[str]:
        asked.append(name)
        if name == "ssh:away":
            raise RestoreError("cannot be reached")
        if name == "ssh:used":
            raise LeadlineError("in use")
        return ["swap: on again"]

    monkeypatch.setattr(hosts, "_restore", far)
    assert hosts.restore(["ssh:app", "here"]) == ["ssh:app: swap: on again", "here: swap: on again"]
    told: list[str] = []
    with pytest.raises(LeadlineError, match=r"^ssh:used: in use\Z") as caught:
        hosts.restore(["ssh:used", "here"], told.append)
    assert not isinstance(caught.value, RestoreError)
    assert told == ["here: swap: on again"]
    with pytest.raises(RestoreError, match=r"^ssh:away: cannot be reached\nssh:used: in use\Z"):
        hosts.restore(["ssh:away", "ssh:used", "here"])
    asked.clear()
    with pytest.raises(UsageError, match=r"^--host app: write here or ssh:NAME"):
        hosts.restore(["ssh:db", "app"])
    assert asked == [], "a name is refused before anything is done"
