"""How a command ends: signals, readers that go away, streams that cannot be written."""

import io
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from leadline.cli.live import LiveWatcher, watcher

# A command that waits in order, cleans up in order, and is signalled meanwhile.
WAITS = """
import sys, time
from leadline.cli import main, __main__
def app(**_):
    try:
        print("begun", flush=True)
        time.sleep(60)
    finally:
        time.sleep(0.3)
        print("cleaned up", flush=True)
main.app = app
__main__.main()
"""
IN_A_FINALISER = WAITS.replace(
    "        time.sleep(60)\n",
    """        class Ending:
            def __del__(self):
                print("in a finaliser", flush=True)
                sys.stdin.readline()
        Ending()
        time.sleep(20)
""",
)
SPEAKS = """
import os, sys
from leadline.cli import main, __main__
def app(**_):
    print("begun", flush=True)
    sys.stdin.readline()
    for number in range(10_000):
        print("line", number, flush=number % 100 == 0)
    os.write(3, b"whole")
    raise SystemExit(7)
main.app = app
__main__.main()
"""


def begin(code: str, **streams: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", code],
        stderr=subprocess.PIPE,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler) and None,  # as in a terminal
        **{"stdout": subprocess.PIPE, **streams},  # type: ignore[arg-type]
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("times", [1, 2, 20])
def test_the_first_signal_ends_it_in_order_and_later_ones_wait(number: signal.Signals, times: int) -> None:
    with begin(WAITS) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"begun\n"
        for _ in range(times):
            process.send_signal(number)
        out, err = process.communicate()
    assert process.returncode == 128 + number
    assert out.endswith(b"cleaned up\n")
    assert err == f"leadline: ended by {number.name}\n".encode()


def test_a_signal_in_a_finaliser_is_not_lost() -> None:
    """Python drops what is raised there."""
    with begin(IN_A_FINALISER, stdin=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert [process.stdout.readline() for _ in range(2)] == [b"begun\n", b"in a finaliser\n"]
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate()
    assert process.returncode == 128 + signal.SIGTERM
    assert out.endswith(b"cleaned up\n")


def test_what_is_ignored_from_the_beginning_stays_ignored() -> None:
    """Under nohup."""
    ignoring = "import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN)\n"
    with begin(ignoring + WAITS) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(signal.SIGHUP)
        process.send_signal(signal.SIGTERM)
        process.communicate()
    assert process.returncode == 128 + signal.SIGTERM


@pytest.mark.parametrize("lost", ["pipe", "terminal"])
def test_a_reader_that_goes_away_cuts_nothing_short(tmp_path: Path, lost: str) -> None:
    witness = os.open(tmp_path / "witness", os.O_RDWR | os.O_CREAT)
    reading, writing = os.pipe() if lost == "pipe" else pty.openpty()
    code = f"import os; os.dup2({witness}, 3)\n{SPEAKS}"
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=writing,
        stderr=writing,
        pass_fds=(witness,),
        start_new_session=True,
    )
    os.close(writing)
    os.read(reading, 5)
    os.close(reading)
    process.communicate(b"go\n")
    assert process.returncode == 7
    assert (tmp_path / "witness").read_text() == "whole"
    os.close(witness)


def test_a_full_disk_under_the_output_is_told() -> None:
    with Path("/dev/full").open("wb") as full:
        argv = [sys.executable, "-m", "leadline.cli", "--version"]
        done = subprocess.run(argv, stdout=full, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 1
    assert done.stderr == b"leadline: the output could not be written: No space left on device\n"


LOST = b"leadline: the output could not be written: Bad file descriptor\n"


@pytest.mark.parametrize(
    ("closed", "code", "said"),
    [("<&-", 0, b""), (">&-", 1, LOST), ("2>&-", 0, b""), ("<&- >&- 2>&-", 1, b""), ("| head -c 0", 0, b"")],
)
def test_a_closed_output_is_an_error_a_reader_that_left_is_none(closed: str, code: int, said: bytes) -> None:
    command = f"{sys.executable} -m leadline.cli --version {closed}"
    done = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, check=False)
    assert done.returncode == code
    assert done.stderr == said


def test_a_foreseen_error_of_the_system_is_one_line(tmp_path: Path) -> None:
    environment = {**os.environ, "LEADLINE_STATE": str(tmp_path / "state")}
    (tmp_path / "state").mkdir()
    (tmp_path / "state/undo").write_text("a file where a directory should be")
    argv = [sys.executable, "-m", "leadline.cli", "restore"]
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("leadline: ")


def test_a_host_is_put_back_from_a_directory_that_is_gone(tmp_path: Path) -> None:
    environment = {**os.environ, "LEADLINE_STATE": str(tmp_path / "state")}
    (tmp_path / "gone").mkdir()
    command = f"rmdir {tmp_path / 'gone'} && exec {sys.executable} -m leadline.cli restore"
    argv = ["bash", "-c", command]
    done = subprocess.run(argv, cwd=tmp_path / "gone", env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "nothing to put back\n"), done.stderr


def test_the_live_view_begins_in_a_terminal() -> None:
    console = Console(file=io.StringIO(), force_terminal=True)
    live = watcher(console)
    assert isinstance(live, LiveWatcher)
    with live as watching:
        watching.message("a line of a run")
    assert "a line of a run" in console.file.getvalue()  # type: ignore[attr-defined]
