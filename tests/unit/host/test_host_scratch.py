"""Temporary directories that a kill leaves are removed by whoever comes next; those of the living stay."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from leadline.host.journal import UndoJournal
from leadline.host.scratch import Scratch, sweep

_HOLD = (
    "import sys; from leadline.host.scratch import Scratch; s = Scratch(); print(s.path, flush=True); sys.stdin.read()"
)


@pytest.fixture(autouse=True)
def _place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))


def _other() -> tuple[subprocess.Popen[str], Path]:
    """Another process that holds a directory."""
    process = subprocess.Popen(
        [sys.executable, "-c", _HOLD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ}
    )
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


def test_the_living_keep_theirs_and_the_killed_do_not(tmp_path: Path) -> None:
    process, path = _other()
    (path / "file").write_text("x")
    assert sweep() == []
    assert path.is_dir()
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert path.is_dir()
    assert UndoJournal(tmp_path / "undo/local.jsonl").restore() == [f"directory {path}: removed"]
    assert not path.exists()


def test_a_new_one_sweeps_and_an_end_removes(tmp_path: Path) -> None:
    process, path = _other()
    process.send_signal(signal.SIGKILL)
    process.communicate()
    with Scratch(shared=True) as own:
        assert [child.name for child in tmp_path.glob(".leadline-*")] == [own.name]
        assert own.stat().st_mode & 0o777 == 0o711
        assert sweep() == []  # this process's own
    assert list(tmp_path.iterdir()) == []
    assert not path.exists()


def test_what_others_named_alike_is_left_alone(tmp_path: Path) -> None:
    for name in ("leadline-results", "leadline-audit-x"):
        (tmp_path / name).mkdir()
    (tmp_path / ".leadline-file").write_text("x")
    (tmp_path / ".leadline-link").symlink_to(tmp_path / "leadline-results")
    assert sweep() == []
    assert len(list(tmp_path.iterdir())) == 4


def test_no_file_is_written_beside_a_directory_that_a_kill_could_leave(tmp_path: Path) -> None:
    watch = "import sys; sys.addaudithook(lambda name, args: name == 'open' and print(args[0], file=sys.stderr)); "
    found = subprocess.run([sys.executable, "-c", watch + _HOLD], input="", capture_output=True, text=True, check=True)
    assert Path(found.stdout.strip()).parent == tmp_path
    opened = [line for line in found.stderr.splitlines() if line.startswith(str(tmp_path))]
    assert opened == [found.stdout.strip()]  # the lock
