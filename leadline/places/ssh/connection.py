"""OpenSSH's client to one host: a shared connection, files sent and fetched over it, and the agent's channel.

The package, and the libraries it imports, are sent to another host so that leadline's agent runs there.
"""

from __future__ import annotations

import contextlib
import hashlib
import ipaddress
import itertools
import os
import queue
import re
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, cached_property, partial
from importlib import metadata
from pathlib import Path, PurePosixPath
from typing import IO, Any

import leadline
from leadline.host import here, ssh
from leadline.host.java import agent_jar
from leadline.host.paths import Scratch
from leadline.host.received import below, packed
from leadline.load.cluster.hosts import LabClock, Offset, sampled
from leadline.model.errors import FailureClass, LeadlineError, TrialFailure, UsageError, shortened
from leadline.model.hosts import SshHost
from leadline.model.received import ReceivedError, reading, whole
from leadline.places.ssh import wire
from leadline.places.ssh.agent import kinds
from leadline.places.ssh.wire import ConnectionLost
from leadline.stack.applications.java import JavaApplication
from leadline.stack.registry import APPLICATIONS

# Distributions that the modules of the agent and of the stack import; what plans, analyses and reports stays here.
LIBRARIES = ("cryptography", "pg8000", "pydantic", "pymysql")
_PACKAGE = Path(leadline.__file__).resolve().parent
_LEFT_OUT = ("__pycache__", "_bin", "_java")
_NAME = re.compile(r"[\w.-]+")
_SUFFIXES = (".pyc", ".pyo")


@dataclass(frozen=True)
class Bundle:
    """Files by their path in it. ``digest`` names its contents, and this Python, whose compiled modules it holds."""

    files: tuple[tuple[str, Path], ...]
    digest: str

    @cached_property
    def packed(self) -> bytes:
        """As a tar archive, not compressed: most of it is compiled, and ssh is faster than a compressor."""
        return packed(dict(self.files))


def bundle() -> Bundle:
    """What would be sent now. Raises LeadlineError where a library is missing here."""
    files = tuple(sorted([*_package(), *_java(), *_libraries()]))
    total = hashlib.sha256(f"{sys.version_info[:2]} {sys.platform}".encode())
    for name, path in files:
        stat = path.stat()
        total.update(f"{name}\0{_digest(path, stat.st_size, stat.st_mtime_ns)}\n".encode())
    return Bundle(files, total.hexdigest()[:32])


@cache
def _digest(path: Path, size: int, changed_ns: int) -> str:  # noqa: ARG001 - a new file is read again
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _package() -> Iterator[tuple[str, Path]]:
    for path in _PACKAGE.rglob("*"):
        parts = path.relative_to(_PACKAGE).parts
        if path.is_file() and not set(parts) & set(_LEFT_OUT) and path.suffix not in _SUFFIXES:
            yield "/".join(("leadline", *parts)), path


def _java() -> Iterator[tuple[str, Path]]:
    """What is built of the applications and of the agent inside JVMs."""
    java_apps = [app for make in APPLICATIONS.values() if isinstance(app := make(), JavaApplication)]
    built = [path for app in java_apps for path in (*app.archives(), app.tools())]
    with suppress(LeadlineError):  # whoever needs it builds it first
        built.append(agent_jar())
    for path in built:
        if path.is_file():
            yield f"leadline/_java/{path.name}", path


def _libraries() -> Iterator[tuple[str, Path]]:
    """Of ``LIBRARIES`` and of what they require."""
    wanted, seen_names = list(LIBRARIES), set[str]()
    while wanted:
        library = wanted.pop()
        if library in seen_names:
            continue
        seen_names.add(library)
        try:
            distribution = metadata.distribution(library)
        except metadata.PackageNotFoundError:
            if library in LIBRARIES:
                raise LeadlineError(f"the library {library} is not installed here, so it cannot be sent") from None
            continue  # required on other systems only
        required = (line for line in distribution.requires or () if "extra ==" not in line)
        wanted += [name[0] for line in required if (name := _NAME.match(line))]
        for file in distribution.files or ():
            path = Path(str(file.locate()))
            if ".." not in file.parts and "__pycache__" not in file.parts and path.is_file():
                yield str(file), path


_OPENING = 30.0  # seconds until a host must have answered
_SENDING = 1800.0  # seconds that files may take
_ENDING = 5.0  # seconds for a client to end by itself
_BEAT = 1.0  # seconds between two signs of life, less where the dead-man time is short
_DAYS = 30  # after which a package of leadline that nothing has used is removed there
_SAMPLES = 15  # of the clock
_MARK = "leadline-answers"
_ABOUT = ("python", "versions", "user", "machine", "address", "cache")  # what the first session tells
_MOST_LINES, _LONGEST = 10_000, 1 << 16  # of what a host says: lines until it answers, bytes of one
_MOST_TOLD = 10_000  # lines of progress of a request
_MOST_WAITING = 64  # messages of an agent that nobody has asked for yet
_LAST_WORDS = 20  # lines of its errors that are kept
_SILENCE = 60  # seconds without a sign of life after which the first session ends
# The first session: it tells what is there and lives as long as its input, which ends when leadline does. Where the
# network is lost nothing tells the host of that end.
_LOOK = """
wanted={version}; python=
for each in python$wanted python3 /usr/local/bin/python$wanted /usr/bin/python$wanted; do
  found=$($each -I -S -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2> /dev/null) || continue
  seen="$seen $found"
  if [ "$found" = "$wanted" ]; then python=$(command -v $each); break; fi
done
echo "python $python"
echo "versions $seen"
echo "user $(id -u)"
echo "machine $(uname -s) $(uname -m)"
echo "address $SSH_CONNECTION"
echo "cache ${{XDG_CACHE_HOME:-$HOME/.cache}}/leadline/far"
echo {mark}
exec $python -I -S -c 'import os, select
while select.select([0], [], [], {silence})[0] and os.read(0, 512): pass'
"""


class Connection:
    """One host. Every failure is a ConnectionLost that names it, or a UsageError for what the host lacks.

    ``role``: what the host is to a study that has several.
    """

    def __init__(self, host: SshHost, role: str = "") -> None:
        self.host = host
        self.title = f"{host} ({role})" if role else str(host)
        self._sockets: Scratch | None = None
        self._master: subprocess.Popen[bytes] | None = None
        self._about: dict[str, str] = {}
        self._said: deque[str] = deque(maxlen=_LAST_WORDS)

    # the shared connection -----------------------------------------------------------------------------------

    def open(self) -> None:
        """Connect and look at the host. Raises ConnectionLost, UsageError."""
        if self.alive():
            return
        self.close()
        ssh.require_client(self.title)
        self._sockets = Scratch()
        version = f"{sys.version_info[0]}.{sys.version_info[1]}"
        script = _LOOK.format(version=version, mark=_MARK, silence=_SILENCE)
        argv = self._argv(script, carries=True)
        pipe = subprocess.PIPE
        self._master = subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True)
        self._said.clear()
        listener = threading.Thread(
            target=_hear, args=(self._master, self._said), name=f"errors-{self.title}", daemon=True
        )
        listener.start()
        opening, complete = _lines_until(self._master, _MARK, _OPENING)
        if not complete:
            _kill(self._master)
            listener.join(_ENDING)
            raise self._unreachable()
        self._about = dict(line.partition(" ")[::2] for line in opening)
        if lacking := [name for name in _ABOUT if name not in self._about]:
            raise ConnectionLost(self.title, f"it does not answer as a shell: it says nothing of its {lacking[0]}")
        threading.Thread(target=_live, args=(self._master,), name=f"session-{self.title}", daemon=True).start()
        self._check(version)

    def _check(self, version: str) -> None:
        about = self._about
        if about["machine"] != "Linux x86_64":
            raise UsageError(f"{self.title}: it is {about['machine']}, and leadline runs on Linux x86_64")
        if not about["python"]:
            has = about["versions"].strip().replace(" ", ", ")
            raise UsageError(
                f"{self.title}: no Python {version} there, which runs leadline here"
                f" ({f'it has {has}' if has else 'it has none'}); install python{version} on it"
            )
        if ":" in self.address:
            raise UsageError(
                f"{self.title}: it is reached by the IPv6 address {self.address}; write `AddressFamily inet` for it in"
                " ~/.ssh/config"
            )
        if self.host.sudo and about["user"] != "0":
            done = self._run("sudo -n true", timeout=_OPENING)
            if done.returncode:
                why = ssh.reason(done.returncode, done.stderr)
                raise UsageError(
                    f"{self.title}: sudo there does not work without a password ({why}); allow it for this user,"
                    f" log in as root, or write ssh:{self.host.name}: settings of the kernel are left out then"
                )

    @property
    def address(self) -> str:
        """The host's own address, by which it was reached."""
        words = self._about.get("address", "").split()
        with contextlib.suppress(ValueError):
            return str(ipaddress.ip_address(words[2])) if len(words) == 4 else ""
        return ""

    @property
    def root(self) -> bool:
        """Whether leadline is root there."""
        return self.host.sudo or self._about.get("user") == "0"

    def run_as_root(self, script: str) -> str:
        """Standard output of a shell script there, as root where leadline is. Raises ConnectionLost, LeadlineError."""
        done = self._run(self._as(script))
        if done.returncode == ssh.FAILED:
            raise ConnectionLost(self.title, f"the connection is lost: {ssh.last_line(done.stderr)}")
        if done.returncode:
            raise LeadlineError(f"{self.title}: {ssh.reason(done.returncode, done.stderr)}: {script}")
        return done.stdout.decode(errors="replace")

    @property
    def far_cache(self) -> PurePosixPath:
        """Where bundles lie there."""
        return PurePosixPath(self._about["cache"])

    def alive(self) -> bool:
        return self._master is not None and self._master.poll() is None

    def close(self) -> None:
        """End whatever this connection carries."""
        if self._master is not None:
            _end(self._master)
            self._master = None
        if self._sockets is not None:
            self._sockets.close()
            self._sockets = None

    def _argv(self, script: str, carries: bool = False) -> list[str]:
        assert self._sockets is not None
        return ssh.command(self.host.words, script, self._sockets.path, carries)

    def _run(self, script: str, data: bytes = b"", timeout: float = _OPENING) -> subprocess.CompletedProcess[bytes]:
        if not self.alive():
            raise ConnectionLost(self.title, "the connection is lost")
        try:
            return here.exchange(self._argv(script), data, timeout=timeout, start_new_session=True)
        except TimeoutError:
            raise ConnectionLost(self.title, f"no answer within {timeout:.0f} s") from None
        except OSError as error:
            raise ConnectionLost(self.title, error.strerror or str(error)) from error

    def _require(self, script: str, data: bytes, what: str) -> bytes:
        return self._well_ended(self._run(script, data, _SENDING), what)

    def _well_ended(self, done: here.Exchanged, what: str) -> bytes:
        """The output of a command there. Raises TrialFailure(infrastructure)."""
        if done.returncode == ssh.FAILED:
            raise ConnectionLost(self.title, f"the connection was lost while {what}: {ssh.last_line(done.stderr)}")
        if done.returncode:
            why = ssh.reason(done.returncode, done.stderr)
            raise TrialFailure(FailureClass.INFRASTRUCTURE, f"{self.title}: {what} failed: {why}")
        return done.stdout

    def _unreachable(self) -> LeadlineError:
        said = "\n".join(self._said)
        why = ssh.last_line(said).rstrip(".") or f"no answer within {_OPENING:.0f} s"
        return ConnectionLost(self.title, f"cannot be reached: {why}{ssh.hint(said, self.host.words)}", said)

    # files ---------------------------------------------------------------------------------------------------

    def send_bundle(self, bundle: Bundle, tell: Callable[[str], None]) -> PurePosixPath:
        """The package of leadline, kept there by its digest; where it lies."""
        place = self.far_cache / "agents" / bundle.digest
        quoted = shlex.quote(str(place))
        old = f"find {shlex.quote(str(place.parent))} -mindepth 1 -maxdepth 1 -mtime +{_DAYS} -exec rm -rf {{}} +"
        if self._run(f"test -f {quoted}/complete && touch {quoted} && {old}").returncode == 0:
            return place
        tell(f"{self.title}: sending leadline")
        part = shlex.quote(f"{place}.part")
        script = (
            f"rm -rf {part}.* && mkdir -p {part}.$$ && cd {part}.$$ && tar -xf - && touch complete && cd / &&"
            f" {{ mv -T {part}.$$ {quoted} 2> /dev/null || {{ rm -rf {part}.$$; test -f {quoted}/complete; }}; }}"
        )
        self._require(script, bundle.packed, "sending leadline")
        return place

    def send(self, directory: Path, place: str) -> None:
        """A directory with all in it, links too, at ``place``, whole or not at all."""
        quoted, part = shlex.quote(place), shlex.quote(f"{place}.part")
        script = (
            f"rm -rf {part} && mkdir -p {part} && tar -xpf - -C {part} --no-same-owner && rm -rf {quoted} &&"
            f" mv -T {part} {quoted}"
        )
        self._require(self._as(script), packed(below(directory, links=True)), f"sending {directory.name}")

    def fetch(self, place: str, into: Path) -> None:
        """The files below a directory there, into one here. Raises OSError, too."""
        script = f"test ! -d {shlex.quote(place)} || exec tar -cf - -C {shlex.quote(place)} ."
        what = "fetching what was recorded"
        if not self.alive():
            raise ConnectionLost(self.title, "the connection is lost")
        try:
            self._well_ended(
                here.unpacked(self._argv(self._as(script)), into, f"{self.title}: an archive", _SENDING), what
            )
        except ReceivedError as error:
            raise TrialFailure(FailureClass.INFRASTRUCTURE, str(error)) from error

    def _as(self, script: str) -> str:
        if self.host.sudo and self._about["user"] != "0":
            return f"exec sudo -n sh -c {shlex.quote(script)}"
        return script

    # the agent -----------------------------------------------------------------------------------------------

    def agent(self, bundle: Bundle, disposable: bool, tell: Callable[[str], None]) -> Channel:
        """Start leadline's agent there."""
        place = self.send_bundle(bundle, tell)
        loader = f"import sys; sys.path.insert(0, {str(place)!r}); from leadline.places.ssh.agent import main; main()"
        words = [self._about["python"], "-I", "-S", "-B", "-c", loader, str(int(disposable))]
        script = self._as(f"exec {shlex.join(words)}")
        return Channel(self.title, self._argv(script), tell)


class Channel:
    """Requests to an agent, one at a time, and a sign of life in between."""

    def __init__(self, title: str, argv: Sequence[str], tell: Callable[[str], None]) -> None:
        self._title = title
        self._tell = tell
        pipe = subprocess.PIPE
        # a group of its own: Ctrl-C is leadline's
        self._process = subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True)
        self._numbers = itertools.count(1)
        self._answers: queue.Queue[dict[str, Any] | None] = queue.Queue(_MOST_WAITING)
        self._sending, self._asking = threading.Lock(), threading.Lock()
        self._over = threading.Event()
        self._said: deque[str] = deque(maxlen=_LAST_WORDS)
        self.beat = _BEAT
        hear = partial(_hear, self._process, self._said)
        for work in (self._read, self._live, hear):
            threading.Thread(target=work, name=f"agent-{title}", daemon=True).start()

    def alive(self) -> bool:
        return not self._over.is_set()

    def ask(self, do: str, *given: object, timeout: float = 3600.0) -> Any:
        """The answer of the agent. Raises ConnectionLost, and what the agent raised."""
        # A client that does not take the request would hold it for ever, one that tells without end the answer.
        timer = threading.Timer(timeout, self._give_up, [f"{do} was not answered within {timeout:.0f} s"])
        with self._asking:
            timer.start()
            try:
                return self._answer(do, [wire.packed(argument) for argument in given])
            finally:
                timer.cancel()

    def _give_up(self, why: str) -> None:
        self._said.append(why)
        self._over.set()
        _kill(self._process)

    def _answer(self, do: str, given: list[Any]) -> Any:
        number, told = next(self._numbers), 0
        self._send({"id": number, "do": do, "with": given})
        while True:
            try:
                answer = self._answers.get(timeout=_BEAT)
            except queue.Empty:
                if self.alive():
                    continue
                answer = None
            if answer is None:
                raise self._lost()
            if answer.get("id") != number:  # of a request that was interrupted
                continue
            if "told" in answer:
                told += 1
                if told > _MOST_TOLD:
                    self._give_up(f"{do} told more than {_MOST_TOLD:,} lines")
                    raise self._lost()
                self._tell(f"{self._title}: {shortened(str(answer['told']), 800)}")
            elif "error" in answer:
                raise self._taken(lambda found: wire.unpacked_error(found, self._title), answer["error"])
            else:
                return self._taken(partial(wire.unpacked_as, kinds().get(do)), answer.get("value"))

    def _taken(self, unpacked: Callable[[Any], Any], found: Any) -> Any:
        """Raises TrialFailure(infrastructure) for what no agent says."""
        try:
            with reading(f"{self._title}: an answer"):
                return unpacked(found)
        except ReceivedError as error:
            raise TrialFailure(FailureClass.INFRASTRUCTURE, str(error)) from error

    def clock(self) -> Offset:
        """The host's clock against this one's. Raises ConnectionLost, LeadlineError where a clock was set meanwhile."""
        clock_offset = sampled(LabClock(), lambda: whole(self.ask("about"), "time_ns", self._title), _SAMPLES)
        if clock_offset is None:
            raise LeadlineError(f"{self._title}: its clock was set while it was read")
        return clock_offset

    def close(self) -> None:
        """The agent ends with its input."""
        self._over.set()
        _end(self._process)

    def _lost(self) -> ConnectionLost:
        said = list(self._said)
        last_words, why = "\n".join(said), said[-1] if said else "the connection ended"
        return ConnectionLost(self._title, f"the connection to leadline's agent is lost: {why}", last_words)

    def _send(self, message: dict[str, Any]) -> None:
        with self._sending:
            try:
                assert self._process.stdin is not None
                self._process.stdin.write(wire.frame(message))
                self._process.stdin.flush()
            except (OSError, ValueError):
                raise self._lost() from None

    def _read(self) -> None:
        assert self._process.stdout is not None
        while True:
            try:
                message = wire.read_frame(self._process.stdout.read)
            except (OSError, ValueError) as error:
                self._said.append(f"{error}")
                message = None
            if message is None:
                self._over.set()
                self._answers.put(None)
                return
            self._answers.put(message)

    def _live(self) -> None:
        while not self._over.wait(self.beat):
            with contextlib.suppress(ConnectionLost):
                self._send({})


def _live(session: subprocess.Popen[bytes]) -> None:
    """Signs of life until the session ends or its input is closed."""
    assert session.stdin is not None
    with contextlib.suppress(OSError, ValueError):
        while session.poll() is None:
            session.stdin.write(b"\n")
            session.stdin.flush()
            time.sleep(_SILENCE / 6)


def _end(process: subprocess.Popen[bytes]) -> None:
    """A client whose input is closed ends by itself."""
    with contextlib.suppress(OSError, ValueError):
        if process.stdin is not None:
            process.stdin.close()
    try:
        process.wait(_ENDING)
    except subprocess.TimeoutExpired:
        _kill(process)
        process.wait(_ENDING)


def _kill(process: subprocess.Popen[bytes]) -> None:
    """With what it started, which may hold its output open."""
    with contextlib.suppress(OSError):  # it has just ended
        os.killpg(process.pid, signal.SIGKILL)


def _lines(stream: IO[bytes]) -> Iterator[str]:
    """Without those that are empty; a longer line than ``_LONGEST`` is several."""
    with contextlib.suppress(OSError, ValueError):
        while line := stream.readline(_LONGEST):
            yield line.decode(errors="replace").rstrip("\n")


def _hear(process: subprocess.Popen[bytes], said: deque[str]) -> None:
    assert process.stderr is not None
    said.extend(shortened(text.strip(), 800) for text in _lines(process.stderr) if text.strip())


def _lines_until(process: subprocess.Popen[bytes], mark: str, seconds: float) -> tuple[list[str], bool]:
    """Lines that a program prints up to ``mark``, and whether it came in time."""
    timer = threading.Timer(seconds, _kill, [process])
    timer.start()
    try:
        assert process.stdout is not None
        lines: list[str] = []
        for text in itertools.islice(_lines(process.stdout), _MOST_LINES):
            if text == mark:
                return lines, True
            lines.append(text)
        return lines, False
    finally:
        timer.cancel()
