"""A generator of sessions at work on driver/examples/session_server: what it cost in a window of its run, and whether
the server saw the right requests.
"""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from common import PORT, Unfit, on_generators_cpu
from generators import STEPS, Generator, Load

PATIENCE = 40.0  # seconds
Counts = Mapping[str, int]


@dataclass(frozen=True)
class Window:
    requests: int
    cpu: float  # seconds
    seconds: float

    @property
    def per_100k(self) -> float:
        """CPU seconds per 100,000 requests."""
        return 1e5 * self.cpu / self.requests

    @property
    def rate(self) -> float:
        return self.requests / self.seconds

    @property
    def share(self) -> float:
        """Of one CPU."""
        return self.cpu / self.seconds

    @property
    def highest(self) -> float:
        """Requests a second if it had one CPU to itself and the server were no limit."""
        return self.requests / self.cpu


@dataclass
class Looks:
    """Connections the server saw, and which of them only asked for its counts."""

    seen: int = 0
    own: int = 0

    @property
    def others(self) -> int:
        return self.seen - self.own


looks = Looks()


def counts() -> dict[str, int]:
    """What the server saw so far."""
    looks.own += 1
    with socket.create_connection(("127.0.0.1", PORT), timeout=PATIENCE) as client:
        client.sendall(b"GET /counts HTTP/1.1\r\nHost: bench\r\n\r\n")
        text = b""
        while not text.endswith(b"}"):
            text += client.recv(4096)
    found: dict[str, int] = json.loads(text[text.index(b"{") :])
    looks.seen = found.pop("connections")
    return found


def cpu_of(process: int) -> float:
    """CPU seconds of a living process and its threads (clock_getcpuclockid(3)), to the nanosecond."""
    return time.clock_gettime((~process << 3) | 2)


class Running:
    """A generator started on the generators' CPU; ends or is ended with the block."""

    def __init__(self, generator: Generator, load: Load) -> None:
        self.name, self._generator, self.load = generator.name, generator, load

    def __enter__(self) -> Running:
        self._scratch = tempfile.TemporaryDirectory()
        folder = Path(self._scratch.name)
        self._log = folder / "printed"
        self._before = counts()
        self._opened = looks.others
        self.connections = 0.0  # of a session, known at the end
        argv = self._generator.argv(self.load, folder)
        with self._log.open("w") as output:
            self._process = subprocess.Popen(
                argv, stdout=output, stderr=subprocess.STDOUT, cwd=folder, preexec_fn=on_generators_cpu
            )
        self.pid, self._ended = self._process.pid, False
        return self

    def __exit__(self, *_: object) -> None:
        if not self._ended:
            self._process.kill()
            self._process.wait()
        self._scratch.cleanup()

    def _alive(self) -> None:
        ended, status, _ = os.wait4(self.pid, os.WNOHANG)
        if ended:
            self._ended, self._process.returncode = True, os.waitstatus_to_exitcode(status)
            raise Unfit(f"ended early with code {self._process.returncode}: {self._log.read_text()[-300:].strip()}")

    def first_request(self) -> float:
        """Waits until the server saw one more than now; that moment."""
        known, until = sum(counts().values()), time.monotonic() + PATIENCE
        while sum(counts().values()) == known:
            self._alive()
            if time.monotonic() > until:
                raise Unfit(f"sent nothing for {PATIENCE:g} s")
            time.sleep(0.02)
        return time.monotonic()

    def begins(self) -> float:
        """The moment of the first request; after a warm-up, of the first one that counts."""
        until = time.monotonic() + PATIENCE
        while self.load.warm and not re.search("^main$", self._log.read_text(), re.M):
            self._alive()
            if time.monotonic() > until:
                raise Unfit("did not come to the end of its warm-up")
            time.sleep(0.05)
        return self.first_request()

    def window(self, zero: float, since: float, until: float) -> Window:
        """From ``since`` to ``until`` seconds after ``zero``."""
        begin = self._at(zero + since)
        end = self._at(zero + until)
        return Window(end[1] - begin[1], end[2] - begin[2], end[0] - begin[0])

    def _at(self, moment: float) -> tuple[float, int, float]:
        time.sleep(max(0.0, moment - time.monotonic()))
        self._alive()
        return time.monotonic(), sum(counts().values()), cpu_of(self.pid)

    def end(self) -> Window:
        """Waits for its end: the whole run. Raises Unfit when it failed or asked for anything wrong."""
        begin = time.monotonic()
        while not (ended := os.wait4(self.pid, os.WNOHANG))[0]:
            if time.monotonic() > begin + self.load.seconds + PATIENCE:
                raise Unfit("does not end")
            time.sleep(0.02)
        _, status, usage = ended
        self._ended, self._process.returncode = True, os.waitstatus_to_exitcode(status)
        if self._process.returncode:
            raise Unfit(f"ended with code {self._process.returncode}: {self._log.read_text()[-300:].strip()}")
        after = counts()
        seen = {kind: count - self._before.get(kind, 0) for kind, count in after.items()}
        check(seen)
        self.connections = (looks.others - self._opened) / max(1, seen.get("login", 0))
        return Window(sum(seen.values()), usage.ru_utime + usage.ru_stime, time.monotonic() - begin)


def check(seen: Counts) -> None:
    """Raises Unfit unless the server saw whole sessions, but for those that the end cut off."""
    if seen.get("refused"):
        raise Unfit(f"the server refused {seen['refused']} of {sum(seen.values())} requests")
    sessions = seen.get("login", 0)
    wanted = {"login": 1, "logout": 1, **{step: STEPS.count(step) for step in STEPS}}
    wanted["form"] += 1  # the page after the login
    for kind, each in wanted.items():
        if abs(seen.get(kind, 0) - each * sessions) > 0.05 * each * sessions + 100:
            raise Unfit(f"the server saw {seen.get(kind, 0)} of `{kind}` in {sessions} sessions of {each}")


def connects(each: float, shared: bool) -> None:
    """Raises Unfit unless a session had a connection of its own, or few of them had any."""
    if (shared and each > 0.5) or (not shared and abs(each - 1) > 0.05):
        raise Unfit(f"opened {each:.2f} connections a session")


def keeps(window: Window, rate: float) -> None:
    """Raises Unfit unless the rate was the wanted one within 3 %."""
    if abs(window.rate / rate - 1) > 0.03:
        raise Unfit(f"made {window.rate:.0f} requests/s instead of {rate:g}")
