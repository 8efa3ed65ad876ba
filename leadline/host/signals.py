"""Who sent a signal that ends or stops a process: the kernel's event ``signal:signal_generate``, by perf_event_open(2).

For root, outside of containers, on x86-64 and arm64; elsewhere nothing is known. Nothing is mounted or written: what
is opened here the kernel closes with this process, however it ends.
"""

from __future__ import annotations

import ctypes
import fcntl
import mmap
import os
import platform
import re
import signal
import struct
import threading
from collections.abc import Collection
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

from leadline.host.undo import CGROUP_PREFIX

_EVENT = re.compile(r"oom-kill:constraint=(\w+).*?(?:,oom_memcg=([^,]*))?,task_memcg=.*?,pid=(\d+)")
_KILLED = re.compile(r"[Kk]illed process (\d+) .*?anon-rss:(\d+)kB(?:, file-rss:(\d+)kB)?")
_RECORD = 8192  # bytes of a record, at most (kernel/printk: CONSOLE_EXT_LOG_MAX)
_MOST_RECORDS = 1 << 20


@dataclass(frozen=True)
class OomKill:
    """``group``: the control group whose limit was reached; empty where the machine had no memory left."""

    pid: int
    group: str
    resident_bytes: int

    @property
    def in_group_of_leadline(self) -> bool:
        """Whether the limit is one that a study gave."""
        return self.group.rpartition("/")[2].startswith(CGROUP_PREFIX)


def parse(text: str) -> list[OomKill]:
    """Of the log's text, the oldest first."""
    groups: dict[int, str] = {}
    kills = []
    for line in text.splitlines():
        if event := _EVENT.search(line):
            groups[int(event[3])] = event[2] or "" if event[1] == "CONSTRAINT_MEMCG" else ""
        elif killed := _KILLED.search(line):
            pid = int(killed[1])
            resident = (int(killed[2]) + int(killed[3] or 0)) * 1024
            kills.append(OomKill(pid, groups.pop(pid, ""), resident))
    return kills


def oom_kills() -> list[OomKill]:
    """Since the boot, as far back as the log goes; none where this user may not read it."""
    records = []
    with suppress(OSError):
        log = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
        try:
            for _ in range(_MOST_RECORDS):
                try:
                    records.append(os.read(log, _RECORD))
                except BrokenPipeError:  # the log was faster
                    continue
        finally:
            os.close(log)
    return parse(b"".join(records).decode(errors="replace"))


ENDING = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGKILL, signal.SIGTERM)
_OPEN = {"x86_64": 298, "aarch64": 241}  # perf_event_open
_FSOPEN, _FSCONFIG, _FSMOUNT, _CREATE = 430, 431, 432, 6
_ID = "events/signal/signal_generate/id"
_FIRST_NAMESPACE = 0xEFFFFFFC  # of process numbers (include/linux/proc_ns.h): only there are the event's numbers ours
_TRACEPOINT, _TID_AND_RAW, _SAMPLE = 2, 0x402, 9
_SET_FILTER = 0x40082406
_HEAD, _TAIL = 1024, 1032  # in the first page of the buffer
_PAGES = 16  # of 4 KiB a CPU: some 900 signals; later ones are lost until it is read
_MOST = 10_000  # signals that are remembered
_KERNEL = 0x80  # SI_KERNEL


class SignalLog:
    """Signals while at least one process that leadline started runs. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running = 0
        self._opened = ExitStack()
        self._buffers: list[mmap.mmap] = []
        self._senders: dict[tuple[int, int], str] = {}  # (process, signal) -> who sent the first

    @property
    def open(self) -> bool:
        """Whether the kernel tells."""
        return bool(self._buffers)

    def begin(self) -> None:
        """One more process runs."""
        with self._lock:
            self._running += 1
            if self._running == 1:
                with suppress(OSError, ValueError, KeyError):
                    self._open()
            self._read()

    def end(self) -> None:
        """One fewer."""
        with self._lock:
            self._running -= 1
            if self._running == 0:
                self._buffers = []
                self._senders.clear()
                self._opened.close()

    def sender(self, pids: Collection[int], numbers: Collection[int] = ENDING) -> str:
        """Who sent one of these processes one of these signals; empty where that is not known."""
        with self._lock:
            self._read()
            return next((self._senders[pid, no] for pid in pids for no in numbers if (pid, no) in self._senders), "")

    def _open(self) -> None:
        if Path("/proc/self/ns/pid").stat().st_ino != _FIRST_NAMESPACE:
            return
        # perf_event_attr: type, size, config, period, sample type, read format, flags, wake-up, breakpoint, config1
        event = struct.pack("IIQQQQQIIQ", _TRACEPOINT, 64, _event(), 1, _TID_AND_RAW, 0, 0, 0, 0, 0)
        wanted = " || ".join(f"sig == {number:d}" for number in (*ENDING, signal.SIGSTOP))
        with ExitStack() as opened:
            buffers = []
            for cpu in Path("/sys/devices/system/cpu").glob("cpu[0-9]*"):
                if (cpu / "online").exists() and (cpu / "online").read_text() == "0\n":
                    continue
                log = _call(_OPEN[platform.machine()], event, -1, int(cpu.name[3:]), -1, 8)  # closed on exec
                opened.callback(os.close, log)
                fcntl.ioctl(log, _SET_FILTER, wanted.encode() + b"\0")
                buffer = mmap.mmap(log, (1 + _PAGES) * mmap.PAGESIZE)
                opened.callback(buffer.close)
                buffers.append(buffer)
            self._opened, self._buffers = opened.pop_all(), buffers

    def _read(self) -> None:
        for buffer in self._buffers:
            head, tail = struct.unpack_from("QQ", buffer, _HEAD)
            ring = buffer[mmap.PAGESIZE :] * 2
            while tail < head:
                at = tail % (len(ring) // 2)
                kind, _, size = struct.unpack_from("IHH", ring, at)
                if kind == _SAMPLE:
                    sender, number, code, pid = struct.unpack_from("I16xi4xi16xi", ring, at + 8)
                    self._senders.setdefault((pid, number), _name(sender, code))
                tail += size
            struct.pack_into("Q", buffer, _TAIL, head)
        if len(self._senders) > _MOST:
            self._senders.clear()


def _event() -> int:
    """The number of the event. Raises OSError. Read from a mount of its own that nobody sees, for this moment."""
    for place in ("/sys/kernel/tracing", "/sys/kernel/debug/tracing"):
        with suppress(OSError):
            return int(Path(place, _ID).read_text())
    context = _call(_FSOPEN, b"tracefs", 1)
    try:
        _call(_FSCONFIG, context, _CREATE, None, None, 0)
        mounted = _call(_FSMOUNT, context, 1, 0)
    finally:
        os.close(context)
    try:
        return int(Path(f"/proc/self/fd/{mounted}", _ID).read_text())
    finally:
        os.close(mounted)


def _call(number: int, *arguments: int | bytes | None) -> int:
    """A system call's result. Raises OSError."""
    words = [ctypes.c_long(word) if isinstance(word, int) else word for word in arguments]
    result = int(ctypes.CDLL(None, use_errno=True).syscall(ctypes.c_long(number), *words))
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def _name(pid: int, code: int) -> str:
    if code == _KERNEL:
        return "the kernel"
    try:
        return f"{Path(f'/proc/{pid}/comm').read_text().strip()} (process {pid})"
    except OSError:
        return f"process {pid}, which has ended"


LOG = SignalLog()
