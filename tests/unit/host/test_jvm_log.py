"""The GC log of a running JVM: found, or switched on and put back. tests/stack/test_gc_running.py asks real JVMs."""

import os
from pathlib import Path

import pytest

from leadline.host import java, procfs, undo_running
from leadline.host.files import LocalFiles
from leadline.host.java import AttachError, gc_log
from leadline.host.journal import UndoJournal
from leadline.host.undo import CannotUndo
from leadline.model.errors import RestoreError, UsageError

LIST = """\
Log output configuration:
 #0: stdout all=warning uptime,level,tags
 #1: stderr all=off uptime,level,tags
"""


@pytest.fixture
def pid(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> int:
    """This process, which looks like a JVM."""
    monkeypatch.setenv("LEADLINE_STATE", str(tmp_path / "state"))
    read = LocalFiles.read
    monkeypatch.setattr(LocalFiles, "read", lambda own, path: read(own, path) + "libjvm.so")
    return os.getpid()


@pytest.mark.parametrize(
    ("line", "file"),
    [
        ("#2: file=/var/gc.log all=off,gc*=info uptime,level,tags filecount=5,filesize=20480K", "/var/gc.log"),
        ("#2: file=gc.log all=warning,gc=debug time,tags filecount=0,filesize=0,async=false", "CWD/gc.log"),
        ("#2: file=/var/gc.log all=off,gc*=info uptime foldmultilines=false,filecount=9,filesize=1M", "/var/gc.log"),
        ('#2: file="/a b/gc.log" all=info uptime filecount=5,filesize=20480K', "/a b/gc.log"),
    ],
)
def test_a_log_of_collections_is_found(line: str, file: str, pid: int, monkeypatch: pytest.MonkeyPatch) -> None:
    other = " #9: file=/var/classes.log all=off,class*=info uptime filecount=5\n #8: file=/bare.log gc=info none\n"
    monkeypatch.setattr(java, "jcmd", lambda *_: (0, f"{LIST}{other} {line}\n"))
    with gc_log(pid) as path:
        assert str(path) == file.replace("CWD", str(Path.cwd()))


def test_what_is_no_jvm_is_not_attached_to() -> None:
    with pytest.raises(UsageError, match=r"process \d+ \(.*\) is no JVM"), gc_log(os.getpid()):
        pass
    with pytest.raises(UsageError, match="no such file, and no such process"), gc_log(1 << 30):
        pass


def test_a_jvm_without_unified_logging_is_told(pid: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "jcmd", lambda *_: (1, "IllegalArgumentException: Unknown diagnostic command"))
    with pytest.raises(AttachError, match="start it with a GC log and follow that file"), gc_log(pid):
        pass


def test_a_log_is_switched_on_and_put_back(pid: int, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def jcmd(_host: object, _home: object, _pid: int, words: list[str]) -> tuple[int, str]:
        for word in words:
            if word.startswith("output="):
                for end in ("", ".0"):
                    Path(word.removeprefix("output=") + end).touch()
        return 0, LIST

    def by_socket(_pid: int, _inside: str, command: str, _timeout: float) -> tuple[int, str]:
        asked.append(command)
        return 0, ""

    monkeypatch.setattr(java, "jcmd", jcmd)
    monkeypatch.setattr(undo_running, "jcmd_by_socket", by_socket)
    with gc_log(pid) as path:
        assert path.exists()
        assert not asked
    assert asked == [f"VM.log output={path} what=all=off"]
    assert not list(path.parent.glob(f"{path.name}*"))


def test_what_cannot_be_switched_off_stays_in_the_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = UndoJournal(tmp_path / "undo" / "gc-log.jsonl")
    stat = procfs.read_stat(os.getpid())
    assert stat is not None
    file = tmp_path / "gc.log"
    file.touch()
    journal.record(undo_running.LOGGING, "/tmp/gc.log", None, pid=stat.pid, start=stat.start, file=str(file))
    monkeypatch.setattr(undo_running, "jcmd_by_socket", lambda *_: None)
    with pytest.raises(RestoreError, match=r"jcmd \d+ VM\.log output=/tmp/gc\.log what=all=off"):
        journal.restore()
    assert file.exists()
    with pytest.raises(CannotUndo):
        undo_running.undo_logging(journal.open_entries(), tmp_path)
    entry = journal.open_entries()[0]
    entry.data["start"] = stat.start - 1  # the JVM has ended
    assert "off, its files removed" in undo_running.undo_logging([entry], tmp_path)
    assert not file.exists()
