"""The clock of a saved guest is put back to when it paused."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from leadline.guest.pause import settle

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
