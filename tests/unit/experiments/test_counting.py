"""What a guest needs of a program, and what the blocks of its run add up to."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from leadline.experiments.counting import figures, files_of, paths_of
from leadline.model.errors import UsageError
from leadline.places.guest.initramfs import Node
from leadline.places.virtual.instructions import Symbols
from leadline.trial.command import commands_of

KERNEL = {0xFFFFFFFF81000000: "exc_page_fault", 0xFFFFFFFF81001000: "__x64_sys_read", 0xFFFFFFFF81002000: "__switch_to"}
TRACE = """\
7   execve("/usr/bin/cat", ["cat", "a b"], 0x7ffe /* 9 vars */) = 0
7   access("/etc/ld.so.preload", R_OK)      = -1 ENOENT (No such file or directory)
7   openat(AT_FDCWD</srv>, "a b", O_RDONLY) = 3</srv/a b>
7   openat(4</etc>, "../opt/x", O_RDONLY) = 5</opt/x>
7   readlink("y", "z", 4095) = 1
7   +++ exited with 0 +++
"""


def test_blocks_add_up_by_half_and_by_what_begins_at_them() -> None:
    symbols = Symbols(sorted(KERNEL), [KERNEL[address] for address in sorted(KERNEL)])
    blocks = ["400000 5 10", *(f"{address:x} 3 2" for address in KERNEL), "ffffffff81001008 4 1"]
    assert figures(blocks, symbols) == {
        "instructions": 72,
        "user_instructions": 50,
        "kernel_instructions": 22,
        "page_faults": 2,
        "switches": 2,
        "syscalls": 2,
        "syscalls.read": 2,
    }
    with pytest.raises(ValueError, match="invalid literal"):
        figures(["here 5 10"], symbols)


def test_a_trace_tells_what_was_reached() -> None:
    paths = [str(path) for path in paths_of(TRACE.splitlines(), Path("/home"))]
    assert paths == ["/usr/bin/cat", "/srv/a b", "/opt/x", "/home/y"]


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
def test_a_program_goes_with_what_it_reads(tmp_path: Path) -> None:
    script, data, link = tmp_path / "script", tmp_path / "data", tmp_path / "link"
    script.write_text(f"#!/bin/sh\nexec cat {link}\n")
    script.chmod(0o755)
    data.write_text("x")
    link.symlink_to(data)
    tree = files_of(commands_of([str(script)], {})[0], tmp_path / "trace", 60.0)
    assert tree[str(data)] == Node(data)
    assert tree[str(link)] == Node(link=str(data))
    assert {str(script), "/bin/sh"} <= set(tree)
    assert any("/ld-" in path for path in tree)
    assert not any(path.startswith("/proc/") for path in tree)
    with pytest.raises(UsageError, match="'cat /nowhere' fails: exit code 1"):
        files_of(commands_of(["cat /nowhere"], {})[0], tmp_path / "trace", 60.0)
