"""How processes ended, by real ones and by the words of each kind of service."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from leadline.host import signals
from leadline.host.base import ProcessSpec
from leadline.host.files import LocalFiles
from leadline.host.local import LocalHost
from leadline.host.process import LocalProcess
from leadline.host.signals import OomKill, parse
from leadline.model.errors import Event, FailureClass, Memory, Part, failure_class
from leadline.stack import started

FILES = LocalFiles()
INFRASTRUCTURE, CONFIGURATION = FailureClass.INFRASTRUCTURE, FailureClass.CONFIGURATION
LOG = """\
6,1,1,-;oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/a/leadline-0123,\
task_memcg=/a/leadline-0123,task=java,pid=77,uid=0
3,2,2,-;Memory cgroup out of memory: Killed process 77 (java) total-vm:9kB, anon-rss:4096kB, file-rss:4kB, shmem-rss:0kB
6,3,3,-;oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0,global_oom,task_memcg=/,task=x,pid=8
3,4,4,-;Out of memory: Killed process 8 (x) total-vm:9kB, anon-rss:100kB, file-rss:0kB, shmem-rss:0kB, UID:0
"""


def running(tmp_path: Path, script: str) -> LocalProcess:
    process = LocalHost(state=tmp_path / "state").start(
        ProcessSpec("service", ["/bin/sh", "-c", script], tmp_path / "log", cwd=tmp_path)
    )
    assert isinstance(process, LocalProcess)
    while "up" not in (tmp_path / "log").read_text():
        time.sleep(0.01)
    return process


@pytest.mark.parametrize(
    ("script", "number", "kind"),
    [
        ("echo up; exec sleep 60", signal.SIGKILL, INFRASTRUCTURE),
        ("echo up; exec sleep 60", signal.SIGTERM, INFRASTRUCTURE),
        ("trap 'exit 143' TERM; echo up; while :; do sleep 0.01; done", signal.SIGTERM, INFRASTRUCTURE),
        ("trap 'exit 0' TERM; echo up; while :; do sleep 0.01; done", signal.SIGTERM, INFRASTRUCTURE),
        ("echo up; exec sleep 60", signal.SIGSEGV, CONFIGURATION),
    ],
    ids=["kill", "term", "jvm", "in order", "crash"],
)
def test_a_process_that_ends(tmp_path: Path, script: str, number: int, kind: FailureClass) -> None:
    process = running(tmp_path, script)
    try:
        os.kill(process.pid, number)
        while process.alive():
            time.sleep(0.01)
        evidence = started.of_process(FILES, process, "", ready=True, oom_before=10**9)
        assert failure_class(evidence) is kind
        assert evidence.event is Event.ENDED
    finally:
        process.stop(1.0)


SENDER = "import os, sys; os.kill(int(sys.argv[1]), int(sys.argv[2])); print(flush=True); sys.stdin.read()"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP])
def test_the_sender_of_a_signal_is_named(tmp_path: Path, number: int) -> None:
    process = running(tmp_path, "echo up; exec sleep 60")
    if not signals.LOG.open:
        process.stop()
        pytest.skip("host: the kernel tells this user of no signals")
    argv = [sys.executable, "-c", SENDER, str(process.pid), f"{number:d}"]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as sender:
        assert sender.stdout is not None
        assert sender.stdout.read(1)
        if number == signal.SIGSTOP:
            evidence = started.held(process.pid)
            os.kill(process.pid, signal.SIGCONT)
        else:
            while process.alive():
                time.sleep(0.01)
            evidence = started.of_process(FILES, process, "", ready=True, oom_before=10**9)
        name = Path(f"/proc/{sender.pid}/comm").read_text().strip()
        assert evidence.how.endswith(f"({signal.Signals(number).name}), sent by {name} (process {sender.pid})")
        process.stop()
        assert sender.stdin is not None
        sender.stdin.close()


def test_the_log_of_signals_is_open_while_a_process_runs() -> None:
    def opened() -> int:
        links = (path.readlink() for path in Path("/proc/self/fd").iterdir() if path.is_symlink())
        return sum("perf_event" in str(link) for link in links)

    before, log = opened(), signals.SignalLog()
    log.begin()
    log.begin()
    assert (opened() > before) == log.open
    log.end()
    assert (opened() > before) == log.open
    log.end()
    assert (opened(), log.open, log.sender([os.getpid()])) == (before, False, "")


def test_a_process_that_is_stopped_is_seen(tmp_path: Path) -> None:
    process = running(tmp_path, "echo up; while :; do sleep 0.01; done")
    try:
        assert started.stopped(FILES, [process.pid]) is None
        os.kill(process.pid, signal.SIGSTOP)
        while started.stopped(FILES, [process.pid, 1]) is None:
            time.sleep(0.01)
        assert started.stopped(FILES, [1, process.pid]) == process.pid
    finally:
        process.stop(0.1)


@pytest.mark.parametrize(
    ("words", "pid", "code", "kind"),
    [
        ('LOG:  client backend (PID 41) was terminated by signal 9: Killed', 41, -9, INFRASTRUCTURE),
        ('LOG:  server process (PID 41) was terminated by signal 11: Segmentation fault', 41, -11, CONFIGURATION),
        ('FATAL:  terminating connection due to administrator command', 0, -15, INFRASTRUCTURE),
        ('[alert] 7#7: worker process 52 exited on signal 9', 52, -9, INFRASTRUCTURE),
        ('[core:notice] [pid 7:tid 7] AH00052: child pid 63 exit signal Killed (9)', 63, -9, INFRASTRUCTURE),
        ('[ALERT] (7) : Current worker (74) exited with code 137 (Killed)', 74, 137, INFRASTRUCTURE),
    ],
)  # fmt: skip
def test_a_member_that_a_service_lost(words: str, pid: int, code: int, kind: FailureClass) -> None:
    ((found, evidence),) = started.lost_members(FILES, f"before\n{words}\nafter", oom_before=10**9)
    assert (found, evidence.exit_code, evidence.part) == (pid, code, Part.MEMBER)
    assert failure_class(evidence) is kind


@pytest.mark.parametrize(
    "words",
    [
        "LOG:  received fast shutdown request",
        "2026-11-01  9:00:00 0 [Note] mariadbd (initiated by: unknown): Normal shutdown",
        "[notice] 7#7: signal 15 (SIGTERM) received from 4711, exiting",
        "[mpm_event:notice] AH00491: caught SIGTERM, shutting down",
        "CWWKE0055I: Server shutdown requested on Saturday.",
    ],
)
def test_last_words_of_one_that_was_asked_to_end(tmp_path: Path, words: str) -> None:
    process = running(tmp_path, "echo up; exit 1")
    while process.alive():
        time.sleep(0.01)
    try:
        assert failure_class(started.of_process(FILES, process, words, ready=False)) is INFRASTRUCTURE
        assert failure_class(started.of_process(FILES, process, "", ready=False)) is CONFIGURATION
    finally:
        process.stop(1.0)


def test_whose_memory_the_kernels_log_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    assert parse(LOG) == [OomKill(77, "/a/leadline-0123", 4100 << 10), OomKill(8, "", 100 << 10)]
    for log, memory in (
        (LOG, {77: Memory.LIMIT, 8: Memory.OTHERS, 5: Memory.NOT_SHORT}),
        (LOG.replace("leadline-", "pod-").replace("anon-rss:100kB", f"anon-rss:{1 << 40}kB"),
         {77: Memory.OTHERS, 8: Memory.OWN}),
        ("", {77: Memory.OWN}),
    ):  # fmt: skip
        monkeypatch.setattr(started, "logged_oom_kills", lambda log=log: parse(log))
        monkeypatch.setattr(started, "oom_kills", lambda _files: 3)
        assert {pid: started.starved(FILES, {pid}, 2) for pid in memory} == memory
        assert started.starved(FILES, set(memory), 3) is Memory.NOT_SHORT


def test_a_server_that_starts_its_application_anew() -> None:
    words = "[AUDIT] CWWKZ0009I: The application quotes has stopped successfully.\nCWWKZ0003I: it was updated"
    assert (started.restarts(""), started.restarts(words), started.restarts(words * 2)) == (0, 1, 2)
