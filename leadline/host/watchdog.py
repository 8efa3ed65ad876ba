"""Puts the host back when leadline is gone: a small process of its own. Standard library only.

It holds the read end of a pipe whose only write end is in leadline's process. A byte ``h`` is a heartbeat, ``q`` says
that the run ended well. End of file means that leadline is gone; silence for longer than the dead-man time that it
hangs. Either way the watchdog waits once more for the dead-man time, for a leadline that takes the lease again or
beats again, and then undoes the journal, which ends the processes started as well.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from leadline.host.journal import UndoJournal
from leadline.host.lease import Lease
from leadline.model.errors import LeadlineError

_READY = b"watching"
ENDED_WELL, RESUMED, RESTORED, FAILED = 0, 0, 10, 3  # exit codes


class Watchdog:
    """leadline's side. A thread beats; ``finish`` when the run ended well."""

    def __init__(self, process: subprocess.Popen[bytes], pipe: int, dead_man: float) -> None:
        self._process = process
        self._pipe = pipe
        self._stop = threading.Event()
        self._interval = max(0.05, min(5.0, dead_man / 5))
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)
        self._thread.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def alive(self) -> bool:
        return self._process.poll() is None

    def fired(self) -> bool:
        """Whether it took this run for dead (stopped for long, say) and put the host back."""
        return self._process.poll() in (RESTORED, FAILED)

    def beat(self) -> None:
        """Show that leadline is alive (the thread does so by itself)."""
        with contextlib.suppress(OSError):  # full pipe: it has enough to read; broken: ``alive`` tells
            os.write(self._pipe, b"h")

    def _run(self) -> None:
        while not self._stop.wait(self._interval):
            self.beat()

    def abandon(self) -> None:
        """Leave the rest to it, as if this process had ended."""
        if not self._stop.is_set():
            self._stop.set()
            self._thread.join()
            os.close(self._pipe)

    def finish(self) -> None:
        """Tell it that all is put back, and wait for its end."""
        if self._stop.is_set():
            return
        with contextlib.suppress(OSError):
            os.write(self._pipe, b"q")
        self.abandon()
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def start_watchdog(journal_path: Path, dead_man: float, root: Path = Path("/")) -> Watchdog:
    """Start one for a host's journal ``STATE/undo/<host>.jsonl``. ``dead_man`` in seconds. Raises OSError."""
    package = Path(__file__).resolve().parents[2]
    reading, writing = os.pipe()  # neither is inherited by other children
    try:
        os.set_blocking(writing, False)
        loader = f"import sys; sys.path.insert(0, {str(package)!r}); from leadline.host.watchdog import main; main()"
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", loader, str(journal_path), repr(dead_man), str(root), str(os.getpid())],
            stdin=reading,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            cwd="/",
        )
    except BaseException:
        os.close(writing)
        raise
    finally:
        os.close(reading)
    assert process.stdout is not None
    with process.stdout as ready:
        if ready.read() != _READY:
            os.close(writing)
            process.wait()
            raise OSError(f"the watchdog did not start (exit code {process.returncode})")
    return Watchdog(process, writing, dead_man)


class _Guard:
    """The watchdog's own side."""

    def __init__(self, journal_path: Path, dead_man: float, root: Path, parent: int) -> None:
        state = journal_path.parent.parent
        self.journal = UndoJournal(journal_path, root)
        self.lease = Lease(root)
        self.log_path = state / "watchdog.log"
        self.dead_man = dead_man
        self.parent = parent
        self.hurry = False

    def log(self, text: str) -> None:
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S%z")
        with contextlib.suppress(OSError), self.log_path.open("a") as file:
            file.write(f"{stamp} watchdog {os.getpid()} of {self.parent}: {text}\n")

    def _terminate(self, *_: object) -> None:
        self.hurry = True

    def _listen(self, seconds: float) -> bytes | None:
        """What the pipe says within so many seconds; None for silence, empty for its end."""
        ready, _, _ = select.select([0], [], [], seconds)
        return os.read(0, 4096) if ready else None

    def run(self) -> int:
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGPIPE, signal.SIGTSTP):
            signal.signal(number, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, self._terminate)
        with contextlib.suppress(OSError):
            Path("/proc/self/oom_score_adj").write_text("-1000")
        os.write(1, _READY)
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.close(nowhere)
        while True:
            heard = self._listen(self.dead_man)
            if heard is None:
                self.log(f"no sign of life for {self.dead_man:g} s")
                heard = self._listen(self.dead_man)
                if heard is None:
                    return self._restore(hung=True)
                if heard:
                    self.log("leadline is back")
            if heard and b"q" in heard:
                return ENDED_WELL
            if not heard:
                return self._parent_gone()

    def _parent_gone(self) -> int:
        with contextlib.suppress(OSError):
            if not self.journal.open_entries():
                return ENDED_WELL
        self.log(f"leadline is gone; waiting {self.dead_man:g} s for one that resumes")
        deadline = time.monotonic() + self.dead_man
        while time.monotonic() < deadline and not self.hurry:
            if self.lease.holder().get("pid") != self.parent and self.lease.holder_alive():
                self.log("another leadline took the lease: leaving the host to it")
                return RESUMED
            time.sleep(min(0.2, self.dead_man / 10))
        return self._restore(hung=False)

    def _may_act(self, hung: bool) -> bool:
        """Take the lease unless another leadline has it.

        The one watched may hold it still: stopped, or dying (the kernel closes its pipe a moment before its lock).
        """
        deadline = time.monotonic() + 5
        while not self.lease.try_acquire():
            if self.lease.holder().get("pid") != self.parent and self.lease.holder_alive():
                return False
            if hung or time.monotonic() > deadline:
                return True
            time.sleep(0.02)
        return True

    def _restore(self, hung: bool) -> int:
        if not self._may_act(hung):
            self.log("another leadline took the lease: leaving the host to it")
            return RESUMED
        try:
            lines = self.journal.restore()
        except (LeadlineError, OSError) as error:
            self.log(f"{error}; run leadline restore")
            return FAILED
        for line in lines:
            self.log(line)
        self.log("host put back")
        return RESTORED


def main() -> None:
    """``journal dead_man root parent``; the pipe is standard input."""
    journal, dead_man, root, parent = sys.argv[1:5]
    guard = _Guard(Path(journal), float(dead_man), Path(root), int(parent))
    try:
        code = guard.run()
    except Exception as error:
        guard.log(f"failed: {error!r}")
        code = FAILED
    os._exit(code)
