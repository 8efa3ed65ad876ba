"""How the end of a guest is told, with an imitation of QEMU that ends as it is asked to."""

import hashlib
import json
import os
import re
import shutil
import struct
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from leadline.host.local import LocalHost
from leadline.model.errors import FailureClass, TrialFailure
from leadline.places.guest import boot as boot_module
from leadline.places.guest import machine
from leadline.places.guest.boot import QEMU, Boot, Counter, command_line, settle
from leadline.places.guest.machine import Monitor, MonitorError, boot_and_save, kernel_failure, read_sent, run, write

FAKE_QEMU = """#!/bin/sh
echo '{"QMP": {}}'
while read -r line; do
  case $line in
    *'"cont"'*) echo '{"return": {}}'; %s ;;
    *migrate*) echo '{"error": {"desc": "no such device"}}' ;;
    *) echo '{"return": {}}' ;;
  esac
done
"""
OFF = 'echo \'{"event": "SHUTDOWN"}\'; exit 0'
BEFORE = "echo say guest.began 1 >results; "
ENDS = {
    "silent": (":", "infrastructure", r"the guest's kernel did not come up within \d+ s"),
    "hung": (BEFORE + "while :; do :; done", "infrastructure", r"the guest's job did not end within \d+ s"),
    "bus": ("kill -BUS $$", "infrastructure", "QEMU was ended by SIGBUS: .* has no space left for the guest's memory"),
    "exit": (
        "echo 'qemu: cannot set up guest memory: Cannot allocate memory'; exit 1",
        "infrastructure",
        "QEMU does not start: qemu: cannot set up guest memory: Cannot allocate memory",
    ),
    "kernel": (
        "echo 'qemu: invalid kernel header'; exit 1",
        "configuration",
        "kernel is no kernel that QEMU boots: qemu: invalid kernel header",
    ),
    "panic": (f"echo 'Kernel panic - not syncing: VFS' >console.txt; {OFF}", "configuration", "panicked: VFS"),
    "no room": (
        f"echo '[ 3.0] Initramfs unpacking failed: write error' >console.txt; {BEFORE}echo finish >>results; {OFF}",
        "configuration",
        r"has not all of its files: .* could not be unpacked \(write error\): give `guest` more memory",
    ),
    "reserve": (  # as where a level leaves no memory: whoever allocates next is killed
        "echo '[ 9.1] postgres invoked oom-killer: gfp_mask=0x140cca' >console.txt; "
        "echo '[ 9.2] Out of memory: Killed process 71 (java) total-vm:1kB' >>console.txt; while :; do :; done",
        "configuration",
        r"the guest ran out of memory: its kernel killed java \(process 71\)",
    ),
    "reserve that kills all": (
        f"echo 'Kernel panic - not syncing: System is deadlocked on memory' >console.txt; {OFF}",
        "configuration",
        "the guest's kernel panicked: System is deadlocked on memory",
    ),
    "killed": (
        "echo 'Out of memory: Killed process 9 (java) x' >console.txt",  # and goes on: it is not waited for
        "configuration",
        r"its kernel killed java \(process 9\)",
    ),
    "damaged": (
        f"echo 'put x 9 0' >results; {OFF}",
        "infrastructure",
        "the guest's results are damaged at 'put x 9 0'",
    ),
    "off": (BEFORE + OFF, "configuration", "the guest switched itself off before its job's end"),
    "ended by somebody": (
        BEFORE + OFF.replace('"SHUTDOWN"', '"SHUTDOWN", "data": {"guest": false, "reason": "host-signal"}'),
        "infrastructure",
        "QEMU was ended by a signal from outside this run",
    ),
}


@pytest.fixture
def programs(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory on the PATH that every user may pass."""
    directory = Path(tempfile.mkdtemp(prefix="leadline-test-"))
    directory.chmod(0o755)
    monkeypatch.setenv("PATH", f"{directory}:{os.environ['PATH']}")
    yield directory
    shutil.rmtree(directory)


def booted(directory: Path) -> Boot:
    for name in ("kernel", "initial"):
        (directory / name).write_bytes(b"x")
    return Boot(directory / "kernel", directory / "initial", 64 << 20)


def imitate(programs: Path, after_start: str) -> None:
    (programs / QEMU).write_text(FAKE_QEMU % after_start)
    (programs / QEMU).chmod(0o755)


@pytest.mark.parametrize("name", ENDS)
def test_every_end_has_its_class_and_one_message(name: str, programs: Path, tmp_path: Path) -> None:
    after_start, kind, message = ENDS[name]
    imitate(programs, after_start)
    host = LocalHost(state=tmp_path / "state")
    limit = 5.0 if name in ("silent", "hung") else 60.0
    starved = r"the guest did not end within \d+ s: it waited \d+ s for a CPU of this host"  # where tests crowd it
    with pytest.raises(TrialFailure, match=f"{message}|{starved}") as raised:
        run(host, booted(tmp_path), "finish", tmp_path / "guest", limit)
    if not re.search(starved, raised.value.message):
        assert raised.value.failure_class is FailureClass(kind)
    assert "\n" not in raised.value.message
    assert host.journal.open_entries() == []


def test_a_save_that_fails_leaves_no_memory_behind(programs: Path, tmp_path: Path) -> None:
    imitate(programs, 'echo save warm >results; echo \'{"event": "GUEST_PANICKED"}\'')
    host = LocalHost(state=tmp_path / "state")
    with pytest.raises(TrialFailure, match="QEMU refuses migrate-set-capabilities: no such device") as raised:
        boot_and_save(host, booted(tmp_path), "save warm", tmp_path / "guest", "warm", 60.0)
    assert raised.value.failure_class is FailureClass.INFRASTRUCTURE
    assert not (tmp_path / "guest" / "saved").exists()
    assert host.journal.open_entries() == []


def test_without_qemu_the_message_tells_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(TrialFailure, match=f"{QEMU} is not on the PATH; install qemu-system-x86") as raised:
        run(LocalHost(state=tmp_path / "state"), booted(tmp_path), "finish", tmp_path / "guest", 5.0)
    assert raised.value.failure_class is FailureClass.INFRASTRUCTURE


def test_virtual_time_has_all_that_makes_it_exact_and_real_time_has_none(tmp_path: Path) -> None:
    boot = booted(tmp_path)
    virtual = " ".join(command_line(boot, "memory"))
    for words in (
        "-icount shift=1,sleep=off",
        "-seed 1",
        "clock=vm",
        "thread=single",
        "ioeventfd=off",
        "tsc=reliable",
        "max,-erms",
    ):
        assert words in virtual
    real = " ".join(command_line(Boot(boot.kernel, boot.initramfs, 1 << 28, 2, "real"), "memory"))
    assert "-icount" not in real
    assert "-cpu max -smp" in real
    assert "-smp 2" in real


MARK = b"leadline"  # of the register beside the time
CLOCK = b"\x0ctimer/icount\x00\x00\x00\x01"


def saved(path: Path, paused: int, offset: int, instructions: int) -> Path:
    path.write_bytes(b"a" * 40 + struct.pack(">qq", offset, instructions).join([CLOCK, b"b" * 9]))
    with path.open("ab") as file:
        file.write(struct.pack(">Q", paused) + MARK + b"c" * 30)
    return path


def clock(path: Path) -> int:
    content = path.read_bytes()
    offset, instructions = struct.unpack(">qq", content[40 + len(CLOCK) : 56 + len(CLOCK)])
    return int(offset) + 2 * int(instructions)


def test_a_clock_that_went_on_is_put_back_and_one_that_did_not_is_left(tmp_path: Path) -> None:
    moved = saved(tmp_path / "moved", 5_000_000, 2_500_000, 2_000_000)
    still = saved(tmp_path / "still", 5_000_000, 1_000_016, 2_000_000)
    for path in (moved, still):
        settle(path, 1)
        assert clock(path) == 5_000_016
    assert moved.read_bytes() == still.read_bytes()


def test_a_state_that_does_not_tell_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "state"
    path.write_bytes(b"nothing of it")
    with pytest.raises(ValueError, match="tells no time"):
        settle(path, 1)
    with pytest.raises(ValueError, match="before its pause"):
        settle(saved(path, 9_000_000, 1_000_000, 2_000_000), 1)


def test_it_has_a_header_and_counts_its_own_clusters() -> None:
    content = machine.empty_image()
    cluster = 1 << struct.unpack_from(">I", content, 20)[0]
    assert content[:8] == b"QFI\xfb\0\0\0\3"
    (table,) = struct.unpack_from(">Q", content, 48)
    (counts,) = struct.unpack_from(">Q", content, table)
    used = struct.unpack_from(">5H", content, counts)
    assert used == (1, 1, 1, 1, 0)
    assert len(content) == 4 * cluster


@pytest.fixture
def _asked_anew() -> Iterator[None]:
    boot_module.library.cache_clear()
    yield
    boot_module.library.cache_clear()


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(boot_module, "_PLACES", (tmp_path / "none", tmp_path))
    path = tmp_path / boot_module.LIBRARY
    path.touch()
    return path


def qemu(monkeypatch: pytest.MonkeyPatch, directory: Path, script: str) -> None:
    program = directory / "qemu"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setattr(boot_module, "QEMU", str(program))


@pytest.mark.usefixtures("_asked_anew")
def test_options_name_file_and_marks() -> None:
    found = Counter(Path("/a,b/plugin.so"), [0xFFFFFFFF81000000, 16]).options()
    assert found == ["-plugin", "file=/a,,b/plugin.so,out=blocks,mark=ffffffff81000000,mark=10"]
    assert Counter(Path("/plugin.so")).options("/dev/null") == ["-plugin", "file=/plugin.so,out=/dev/null"]


@pytest.mark.usefixtures("_asked_anew")
def test_a_plugin_that_qemu_takes_is_used(plugin: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    qemu(monkeypatch, tmp_path, f'echo "$*" >{tmp_path}/told; cat >>{tmp_path}/told')
    assert boot_module.library() == plugin
    told = (tmp_path / "told").read_text()
    assert f"-plugin file={plugin},out=/dev/null\n" in told
    assert '{"execute":"quit"}' in told


@pytest.mark.usefixtures("_asked_anew")
def test_why_nothing_is_counted_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boot_module, "_PLACES", (tmp_path,))
    assert boot_module.library() == "libleadline_instructions.so is not built (make install)"


@pytest.mark.usefixtures("_asked_anew")
def test_qemus_own_words_tell_why_it_takes_none(plugin: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    qemu(monkeypatch, tmp_path, "echo 'qemu: -plugin: invalid option' >&2; exit 1")
    assert boot_module.library() == f"{tmp_path}/qemu takes no such plugin: qemu: -plugin: invalid option"
    boot_module.library.cache_clear()
    monkeypatch.setattr(boot_module, "QEMU", str(tmp_path / "none"))
    assert str(boot_module.library()).startswith(f"{tmp_path}/none cannot be asked for its plugins: ")


class FakeQemu:
    """A process that answers each command by ``answers``, in order."""

    name, pid = "fake", 1

    def __init__(self, output: Path, *answers: str) -> None:
        self.output, self.answers, self.commands, self.code = output, list(answers), list[dict[str, object]](), None
        output.write_text('{"QMP": {"version": {}}}\n')

    def say(self, text: str) -> None:
        with self.output.open("a") as file:
            file.write(text)

    def write(self, data: bytes) -> None:
        self.commands.append(json.loads(data))
        self.say(self.answers.pop(0))

    def alive(self) -> bool:
        return self.code is None

    def exit_code(self) -> int | None:
        return self.code

    def close_input(self) -> None: ...
    def signal(self, number: int) -> None: ...
    def stop(self, grace: float = 10.0) -> bool:
        return True

    def cpu_seconds(self) -> tuple[float, float]:
        return 0.0, 0.0

    def pids(self) -> list[int]:
        return []


def soon() -> float:
    return time.monotonic() + 60


def monitor_of(tmp_path: Path, *answers: str) -> tuple[FakeQemu, Monitor]:
    fake = FakeQemu(tmp_path / "out", *answers)
    return fake, Monitor(fake, tmp_path / "out")


def test_a_command_returns_and_events_before_it_are_kept(tmp_path: Path) -> None:
    fake, monitor = monitor_of(tmp_path, '{"event": "STOP"}\n{"event": "SHUTDOWN"}\n{"return": {"status": "paused"}}\n')
    assert monitor.command("query-status", soon(), deep=True) == {"status": "paused"}
    assert fake.commands == [{"execute": "query-status", "arguments": {"deep": True}}]
    assert monitor.event({"SHUTDOWN"}, soon()) == {"event": "SHUTDOWN"}


def test_half_a_line_waits_for_its_other_half(tmp_path: Path) -> None:
    fake, monitor = monitor_of(tmp_path, '{"event": "GUEST_P')
    rest: list[Callable[[], None]] = [lambda: fake.say('ANICKED"}\n')]
    fake.write(b"{}")
    event = monitor.event({"GUEST_PANICKED"}, soon(), lambda: rest.pop()() if rest else None)
    assert event == {"event": "GUEST_PANICKED"}


def test_a_refusal_is_said_in_qemus_words(tmp_path: Path) -> None:
    _, monitor = monitor_of(tmp_path, '{"error": {"class": "GenericError", "desc": "No space left on device"}}\n')
    with pytest.raises(MonitorError, match="QEMU refuses migrate: No space left on device"):
        monitor.command("migrate", soon())


def test_the_end_of_qemu_is_told_with_its_last_words(tmp_path: Path) -> None:
    fake, monitor = monitor_of(tmp_path)
    fake.say("qemu-system-x86_64: no such kernel\n")
    fake.code = 1
    with pytest.raises(MonitorError, match="ended with exit code 1"):
        monitor.event({"SHUTDOWN"}, soon())
    assert monitor.said == "qemu-system-x86_64: no such kernel"


def test_the_time_limit_holds(tmp_path: Path) -> None:
    _, monitor = monitor_of(tmp_path)
    with pytest.raises(TimeoutError):
        monitor.event({"SHUTDOWN"}, time.monotonic())


CONTENT = bytes(range(256)) * 40 + b"put fake 3 x\n"


def put(name: str, content: bytes = CONTENT, digest: str | None = None) -> bytes:
    return f"put {name} {len(content)} {digest or hashlib.sha256(content).hexdigest()}\n".encode() + content


def test_facts_files_and_the_end_are_read(tmp_path: Path) -> None:
    sent = read_sent(
        b"say guest.began 3.25\nsay kernel Linux 6.1 x\n"
        + put("a/b.txt")
        + put("c", b"")
        + b"say guest.ended 4.75\nfinish\n"
    )
    assert sent.finished
    assert (sent.facts["guest.began"], sent.facts["guest.ended"]) == ("3.25", "4.75")
    assert sent.facts["kernel"] == "Linux 6.1 x"
    files = write(sent, tmp_path)
    assert (files / "a/b.txt").read_bytes() == CONTENT
    assert (files / "c").read_bytes() == b""
    assert json.loads((tmp_path / "facts.json").read_text()) == sent.facts


def test_an_end_in_the_middle_is_not_finished() -> None:
    sent = read_sent(b"say a b\nsave warm\n")
    assert (sent.finished, sent.saved, sent.facts) == (False, "warm", {"a": "b"})


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (put("a", digest="0" * 64), "file a arrived damaged"),
        (put("a")[:-1], "file a arrived damaged"),
        (put("../a"), r"file \.\./a arrived damaged"),
        (b"say a b\n\xff\xfe\n", "damaged at"),
        (b"put a many 0\n", "damaged at"),
    ],
)
def test_damage_is_a_failure_of_the_infrastructure(raw: bytes, message: str) -> None:
    with pytest.raises(TrialFailure, match=message) as raised:
        read_sent(raw)
    assert raised.value.failure_class is FailureClass.INFRASTRUCTURE


@pytest.mark.parametrize(("given", "kind"), [("workload", FailureClass.WORKLOAD), ("odd", FailureClass.CONFIGURATION)])
def test_a_failure_keeps_its_class(given: str, kind: FailureClass) -> None:
    failed = read_sent(f"fail {given} the server is not there\n".encode()).failed
    assert failed is not None
    assert (failed.failure_class, failed.message) == (kind, "the server is not there")


@pytest.mark.parametrize(
    ("console", "message"),
    [
        ("[ 9.1] Out of memory: Killed process 71 (java) total-vm:1kB", r"its kernel killed java \(process 71\)"),
        ("[ 9.1] Memory cgroup out of memory: Killed process 8 (postgres: writer) x", "killed postgres: writer"),
        ("[ 9.1] Kernel panic - not syncing: Attempted to kill init!\r\n", "panicked: Attempted to kill init!"),
    ],
)
def test_the_console_names_what_the_kernel_ended(console: str, message: str) -> None:
    failure = kernel_failure(f"before\n{console}\nafter")
    assert failure is not None
    assert failure.failure_class is FailureClass.CONFIGURATION
    assert re.search(message, failure.message)
    assert "after" in failure.evidence


def test_a_console_without_such_words_is_no_failure() -> None:
    assert kernel_failure("leadline: all is well\nreboot: Power down") is None
