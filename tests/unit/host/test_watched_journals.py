"""Journals of single processes: what one that is gone has left is put back by `restore`, a running one's is not."""

import os
import subprocess
import sys
from pathlib import Path

from leadline.host.journal import UndoJournal
from leadline.host.local import LocalHost
from leadline.host.undo_running import LOGGING


def _left(state: Path, folder: Path, pid: int) -> Path:
    log = folder / f"leadline-gc-{pid}.log"
    log.write_text("")
    journal = UndoJournal(state / "undo" / f"gc-log-{pid}.watched.jsonl")
    journal.record(LOGGING, str(log), None, pid=pid, start=0, file=str(log))
    return log


def test_what_a_process_that_is_gone_left_is_put_back(tmp_path: Path) -> None:
    state = tmp_path / "state"
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait(timeout=60)
    gone, running = _left(state, tmp_path, ended.pid), _left(state, tmp_path, os.getpid())
    lines = LocalHost(state=state).restore()
    assert [str(gone) in line for line in lines] == [True]
    assert not gone.exists()
    assert running.exists()
    assert LocalHost(state=state).restore() == []
