"""Programs counted in a real guest: half a per cent more is found, nothing is found in nothing, digits are the same;
a signal ends the guests.
"""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from leadline.checks.files.stack import read_stack
from leadline.experiments import counting
from leadline.experiments.counting import counted, services
from leadline.experiments.gate import with_builds
from leadline.host.local import LocalHost
from leadline.model.ownstack import Build
from leadline.places.guest.boot import QEMU
from leadline.trial.command import commands_of

STEPS = {"base": "20000", "same": "20000", "more": "20150"}

pytestmark = [
    pytest.mark.stack,
    pytest.mark.skipif(not (shutil.which(QEMU) and shutil.which("strace")), reason=f"{QEMU} or strace is missing"),
]


def test_a_planted_half_per_cent_is_found_and_nothing_in_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-Dx=1")
    batch = '[ ! -e /run/leadline ] || [ "$JAVA_TOOL_OPTIONS" = "-Xbatch -Dx=1" ] || exit 1\n'
    for name, steps in (("old", 4000), ("same", 4000), ("new", 4024)):
        (tmp_path / name).write_text(f"{batch}i=0; while [ $i -lt {steps} ]; do i=$((i+1)); done")
    commands = commands_of([f"/bin/sh {tmp_path / name}" for name in ("old", "same", "new")], {})
    first, again = (counted(commands, 3, LocalHost(state=tmp_path / "state"), 300.0, print) for _ in range(2))
    assert first == again
    same, new = first.answer().split("; ")
    assert "no difference beyond 0.25 % of instructions" in same
    assert "more instructions (+0." in new
    assert min(first.of(0, "page_faults")) > 10


SERVER = """\
import http.server, sys

class Shop(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        for _ in range(int(sys.argv[2])):
            pass
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"x")

http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Shop).serve_forever()
"""


def test_a_server_that_executes_more_for_a_transaction_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counting, "WARM_UP", 2)
    monkeypatch.setattr(counting, "SECONDS", 4)
    (tmp_path / "shop.py").write_text(SERVER)
    (tmp_path / "shop.scenario.yaml").write_text(
        "scenario: shop\nmix: { item: 1 }\ntransactions:\n  item: [{ get: /items/1 }]\n"
    )
    stack = tmp_path / "shop.stack.yaml"
    stack.write_text(f'stack: shop\ncommand: ["{sys.executable}", shop.py, "${{port}}", "1"]\n')
    commands = {name: [sys.executable, str(tmp_path / "shop.py"), "${port}", steps] for name, steps in STEPS.items()}
    own = with_builds(read_stack(stack), {name: Build(command=words) for name, words in commands.items()})
    (work := tmp_path / "work").mkdir()
    sides = services(own, list(STEPS), tmp_path / "shop.scenario.yaml", work)
    counts = counted(sides, 2, LocalHost(state=tmp_path / "state"), 600.0, print, marked=True)
    same, more = counts.answer().split("; ")
    print(counts.answer())
    assert "no difference beyond 0.25 % of instructions" in same
    assert "more instructions (+0." in more


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_signal_ends_the_guests_that_run(number: signal.Signals, tmp_path: Path) -> None:
    in_a_guest = "[ -e /run/leadline ]"
    (tmp_path / "long").write_text(f"i=0; while {in_a_guest} && [ $i -lt 20000000 ]; do i=$((i+1)); done")
    words = [sys.executable, "-m", "leadline.cli", "command", "--count", f"/bin/sh {tmp_path}/long", "/bin/true"]
    done = subprocess.Popen(words, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    assert done.stderr is not None
    try:
        for line in done.stderr:
            if "/bin/true" in line and " of " in line:  # a fork has ended, the others run
                break
        places = list(Path(os.environ["TMPDIR"]).glob("leadline-count-*"))
        assert places
        assert not any(place.stat().st_mode & 0o077 for place in places), "what the program reads is nobody else's"
        done.send_signal(number)
        assert done.wait(timeout=240) == (143 if number == signal.SIGTERM else -signal.SIGKILL)
    finally:
        done.kill()
        done.wait(timeout=60)
    until = time.monotonic() + 120  # of a kill by the watchdog
    while (left := _guests()) and number == signal.SIGKILL and time.monotonic() < until:
        time.sleep(0.5)
    assert not left


def _guests() -> list[str]:
    commands = [_words(path) for path in Path("/proc").glob("[0-9]*/cmdline")]
    return [text for text in commands if QEMU in text and os.environ["TMPDIR"] in text]


def _words(file: Path) -> str:
    try:
        return file.read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""
