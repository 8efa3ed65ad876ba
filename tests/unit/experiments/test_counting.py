"""What a guest needs of a program, and what the blocks of its run add up to."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from leadline.checks.files.stack import read_stack
from leadline.experiments import counting
from leadline.experiments.counting import figures, files_of, paths_of, services
from leadline.experiments.gate import BASE, HEAD, of_stack_files
from leadline.host import here
from leadline.load.result import read_summary
from leadline.model.errors import UsageError
from leadline.model.ownstack import OwnFile
from leadline.places.guest.boot import Node
from leadline.places.virtual.instructions import Symbols
from leadline.trial.command import commands_of

KERNEL = {0xFFFFFFFF81000000: "exc_page_fault", 0xFFFFFFFF81001000: "__x64_sys_read", 0xFFFFFFFF81002000: "__switch_to"}
TRACE = """\
execve("/usr/bin/cat", ["cat", "a b"], 0x7ffe /* 9 vars */) = 0
access("/etc/ld.so.preload", R_OK)      = -1 ENOENT (No such file or directory)
openat(AT_FDCWD</srv>, "a b", O_RDONLY) = 3</srv/a b>
openat(4</etc>, "../opt/x", O_RDONLY) = 5</opt/x>
readlink("y", "z", 4095) = 1
+++ exited with 0 +++
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


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
def test_what_processes_read_at_once_goes_with_them(tmp_path: Path) -> None:
    files = [tmp_path / f"file-{number}" for number in range(60)]
    for file in files:
        file.write_text("x")
    script = tmp_path / "script"
    gone = Path("/tmp/hsperfdata_leadline-test/1")  # of a JVM that ends later
    gone.parent.mkdir(exist_ok=True)
    gone.write_text("x")
    files.append(gone)
    try:
        script.write_text("".join(f"cat {file} &\n" for file in files) + "wait\n")
        tree = files_of(commands_of([f"/bin/sh {script}"], {})[0], tmp_path / "trace", 60.0)
    finally:
        shutil.rmtree(gone.parent)
    assert {str(file) for file in files} - set(tree) == {str(gone)}


STACK = """\
stack: web
command: ["{python}", -m, http.server, "${{port}}", --bind, "${{address}}"]
directory: files
environment: {{ GREETING: "it's ${{env:HOME}}" }}
scenario: web.scenario.yaml
{more}
"""
SCENARIO = """\
scenario: web
mix: { item: 1 }
transactions:
  item: [{ get: /items.txt, check: { contains: x } }]
"""


def _stacks(folder: Path, more: str = "") -> OwnFile:
    for name in ("main", "change"):
        text = STACK.format(python=sys.executable, more=more) + ("# changed\n" if name == "change" else "")
        (folder / f"{name}.stack.yaml").write_text(text)
    (folder / "web.scenario.yaml").write_text(SCENARIO)
    (folder / "files").mkdir()
    (folder / "files" / "items.txt").write_text("x")
    return of_stack_files(*(read_stack(folder / f"{name}.stack.yaml") for name in ("main", "change")))


def test_a_server_is_started_loaded_and_stopped_by_a_script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counting, "WARM_UP", 1)
    monkeypatch.setattr(counting, "SECONDS", 2)
    monkeypatch.setenv("HOME", "/home/eve")
    (work := tmp_path / "work").mkdir()
    base, head = services(_stacks(tmp_path), (BASE, HEAD), tmp_path / "web.scenario.yaml", work)
    assert (base.text, head.text) == (BASE, HEAD)
    done = here.run(list(base.argv), timeout=120.0)
    assert done.returncode == 0, done.stderr
    assert 100 < read_summary(work / "out").total["item"].ok < 300  # 20 sessions of 10 on average
    assert 'export JAVA_TOOL_OPTIONS="-XX:TieredStopAtLevel=1${JAVA' in (work / "base.sh").read_text()
    assert "export GREETING='it'\"'\"'s /home/eve'" in (work / "base.sh").read_text()
    assert (work / "log").read_text().count("GET /items.txt") > 200


def test_a_load_that_fails_where_it_is_only_traced_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """strace and neighbours make responses late; the guest, whose clock waits for it, tells what really fails."""
    monkeypatch.setattr(counting, "WARM_UP", 1)
    monkeypatch.setattr(counting, "SECONDS", 1)
    stacks = _stacks(tmp_path)
    (tmp_path / "web.scenario.yaml").write_text(SCENARIO.replace("contains: x", "contains: y"))
    (work := tmp_path / "work").mkdir()
    (base,) = services(stacks, (BASE,), tmp_path / "web.scenario.yaml", work)
    done = here.run(list(base.argv), timeout=120.0)
    assert (done.returncode, done.stderr) == (0, "")
    assert read_summary(work / "out").total["item"].failed > 0


def test_a_server_that_ends_is_told_with_its_words(tmp_path: Path) -> None:
    (work := tmp_path / "work").mkdir()
    stacks = _stacks(tmp_path)
    build = stacks.content.builds[BASE].model_copy(update={"command": ["sh", "-c", "echo no licence; exit 3"]})
    content = stacks.content.model_copy(update={"builds": {BASE: build}, "environment": {}})
    (base,) = services(stacks.model_copy(update={"content": content}), (BASE,), tmp_path / "web.scenario.yaml", work)
    done = here.run(list(base.argv), timeout=60.0)
    assert (done.returncode, done.stderr.strip()) == (1, "the server ended: no licence")


def test_a_database_is_not_counted(tmp_path: Path) -> None:
    stacks = _stacks(tmp_path, "database: { kind: postgres, sql: [] }")
    with pytest.raises(UsageError, match=r"main.stack.yaml:6: --count runs no database in its guest: write"):
        services(stacks, (BASE, HEAD), tmp_path / "web.scenario.yaml", tmp_path)
