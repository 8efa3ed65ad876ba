"""``leadline load --generator`` ended by SIGKILL takes the tool along; ``python -m leadline``."""

import json
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
    except (FileNotFoundError, ProcessLookupError):  # gone before it was opened, or before it was read
        return False


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_the_tool_ends_with_leadline(tmp_path: Path, number: signal.Signals) -> None:
    tool = tmp_path / "wrk"  # stands for the tool
    # it runs as a user of its own, who writes where its results go
    tool.write_text('#!/bin/sh\ncd "${LEADLINE_WRK_RESULT%/*}"\necho $$ > pid.new\nmv pid.new pid\nexec sleep 600\n')
    tool.chmod(0o755)
    argv = [sys.executable, "-m", "leadline", "load", "--generator", "wrk", "--program", str(tool)]
    argv += ["--url", "http://127.0.0.1:9/", "--out", str(tmp_path / "out"), "--steady", "600s"]
    with subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as leadline:
        pid = 0
        try:
            wait_for(lambda: any(tmp_path.rglob("pid")) or leadline.poll() is not None, "the tool did not start")
            assert leadline.poll() is None, leadline.stderr and leadline.stderr.read()
            pid = int(next(tmp_path.rglob("pid")).read_text())
            leadline.send_signal(number)
            wait_for(lambda: not running(pid), "the tool outlives leadline")
        finally:
            if pid and running(pid):
                os.kill(pid, signal.SIGKILL)
            leadline.kill()


@pytest.mark.parametrize("code", [0, 105])
def test_an_interrupted_tool_is_told_once_and_its_run_is_not_complete(code: int, tmp_path: Path) -> None:
    """The terminal sends Ctrl-C to leadline's whole group; wrk ends by itself then, with exit code 0, k6 with 105."""
    figures = {"requests": 8, "duration_us": 1e6, "connect": 0, "read": 0, "write": 0, "status": 0, "timeout": 0}
    result = json.dumps(figures | dict.fromkeys(("mean", "p50", "p90", "p95", "p99", "p999", "max"), 1000))
    tool = tmp_path / "wrk"  # stands for the tool
    tool.write_text(
        "#!/bin/sh\n"
        'cd "${LEADLINE_WRK_RESULT%/*}"\n'  # where its user may write
        f"echo '{result}' > kept\n"
        f"trap 'echo INT >> got; mv kept $LEADLINE_WRK_RESULT; exit {code}' INT\n"
        "echo $$ > ready.new\nmv ready.new ready\n"
        "while :; do sleep 0.05; done\n"
    )
    tool.chmod(0o755)
    out = tmp_path / "out"
    argv = [sys.executable, "-m", "leadline", "load", "--generator", "wrk", "--program", str(tool)]
    argv += ["--url", "http://127.0.0.1:9/", "--out", str(out)]
    with subprocess.Popen(
        argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, process_group=0
    ) as leadline:
        try:
            wait_for(lambda: any(out.rglob("ready")) or leadline.poll() is not None, "the tool did not start")
            assert leadline.poll() is None, leadline.stderr and leadline.stderr.read()
            tools_group = os.getpgid(int(next(out.rglob("ready")).read_text()))
            os.killpg(leadline.pid, signal.SIGINT)
            _, said = leadline.communicate(timeout=60)
        finally:
            leadline.kill()
    assert tools_group != leadline.pid
    assert next(out.rglob("got")).read_text() == "INT\n"
    assert leadline.returncode == 1
    assert "wrk was ended by SIGINT before its run was over" in said
    summary = json.loads((out / "summary.json").read_text())
    assert (summary["completed"], summary["steady"]["all"]["ok"]) == (False, 8)


def test_leadline_runs_as_a_module() -> None:
    done = subprocess.run([sys.executable, "-m", "leadline", "--help"], capture_output=True, text=True, check=True)
    assert "quickstart" in done.stdout
