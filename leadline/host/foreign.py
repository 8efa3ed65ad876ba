"""A process that leadline did not start: found by port, pid, file or unit, watched, and never signalled."""

from __future__ import annotations

import os
from pathlib import Path

from leadline.host import here, procfs
from leadline.host.base import PROC, Files
from leadline.host.files import listener

_TICKS = os.sysconf("SC_CLK_TCK")
_SYSTEMCTL = 10.0  # seconds until systemctl has answered


class ForeignProcess:
    """Implements ``leadline.host.base.Process`` without doing anything to it. Raises ProcessLookupError."""

    def __init__(self, files: Files, pid: int, name: str = "server") -> None:
        self._files = files
        self._name = name
        self._pid = pid
        self.start_ticks = self._start()
        if self.start_ticks < 0:
            raise ProcessLookupError(f"there is no process {pid}")

    @property
    def name(self) -> str:
        return self._name

    @property
    def pid(self) -> int:
        return self._pid

    def _stat(self) -> list[str]:
        path = f"{PROC}/{self._pid}/stat"
        text = self._files.read_many([path]).get(path, b"").decode(errors="replace")
        return text[text.rindex(")") + 2 :].split() if ")" in text else []

    def _start(self) -> int:
        words = self._stat()
        return int(words[19]) if words and words[0] not in "ZX" else -1

    def alive(self) -> bool:
        return self._start() == self.start_ticks

    def exit_code(self) -> int | None:
        """Nobody but its parent is told."""
        return None

    def signal(self, number: int) -> None:
        """Nothing: it is not leadline's."""

    def write(self, data: bytes) -> None:
        """Nothing: its standard input is another's."""

    def close_input(self) -> None:
        """Nothing."""

    def stop(self, grace: float = 10.0) -> bool:
        """It runs on."""
        del grace
        return True

    def cpu_seconds(self) -> tuple[float, float]:
        words = self._stat()
        if not words:
            return 0.0, 0.0
        user, system, ended_user, ended_system = (int(word) / _TICKS for word in words[11:15])
        return user + ended_user, system + ended_system

    def pids(self) -> list[int]:
        return [self._pid] if self.alive() else []


class Container(ForeignProcess):
    """The first process of a container with its children; the engine ends it, not a signal."""

    def __init__(self, files: Files, pid: int, identity: str) -> None:
        super().__init__(files, pid)
        self.identity = identity

    def pids(self) -> list[int]:
        return sorted(procfs.family(procfs.all_processes(), [self.pid])) if self.alive() else []


def java_home_of(files: Files, pid: int) -> Path | None:
    """JAVA_HOME of the JVM in process ``pid``; None where this host does not show it."""
    try:
        home = Path(files.link(f"{PROC}/{pid}/exe")).parent.parent
    except OSError:
        return None
    return home if (home / "bin" / "java").exists() else None


def find(
    files: Files,
    *,
    port: int | None = None,
    pid: int | None = None,
    pid_file: Path | None = None,
    unit: str | None = None,
) -> int:
    """The process that one of these names. Raises ProcessLookupError saying what was looked for."""
    if port is not None:
        if (process := listener(files, port)) is None:
            raise ProcessLookupError(f"nothing that this user can see listens on port {port}")
        return process
    if pid_file is not None:
        try:
            return int(files.read(pid_file).split()[0])
        except (OSError, ValueError, IndexError) as error:
            raise ProcessLookupError(f"{pid_file} names no process: {error}") from None
    if unit is not None:
        return _main_pid(unit)
    assert pid is not None
    return pid


def _main_pid(unit: str) -> int:
    try:
        done = here.run(["systemctl", "show", "--property=MainPID", "--value", unit], timeout=_SYSTEMCTL)
    except OSError as error:
        raise ProcessLookupError(f"systemctl does not tell the process of unit {unit}: {error}") from None
    word = done.stdout.strip()
    if done.returncode or not word.isdecimal() or word == "0":
        raise ProcessLookupError(f"unit {unit} has no process: {(done.stderr or done.stdout).strip() or 'none'}")
    return int(word)
