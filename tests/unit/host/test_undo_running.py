"""What is put back of a process that leadline did not start: its settings file, with the restart that reads it."""

from __future__ import annotations

from pathlib import Path

import pytest

from leadline.host.undo import CannotUndo, Entry
from leadline.host.undo_running import SETTINGS, undo_settings


def entry(path: Path, original: str | None, restart: list[str], **data: object) -> Entry:
    told = {"restart": restart, "within": 10.0, "folder": str(path.parent), **data}
    return Entry("1", SETTINGS, str(path), original, data=told)


@pytest.mark.parametrize("original", ["as it was\n", None])
def test_a_settings_file_is_put_back_and_read_by_a_restart(tmp_path: Path, original: str | None) -> None:
    path, seen = tmp_path / "app.conf", tmp_path / "seen"
    path.write_text("as the trial wants it\n")
    restart = ["sh", "-c", f"cat app.conf > {seen} 2> /dev/null || true"]
    said = undo_settings([entry(path, original, restart)], Path("/"))
    assert said == f"{path}: put back, and sh run"
    assert (path.read_text() if path.exists() else None) == original
    assert seen.read_text() == (original or "")


def test_a_file_that_leadline_did_not_write_keeps_what_its_user_wrote_meanwhile(tmp_path: Path) -> None:
    path = tmp_path / "app.stack.yaml"
    path.write_text("edited during the study\n")
    said = undo_settings([entry(path, "before the study\n", ["true"], rewrite=False)], Path("/"))
    assert said == f"{path}: nothing of it was written, and true run"
    assert path.read_text() == "edited during the study\n"


@pytest.mark.parametrize(
    ("restart", "told"), [(["sh", "-c", "echo no room >&2; exit 3"], "sh ended with 3: no room"), (["/none"], "failed")]
)
def test_a_restart_that_fails_is_not_put_back(tmp_path: Path, restart: list[str], told: str) -> None:
    path = tmp_path / "app.conf"
    path.write_text("new\n")
    with pytest.raises(CannotUndo, match=told):
        undo_settings([entry(path, "old\n", restart)], Path("/"))
    assert path.read_text() == "old\n"
