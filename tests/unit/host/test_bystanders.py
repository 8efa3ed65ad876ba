"""CPU of other programs while a command is timed: theirs, and not one's own."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from leadline.host.bystanders import Bystanders
from leadline.host.timing import Stopwatch

SPIN = "import time\nend = time.process_time() + 1\nwhile time.process_time() < end: pass"


def test_ones_own_programs_are_nobody_elses_and_a_foreign_one_is_seen(tmp_path: Path) -> None:
    for name in ("own-spin", "foreign-spin"):
        (tmp_path / name).symlink_to(sys.executable)
    beside, begun = Bystanders(), time.monotonic()
    with Stopwatch() as watch:
        own = watch.time([str(tmp_path / "own-spin"), "-I", "-S", "-c", SPIN], 30.0).figures
    alone, first = beside.used(), time.monotonic() - begun
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
    assert "own-spin" not in both.programs
    assert both.programs["foreign-spin"] > 0
    # others grew by what the foreign one used, of which this look saw at least a third of a second
    assert both.others * second - alone.others * first > 0.3 * both.programs["foreign-spin"] * second
