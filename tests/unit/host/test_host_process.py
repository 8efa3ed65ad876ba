"""Process groups: started, counted, pinned, limited and ended whole, with real processes."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from leadline.host import procfs
from leadline.host.base import Ability, ProcessSpec
from leadline.host.cgroup import group_parent
from leadline.host.files import GROUP_LIMITS, group_limit, open_files
from leadline.host.local import LocalHost
from leadline.host.process import LocalProcess, parse_cpus
from leadline.model.errors import UsageError

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="host: not root: processes run as this user anyway")


@pytest.fixture
def host(tmp_path: Path) -> Iterator[LocalHost]:
    host = LocalHost(state=tmp_path / "state")
    yield host
    host.restore()


def spec(tmp_path: Path, script: str, **more: object) -> ProcessSpec:
    return ProcessSpec("worker", ["sh", "-c", script], tmp_path / "out" / "worker.log", **more)  # type: ignore[arg-type]


def until(condition: Callable[[], object], seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.02)


@pytest.mark.parametrize("own_user", [False, pytest.param(True, marks=needs_root)])
def test_a_leadline_killed_at_any_line_of_a_start_leaves_nothing(tmp_path: Path, own_user: bool) -> None:
    """However early: a service that hides its mark was left where leadline died before its number was written down."""
    argv = [sys.executable, Path(__file__).with_name("process_kill_child.py"), tmp_path, *(["--user"] * own_user)]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    *left, last = done.stdout.splitlines()
    assert not left
    assert int(last.split()[0]) > 60


def test_what_a_service_reads_begins_behind_the_start(host: LocalHost, tmp_path: Path) -> None:
    reads = host.start(spec(tmp_path, "cat; echo ended", input=True))
    reads.write(b"one\ntwo")
    reads.close_input()
    until(lambda: reads.exit_code() == 0)
    assert (tmp_path / "out" / "worker.log").read_text() == "one\ntwoended\n"
    nothing = host.start(replace(spec(tmp_path, "cat; echo ended"), output=tmp_path / "other.log"))
    until(lambda: nothing.exit_code() == 0)
    assert (tmp_path / "other.log").read_text() == "ended\n"


def gone(pid: int) -> bool:
    stat = procfs.read_stat(pid)
    return stat is None or not stat.alive


def test_a_process_leads_a_group_of_its_own_and_is_in_the_journal(host: LocalHost, tmp_path: Path) -> None:
    process = host.start(spec(tmp_path, "echo hello; echo $GREETING >&2; exec sleep 60", env={"GREETING": "you"}))
    stat = procfs.read_stat(process.pid)
    assert stat is not None
    assert stat.group == stat.session == process.pid
    (entry,) = host.journal.open_entries()
    assert (entry.kind, entry.data["pid"], entry.data["start"]) == ("process", process.pid, stat.start)
    assert process.alive()
    assert process.exit_code() is None
    until(lambda: (tmp_path / "out/worker.log").read_text() == "hello\nyou\n")
    assert process.stop() is True
    assert process.exit_code() == -signal.SIGTERM
    assert not process.alive()
    assert host.journal.open_entries() == []
    assert process.stop() is True
    process.signal(signal.SIGTERM)  # of an ended process: nothing happens


def test_exit_codes_are_told(host: LocalHost, tmp_path: Path) -> None:
    process = host.start(spec(tmp_path, "exit 7"))
    until(lambda: process.exit_code() is not None)
    assert process.exit_code() == 7
    assert process.stop() is True


def test_children_in_other_sessions_are_ended_too(host: LocalHost, tmp_path: Path) -> None:
    process = host.start(spec(tmp_path, "sleep 300 & setsid sleep 301 & setsid setsid sleep 302 & wait"))
    until(lambda: len(process.pids()) == 4)
    pids = process.pids()
    assert process.pid in pids
    assert process.stop() is True
    assert all(gone(pid) for pid in pids)


def test_orphans_are_found_by_their_mark(host: LocalHost, tmp_path: Path) -> None:
    process = host.start(spec(tmp_path, "(setsid sleep 303 &) ; exit 0"))
    until(lambda: process.exit_code() == 0)
    (orphan,) = process.pids()
    assert process.stop() is True
    assert gone(orphan)


def test_orphans_without_mark_are_found_by_the_session_of_a_killed_leader(host: LocalHost, tmp_path: Path) -> None:
    child = "exec env -i sleep 60"
    script = f"sh -c '{child}' & echo $! > child; wait"
    work = tmp_path / "work"
    work.mkdir()
    leader = host.start(ProcessSpec("server", ["sh", "-c", script], tmp_path / "out", cwd=work, owns=(work,)))
    orphan = int(wait_for_text(work / "child"))
    while b"sleep" not in Path(f"/proc/{orphan}/cmdline").read_bytes():
        time.sleep(0.01)
    leader.signal(9)
    while leader.alive():
        time.sleep(0.01)
    assert leader.pids() == [orphan]
    leader.stop(grace=2.0)
    left = procfs.read_stat(orphan)
    assert left is None or not left.alive


def wait_for_text(path: Path) -> str:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        if path.exists() and (text := path.read_text().strip()):
            return text
        time.sleep(0.01)
    raise AssertionError(f"{path} stayed empty")


def test_orphans_without_mark_stay_known(host: LocalHost, tmp_path: Path) -> None:
    # as PostgreSQL's children: a session of their own, and an environment that no longer shows the mark
    process = host.start(spec(tmp_path, "env -i setsid sleep 304 & wait"))
    until(lambda: len(process.pids()) == 2)
    (child,) = set(process.pids()) - {process.pid}
    process.signal(signal.SIGKILL)
    until(lambda: not process.alive())
    assert process.pids() == [child]
    process.stop()
    assert gone(child)


def test_one_that_ignores_the_signal_is_killed(host: LocalHost, tmp_path: Path) -> None:
    process = host.start(spec(tmp_path, "trap '' TERM; echo ready; while :; do sleep 0.1; done"))
    until(lambda: "ready" in (tmp_path / "out/worker.log").read_text())
    assert process.stop(grace=0.3) is False
    assert process.exit_code() == -signal.SIGKILL
    assert process.pids() == []


def test_cpu_of_a_busy_child_is_counted_and_kept(host: LocalHost, tmp_path: Path) -> None:
    busy = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done"
    process = host.start(spec(tmp_path, f"sh -c '{busy}'; sh -c '{busy}' & wait; echo done; sleep 60"))
    until(lambda: sum(process.cpu_seconds()) > 0.02)
    until(lambda: "done" in (tmp_path / "out/worker.log").read_text())
    before = sum(process.cpu_seconds())
    stat = procfs.read_stat(process.pid)
    assert stat is not None
    assert before >= stat.ended_user + stat.ended_system > 0
    process.stop()
    assert sum(process.cpu_seconds()) >= before - 0.05, "CPU of the ended was lost"


def test_cpu_of_an_ended_orphan_is_remembered(host: LocalHost, tmp_path: Path) -> None:
    process = host.start(spec(tmp_path, "(setsid sh -c 'while :; do :; done' &) ; exec sleep 60"))
    until(lambda: sum(process.cpu_seconds()) > 0.1)
    before = sum(process.cpu_seconds())
    (orphan,) = set(process.pids()) - {process.pid}
    os.kill(orphan, signal.SIGKILL)
    until(lambda: gone(orphan))
    assert sum(process.cpu_seconds()) >= before


def test_pinning_shows_in_the_kernel(host: LocalHost, tmp_path: Path) -> None:
    last = max(os.sched_getaffinity(0))
    process = host.start(spec(tmp_path, "grep Cpus_allowed_list /proc/self/status; sleep 60", cpus=str(last)))
    until(lambda: (tmp_path / "out/worker.log").read_text())
    assert (tmp_path / "out/worker.log").read_text().split() == ["Cpus_allowed_list:", str(last)]
    assert os.sched_getaffinity(process.pid) == {last}


def test_a_member_that_was_seen_in_the_middle_of_an_exec_is_looked_at_again(
    host: LocalHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is in a session of its own, and its parent has ended: the mark alone tells whose it is."""
    daemon = "setsid sh -c 'echo $$ > pid.part; mv pid.part pid; exec sleep 300' & exit 0"
    folder = tmp_path / "own"
    folder.mkdir()
    process = host.start(spec(tmp_path, daemon, cwd=folder, owns=(folder,)))
    until(lambda: (folder / "pid").exists() and process.exit_code() == 0)
    member, real = int((folder / "pid").read_text()), procfs.carries_mark
    empty = [True]
    monkeypatch.setattr(procfs, "carries_mark", lambda pid, token: not empty and real(pid, token))
    monkeypatch.setattr(procfs, "shows_nothing", lambda pid: bool(empty) and pid == member)
    process._known.clear()  # as if it had not been seen yet
    monkeypatch.setattr(procfs, "runs_as", lambda *_: False)
    assert member not in process.pids()
    empty.clear()
    assert member in process.pids()
    process.stop(grace=5.0)
    until(lambda: gone(member))


def test_pinning_without_taskset(host: LocalHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from leadline.host import process as module

    real = module.shutil.which
    monkeypatch.setattr(module.shutil, "which", lambda name, **k: None if name == "taskset" else real(name, **k))
    last = max(os.sched_getaffinity(0))
    process = host.start(spec(tmp_path, "sleep 60", cpus=str(last)))
    until(lambda: os.sched_getaffinity(process.pid) == {last})


@pytest.mark.parametrize(
    ("text", "cpus"), [("0", [0]), ("0,2-3", [0, 2, 3]), ("3,1", [1, 3]), (" 1 - 2 ", None), ("", None), ("3-1", None)]
)
def test_cpu_lists(text: str, cpus: list[int] | None) -> None:
    if cpus is None:
        with pytest.raises(UsageError, match="not a list of CPUs"):
            parse_cpus(text, range(4))
    else:
        assert parse_cpus(text, range(4)) == cpus


def test_a_cpu_this_host_lacks_is_told(host: LocalHost, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"CPU 4096 .* this host offers"):
        host.start(spec(tmp_path, "true", cpus="4096"))
    assert host.journal.open_entries() == []


def test_a_missing_program_is_told_also_behind_a_prefix(host: LocalHost, tmp_path: Path) -> None:
    for cpus in (None, str(max(os.sched_getaffinity(0)))):
        wanted = ProcessSpec("server", ["/nowhere/bin/java", "-version"], tmp_path / "log", cpus=cpus)
        with pytest.raises(FileNotFoundError, match="server: no such program"):
            host.start(wanted)
    assert host.journal.open_entries() == []


def test_restore_ends_what_a_dead_leadline_left(host: LocalHost, tmp_path: Path) -> None:
    process = host.start(spec(tmp_path, "sleep 300 & setsid sleep 301 & exec sleep 302"))
    until(lambda: len(process.pids()) == 3)
    pids = sorted(process.pids())
    lines = LocalHost(state=tmp_path / "state").restore()
    assert lines == [f"process worker: ended {pids}"]
    assert all(gone(pid) for pid in pids)
    assert process.exit_code() == -signal.SIGTERM


def test_restore_ends_what_a_killed_leader_left_without_a_mark(host: LocalHost, tmp_path: Path) -> None:
    # as nginx: its workers write over the environment that holds the mark, and outlive a killed master process
    home = tmp_path / "home"
    home.mkdir()
    script = "env -i sleep 305 & cd /; env -i sleep 306 & wait"
    process = host.start(replace(spec(tmp_path, script), cwd=home, unprivileged=False))
    until(lambda: sum(not procfs.carries_mark(pid, process.token) for pid in process.pids()) == 2)
    orphans = set(process.pids()) - {process.pid}
    ours = {pid for pid in orphans if procfs.works_in(pid, str(home))}
    assert len(ours) == 1
    process.signal(signal.SIGKILL)
    until(lambda: not process.alive())
    try:
        assert LocalHost(state=tmp_path / "state").restore() == [f"process worker: ended {sorted(ours)}"]
        assert all(gone(pid) for pid in ours)
        # what works elsewhere may be a stranger's: a process that got the leader's number once it was free
        assert not any(gone(pid) for pid in orphans - ours)
    finally:
        process.stop()


def test_a_number_used_again_is_never_hit(host: LocalHost, tmp_path: Path) -> None:
    bystander = host.start(spec(tmp_path, "exec sleep 60"))
    entry = host.journal.record_process("old", ["x"], "token-of-an-ended-process")
    host.journal.update(entry, pid=bystander.pid, start=bystander.start - 1)
    assert procfs.marked("token-of-an-ended-process", (bystander.pid, bystander.start - 1)) == set()
    assert procfs.send(bystander.pid, signal.SIGKILL, bystander.start - 1) is False
    assert bystander.alive()
    assert procfs.marked("token-of-an-ended-process", (bystander.pid, bystander.start)) == {bystander.pid}


def test_a_search_never_finds_leadline_itself() -> None:
    table = procfs.all_processes()
    assert os.getpid() not in procfs.family(table, {os.getpid(), os.getppid(), 1})
    assert procfs.ancestors(table).issuperset({os.getpid(), os.getppid()})


def test_a_limit_of_open_files_is_that_of_the_process_alone(host: LocalHost, tmp_path: Path) -> None:
    own = open_files(host.files, os.getpid())
    process = host.start(spec(tmp_path, "echo up; exec sleep 60", limits={"open_files": 300}))
    try:
        until(lambda: "up" in (tmp_path / "out/worker.log").read_text())
        assert open_files(host.files, process.pid) == 300
        assert open_files(host.files, os.getpid()) == own != 300
        assert [entry.kind for entry in host.journal.open_entries()] == ["process"], "no control group for it"
    finally:
        process.stop()


LIMITS = {"memory": 64 << 20, "cpu_quota": 0.02, "cpu_weight": 40}


@pytest.mark.skipif(group_parent()[0] is None, reason=f"host: no memory limit here: {group_parent()[1]}")
@pytest.mark.skipif(group_parent("cpu")[0] is None, reason=f"host: no CPU limit here: {group_parent('cpu')[1]}")
@pytest.mark.parametrize("end", ["stop", "restore"])
def test_limits_hold_and_their_groups_are_removed(host: LocalHost, tmp_path: Path, end: str) -> None:
    process = host.start(spec(tmp_path, "echo up; while :; do :; done", limits=LIMITS))
    assert isinstance(process, LocalProcess)
    until(lambda: "up" in (tmp_path / "out/worker.log").read_text())
    groups = [Path(entry.target) for entry in host.journal.open_entries() if entry.kind == "cgroup"]
    assert len(groups) in (1, 2)  # version 1 has a hierarchy for each controller
    assert {name: group_limit(host.files, process.pid, name) for name in LIMITS} == LIMITS
    assert group_limit(host.files, process.pid, "swap") is None
    assert process.oom_kills() == 0
    throttled = [group / "cpu.stat" for group in groups if (group / "cpu.stat").exists()]
    until(lambda: any("nr_throttled 0" not in stat.read_text() for stat in throttled))
    if end == "stop":
        process.stop()
    else:  # as after `kill -9` of leadline
        LocalHost(state=tmp_path / "state").restore()
    assert not any(group.exists() for group in groups)
    assert host.journal.open_entries() == []


@pytest.mark.parametrize(
    ("name", "level", "version", "text"),
    [
        ("cpu_quota", 1.5, 2, "150000 100000"),
        ("cpu_quota", 1.5, 1, "150000"),
        ("cpu_weight", 40, 2, "40"),
        ("cpu_weight", 40, 1, "410"),
        ("cpu_weight", 1, 1, "10"),
        ("cpu_weight", 10_000, 1, "102400"),
        ("memory_high", 1 << 30, 2, "1073741824"),
        ("swap", 0, 2, "0"),
    ],
)
def test_limits_are_written_as_each_version_takes_them(name: str, level: float, version: int, text: str) -> None:
    limit = GROUP_LIMITS[name]
    assert limit.text(version, level) == text
    assert limit.level(version, f"{text}\n") == level


def test_an_impossible_limit_says_why(host: LocalHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leadline.host.cgroup.hierarchies", lambda _: {})
    with pytest.raises(UsageError, match=r"memory\.max 1048576 is impossible on this host: no control groups are mo"):
        host.start(spec(tmp_path, "true", limits={"memory": 1 << 20}))
    monkeypatch.setattr("leadline.host.cgroup.hierarchies", lambda _: {1: tmp_path})
    assert host.lacks(Ability.MEMORY_SHARES) == "control groups of version 1 have no memory.high"
    with pytest.raises(
        UsageError, match=r"memory\.high 1 is impossible .* version 1 have no memory\.high; leave the limit"
    ):
        host.start(spec(tmp_path, "true", limits={"memory_high": 1}))
    assert host.journal.open_entries() == []


@pytest.mark.parametrize(("outgoing", "last"), [("17000\t60999", 16_999), ("1024\t65535", 65_535)])
def test_services_have_ports_that_no_outgoing_connection_can_take(outgoing: str, last: int, tmp_path: Path) -> None:
    setting = tmp_path / "proc/sys/net/ipv4/ip_local_port_range"
    setting.parent.mkdir(parents=True)
    setting.write_text(f"{outgoing}\n")
    host = LocalHost(state=tmp_path / "state", root=tmp_path)
    ports = {host.free_port() for _ in range(20)}
    assert max(ports) <= last
    assert not any(map(host.port_taken, ports))
