"""Programs that leadline asks on its own machine."""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path

import pytest

from leadline.host import here


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
