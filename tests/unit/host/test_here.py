"""Programs that leadline asks on its own machine."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from leadline.host import here
from leadline.host.bystanders import Bystanders
from leadline.host.journal import UndoJournal
from leadline.host.paths import Scratch, sweep
from leadline.host.timed import Stopwatch


def test_a_program_is_asked(tmp_path: Path) -> None:
    done = here.run(["/bin/sh", "-c", 'pwd; echo "$WORD"; cat; exit 3'], b"a \xff", cwd=tmp_path, env={"WORD": "word"})
    assert (done.returncode, done.stdout) == (3, f"{tmp_path}\nword\na \ufffd")
    assert here.exchange(["cat"], b"\0\xff").stdout == b"\0\xff"
    with pytest.raises(FileNotFoundError):
        here.run([str(tmp_path / "none")])
    with pytest.raises(TimeoutError, match=r"sleep did not end within 0\.05 s"):
        here.run(["sleep", "600"], timeout=0.05)


def test_who_waits_is_told_how_long(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(here, "_HEARTBEAT", 0.01)
    pipe, told = tmp_path / "pipe", []
    os.mkfifo(pipe)

    def hear(seconds: float) -> None:
        told.append(seconds)
        if len(told) == 2:
            pipe.write_text("enough\n")

    assert here.run(["cat", str(pipe)], tell=hear).stdout == "enough\n"
    assert 0 < told[0] < told[1]


def test_who_does_not_answer_in_time_is_killed() -> None:
    with here.opened(["cat"], 600) as talk:
        assert talk.stdin is not None
        assert talk.stdout is not None
        talk.stdin.write(b"a line\n")
        talk.stdin.flush()
        assert talk.stdout.readline() == b"a line\n"
        talk.stdin.close()
    with here.opened(["sleep", "600"], 0.05) as silent:
        assert silent.wait() == -signal.SIGKILL


def test_an_archive_whose_program_left_its_output_to_another_ends_in_time(tmp_path: Path) -> None:
    done = here.unpacked(["sh", "-c", "sleep 100 & wait"], tmp_path / "into", "it", 0.2)
    assert done.returncode == -signal.SIGKILL


@pytest.mark.parametrize("apart", [False, True])
def test_signals_go_on_to_a_program_in_the_foreground(tmp_path: Path, apart: bool) -> None:
    ready = tmp_path / "ready"
    os.mkfifo(ready)
    program = f"import signal, time; open({str(ready)!r}, 'w').close(); signal.pause()"

    def end() -> None:
        ready.read_text()
        os.kill(os.getpid(), signal.SIGTERM)

    ender = threading.Thread(target=end)
    ender.start()
    before = signal.getsignal(signal.SIGTERM)
    code, told = here.foreground([sys.executable, "-c", program], apart=apart)
    ender.join()
    assert (code, told) == (-signal.SIGTERM, [signal.SIGTERM])
    assert signal.getsignal(signal.SIGTERM) is before


_HOLD = (
    "import sys; from leadline.host.paths import Scratch; s = Scratch(); print(s.path, flush=True); sys.stdin.read()"
)


@pytest.fixture
def _place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))


def _other() -> tuple[subprocess.Popen[str], Path]:
    """Another process that holds a directory."""
    process = subprocess.Popen(
        [sys.executable, "-c", _HOLD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ}
    )
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


@pytest.mark.usefixtures("_place")
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


@pytest.mark.usefixtures("_place")
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


@pytest.mark.usefixtures("_place")
def test_what_others_named_alike_is_left_alone(tmp_path: Path) -> None:
    for name in ("leadline-results", "leadline-audit-x"):
        (tmp_path / name).mkdir()
    (tmp_path / ".leadline-file").write_text("x")
    (tmp_path / ".leadline-link").symlink_to(tmp_path / "leadline-results")
    assert sweep() == []
    assert len(list(tmp_path.iterdir())) == 4


@pytest.mark.usefixtures("_place")
def test_no_file_is_written_beside_a_directory_that_a_kill_could_leave(tmp_path: Path) -> None:
    watch = "import sys; sys.addaudithook(lambda name, args: name == 'open' and print(args[0], file=sys.stderr)); "
    found = subprocess.run([sys.executable, "-c", watch + _HOLD], input="", capture_output=True, text=True, check=True)
    assert Path(found.stdout.strip()).parent == tmp_path
    opened = [line for line in found.stderr.splitlines() if line.startswith(str(tmp_path))]
    assert opened == [found.stdout.strip()]  # the lock


PROGRAM = """
import os, sys
from leadline.host.process import NAME, inherited, one_blas_thread
one_blas_thread()
print(os.environ[NAME], inherited().get(NAME), "numpy" in sys.modules)
"""
COMMAND = """
import os
from leadline.cli.main import main
from leadline.host.process import NAME
try:
    main()
except SystemExit:
    print(os.environ[NAME])
"""


@pytest.mark.parametrize(
    ("before", "after"), [({}, "1 None False"), ({"OPENBLAS_NUM_THREADS": "3"}, "3 3 False")], ids=["unset", "set"]
)
def test_the_users_word_counts_and_children_do_not_inherit_ours(
    before: dict[str, str], after: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    for name, value in before.items():
        monkeypatch.setenv(name, value)
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[0] == after


def test_the_command_line_starts_with_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    done = subprocess.run([sys.executable, "-c", COMMAND, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[1] == "1"


SPIN = "import time\nend = time.process_time() + 1\nwhile time.process_time() < end: pass"


def busy_seconds() -> float:
    user, nice, system = map(int, Path("/proc/stat").read_text().split()[1:4])
    return (user + nice + system) / os.sysconf("SC_CLK_TCK")


def test_ones_own_programs_are_nobody_elses_and_a_foreign_one_is_seen(tmp_path: Path) -> None:
    for name in ("own-spin", "foreign-spin"):
        (tmp_path / name).symlink_to(sys.executable)
    busy = busy_seconds()
    beside, begun = Bystanders(), time.monotonic()
    with Stopwatch() as watch:
        own = watch.time([str(tmp_path / "own-spin"), "-I", "-S", "-c", SPIN], 30.0).figures
    alone, first = beside.used(), time.monotonic() - begun
    busy = busy_seconds() - busy
    # by a shell that ends before it: no child of this process
    program = [str(tmp_path / "foreign-spin"), "-I", "-S", "-c", SPIN.replace("+ 1", "+ 5")]
    foreign = subprocess.run(
        ["sh", "-c", '"$@" >&- 2>&- & echo $!', "sh", *program], capture_output=True, text=True, check=True
    )
    try:
        time.sleep(1.5)
        both, second = beside.used(), time.monotonic() - begun
    finally:
        subprocess.run(["kill", foreign.stdout.strip()], check=True)
    assert alone is not None
    assert both is not None
    assert own["user"] + own["system"] > 0.9
    # what ended is ours as well: it can be nobody's CPU besides
    assert alone.others * first * (os.cpu_count() or 1) < busy - 0.9
    assert "own-spin" not in both.programs
    assert both.programs["foreign-spin"] > 0
    # others grew by what the foreign one used, of which this look saw at least a third of a second
    assert both.others * second - alone.others * first > 0.3 * both.programs["foreign-spin"] * second
