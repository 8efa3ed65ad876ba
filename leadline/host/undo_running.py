"""What is put back in processes that are not leadline's children: levels of a running JVM and its log, a settings file
with the restart that follows it, containers that are ended. Standard library only: the watchdog loads it.

A level is put back by the agent, over the socket that HotSpot's attach mechanism opened when the level was changed.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from leadline.host import procfs
from leadline.host.paths import Scratch
from leadline.host.undo import CannotUndo, Entry
from leadline.model.received import from_json

LEVEL, SETTINGS, CONTAINERS, LOGGING = "level", "settings", "containers", "logging"
_LONGEST = 30.0  # seconds until a JVM has put a level back


def undo_level(entries: Sequence[Entry], root: Path) -> str:  # noqa: ARG001
    """Have the JVM take the original, and hold what it tells then against what it told before the change."""
    entry = entries[-1]
    pid, start = int(entry.data["pid"]), int(entry.data["start"])
    stat = procfs.read_stat(pid)
    if stat is None or stat.start != start or not stat.alive:
        return f"{entry.target}: process {pid} has ended, and its level with it"
    original: Mapping[str, Any] = entry.original
    try:
        answer = _ask(pid, Path(entry.data["agent"]), {**original["changes"], **original["question"]})
    except (OSError, ValueError) as error:
        raise CannotUndo(f"{entry.target} of process {pid}: {error}; set it back to {original['shown']}") from None
    if answer.get("refused"):
        raise CannotUndo(f"{entry.target} of process {pid}: refused: {'; '.join(answer['refused'])}")
    traits = {part: answer.get(part) for part in original["told"]}
    if traits != original["told"]:
        raise CannotUndo(f"{entry.target} of process {pid} is {traits}, it was {original['told']}")
    return f"{entry.target} of process {pid}: put back to {original['shown']}"


def _ask(pid: int, agent: Path, options: Mapping[str, str]) -> dict[str, Any]:
    """What the agent answers. Raises OSError, ValueError."""
    with Scratch(shared=True) as directory:
        answer, question = directory / "answer.json", directory / "question.properties"
        answer.touch(mode=0o600)
        owner = Path(f"/proc/{pid}").stat()
        if os.geteuid() == 0:
            os.chown(answer, owner.st_uid, owner.st_gid)
        lines = {"answer": str(answer), **options}
        question.write_text("".join(f"{_escaped(name)}={_escaped(value)}\n" for name, value in lines.items()))
        question.chmod(0o644)
        jcmd = jcmd_by_socket(pid, pid_inside(pid), f"JVMTI.agent_load {agent} {question}", _LONGEST)
        if jcmd is None:
            raise OSError("its attach socket cannot be reached")
        if jcmd[0] or "return code: 0" not in jcmd[1]:
            raise OSError(f"it did not load the agent: {jcmd[1].strip()[-200:]}")
        answer_: dict[str, Any] = from_json(answer.read_text())
        return answer_


def _escaped(text: str) -> str:
    """A key or a value of a Java properties file (java.util.Properties.load)."""
    plain = "".join(f"\\{letter}" if letter in "\\=:#! " else letter for letter in text)
    return "".join(letter if " " <= letter <= "~" else f"\\u{ord(letter):04x}" for letter in plain)


def pid_inside(pid: int) -> str:
    """Its number in its own pid namespace. Raises OSError."""
    return Path(f"/proc/{pid}/status").read_text().partition("NSpid:")[2].split("\n", 1)[0].split()[-1]


def jcmd_by_socket(pid: int, inside: str, command: str, timeout: float) -> tuple[int, str] | None:
    """Exit code and answer of a command of jcmd, written to the socket that HotSpot's attach mechanism has opened;
    None where there is none (HotSpot, attachListener_posix.cpp: version, name, three arguments). Raises OSError.

    A socket that nobody listens on is of a dead JVM whose number this one has now. It is removed: the JVM's own user
    could not, and the JDK's tool refuses a socket of another user's.
    """
    path = Path(f"/proc/{pid}/root/tmp/.java_pid{inside}")
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(timeout)
        try:
            connection.connect(str(path))
        except ConnectionRefusedError:
            with contextlib.suppress(OSError):
                path.unlink()
            return None
        except OSError:
            return None
        connection.sendall("".join(f"{word}\0" for word in ("1", "jcmd", command, "", "")).encode())
        answer = bytearray()
        while part := connection.recv(65536):
            answer += part
    code, _, text = answer.decode(errors="replace").partition("\n")
    return (int(code) if code.strip().isdigit() else 1), text


def undo_settings(entries: Sequence[Entry], root: Path) -> str:  # noqa: ARG001
    """Put the oldest contents of a settings file back, read them back, and restart what reads it."""
    entry = entries[-1]
    path, original = Path(entry.target), entry.original
    if not entry.data.get("rewrite", True):
        return _restarted(entry, "nothing of it was written")
    try:
        if original is None:
            path.unlink(missing_ok=True)
        elif not path.exists() or path.read_text() != original:
            path.write_text(original)
        same = (path.read_text() if path.exists() else None) == original
    except OSError as error:
        raise CannotUndo(f"{path}: {error.strerror}") from None
    if not same:
        raise CannotUndo(f"{path} does not hold its original contents")
    return _restarted(entry, "put back")


def _restarted(entry: Entry, done_so_far: str) -> str:
    """Run the restart command of a settings file."""
    words = [str(word) for word in entry.data["restart"]]
    sentence = f"{entry.target}: {done_so_far}"
    try:
        done = subprocess.run(
            words,
            capture_output=True,
            text=True,
            check=False,
            timeout=float(entry.data["within"]),
            cwd=entry.data["folder"],
            env={**os.environ, **entry.data.get("environment", {})},
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CannotUndo(f"{sentence}, but {words[0]} failed: {error}") from None
    if done.returncode:
        last = (done.stderr or done.stdout).strip()[-200:]
        raise CannotUndo(f"{sentence}, but {words[0]} ended with {done.returncode}: {last}")
    return f"{sentence}, and {words[0]} run"


def undo_containers(entries: Sequence[Entry], root: Path) -> str:  # noqa: ARG001
    """End the containers of a compose project."""
    return _restarted(entries[-1], "ended")


def undo_logging(entries: Sequence[Entry], root: Path) -> str:  # noqa: ARG001
    """Switch a log of a running JVM off, and remove its files."""
    entry = entries[-1]
    pid, start = int(entry.data["pid"]), int(entry.data["start"])
    stat = procfs.read_stat(pid)
    if stat is not None and stat.alive and stat.start == start:
        try:
            answer = jcmd_by_socket(pid, pid_inside(pid), f"VM.log output={entry.target} what=all=off", _LONGEST)
        except OSError as error:
            answer = 1, str(error)
        if answer is None or answer[0]:
            why = answer[1].strip() if answer else "its attach socket cannot be reached"
            raise CannotUndo(f"log {entry.target}: {why}; jcmd {pid} VM.log output={entry.target} what=all=off")
    for path in (entry.data["file"], f"{entry.data['file']}.0"):
        with contextlib.suppress(FileNotFoundError):
            Path(path).unlink()
    return f"log {entry.target} of process {pid}: off, its files removed"


UNDO = {LEVEL: undo_level, SETTINGS: undo_settings, CONTAINERS: undo_containers, LOGGING: undo_logging}
