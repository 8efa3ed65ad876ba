"""Programs timed as whole processes, by a small process of its own: run as a script it is that process.

It imports nothing but the standard library and holds little memory, because Linux counts the memory of who starts a
program in the program's peak (exec keeps the larger of both). Spoken to in lines of JSON; the end of its input ends
what it started.
"""

from __future__ import annotations

import contextlib
import functools
import json
import math
import os
import select
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

_AT_MOST = 10  # seconds for its end
_GROWS = 512  # KiB by which the process that starts programs may grow while it does


@dataclass(frozen=True)
class Timed:
    """One run of a program. ``figures``: by the names of ``leadline.host.timed``. ``why``: it failed, and how."""

    figures: dict[str, float]
    why: str = ""
    left: bool = False
    exit_code: int | None = None  # as of a shell; None where it ran too long, or could not be started


class Stopwatch:
    """Times programs one after the other. A context manager; on leaving, what still runs is ended."""

    def __enter__(self) -> Stopwatch:
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(Path(__file__))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()  # which ends what it started, and it
        try:
            self._process.wait(_AT_MOST)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(_AT_MOST)
        self._process.stdout.close()

    def time(self, argv: Sequence[str], timeout: float, accept: frozenset[int] | None = frozenset({0})) -> Timed:
        """One run. ``accept``: exit codes that are no failure, None for all."""
        return next(self.times([argv], timeout, accept))

    def floor(self, timeout: float) -> float:
        """MiB of peak memory up to which a program's figure may be that of the process that starts it."""
        return (self.time(["/bin/true"], timeout, None).figures.get("peak_kib", math.inf) + _GROWS) / 1024

    def times(
        self, programs: Sequence[Sequence[str]], timeout: float, accept: frozenset[int] | None = frozenset({0})
    ) -> Iterator[Timed]:
        """Several runs, told when the last has ended, so that nothing of ours runs between them. An interruption ends
        the one under way, tells of those before it, and is raised then.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        request = {"programs": [list(argv) for argv in programs], "timeout": timeout}
        self._process.stdin.write(json.dumps(request).encode() + b"\n")
        self._process.stdin.flush()
        count, interruption = 0, None
        while count < len(programs):
            try:
                line = self._process.stdout.readline()
            except KeyboardInterrupt as error:
                interruption = error
                self._process.stdin.close()
                continue
            if not line:
                break
            count += 1
            yield _timed(json.loads(line), timeout, accept)
        if interruption is not None:
            raise interruption
        if count < len(programs):
            raise RuntimeError("the process that times programs has ended")


def _timed(answer: dict[str, Any], timeout: float, accept: frozenset[int] | None) -> Timed:
    if "cannot" in answer:
        return Timed({}, str(answer["cannot"]))
    words = str(answer.pop("stderr")).strip().splitlines()
    left_behind, timed_out, status = bool(answer.pop("left")), answer.pop("timed_out"), int(answer["status"])
    why = ""
    if timed_out:
        why = f"it ran longer than {timeout:g} s and was ended"
    elif accept is not None and status not in accept:
        why = f"exit code {status}" + (f": {words[-1][:200]}" if words else "")
    figures = {name: float(value) for name, value in answer.items()}
    return Timed(figures, why, left_behind, None if timed_out else status)


LONGEST = 2000  # bytes of what a program wrote to standard error that are kept
_ABOUT = ("user", "system", "minor", "major", "voluntary", "involuntary", "read_blocks", "written_blocks", "peak_kib")

HARDWARE, INSTRUCTIONS = 0, 1  # PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS
_DEVICES = "/sys/bus/event_source/devices"
_UNITS = ("cpu", "arm")  # names of the CPU's own counters begin so
_NUMBERS = {"x86_64": 298, "aarch64": 241}  # of the system call
_INHERIT, _EXCLUDE_KERNEL, _EXCLUDE_HYPERVISOR = 1 << 1, 1 << 5, 1 << 6
_TIMES = 3  # PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING
_CLOSE_ON_EXEC = 8
_SIZE = 64  # PERF_ATTR_SIZE_VER0

_RESET = (signal.SIGINT, signal.SIGPIPE, signal.SIGXFSZ)  # what Python ignores or handles


class Gone(Exception):
    """Who asked has ended."""


def run(argv: list[str], timeout: float) -> dict[str, object]:
    """One run: seconds, faults, switches, blocks of 512 bytes, KiB; ``status`` as of a shell (128 + signal);
    ``instructions`` outside the kernel where the CPU counts them.

    ``timed_out`` and ``left`` (processes of its group that were still there; all are ended). Raises OSError where it
    cannot be started, and Gone.
    """
    nothing, environment = _given()
    counter = instructions()
    before = counter.read() if counter is not None else None
    stderr_file = os.memfd_create("stderr")
    actions = [
        (os.POSIX_SPAWN_DUP2, nothing, 0),
        (os.POSIX_SPAWN_DUP2, nothing, 1),
        (os.POSIX_SPAWN_DUP2, stderr_file, 2),
    ]
    try:
        started, begun = time.time(), time.perf_counter_ns()
        pid = os.posix_spawnp(argv[0], argv, environment, file_actions=actions, setpgroup=0, setsigdef=_RESET)
        timed_out = _wait(pid, timeout)
        _, status, used = os.wait4(pid, 0)
        wall = time.perf_counter_ns() - begun
        size = os.fstat(stderr_file).st_size
        words = os.pread(stderr_file, LONGEST, max(0, size - LONGEST))
    finally:
        os.close(stderr_file)
    figures = (used.ru_utime, used.ru_stime, used.ru_minflt, used.ru_majflt, used.ru_nvcsw, used.ru_nivcsw)
    found: dict[str, object] = dict(
        zip(_ABOUT, (*figures, used.ru_inblock, used.ru_oublock, used.ru_maxrss), strict=True)
    )
    if counter is not None and before is not None and (after := counter.read()) is not None:
        found["instructions"] = after - before
    code = os.waitstatus_to_exitcode(status)
    found |= {
        "started": started,
        "wall": wall / 1e9,
        "status": code if code >= 0 else 128 - code,
        "timed_out": timed_out,
    }
    return found | {"left": _end(pid), "stderr": words.decode(errors="replace")}


@functools.cache
def _given() -> tuple[int, dict[bytes, bytes]]:
    """/dev/null and the environment, the same for every run: os.environ decodes and encodes each name again."""
    return os.open(os.devnull, os.O_RDWR), dict(os.environb)


class Counter:
    """An event of the CPU over the programs that this process starts (perf_event_open(2)).

    Raises OSError where this host does not count it.
    """

    def __init__(self, kind: int = HARDWARE, event: int = INSTRUCTIONS) -> None:
        self._all, self._own = _opened(kind, event, _INHERIT), _opened(kind, event, 0)

    def read(self) -> int | None:
        """Events of the programs started so far, outside the kernel, that have ended or still run; None where the CPU
        shared its counters out, so that only a part was counted.
        """
        counted = [struct.unpack("QQQ", os.read(counter, 24)) for counter in (self._all, self._own)]
        if any(running < enabled for _, enabled, running in counted):
            return None
        return int(counted[0][0] - counted[1][0])


@functools.cache
def instructions() -> Counter | None:
    """A counter of instructions; None where this host counts none."""
    try:
        if not any(name.startswith(_UNITS) for name in os.listdir(_DEVICES)):  # noqa: PTH208 - pathlib takes memory
            return None
        return Counter()
    except OSError:
        return None


def _opened(kind: int, event: int, flags: int) -> int:
    import ctypes  # only where the CPU counts: it takes memory that Linux would count as a program's

    number = _NUMBERS.get(os.uname().machine)
    if number is None:
        raise OSError(f"perf_event_open has no number on {os.uname().machine}")
    flags |= _EXCLUDE_KERNEL | _EXCLUDE_HYPERVISOR
    wanted = ctypes.create_string_buffer(struct.pack("IIQQQQQ", kind, _SIZE, event, 0, 0, _TIMES, flags), _SIZE)
    call = ctypes.CDLL(None, use_errno=True).syscall
    opened = int(call(number, wanted, 0, -1, -1, _CLOSE_ON_EXEC))
    if opened < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return opened


def _wait(pid: int, timeout: float) -> bool:
    """Until the program has ended; True where it had to be ended."""
    handle = os.pidfd_open(pid)
    try:
        ended, _, _ = select.select([handle, 0], [], [], timeout)
        if handle in ended:
            return False
        _end(pid)
        if ended:  # the input's end, as nobody writes during a run
            os.waitpid(pid, 0)
            raise Gone
        select.select([handle], [], [])
        return True
    finally:
        os.close(handle)


def _end(group: int) -> bool:
    """Whether there was somebody left to end."""
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def serve() -> None:
    """A line of several programs: a line for each, all of them when the last has ended or who asked has gone."""
    while line := os.read(0, 1 << 20):
        while not line.endswith(b"\n"):
            more = os.read(0, 1 << 20)
            if not more:
                return
            line += more
        request = json.loads(line)
        answers: list[dict[str, object]] = []
        try:
            for argv in request["programs"]:
                try:
                    answers.append(run(argv, request["timeout"]))
                except OSError as error:
                    answers.append({"cannot": f"{argv[0]}: {error.strerror or error}"})
        except Gone:
            _tell(answers)
            return
        _tell(answers)


def _tell(answers: list[dict[str, object]]) -> None:
    with contextlib.suppress(BrokenPipeError), open(1, "wb", closefd=False) as out:
        out.write(b"".join(json.dumps(answer).encode() + b"\n" for answer in answers))


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's Ctrl-C is for who asked
    serve()
