"""Puts the host back when leadline is gone: a small process of its own. Standard library only.

It holds one end of a socket whose other end only leadline's process has. A byte ``h`` is a heartbeat, which it answers
with ``a``; ``q`` says that the run ended well. End of file means that leadline is gone; silence for longer than the
dead-man time that it hangs. Either way the watchdog waits once more for the dead-man time, for a leadline that resumes
or beats again, and then undoes the journal, which ends the processes started as well. Once leadline is gone it has the
lease: nobody else uses the host before it is put back. All its waiting is on
the monotonic clock: neither a clock that is set nor a suspended machine counts as silence.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from enum import Enum
from pathlib import Path

from leadline.host import procfs
from leadline.host.journal import UndoJournal
from leadline.host.lease import Lease
from leadline.model.errors import FailureClass, LeadlineError, TrialFailure, UsageError

DEAD_MAN_MIN, DEAD_MAN_MAX = 0.1, 86_400.0  # seconds
SILENCE = 30.0  # seconds without a response after which a watchdog is none
_START = 30.0  # seconds that it may take to start
_END = 10.0  # seconds until a thread that is told to has ended, or a process that was killed
_DYING = 5.0  # seconds for the lease of one that dies: the kernel closes its channel a moment before
_RETRIES = (0.2, 1.0, 3.0, 10.0)  # seconds before each new try to put back what could not be
_READY, _BEAT, _RESPONSE, _QUIT, _FIRING = b"watching", b"h", b"a", b"q", b"f"


class Exit(Enum):
    """Exit codes of the watchdog's process."""

    ENDED = 0  # leadline said that the run ended well, or left nothing to undo
    RESTORED = 10  # it put the host back, each change read back
    FAILED = 11  # it could not put everything back
    LEFT = 12  # another leadline undid, or undoes, what was left
    REFUSED = 13  # it was not given what it needs


def check_dead_man(seconds: float) -> float:
    """A dead-man time as it is. Raises UsageError for one that no watchdog can keep."""
    try:
        usable = DEAD_MAN_MIN <= float(seconds) <= DEAD_MAN_MAX  # false for nan
    except (TypeError, ValueError, OverflowError):
        usable = False
    if not usable:
        raise UsageError(
            f"dead_man: {seconds!r} is no dead-man time; it is from {DEAD_MAN_MIN:g} to {DEAD_MAN_MAX:.0f} seconds,"
            " such as 30s"
        )
    return float(seconds)


class Watchdog:
    """leadline's side. A thread beats and looks for its responses; ``finish`` when the run ended well.

    ``altered`` tells what of the host is not as it was before the run.
    """

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        channel: socket.socket,
        dead_man: float,
        altered: Callable[[], Sequence[str]] = lambda: (),
    ) -> None:
        self._process = process
        self._channel = channel
        self._dead_man = dead_man
        self._altered = altered
        self._firing = self._finished = False
        self._unanswered = 0
        self._tell: Callable[[TrialFailure], None] | None = None
        self._stop = threading.Event()
        self._interval = max(0.02, min(1.0, dead_man / 5))
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)
        self._thread.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def alive(self) -> bool:
        return self._process.poll() is None

    def exit(self) -> Exit | int | None:
        """How it ended: one of its own exit codes, else the code as the system gives it; None while it runs."""
        code = self._process.poll()
        return Exit(code) if code in {exit_.value for exit_ in Exit} else code

    def tell(self, told: Callable[[TrialFailure], None]) -> None:
        """Call ``told`` once, in a thread of the watchdog's, when it does not watch any more."""
        self._tell = told

    def failure(self) -> TrialFailure | None:
        """Why this run is not watched any more; None while it is. Says that the host was put back only where that was
        read back.
        """
        self._listen()
        sentence = self._sentence()
        return TrialFailure(FailureClass.INTERRUPTED, sentence) if sentence else None

    def _sentence(self) -> str:
        code = self.exit()
        silent = self._unanswered * self._interval
        stood_still = f"leadline stood still for longer than its dead-man time of {self._dead_man:g} s"
        if code is None:
            if self._firing:
                return f"{stood_still}, so its watchdog is putting the host back"
            return f"the watchdog of this run has not answered for {silent:.0f} s" if silent > SILENCE else ""
        if self._finished:
            return ""
        if code is Exit.RESTORED:
            altered = self._altered()
            if not altered:
                return f"{stood_still}, so its watchdog put the host back"
            return f"{stood_still}; its watchdog undid the journal, but this is altered: {'; '.join(altered)}"
        if code is Exit.FAILED:
            return f"{stood_still}, and its watchdog could not put everything back"
        if code is Exit.LEFT:
            return f"{stood_still}, so its watchdog left the host to another leadline"
        if isinstance(code, int) and code < 0:
            return f"the watchdog of this run has died: killed by {_signal_name(-code)}"
        number = code.value if isinstance(code, Exit) else code
        return f"the watchdog of this run has died: exit code {number}"

    def beat(self) -> None:
        """Show that leadline is alive (the thread does so by itself)."""
        with contextlib.suppress(OSError):  # full: it has enough to read; broken: ``failure`` tells
            self._channel.send(_BEAT, socket.MSG_DONTWAIT)

    def _listen(self) -> None:
        with contextlib.suppress(OSError):
            while heard := self._channel.recv(4096, socket.MSG_DONTWAIT):
                self._unanswered = 0
                self._firing |= _FIRING in heard

    def _run(self) -> None:
        while not self._stop.wait(self._interval):
            self.beat()
            self._unanswered += 1
            failure = self.failure()
            if failure is not None and self._tell is not None:
                pipe, self._tell = self._tell, None
                pipe(failure)
            stat = procfs.read_stat(self.pid)
            if stat is not None and stat.state in "Tt":  # stopped, it guards nothing
                with contextlib.suppress(OSError):
                    procfs.send(self.pid, signal.SIGCONT)

    def abandon(self) -> None:
        """Leave the rest to it, as if this process had ended."""
        if not self._stop.is_set():
            self._stop.set()
            self._thread.join(_END)
            self._channel.close()

    def finish(self) -> None:
        """Tell it that all is put back, and wait for its end."""
        if self._stop.is_set():
            return
        self._finished = True
        with contextlib.suppress(OSError):
            self._channel.send(_QUIT)
        self.abandon()
        try:
            self._process.wait(_END)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(_END)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def start_watchdog(
    journal_path: Path,
    dead_man: float,
    root: Path = Path("/"),
    altered: Callable[[], Sequence[str]] = lambda: (),
    leased: bool = True,
) -> Watchdog:
    """Start one for a host's journal ``STATE/undo/<host>.jsonl``. ``dead_man`` in seconds.

    ``leased``: it is the journal of who has the host's lease, which the watchdog then needs to undo it.

    Raises UsageError for a dead-man time that cannot be kept, LeadlineError when it does not start: nothing may be
    changed then.
    """
    dead_man = check_dead_man(dead_man)
    process: subprocess.Popen[bytes] | None = None
    channel: socket.socket | None = None
    try:
        channel, other = socket.socketpair()  # neither is inherited by other children
        with other:
            process = _launch(other, [str(journal_path), repr(dead_man), str(root), str(os.getpid()), str(int(leased))])
        channel.settimeout(_START)
        received = b""
        while len(received) < len(_READY) and (part := channel.recv(len(_READY) - len(received))):
            received += part
        if received != _READY:
            raise OSError(f"exit code {process.wait(_END)}")
        channel.setblocking(False)
        return Watchdog(process, channel, dead_man, altered)
    except BaseException as error:
        if channel is not None:
            channel.close()
        if process is not None:
            process.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_END)
        # no file, process or thread to be had
        if isinstance(error, OSError | RuntimeError | subprocess.TimeoutExpired):
            raise LeadlineError(f"the watchdog did not start ({error}), so nothing was changed") from error
        raise


def _launch(other: socket.socket, arguments: Sequence[str]) -> subprocess.Popen[bytes]:
    package = Path(__file__).resolve().parents[2]
    loader = f"import sys; sys.path.insert(0, {str(package)!r}); from leadline.host.watchdog import main; main()"
    return subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", loader, *arguments],
        stdin=other.fileno(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        cwd="/",
    )


class _Guard:
    """The watchdog's own side."""

    def __init__(
        self, channel: socket.socket, journal_path: Path, dead_man: float, root: Path, parent: int, leased: bool = True
    ) -> None:
        state = journal_path.parent.parent
        self.channel = channel
        self.journal = UndoJournal(journal_path, root)
        self.lease = Lease(root, journal_path, undoes=True)
        self.leased = leased
        if leased:
            self.lease.announce()
        self.log_path = state / "watchdog.log"
        self.dead_man = dead_man
        self.parent = parent
        stat = procfs.read_stat(parent)
        self.parent_start = stat.start if stat else None
        self.hurry = False

    def log(self, text: str) -> None:
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S%z")
        with contextlib.suppress(OSError), self.log_path.open("a") as file:
            file.write(f"{stamp} watchdog {os.getpid()} of {self.parent}: {text}\n")

    def _terminate(self, *_: object) -> None:
        self.hurry = True

    def _listen(self, seconds: float) -> bytes | None:
        """What leadline says within so many seconds; None for silence, empty for its end."""
        ready, _, _ = select.select([self.channel], [], [], seconds)
        if not ready:
            return None
        try:
            heard = self.channel.recv(4096)
        except OSError:  # reset: leadline ended without reading the last response
            return b""
        self._say(_RESPONSE if heard else b"")
        return heard

    def _say(self, word: bytes) -> None:
        with contextlib.suppress(OSError):
            self.channel.send(word, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)

    def run(self) -> Exit:
        spared = {signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD, signal.SIGTERM}
        for number in signal.valid_signals() - spared:
            with contextlib.suppress(OSError, ValueError):
                signal.signal(number, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, self._terminate)
        with contextlib.suppress(OSError):
            Path("/proc/self/oom_score_adj").write_text("-1000")
        self._say(_READY)
        while True:
            heard = self._listen(self.dead_man)
            if heard is None:
                self.log(f"no sign of life for {self.dead_man:g} s")
                heard = self._listen(self.dead_man)
                if heard is None:
                    self._say(_FIRING)
                    return self._parent_gone() if self._taken() else self._restore()
                if heard:
                    self.log("leadline is back")
            if heard and _QUIT in heard:
                return Exit.ENDED
            if not heard:
                return self._parent_gone()

    def _open(self) -> set[str] | None:
        """Entries that are left to undo; None when the journal cannot be read."""
        try:
            return {entry.id for entry in self.journal.left(of=self.parent)}
        except (LeadlineError, OSError):
            return None

    def _parent_alive(self) -> bool:
        stat = procfs.read_stat(self.parent)
        return stat is not None and stat.alive and stat.start == self.parent_start

    def _taken(self) -> bool:
        """Whether another leadline has the host."""
        if not self.leased:
            return False
        try:
            return self.lease.holder().get("pid") != self.parent and self.lease.holder_alive()
        except (LeadlineError, OSError, ValueError, TypeError):
            return False

    def _parent_gone(self) -> Exit:
        """Keep the host for the dead-man time, so that nobody measures on it as it is; a leadline that resumes tells
        this process to hurry. Where another one was quicker, wait for what that one undoes, or for its end.
        """
        self._acquire()  # at once: others wait for it
        entries = self._open()
        if entries is not None and not entries:
            return Exit.ENDED
        gone = "has closed its channel" if self._parent_alive() else "is gone"
        self.log(f"leadline {gone}; waiting {self.dead_man:g} s for one that resumes")
        began, reported = time.monotonic(), False
        while True:
            waited = time.monotonic() - began
            if self._acquire():
                if self.hurry or waited >= self.dead_man:
                    return self._restore()
            elif self._taken():
                if not reported:
                    self.log("another leadline took the lease: waiting for its end")
                reported = True
                now = self._open()
                if now is not None and entries is not None and not entries & now:
                    return Exit.LEFT
            elif waited > max(self.dead_man, _DYING):
                return self._restore()
            time.sleep(min(0.2, self.dead_man / 10))

    def _acquire(self) -> bool:
        try:
            return not self.leased or self.lease.try_acquire()
        except (LeadlineError, OSError):
            return False

    def _restore(self) -> Exit:
        for pause in (*_RETRIES, None):
            try:
                for line in self.journal.restore(of=self.parent):
                    self.log(line)
            except Exception as error:
                self.log(f"{error or repr(error)}; {'run leadline restore' if pause is None else 'trying again'}")
                if pause is not None:
                    time.sleep(pause)
            else:
                self.log("host put back")
                return Exit.RESTORED
        return Exit.FAILED


def main() -> None:
    """``journal dead_man root parent leased``; the socket is standard input."""
    journal, dead_man, root, parent, leased = sys.argv[1:6]
    try:
        channel = socket.socket(fileno=0)
        guard = _Guard(channel, Path(journal), check_dead_man(float(dead_man)), Path(root), int(parent), leased == "1")
    except (LeadlineError, OSError, ValueError):
        os._exit(Exit.REFUSED.value)
    try:
        code = guard.run()
    except BaseException as error:
        guard.log(f"failed: {error!r}; putting the host back")
        code = guard._restore()
    os._exit(code.value)
