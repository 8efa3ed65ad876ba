"""Programs counted in a real guest: half a per cent more is found, nothing is found in nothing, digits are the same."""

import shutil
from pathlib import Path

import pytest

from leadline.experiments.counting import counted
from leadline.host.local import LocalHost
from leadline.places.guest.boot import QEMU
from leadline.trial.command import commands_of

pytestmark = [
    pytest.mark.stack,
    pytest.mark.skipif(not (shutil.which(QEMU) and shutil.which("strace")), reason=f"{QEMU} or strace is missing"),
]


def test_a_planted_half_per_cent_is_found_and_nothing_in_nothing(tmp_path: Path) -> None:
    for name, steps in (("old", 4000), ("same", 4000), ("new", 4024)):
        (tmp_path / name).write_text(f"i=0; while [ $i -lt {steps} ]; do i=$((i+1)); done")
    commands = commands_of([f"/bin/sh {tmp_path / name}" for name in ("old", "same", "new")], {})
    first, again = (counted(commands, 3, LocalHost(state=tmp_path / "state"), 300.0, print) for _ in range(2))
    assert first == again
    same, new = first.answer().split("; ")
    assert "no difference beyond 0.25 % of instructions" in same
    assert "more instructions (+0." in new
    assert min(first.of(0, "page_faults")) > 10
