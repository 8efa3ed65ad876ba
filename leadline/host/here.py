"""Programs that leadline itself asks, on the machine it runs on: Maven, pip, ssh, its driver. A service is started by
its ``Host``.
"""

from __future__ import annotations

import math
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import IO

from leadline.host import privilege
from leadline.host.base import Completed

Exchanged = subprocess.CompletedProcess[bytes]
Running = subprocess.Popen[bytes]

_HEARTBEAT = 15.0  # seconds between two words about a program that works
# PR_SET_PDEATHSIG (prctl(2)) survives the exec; a parent that ended before it was set is seen by its number.
_TIE = (
    "import ctypes,os,sys; ctypes.CDLL(None).prctl(1, 9);"
    "os.getppid() == int(sys.argv[1]) or os._exit(1); os.execvp(sys.argv[2], sys.argv[2:])"
)


def run(
    argv: Sequence[str],
    data: bytes = b"",
    *,
    timeout: float | None = None,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    tell: Callable[[float], None] | None = None,
) -> Completed:
    """A program to its end, its words as text. ``data``: its standard input; ``tell`` hears the seconds so far every
    quarter of a minute.

    Raises OSError: TimeoutError after ``timeout`` seconds, FileNotFoundError without the program.
    """
    done = exchange(argv, data, timeout=timeout, env=env, cwd=cwd, tell=tell)
    out, said = (stream.decode(errors="replace") for stream in (done.stdout, done.stderr))
    return subprocess.CompletedProcess(done.args, done.returncode, out, said)


def exchange(
    argv: Sequence[str],
    data: bytes = b"",
    *,
    timeout: float | None = None,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    tell: Callable[[float], None] | None = None,
) -> Exchanged:
    """As ``run``, in bytes."""
    begin = time.monotonic()
    with _piped(argv, env, cwd) as process:
        try:
            while True:
                left = math.inf if timeout is None else begin + timeout - time.monotonic()
                beat = min(left, _HEARTBEAT if tell else math.inf)
                try:
                    out, said = process.communicate(data, None if beat == math.inf else max(0.0, beat))
                    return subprocess.CompletedProcess(list(argv), process.returncode, out, said)
                except subprocess.TimeoutExpired:
                    data = b""  # the first call goes on with it
                    if beat == left:
                        raise TimeoutError(f"{argv[0]} did not end within {timeout:g} s") from None
                if tell is not None:
                    tell(time.monotonic() - begin)
        except BaseException:
            process.kill()
            raise


def alone(
    argv: Sequence[str],
    reads: Iterable[Path] = (),
    owns: Iterable[Path] = (),
    *,
    home: Path | None = None,
    timeout: float | None = None,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> Completed:
    """As ``run``, for root as a user of its own (``leadline.host.privilege.run``). Raises UsageError, OSError."""
    try:
        return privilege.run(argv, reads, owns, home, timeout=timeout, env=env, cwd=cwd, errors="replace")
    except subprocess.TimeoutExpired:
        raise TimeoutError(f"{argv[0]} did not end within {timeout:g} s") from None


@contextmanager
def opened(argv: Sequence[str], timeout: float) -> Iterator[Running]:
    """A program to talk with by pipes, killed after ``timeout`` seconds. Raises OSError."""
    with _piped(argv) as process:
        timer = threading.Timer(timeout, process.kill)
        timer.start()
        try:
            yield process
        finally:
            timer.cancel()


def foreground(
    argv: Sequence[str], *, apart: bool = False, output: IO[str] | None = None, env: Mapping[str, str] | None = None
) -> tuple[int, list[int]]:
    """A program in the foreground to its end: its exit code, and the signals that were passed on to it.

    SIGTERM and SIGHUP go on to it. SIGINT it has from the terminal itself, unless it stands ``apart`` in a group of its
    own, which may not read the terminal and is told of everything once. Raises OSError.
    """
    told: list[int] = []
    stdin = subprocess.DEVNULL if apart and os.isatty(0) else None
    group = 0 if apart else None
    stderr = subprocess.STDOUT if output is not None else None
    process = subprocess.Popen(list(argv), stdin=stdin, stdout=output, stderr=stderr, env=env, process_group=group)

    def forward(number: int, _frame: FrameType | None) -> None:
        told.append(number)
        with suppress(ProcessLookupError):  # it has just ended
            os.killpg(process.pid, number) if apart else process.send_signal(number)

    handlers: dict[int, Callable[[int, FrameType | None], None]] = {
        signal.SIGINT: forward if apart else lambda _number, _frame: None,
        signal.SIGTERM: forward,
    }
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # nohup
        handlers[signal.SIGHUP] = forward
    with process:
        before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
        try:
            return process.wait(), told
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def _piped(argv: Sequence[str], env: Mapping[str, str] | None = None, cwd: Path | None = None) -> Running:
    pipe = subprocess.PIPE
    return subprocess.Popen(list(argv), stdin=pipe, stdout=pipe, stderr=pipe, env=env, cwd=cwd)


def tied(argv: Sequence[str]) -> list[str]:
    """The command so that the kernel ends it when this process ends, however it does. Raises FileNotFoundError."""
    if shutil.which(argv[0]) is None:
        raise FileNotFoundError(2, "no such program", argv[0])
    return [sys.executable, "-I", "-S", "-c", _TIE, str(os.getpid()), *argv]


def cpu_count() -> int:
    """CPUs that this process may use."""
    return len(os.sched_getaffinity(0))
