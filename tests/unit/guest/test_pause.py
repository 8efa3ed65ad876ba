"""The clock of a saved guest stands where it paused, or went on."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from leadline.guest.pause import undisturbed

MARK = b"leadline"  # of the register beside the time
CLOCK = b"\x0ctimer/icount\x00\x00\x00\x01"


def saved(path: Path, paused: int, offset: int, instructions: int) -> Path:
    path.write_bytes(b"a" * 40 + struct.pack(">qq", offset, instructions).join([CLOCK, b"b" * 9]))
    with path.open("ab") as file:
        file.write(struct.pack(">Q", paused) + MARK + b"c" * 30)
    return path


def test_a_clock_that_went_on_is_told(tmp_path: Path) -> None:
    assert undisturbed(saved(tmp_path / "still", 5_000_000, 1_000_016, 2_000_000), 1)
    assert not undisturbed(saved(tmp_path / "moved", 5_000_000, 2_500_000, 2_000_000), 1)


def test_a_state_that_does_not_tell_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "state"
    path.write_bytes(b"nothing of it")
    with pytest.raises(ValueError, match="tells no time"):
        undisturbed(path, 1)
