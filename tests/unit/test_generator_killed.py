"""``leadline load --generator`` ended by SIGKILL takes the tool along; ``python -m leadline``."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest


def wait_for(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_the_tool_ends_with_leadline(tmp_path: Path, number: signal.Signals) -> None:
    pid_file = tmp_path / "pid"
    tool = tmp_path / "wrk"  # stands for the tool
    tool.write_text(f"#!/bin/sh\necho $$ > {pid_file}.new\nmv {pid_file}.new {pid_file}\nexec sleep 600\n")
    tool.chmod(0o755)
    argv = [sys.executable, "-m", "leadline", "load", "--generator", "wrk", "--program", str(tool)]
    argv += ["--url", "http://127.0.0.1:9/", "--out", str(tmp_path / "out"), "--steady", "600s"]
    with subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as leadline:
        wait_for(lambda: pid_file.exists() or leadline.poll() is not None, "the tool did not start")
        assert leadline.poll() is None, leadline.stderr and leadline.stderr.read()
        pid = int(pid_file.read_text())
        try:
            leadline.send_signal(number)
            wait_for(lambda: not running(pid), "the tool outlives leadline")
        finally:
            if running(pid):
                os.kill(pid, signal.SIGKILL)
            leadline.kill()


def test_leadline_runs_as_a_module() -> None:
    done = subprocess.run([sys.executable, "-m", "leadline", "--help"], capture_output=True, text=True, check=True)
    assert "quickstart" in done.stdout
