"""Programs that leadline itself asks, on the machine it runs on: Maven, pip, ssh, its driver. A service is started by
its ``Host``.
"""

from __future__ import annotations

import asyncio
import errno
import os
import resource
import select
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import IO, Any, TypeVar, Unpack, cast

from leadline.host import privilege
from leadline.host.base import Completed, RunOptions
from leadline.host.received import unpack
from leadline.model.received import ReceivedError

_Result = TypeVar("_Result")
Exchanged = subprocess.CompletedProcess[bytes]
Running = subprocess.Popen[bytes]

MOST_SAID = 64 << 20  # bytes that a program may say
_HEARTBEAT = 15.0  # seconds between two words about a program that works
# PR_SET_PDEATHSIG (prctl(2)) survives the exec; a parent that ended before it was set is seen by its number.
_TIE = (
    "import ctypes,os,sys; ctypes.CDLL(None).prctl(1, 9);"
    "os.getppid() == int(sys.argv[1]) or os._exit(1); os.execvp(sys.argv[2], sys.argv[2:])"
)


def cpus() -> int:
    """How many CPUs leadline may use."""
    return len(os.sched_getaffinity(0))


def run(
    argv: Sequence[str], data: bytes = b"", tell: Callable[[float], None] | None = None, **how: Unpack[RunOptions]
) -> Completed:
    """A program to its end, its words as text. ``data``: its standard input; ``tell`` hears the seconds so far every
    quarter of a minute.

    Raises OSError: TimeoutError after ``timeout`` seconds, FileNotFoundError without the program, another for more than
    ``MOST_SAID`` bytes.
    """
    with _beats(tell):
        done = exchange(argv, data, **how)
    out, output_texts = (stream.decode(errors="replace") for stream in (done.stdout, done.stderr))
    return subprocess.CompletedProcess(done.args, done.returncode, out, output_texts)


def exchange(argv: Sequence[str], data: bytes = b"", **how: Unpack[RunOptions]) -> Exchanged:
    """As ``run``, in bytes."""
    within = how.pop("timeout", None) or privilege.LONGEST
    pipe = subprocess.PIPE
    process: Running
    with subprocess.Popen(list(argv), stdin=pipe, stdout=pipe, stderr=pipe, **how) as process:  # type: ignore[call-overload]
        try:
            out, errors = _talk(process, data, time.monotonic() + within)
            return subprocess.CompletedProcess(process.args, process.returncode, out, errors)
        except TimeoutError:
            raise TimeoutError(f"{argv[0]} did not end within {within:g} s") from None
        finally:
            process.kill()


def _talk(process: Running, data: bytes, deadline: float) -> tuple[bytes, bytes]:
    """Give a program its input and hear its output and errors to their ends. Raises TimeoutError, OSError for more than
    ``MOST_SAID`` bytes.
    """
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    outputs = {process.stdout: bytearray(), process.stderr: bytearray()}
    unsent = memoryview(data)
    with selectors.DefaultSelector() as streams:
        for stream in outputs:
            streams.register(stream, selectors.EVENT_READ)
        os.set_blocking(process.stdin.fileno(), False)
        streams.register(process.stdin, selectors.EVENT_WRITE)
        while streams.get_map():
            if (remaining := deadline - time.monotonic()) <= 0:
                raise TimeoutError
            for key, _ in streams.select(remaining):
                if key.fileobj is process.stdin:
                    with suppress(BrokenPipeError):
                        unsent = unsent[os.write(key.fd, unsent[: select.PIPE_BUF]) :] if unsent else unsent
                        if unsent:
                            continue
                    streams.unregister(process.stdin)
                    process.stdin.close()
                elif part := os.read(key.fd, 1 << 16):
                    heard = outputs[cast(IO[bytes], key.fileobj)]
                    heard += part
                    if len(heard) > MOST_SAID:
                        raise OSError(errno.EFBIG, f"it said more than {MOST_SAID:,} bytes")
                else:
                    streams.unregister(key.fileobj)
    with suppress(subprocess.TimeoutExpired):
        process.wait(max(0.0, deadline - time.monotonic()))
        return bytes(outputs[process.stdout]), bytes(outputs[process.stderr])
    raise TimeoutError


def finished(work: Coroutine[Any, Any, _Result], seconds: float) -> _Result:
    """The result of what a library waits for, which Ctrl-C ends. Raises TimeoutError."""
    return asyncio.run(asyncio.wait_for(work, seconds))


def unpacked(argv: Sequence[str], into: Path, what: str, within: float) -> Exchanged:
    """A program to its end whose output is a tar archive, unpacked below a directory; links and devices are left out.

    Raises ReceivedError for a damaged archive, unless the program itself failed; OSError.
    """
    refused: ReceivedError | None = None
    with (
        tempfile.TemporaryFile() as errors,
        subprocess.Popen(
            list(argv), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, start_new_session=True
        ) as process,
    ):
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (MOST_SAID, MOST_SAID))
        timer = threading.Timer(within, _end_group, [process.pid])  # what it started may hold its output open
        timer.start()
        assert process.stdout is not None
        try:
            try:
                unpack(process.stdout, into, what, passes_over=True)
            except ReceivedError as error:
                refused = error
                if process.stdout.read(1):  # the program did not fail
                    raise
            code = process.wait()
        finally:
            timer.cancel()
            process.kill()
        errors.seek(0)
        if refused is not None and not code:
            raise refused
        return subprocess.CompletedProcess(process.args, code, b"", errors.read(MOST_SAID))


def _end_group(group: int) -> None:
    with suppress(OSError):  # it has just ended
        os.killpg(group, signal.SIGKILL)


def alone(
    argv: Sequence[str],
    reads: Iterable[Path] = (),
    owns: Iterable[Path] = (),
    home: Path | None = None,
    **how: Unpack[RunOptions],
) -> Completed:
    """As ``run``, for root as a user of its own (``leadline.host.privilege.run``). Raises UsageError, OSError."""
    try:
        return privilege.run(argv, reads, owns, home, errors="replace", **how)
    except subprocess.TimeoutExpired as late:
        raise TimeoutError(f"{argv[0]} did not end within {late.timeout:g} s") from None


@contextmanager
def own_user(
    argv: Sequence[str],
    home: Path,
    reads: Sequence[Path],
    owns: Sequence[Path],
    key: Path | None = None,
    **rights: bool,
) -> Iterator[list[str]]:
    """Where leadline is root, the command line that runs as a user of its own, who owns ``owns`` meanwhile.

    ``key`` and ``rights`` as in ``leadline.host.privilege.User.prefix``. Raises UsageError.
    """
    user = privilege.new_user()
    if user is None:
        yield tied(argv) if rights.get("tied") else list(argv)
        return
    for path in owns:
        privilege.hand_over(path, user.uid)
    try:
        yield [*user.prefix(home, reads, owns, key=key, **rights), *argv]
    finally:
        privilege.take_back(owns, user.uid)


def is_root() -> bool:
    """Whether programs get users of their own."""
    return os.geteuid() == 0


@contextmanager
def _beats(tell: Callable[[float], None] | None) -> Iterator[None]:
    begin, over = time.monotonic(), threading.Event()

    def beat(tell: Callable[[float], None]) -> None:
        while not over.wait(_HEARTBEAT):
            tell(time.monotonic() - begin)

    if tell is not None:
        threading.Thread(target=beat, args=(tell,), daemon=True).start()
    try:
        yield
    finally:
        over.set()


@contextmanager
def opened(argv: Sequence[str], timeout: float) -> Iterator[Running]:
    """A program to talk with by pipes, killed after ``timeout`` seconds. Raises OSError."""
    pipe = subprocess.PIPE
    with subprocess.Popen(list(argv), stdin=pipe, stdout=pipe, stderr=pipe) as process:
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
    signals: list[int] = []
    stdin = subprocess.DEVNULL if apart and os.isatty(0) else None
    group = 0 if apart else None
    stderr = subprocess.STDOUT if output is not None else None
    process = subprocess.Popen(list(argv), stdin=stdin, stdout=output, stderr=stderr, env=env, process_group=group)

    def forward(number: int, _frame: FrameType | None) -> None:
        signals.append(number)
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
            return process.wait(), signals
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def tied(argv: Sequence[str]) -> list[str]:
    """The command so that the kernel ends it when this process ends, however it does. Raises FileNotFoundError."""
    if shutil.which(argv[0]) is None:
        raise FileNotFoundError(2, "no such program", argv[0])
    return [sys.executable, "-I", "-S", "-c", _TIE, str(os.getpid()), *argv]


def cpu_count() -> int:
    """CPUs that this process may use."""
    return len(os.sched_getaffinity(0))
