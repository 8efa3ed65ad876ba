"""The undo journal, with a directory that stands for the host's /.

Journals of single processes: what one that is gone has left is put back by `restore`, a running one's is not.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import asdict
from pathlib import Path

import pytest

from leadline.host import procfs, undo
from leadline.host.journal import UndoJournal
from leadline.host.local import LocalHost
from leadline.host.privilege import own_mounts
from leadline.host.undo import TREE_MARKER, CannotUndo, Entry
from leadline.host.undo_running import LOGGING, SETTINGS, undo_settings
from leadline.model.errors import FailureClass, RestoreError, TrialFailure


def setting(root: Path, name: str, value: str) -> Path:
    path = root / "proc" / "sys" / "vm" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(value + "\n")
    return path


@pytest.fixture
def journal(tmp_path: Path) -> UndoJournal:
    return UndoJournal(tmp_path / "state" / "undo" / "local.jsonl", tmp_path / "root")


def change(journal: UndoJournal, path: Path, value: str) -> None:
    journal.record_file(path, value)
    path.write_text(value + "\n")


def test_the_original_is_on_disk_before_the_change(journal: UndoJournal) -> None:
    path = setting(journal.root, "swappiness", "60")
    journal.record_file(path, "10", note="vm.swappiness")
    record = json.loads(journal.path.read_text())
    assert record["original"] == {str(path): "60"}
    assert (record["kind"], record["target"], record["note"]) == ("file", str(path), "vm.swappiness")
    assert record["boot"] == procfs.boot_id()
    assert record["owner"]["pid"] == os.getpid()
    assert path.read_text() == "60\n"


def test_restore_writes_the_first_original_of_many_changes(journal: UndoJournal) -> None:
    path = setting(journal.root, "swappiness", "60")
    for value in ("10", "20", "30"):
        change(journal, path, value)
    assert len(journal.open_entries()) == 1
    assert journal.restore() == [f"{path}: put back to '60'"]
    assert path.read_text() == "60"
    assert not journal.path.exists()
    assert journal.restore() == []


def test_an_empty_original_is_written_as_an_empty_line(journal: UndoJournal) -> None:
    path = setting(journal.root, "ip_local_reserved_ports", "")
    change(journal, path, "8080")
    assert journal.restore() == [f"{path}: put back to ''"]
    assert path.read_text() == "\n"  # the kernel takes no write of no bytes


def test_two_entries_for_one_target_end_at_the_first_original(journal: UndoJournal) -> None:
    path = setting(journal.root, "swappiness", "60")
    journal.record("file", str(path), {str(path): "60"}, values=["10"])
    journal.record("file", str(path), {str(path): "10"}, values=["99"])
    path.write_text("99")
    lines = journal.restore()
    assert path.read_text() == "60"
    assert lines == [f"{path}: put back to '60'"]


def test_newest_change_is_undone_first(journal: UndoJournal) -> None:
    first, second = setting(journal.root, "swappiness", "60"), setting(journal.root, "laptop_mode", "0")
    change(journal, first, "1")
    change(journal, second, "5")
    assert [line.split(":")[0] for line in journal.restore()] == [str(second), str(first)]


def test_a_change_by_somebody_else_is_put_back_and_told(journal: UndoJournal) -> None:
    path = setting(journal.root, "swappiness", "60")
    change(journal, path, "10")
    path.write_text("77")
    (line,) = journal.restore()
    assert path.read_text() == "60"
    assert "something else had set swappiness to '77'" in line


def test_an_announced_change_that_was_never_made_needs_no_writing(journal: UndoJournal) -> None:
    path = setting(journal.root, "swappiness", "60")
    journal.record_file(path, "10")
    before = path.stat().st_mtime_ns
    assert "already at its original" in journal.restore()[0]
    assert path.stat().st_mtime_ns == before


def test_a_choice_in_brackets_is_kept_as_the_word(journal: UndoJournal) -> None:
    path = journal.root / "sys/kernel/mm/transparent_hugepage/enabled"
    path.parent.mkdir(parents=True)
    path.write_text("always [madvise] never\n")
    journal.record_file(path, "never")
    path.write_text("always madvise [never]\n")
    journal.restore()
    assert path.read_text() == "madvise"


@pytest.mark.parametrize("length", [1, 20, -1])
def test_a_torn_last_line_is_passed_over(journal: UndoJournal, length: int) -> None:
    first, second = setting(journal.root, "swappiness", "60"), setting(journal.root, "laptop_mode", "0")
    change(journal, first, "10")
    whole = journal.path.read_bytes()
    journal.record_file(second, "5")
    torn = journal.path.read_bytes()[len(whole) :].rstrip(b"\n")[:length]
    journal.path.write_bytes(whole + torn)
    assert [entry.target for entry in journal.open_entries()] == [str(first)]
    # the next record must not be joined to the torn one
    change(journal, second, "7")
    assert len(journal.open_entries()) == 2
    journal.restore()
    assert (first.read_text(), second.read_text()) == ("60", "0")


def test_an_unreadable_line_in_the_middle_is_told(journal: UndoJournal) -> None:
    path = setting(journal.root, "swappiness", "60")
    change(journal, path, "10")
    journal.path.write_bytes(b"\xff{nonsense\n" + journal.path.read_bytes())
    lines = journal.restore()
    assert "line 1 is unreadable" in lines[0]
    assert path.read_text() == "60"


@pytest.mark.parametrize(
    "line",
    [
        b"[]",
        b"5",
        b'"done"',
        b"null",
        b"{}",
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b"\0\0\0x",
        b"\xff\xfe",
        b"9" * 5000,
        b'{"done":[]}',
        b'{"update":{}}',
        b'{"id":[],"kind":"file","target":"x"}',
        b'{"id":"a","kind":{},"target":"x"}',
        b'{"id":"a","kind":"file","target":"x","original":null}',
        b'{"id":"a","kind":"file","target":"x","original":{"x":1}}',
        b'{"id":"a","kind":"swap","target":"x","original":[]}',
        b'{"id":"a","kind":"process","target":"x","data":{"token":""}}',
        b'{"id":"a","kind":"process","target":"x","data":7}',
        b'{"id":"a","kind":"file","target":"x","original":{"x":"1"},"values":[[]]}',
        b"y" * (3 << 20),
    ],
    ids=lambda line: line[:20].decode(errors="replace"),
)
def test_a_line_of_any_form_stops_nothing(journal: UndoJournal, line: bytes) -> None:
    first, second = setting(journal.root, "swappiness", "60"), setting(journal.root, "laptop_mode", "0")
    change(journal, first, "10")
    with journal.path.open("ab") as file:
        file.write(line + b"\n")
    change(journal, second, "5")
    lines = journal.restore()
    assert (first.read_text(), second.read_text()) == ("60", "0")
    told = [text for text in lines if "unreadable" in text]
    assert [text for text in told if "line 2 is unreadable" in text] == told
    assert journal.path.with_suffix(".damaged").exists() == bool(told)
    assert journal.restore() == []


def test_an_update_of_another_form_does_not_hide_the_original(journal: UndoJournal) -> None:
    path = setting(journal.root, "swappiness", "60")
    entry = journal.record_file(path, "10")
    path.write_text("10")
    with journal.path.open("a") as file:
        file.write(json.dumps({"update": entry.id, "value": ["x"]}) + "\n")
    assert "unreadable" in journal.restore()[0]
    assert path.read_text() == "60"


@pytest.mark.parametrize("kind", ["pipe", "directory", "link", "another user's"])
def test_only_a_file_of_ones_own_is_a_journal(journal: UndoJournal, tmp_path: Path, kind: str) -> None:
    journal.path.parent.mkdir(parents=True)
    if kind == "pipe":
        os.mkfifo(journal.path)
    elif kind == "directory":
        journal.path.mkdir()
    elif kind == "link":
        (tmp_path / "elsewhere").write_text("")
        journal.path.symlink_to(tmp_path / "elsewhere")
    else:
        if os.geteuid() != 0:
            pytest.skip("host: only root can give a file to another user")
        journal.path.write_text("")
        os.chown(journal.path, 65534, 65534)
    path = setting(journal.root, "swappiness", "60")
    with pytest.raises(TrialFailure, match="cannot be read"):
        journal.restore()
    with pytest.raises(TrialFailure, match="cannot be"):
        journal.record_file(path, "10")


def test_a_record_made_while_the_journal_is_emptied_is_not_lost(journal: UndoJournal) -> None:
    path = setting(journal.root, "swappiness", "60")
    journal.record("tree", "/nowhere")
    other = UndoJournal(journal.path, journal.root)

    writer = threading.Thread(target=lambda: other.record_file(path, "10"))
    with journal._locked():
        writer.start()
        while "-> FLOCK" not in Path("/proc/locks").read_text():  # until it waits for the lock
            assert writer.is_alive()
            time.sleep(0.01)
        journal.path.unlink()
    writer.join()
    assert [left.kind for left in journal.open_entries()] == ["file"]


def test_a_reboot_has_undone_what_is_volatile(journal: UndoJournal, tmp_path: Path) -> None:
    path = setting(journal.root, "swappiness", "60")
    tree = tmp_path / "scratch"
    tree.mkdir()
    (tree / TREE_MARKER).touch()
    file = Entry("a", "file", str(path), {str(path): "10"}, boot="an earlier one", values=["60"])
    kept = Entry("b", "tree", str(tree), boot="an earlier one")
    journal.path.parent.mkdir(parents=True)
    journal.path.write_text("".join(json.dumps(asdict(entry)) + "\n" for entry in (file, kept)))
    lines = journal.restore()
    assert any("undone by the reboot" in line for line in lines)
    assert path.read_text() == "60\n", "a setting of this boot was touched"
    assert not tree.exists()


def test_an_entry_of_an_earlier_boot_does_not_hide_todays_original(journal: UndoJournal) -> None:
    path = setting(journal.root, "swappiness", "60")
    journal.path.parent.mkdir(parents=True)
    stale = Entry("a", "file", str(path), {str(path): "10"}, boot="an earlier one", values=["20"])
    journal.path.write_text(json.dumps(asdict(stale)) + "\n")
    change(journal, path, "30")
    journal.restore()
    assert path.read_text() == "60"


@pytest.mark.parametrize("target", ["/etc/passwd", "{root}/proc/sys/../../etc/passwd", "{root}/home/x"])
def test_only_kernel_settings_are_written(journal: UndoJournal, target: str) -> None:
    path = Path(target.format(root=journal.root))
    with pytest.raises(ValueError, match="not below"):
        journal.record_file(path, "1")
    journal.record("file", str(path), {str(path): "1"})
    with pytest.raises(RestoreError, match="not a kernel setting"):
        journal.restore()


def test_one_failure_does_not_keep_the_others_from_being_undone(journal: UndoJournal) -> None:
    good, bad = setting(journal.root, "swappiness", "60"), setting(journal.root, "laptop_mode", "0")
    change(journal, good, "10")
    change(journal, bad, "5")
    bad.unlink()
    bad.mkdir()  # neither readable nor writable as a file
    with pytest.raises(RestoreError, match=r"laptop_mode.*put back: 1 other"):
        journal.restore()
    assert good.read_text() == "60"
    assert [entry.target for entry in journal.open_entries()] == [str(bad)]
    bad.rmdir()
    bad.write_text("5")
    journal.restore()
    assert bad.read_text() == "0"


def test_a_setting_that_is_gone_needs_nothing(journal: UndoJournal) -> None:
    path = setting(journal.root, "swappiness", "60")
    change(journal, path, "10")
    path.unlink()
    assert "does not exist any more" in journal.restore()[0]


def test_a_journal_that_cannot_be_written_is_an_infrastructure_failure(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file where a directory should be")
    journal = UndoJournal(tmp_path / "state" / "undo" / "local.jsonl", tmp_path / "root")
    path = setting(journal.root, "swappiness", "60")
    with pytest.raises(TrialFailure) as caught:
        journal.record_file(path, "10")
    assert caught.value.failure_class is FailureClass.INFRASTRUCTURE
    assert "nothing was changed" in str(caught.value)


def test_a_tree_without_the_marker_is_left_alone(journal: UndoJournal, tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "file").write_text("precious")
    link = tmp_path / "link"
    link.symlink_to(theirs)
    for path in (theirs, link):
        journal.record("tree", str(path))
    with pytest.raises(RestoreError, match="marker"):
        journal.restore()
    assert (theirs / "file").read_text() == "precious"
    assert link.is_symlink()


def test_a_private_tree_is_removed(tmp_path: Path) -> None:
    host = LocalHost(state=tmp_path / "state", root=tmp_path / "root")
    host.private_tree(tmp_path / "scratch")
    (tmp_path / "scratch" / "deep").mkdir()
    (tmp_path / "scratch" / "deep" / "file").touch()
    assert host.restore() == [f"directory {tmp_path / 'scratch'}: removed"]
    assert not (tmp_path / "scratch").exists()
    with pytest.raises(FileExistsError):
        host.private_tree(tmp_path)


def test_only_control_groups_of_leadline_are_removed(journal: UndoJournal) -> None:
    other = journal.root / "sys/fs/cgroup/system.slice"
    other.mkdir(parents=True)
    journal.record("cgroup", str(other))
    with pytest.raises(RestoreError, match="not a control group of leadline"):
        journal.restore()
    assert other.exists()


def test_a_long_journal_with_open_entries_is_rewritten_whole(journal: UndoJournal) -> None:
    path = setting(journal.root, "swappiness", "60")
    change(journal, path, "10")
    with journal.path.open("a") as file:
        file.write('{"done":"none"}\n' * 10_000)
    journal.compact()
    assert journal.path.stat().st_size < 2000
    journal.restore()
    assert path.read_text() == "60"


@pytest.mark.parametrize(
    ("text", "value"), [("always [madvise] never\n", "madvise"), ("256\t256\t32\n", "256 256 32"), ("7\n", "7")]
)
def test_values_are_compared_by_meaning(text: str, value: str) -> None:
    assert undo.normalise(text) == value


def test_swaps_are_read_with_their_priority(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/swaps").write_text(
        "Filename\tType\tSize\tUsed\tPriority\n/dev/vdb  partition 1 0 -2\n/a\\040b file 1 0 5\n"
    )
    assert undo.active_swaps(tmp_path) == {"/dev/vdb": -2, "/a b": 5}
    assert undo.active_swaps(tmp_path / "none") == {}


SETS_AND_DIES = """
import os, signal, sys
from pathlib import Path
from leadline.host.local import LocalHost
from leadline.host.privilege import own_mounts
host = LocalHost(state=Path(sys.argv[1]), root=Path(sys.argv[2]))
host.set_knob("vm.swappiness", 10)
host.set_knob("vm.swappiness", 11)
host.set_knob("vm.laptop_mode", 5)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_restore_after_kill_9_by_another_process(tmp_path: Path) -> None:
    root = tmp_path / "root"
    swappiness, laptop = setting(root, "swappiness", "60"), setting(root, "laptop_mode", "0")
    done = subprocess.run([sys.executable, "-c", SETS_AND_DIES, tmp_path / "state", root], check=False)
    assert done.returncode == -signal.SIGKILL
    assert (swappiness.read_text(), laptop.read_text()) == ("11", "5")
    lines = LocalHost(state=tmp_path / "state", root=root).restore()
    assert len(lines) == 2
    assert (swappiness.read_text(), laptop.read_text()) == ("60", "0")


def test_what_another_leadline_changes_that_still_runs_is_left_alone(tmp_path: Path) -> None:
    """As in two network namespaces with one state directory: each has a lease of its own."""
    root = tmp_path / "root"
    swappiness, laptop = setting(root, "swappiness", "60"), setting(root, "laptop_mode", "0")
    waits = SETS_AND_DIES.replace("os.kill(os.getpid(), signal.SIGKILL)", "print('set', flush=True); sys.stdin.read()")
    argv = [sys.executable, "-c", waits, tmp_path / "state", root]
    host = LocalHost(state=tmp_path / "state", root=root)
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "set\n"
        assert host.restore() == []
        assert (host.journal.left(), len(host.journal.left(of=other.pid))) == ([], 2)
        assert (swappiness.read_text(), laptop.read_text()) == ("11", "5")
        assert len(host.journal.restore(of=other.pid)) == 2  # its watchdog, when it hangs
        assert (swappiness.read_text(), laptop.read_text()) == ("60", "0")


@pytest.mark.parametrize(
    ("kind", "target", "original"),
    [
        ("swap", "swap", {"/dev/sda2": "first"}),  # a rank is a number
        ("tree", "relative/path", None),
        ("file", "/proc/sys/vm/swappiness", ("60",)),  # would be read back as a list
        ("cgroup", "/sys/fs/cgroup/x", ("a", "tuple")),
    ],
)
def test_what_could_not_be_read_back_is_not_written(
    journal: UndoJournal, kind: str, target: str, original: object
) -> None:
    with pytest.raises(ValueError, match="the undo journal"):
        journal.record(kind, target, original)
    assert not journal.open_entries()


def test_a_line_longer_than_any_is_not_written(journal: UndoJournal) -> None:
    with pytest.raises(ValueError, match="is longer than any"):
        journal.record("tree", "/tmp/x", note="x" * 2_000_000)
    assert not journal.open_entries()


_NO_JOURNAL = """
import subprocess, sys
from pathlib import Path
from leadline.host.local import LocalHost
from leadline.host.privilege import own_mounts
from leadline.model.errors import LeadlineError
state = Path(sys.argv[1])
state.mkdir()
subprocess.run(["mount", "-t", "tmpfs", "none", state], check=True)
host = LocalHost(state=state)
with host.watched(5.0):
    print(host.journal.path.exists())
subprocess.run(["mount", "-o", "remount,ro", state], check=True)
try:
    with host.watched(5.0):
        print("begun")
except LeadlineError as error:
    print(error)
"""


@pytest.mark.skipif(os.geteuid() != 0 or not own_mounts(), reason="host: this user may have no mounts of its own")
def test_nothing_begins_without_a_journal(tmp_path: Path) -> None:
    argv = [sys.executable, "-c", _NO_JOURNAL, str(tmp_path / "state")]
    done = subprocess.run(["unshare", "--mount", *argv], capture_output=True, text=True, check=True)
    written, refused = done.stdout.splitlines()
    assert written == "False"
    assert refused.endswith("cannot be written (Read-only file system), so nothing was changed")


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
