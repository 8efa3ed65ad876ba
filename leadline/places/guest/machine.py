"""A guest: a QEMU process, its save points and its forks.

A guest that is to be saved has its memory in a file. The save is that file and the devices' state: a snapshot with
``x-ignore-shared``, no memory in it, in an image of its own. Forks map the memory privately: none copies it, all share
it. A boot repeated with its seed saves the same bytes, which is shown for one CPU: while one pauses, others may go on.

``Sent`` has what a guest sends: facts, files, its failure; and what its console tells of its kernel.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import signal
import struct
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from leadline.host import received
from leadline.host.base import PROC, Host, Process, ProcessSpec
from leadline.model.errors import Event, Evidence, FailureClass, Memory, Part, TrialFailure, blamed
from leadline.model.received import from_json
from leadline.places.guest.boot import CONSOLE, JOB, QEMU, RESULTS, SHIFT, Boot, Counter, command_line, settle

KILLED = re.compile(r"[Oo]ut of memory: Killed process (\d+) \((.+?)\)")
PANIC = re.compile(r"Kernel panic - not syncing: (.*)")
UNPACKING = re.compile(r"Initramfs unpacking failed: (.*)")
_FILE = re.compile("([0-9]{1,12}) ([0-9a-f]{64})")  # bytes, SHA-256
_CONSOLE_LINES = 40  # of the evidence of a failure


@dataclass(frozen=True)
class Outcome:
    """What came out of a guest that powered off: ``files`` holds what its job put, by name."""

    files: Path
    facts: Mapping[str, str]
    console: Path
    wall_seconds: float


@dataclass
class Sent:
    """What came over the results' port so far. ``saved``: the save point; ``failed``: class and text."""

    facts: dict[str, str] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)
    saved: str | None = None
    failed: TrialFailure | None = None
    finished: bool = False


def read_sent(raw: bytes) -> Sent:
    """The frames of ``job.sh``. Raises TrialFailure(infrastructure) where they are damaged."""
    sent, offset = Sent(), 0
    while offset < len(raw):
        end = raw.find(b"\n", offset)
        line = raw[offset : end if end >= 0 else len(raw)]
        offset += len(line) + 1
        match line.decode(errors="replace").split(" ", 2):
            case ["say", key, value]:
                sent.facts[key] = value.strip()
            case ["put", name, rest] if frame := _FILE.fullmatch(rest):
                content = raw[offset : offset + int(frame[1])]
                offset += int(frame[1])
                if hashlib.sha256(content).hexdigest() != frame[2] or not _is_path(name):
                    raise TrialFailure(FailureClass.INFRASTRUCTURE, f"the guest's file {name[:60]} arrived damaged")
                sent.files[name] = content
            case ["fail", given, text]:
                is_class = given in {kind.value for kind in FailureClass}
                kind = FailureClass(given) if is_class else FailureClass.CONFIGURATION
                sent.failed = TrialFailure(kind, text)
            case ["save", name]:
                sent.saved = name
            case ["finish"]:
                sent.finished = True
            case _:
                words = line[:80].decode(errors="replace")
                raise TrialFailure(FailureClass.INFRASTRUCTURE, f"the guest's results are damaged at {words!r}")
    return sent


def _is_path(name: str) -> bool:
    try:
        return bool(received.parts_of(name))
    except ValueError:
        return False


def write(sent: Sent, directory: Path) -> Path:
    """``facts.json`` and ``files/NAME``; returns the directory of the files."""
    files = directory / "files"
    files.mkdir(exist_ok=True)
    (directory / "facts.json").write_text(json.dumps(sent.facts, indent=1, sort_keys=True))
    for name, content in sent.files.items():
        with received.beneath(files, name, make=True) as file:
            file.write(content)
    return files


def tail(console: str) -> str:
    """The last lines, as evidence."""
    return "\n".join(console.splitlines()[-_CONSOLE_LINES:])


def kernel_failure(console: str) -> TrialFailure | None:
    """A process that the guest's kernel killed for want of memory, the kernel's own end, files that it has no room
    for.
    """
    if killed := KILLED.search(console):
        message = f"the guest ran out of memory: its kernel killed {killed[2]} (process {killed[1]})"
        return blamed(Evidence(Event.ENDED, Part.KERNEL, memory=Memory.OWN), message, tail(console))
    if panic := PANIC.search(console):
        sentence = f"the guest's kernel panicked: {panic[1].strip()}"
        return blamed(Evidence(Event.ENDED, Part.KERNEL), sentence, tail(console))
    if unpacking := UNPACKING.search(console):
        why = f"its initial file system could not be unpacked ({unpacking[1].strip()}): give `guest` more memory"
        return TrialFailure(FailureClass.CONFIGURATION, f"the guest has not all of its files: {why}", tail(console))
    return None


# An empty qcow2 image, which holds a snapshot of a guest's devices: QEMU saves into no other file while it records.
# Source: QEMU, docs/interop/qcow2.txt (version 3).


_BITS = 20  # clusters of 1 MiB: a snapshot without memory fits into one, so what it holds is in one piece
_CLUSTER = 1 << _BITS
_COUNTS_TABLE, _COUNTS, _MAP = _CLUSTER, 2 * _CLUSTER, 3 * _CLUSTER  # offsets


def empty_image() -> bytes:
    """Of a disk of one cluster, with nothing in it."""
    #        magic, version, backing file (offset, size), cluster bits, size, encryption, entries and offset of the map
    header = struct.pack(">4sIQIIQIIQ", b"QFI\xfb", 3, 0, 0, _BITS, _CLUSTER, 0, 1, _MAP)
    #                     counts (offset, clusters), snapshots (number, offset), features (3), order, this header's size
    header += struct.pack(">QIIQQQQII", _COUNTS_TABLE, 1, 0, 0, 0, 0, 0, 4, 104)
    used = struct.pack(">4H", 1, 1, 1, 1)  # header, table, counts, map
    parts = (header, struct.pack(">Q", _COUNTS), used, b"")
    return b"".join(part.ljust(_CLUSTER, b"\0") for part in parts)


# A client of QMP, QEMU's machine protocol, over the process's standard input and output. The answers are read from the
# file that holds the output, so that QEMU can run wherever its ``Host`` starts it. While a guest runs in virtual time
# nothing may be asked: QEMU's main loop would wake at a moment of the host's choosing. Source: QEMU's docs/interop/qmp-
# spec.txt and qapi/run-state.json.


Message = Mapping[str, Any]
_SHORTEST, _LONGEST = 0.002, 0.05  # seconds between two looks at the output


class MonitorError(Exception):
    """QEMU refuses a command, or ended; says so in its words."""


class Monitor:
    """``process`` was started with ``-qmp stdio``, its output goes to ``output``."""

    def __init__(self, process: Process, output: Path) -> None:
        self._process = process
        self._output = output
        self._offset = 0
        self._messages: deque[Message] = deque()
        self._said: list[str] = []  # what is not of the protocol: QEMU's warnings and errors

    @property
    def said(self) -> str:
        """QEMU's own words so far."""
        return "\n".join(self._said)

    def command(self, name: str, until: float, **arguments: object) -> Any:
        """What QEMU returns. Raises MonitorError, TimeoutError at ``until`` (of time.monotonic)."""
        order = {"execute": name, **({"arguments": arguments} if arguments else {})}
        self._process.write(json.dumps(order).encode() + b"\n")
        later: list[Message] = []
        while True:
            message = self._next(until)
            if "error" in message:
                raise MonitorError(f"QEMU refuses {name}: {message['error']['desc']}")
            if "return" in message:
                self._messages.extendleft(reversed(later))
                return message["return"]
            later.append(message)

    def event(self, names: Collection[str], until: float, tick: Callable[[], None] | None = None) -> Message:
        """The next event of these names; others before it are dropped. ``tick`` is called now and then meanwhile.

        Raises MonitorError when QEMU ends, TimeoutError at ``until``.
        """
        while True:
            message = self._next(until, tick)
            if message.get("event") in names:
                return message

    def _next(self, until: float, tick: Callable[[], None] | None = None) -> Message:
        wait = _SHORTEST
        while not self._messages:
            alive = self._process.alive()  # before the output is read, so that its last words are
            if self._read():
                continue
            if not alive:
                raise MonitorError(f"QEMU ended with exit code {self._process.exit_code()}")
            if time.monotonic() >= until:
                raise TimeoutError
            if tick is not None:
                tick()
            time.sleep(wait)
            wait = min(2 * wait, _LONGEST)
        return self._messages.popleft()

    def _read(self) -> bool:
        """Whether whole lines were read."""
        with self._output.open("rb") as file:
            file.seek(self._offset)
            whole, newline, _ = file.read().rpartition(b"\n")
        self._offset += len(whole) + len(newline)
        for line in whole.decode(errors="replace").splitlines():
            try:
                message = from_json(line)
            except ValueError:
                message = None
            if not isinstance(message, dict):
                self._said.append(line)
            elif "QMP" not in message:  # the greeting
                self._messages.append(message)
        return bool(newline)


INSTALL = "install qemu-system-x86 (Debian, Ubuntu: apt-get install qemu-system-x86) or set stack.host: local"
JOB_BYTES = 64 << 10  # always the same: the guest reads all of it
ANSWER = 60.0  # seconds that QEMU may take for a command, on a busy host
_MOST = 1 << 30  # bytes of a guest's results
_LOOK = 0.25  # seconds between two looks at the console

_MONITOR, _STATE = "qemu.txt", "state"


@dataclass(frozen=True)
class Saved:
    """A guest that stopped at its save point ``name``: ``path`` holds its memory and its devices' state."""

    path: Path
    name: str
    boot: Boot
    facts: Mapping[str, str]
    wall_seconds: float

    @property
    def memory(self) -> Path:
        return self.path / "memory"

    @property
    def state(self) -> Path:
        return self.path / "state"

    @property
    def files(self) -> Path:
        """What its job put before."""
        return self.path.parent / "files"

    def remove(self, host: Host) -> None:
        """Its forks have ended."""
        host.remove_tree(self.path)


def run(host: Host, boot: Boot, job: str, directory: Path, timeout: float) -> Outcome:
    """A guest from boot to power-off. ``timeout``: seconds of this host's time. Raises TrialFailure."""
    with_memory = f"memory-backend-ram,id=ram,size={boot.memory}"
    return _outcome(_Guest(host, boot, job, directory, with_memory), None, timeout)


def boot_and_save(host: Host, boot: Boot, job: str, directory: Path, name: str, timeout: float) -> Saved:
    """A guest from boot to the save point ``name`` of its job. Raises TrialFailure."""
    return _save(host, boot, job, directory, name, timeout, None)


def fork(
    host: Host,
    saved: Saved,
    job: str,
    directory: Path,
    timeout: float,
    counter: Counter | None = None,
    ended: Callable[[], bool] = lambda: False,
) -> Outcome:
    """A saved guest goes on with this job, to power-off. Several may run at once. ``counter`` leaves ``BLOCKS`` in
    ``directory``; once ``ended``, it goes no further. Raises TrialFailure.
    """
    memory = f"memory-backend-file,id=ram,size={saved.boot.memory},mem-path={_escaped(saved.memory)},share=off"
    return _outcome(_Guest(host, saved.boot, job, directory, memory, saved, counter, ended), saved, timeout)


def fork_and_save(host: Host, saved: Saved, job: str, directory: Path, name: str, timeout: float) -> Saved:
    """A saved guest goes on with this job, to another save point. Raises TrialFailure."""
    return _save(host, saved.boot, job, directory, name, timeout, saved)


def _escaped(path: Path) -> str:
    return str(path.absolute()).replace(",", ",,")


def _outcome(guest: _Guest, saved: Saved | None, timeout: float) -> Outcome:
    begin = time.monotonic()
    with guest:
        sent = guest.until_end(saved, begin + timeout)
        if sent.saved is not None:
            raise TrialFailure(
                FailureClass.CONFIGURATION, f"the guest stopped at save point {sent.saved}, not expected"
            )
        wall = time.monotonic() - begin
    files = write(sent, guest.directory)
    facts = {**(saved.facts if saved else {}), **sent.facts}
    return Outcome(files, facts, guest.console, wall)


def _save(host: Host, boot: Boot, job: str, directory: Path, name: str, timeout: float, source: Saved | None) -> Saved:
    begin = time.monotonic()
    tree = directory / "saved"
    directory.mkdir(parents=True, exist_ok=True)
    _require_room(directory, boot.memory)
    host.private_tree(tree)
    try:
        if source is not None:
            shutil.copyfile(source.memory, tree / "memory")
        memory = f"memory-backend-file,id=ram,size={boot.memory},mem-path={_escaped(tree / 'memory')},share=on"
        with _Guest(host, boot, job, directory, memory, source) as guest:
            sent = guest.until_end(source, begin + timeout)
            if sent.saved != name:
                stop = f"at save point {sent.saved}" if sent.saved else "without a save point"
                raise TrialFailure(FailureClass.CONFIGURATION, f"the guest's job ended {stop}, expected {name}")
            guest.save(tree / "state")
        # Forks run as users of their own; QEMU opens for writing even what it maps privately.
        for path, mode in ((tree, 0o711), (tree / "memory", 0o666), (tree / "state", 0o644)):
            path.chmod(mode)
        write(sent, directory)
        return Saved(tree, name, boot, sent.facts, time.monotonic() - begin)
    except BaseException:
        host.remove_tree(tree)
        raise


def _require_room(directory: Path, size: int) -> None:
    free = shutil.disk_usage(directory).free
    if free < size:
        raise TrialFailure(
            FailureClass.INFRASTRUCTURE,
            f"a save point takes up to {size / 2**30:.1f} GiB; {directory} has {free / 2**30:.1f} GiB left",
        )


class _Guest:
    """A QEMU process in ``directory`` while the block runs. Raises TrialFailure where there is no QEMU."""

    def __init__(
        self,
        host: Host,
        boot: Boot,
        job: str,
        directory: Path,
        memory: str,
        source: Saved | None = None,
        counter: Counter | None = None,
        ended: Callable[[], bool] = lambda: False,
    ) -> None:
        self.host, self._ended = host, ended
        self.boot = boot
        self.directory = directory.absolute()
        self.console = self.directory / CONSOLE
        self.directory.mkdir(parents=True, exist_ok=True)
        for name in (CONSOLE, RESULTS, _MONITOR):
            (self.directory / name).write_bytes(b"")
        content = job.encode()
        if len(content) > JOB_BYTES:
            raise TrialFailure(
                FailureClass.CONFIGURATION, f"the guest's job has {len(content):,} bytes; {JOB_BYTES:,} at most"
            )
        (self.directory / JOB).write_bytes(content.ljust(JOB_BYTES, b"\0"))
        reads = [boot.kernel, boot.initramfs, *((source.memory, source.state) if source else ())]
        reads += [counter.library] if counter else []
        self._spec = ProcessSpec(
            f"guest {self.directory}",
            [*command_line(boot, memory), *(counter.options() if counter else ())],
            self.directory / _MONITOR,
            cwd=self.directory,
            input=True,
            unprivileged=boot.accelerator != "kvm",  # /dev/kvm is for some users only
            owns=[self.directory],
            reads=reads,
        )

    def __enter__(self) -> _Guest:
        for what, path in (("kernel", self.boot.kernel), ("initial file system", self.boot.initramfs)):
            if not path.is_file():
                raise TrialFailure(FailureClass.CONFIGURATION, f"the guest's {what} {path} does not exist")
        self._begin = time.monotonic()
        try:
            self._process: Process = self.host.start(self._spec)
        except FileNotFoundError:
            raise TrialFailure(FailureClass.INFRASTRUCTURE, f"{QEMU} is not on the PATH; {INSTALL}") from None
        self._monitor = Monitor(self._process, self.directory / _MONITOR)
        return self

    def __exit__(self, *_: object) -> None:
        self._process.stop(grace=5.0)

    def until_end(self, source: Saved | None, until: float) -> Sent:
        """Runs until power-off or save point. Raises TrialFailure."""
        try:
            self._monitor.command("qmp_capabilities", time.monotonic() + ANSWER)
            if source is not None:
                self._load(source.state)
            self._monitor.command("cont", time.monotonic() + ANSWER)
            event = self._monitor.event({"SHUTDOWN", "GUEST_PANICKED"}, until, self._watch())
        except MonitorError as error:
            raise self._lost(str(error)) from None
        except TimeoutError:
            raise self._late(time.monotonic() - self._begin) from None
        if failure := kernel_failure(self._console_text()):
            raise failure
        sent = read_sent(received.read(self.directory / RESULTS, _MOST))
        if sent.failed is not None:
            sent.failed.evidence = tail(self._console_text())
            raise sent.failed
        if not sent.finished and event.get("data", {}).get("reason") == "host-signal":
            message = "QEMU was ended by a signal from outside this run"
            raise TrialFailure(FailureClass.INFRASTRUCTURE, message, tail(self._console_text()))
        if not sent.finished and (event["event"] == "SHUTDOWN" or sent.saved is None):
            raise TrialFailure(
                FailureClass.CONFIGURATION,
                "the guest switched itself off before its job's end",
                tail(self._console_text()),
            )
        return sent

    def _load(self, state: Path) -> None:
        state_file = self.directory / _STATE  # QEMU locks the file
        shutil.copyfile(state, state_file)
        state_file.chmod(0o666)
        self._snapshot("loadvm", state_file)
        state_file.unlink()

    def save(self, state: Path) -> None:
        """The devices' state. Raises TrialFailure."""
        try:
            state.write_bytes(empty_image())
            state.chmod(0o666)
            self._snapshot("savevm", state)
            settle(state, SHIFT)
        except MonitorError as error:
            raise self._lost(str(error)) from None
        except TimeoutError:
            raise TrialFailure(FailureClass.INFRASTRUCTURE, f"QEMU did not save within {ANSWER:g} s") from None
        except ValueError as error:
            raise TrialFailure(FailureClass.INFRASTRUCTURE, f"QEMU saved what cannot be used: {error}") from None

    def _snapshot(self, command: str, file: Path) -> None:
        """Save or load, without the memory, which lies in its own file. Raises MonitorError, TimeoutError."""
        until = time.monotonic() + ANSWER
        inner = {"driver": "file", "filename": str(file.absolute())}
        self._monitor.command("blockdev-add", until, driver="qcow2", file=inner, **{"node-name": _STATE})
        capability = {"capability": "x-ignore-shared", "state": True}
        self._monitor.command("migrate-set-capabilities", until, capabilities=[capability])
        reply = self._monitor.command("human-monitor-command", until, **{"command-line": f"{command} {_STATE}"})
        if reply.strip():
            raise MonitorError(f"QEMU cannot {command}: {reply.strip()}")
        self._monitor.command("blockdev-del", until, **{"node-name": _STATE})

    def _console_text(self) -> str:
        return received.end_of(self.console)

    def _watch(self) -> Callable[[], None]:
        """Ends a guest whose kernel began to kill: raises TrialFailure."""
        size_seen, again = 0, 0.0

        def look() -> None:
            nonlocal size_seen, again
            if self._ended():
                raise TrialFailure(FailureClass.INTERRUPTED, "the guests were ended")
            if time.monotonic() < again:
                return
            again = time.monotonic() + _LOOK
            if (size := self.console.stat().st_size) != size_seen:
                size_seen = size
                if failure := kernel_failure(self._console_text()):
                    raise failure

        return look

    def _lost(self, error: str) -> TrialFailure:
        """QEMU refused or ended."""
        reply = self._monitor.said
        code = self._process.exit_code()
        kind, message = FailureClass.INFRASTRUCTURE, error
        if code is not None and code < 0:
            with suppress(ValueError):
                message = f"QEMU was ended by {signal.Signals(-code).name}"
            if -code == signal.SIGBUS:
                message += f": {self.directory} has no space left for the guest's memory"
        elif code:
            message = f"QEMU does not start: {reply.splitlines()[-1] if reply else error}"
            if "kernel" in reply:
                kind, message = FailureClass.CONFIGURATION, f"{self.boot.kernel} is no kernel that QEMU boots: {reply}"
        return TrialFailure(kind, message, "\n".join(filter(None, [reply, tail(self._console_text())])))

    def _late(self, seconds: float) -> TrialFailure:
        """No end within the time limit, and whether this host had a CPU for the guest."""
        waited = self._waited()
        if waited > seconds / 2:
            message = f"the guest did not end within {seconds:.0f} s: it waited {waited:.0f} s for a CPU of this host"
            return blamed(Evidence(Event.LATE), message, tail(self._console_text()))
        up = (self.directory / RESULTS).stat().st_size
        message = "the guest's job did not end" if up else "the guest's kernel did not come up"
        return blamed(Evidence(Event.LATE), f"{message} within {seconds:.0f} s", tail(self._console_text()))

    def _waited(self) -> float:
        """Seconds that QEMU's busiest thread was ready to run and did not."""
        base = f"{PROC}/{self._process.pid}/task"
        paths = [f"{base}/{task}/schedstat" for task in self.host.files.names(base)]
        texts = self.host.files.read_many(paths).values()
        return max((int(text.split()[1]) / 1e9 for text in texts), default=0.0)


LIMIT = 15.0  # seconds of a test boot; with hardware virtualisation it takes one or two
_DIRECTORY, _DEVICE = "/dev", "kvm"
_EMULATED = (
    "emulation without hardware virtualisation ({why}): programs take 10 to 50 times as long, system calls and the "
    "network suffer most, and repeated times differ by 10 to 50 %; host: virtual-time is exact"
)


@dataclass(frozen=True)
class Accelerator:
    """What runs a guest in real time, and what that means for its times, one sentence."""

    name: Literal["kvm", "tcg"]
    meaning: str


def probe(host: Host, boot: Boot, directory: Path) -> Accelerator:
    """Boots a guest with hardware virtualisation, which is taken if the guest powers off within ``LIMIT`` seconds."""
    if _DEVICE not in host.files.names(_DIRECTORY):
        return _emulation(f"there is no {_DIRECTORY}/{_DEVICE}")
    test = replace(boot, time="real", accelerator="kvm", cpus=1)
    try:
        took = run(host, test, "finish\n", directory, LIMIT).wall_seconds
    except TrialFailure as failure:
        return _emulation(f"a test boot with it failed: {failure}")
    return Accelerator("kvm", f"hardware virtualisation (a test boot took {took:.1f} s)")


def _emulation(why: str) -> Accelerator:
    return Accelerator("tcg", _EMULATED.format(why=why))
