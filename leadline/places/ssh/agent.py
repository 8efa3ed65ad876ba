"""leadline's agent on another host: what a host and a stack do here, done there, asked over a pipe.

It runs for as long as its controller speaks: at the end of its input, or after a silence of the dead-man time, it ends
at once and undoes nothing itself. That is its watchdog's, the same that watches a leadline on its own host.
"""

from __future__ import annotations

import contextlib
import os
import platform
import queue
import select
import shutil
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO, get_type_hints

from leadline.host.base import Process
from leadline.host.checks import findings
from leadline.host.java import find_java_home
from leadline.host.local import LocalHost
from leadline.host.paths import cache_dir
from leadline.host.textfile import usual_mask
from leadline.host.watchdog import Watchdog
from leadline.model.errors import LeadlineError, UsageError
from leadline.model.knob import Level
from leadline.model.study import Profiling, StackChoice
from leadline.observe.base import ObserverContext, ObserverSet
from leadline.observe.profile import ProfileObserver
from leadline.places.ssh import wire
from leadline.stack import probe, provision
from leadline.stack.assembly import Stack
from leadline.stack.base import AskedFor, Counts
from leadline.stack.options import StackOptions
from leadline.stack.provision import Artefact
from leadline.stack.registry import server_of
from leadline.stack.web.front import WEB_SERVERS
from leadline.trial.system import observers_of

_SILENCE = 60.0  # seconds, until a study names its dead-man time
_TRIALS = "trials"  # below the work directory
_HOST = (  # of LocalHost, as they are
    *("apply", "busy", "cpus", "drop_page_cache", "facts", "lacks", "machine", "port_taken", "read_back", "swap_off"),
    *("temporary", "writable"),
)
_STACK = (  # of Stack, as they are
    *("apply", "certificate", "check_alive", "check_connections", "check_members", "check_messages", "endpoint"),
    *("expect", "has_data", "population_urls", "read_back", "restarts", "url"),
    *("use_application", "use_companion", "use_database"),
)


class Agent:
    """``tell`` sends a line of progress. The public methods are what a controller can ask, see ``table``."""

    def __init__(self, tell: Callable[[str], None], disposable: bool = False) -> None:
        self._tell = tell
        self._host = LocalHost(disposable=disposable, directories={"cache": cache_dir()})
        self._held = ExitStack()
        self._watchdog: Watchdog | None = None
        self._work = Path()
        self._stack: Stack | None = None
        self._choice = StackChoice()
        self._observe = True
        self._observers = ObserverSet([])
        self._profile: ProfileObserver | None = None
        self.silence = _SILENCE
        provision.elsewhere = _absent

    def table(self) -> dict[str, Callable[..., Any]]:
        """Request -> what is done."""
        methods: tuple[Callable[..., Any], ...] = (
            *(
                self.about,
                self.guard,
                self.finish,
                self.restore,
                self.doctor,
                self.today,
                self.open_work,
                self.open_stack,
            ),
            *(self.provision, self.prepare_data, self.reset_data, self.start_database, self.start_server),
            *(self.start_companion, self.start_web, self.unreached),
            *(
                self.down,
                self.check_stack,
                self.start_observers,
                self.stop_observers,
                self.profile,
                self.samples,
                self.drain,
                self.audit,
            ),
            *(self.forget, self.place, self.open_entries, self.source_address, self.listens_on),
        )
        requests: dict[str, Callable[..., Any]] = {method.__name__: method for method in methods}
        requests |= {f"host.{name}": getattr(self._host, name) for name in _HOST}
        return requests | {f"stack.{name}": self._of_stack(name) for name in _STACK}

    def _of_stack(self, name: str) -> Callable[..., Any]:
        return lambda *given: getattr(self._running(), name)(*given)

    def _running(self) -> Stack:
        if self._stack is None:
            raise LeadlineError("no stack was named yet")
        return self._stack

    # the host ------------------------------------------------------------------------------------------------

    def about(self) -> Mapping[str, str]:
        """Where its cache is, who runs it, and its kernel."""
        return {
            "cache": str(cache_dir()),
            "user": str(os.geteuid()),
            "name": platform.node(),
            "kernel": platform.release(),
            "time_ns": str(time.time_ns()),
        }

    def guard(self, dead_man: float) -> None:
        """Take the lease and start the watchdog; both are kept until ``finish`` or the end of this process."""
        self._watchdog = self._held.enter_context(self._host.guard(dead_man))
        self.silence = dead_man

    def finish(self) -> None:
        """The run ended: as the end of the block that ``LocalHost.guard`` guards."""
        self.silence = _SILENCE
        self._watchdog = None
        self._held.close()

    def restore(self) -> Sequence[str]:
        """As ``LocalHost.restore``, with the lease taken where no study holds it."""
        self._work, self._stack = Path(), None
        if self._watchdog is not None:
            return self._host.restore()
        with self._host.lease():
            return self._host.restore()

    def open_entries(self) -> int:
        """Of the undo journal."""
        return len(self._host.journal.left())

    def doctor(self) -> Sequence[Any]:
        """Findings of ``leadline doctor`` there, without those that matter only to who runs leadline."""
        return [finding for finding in findings(self._host) if finding.name not in ("maven", "driver")]

    def today(self) -> Mapping[str, tuple[Level, str]]:
        """Each knob of the host: today's level, and why it cannot be set; those left out that its kernel lacks."""
        levels: dict[str, tuple[Level, str]] = {}
        for knob in self._host.knobs():
            with contextlib.suppress(LookupError, OSError):
                levels[knob.name] = (self._host.read_back(knob.name), self._host.writable(knob.name))
        return levels

    def source_address(self, address: str) -> str:
        """The address of this host from which it reaches ``address``."""
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect((address, 9))  # a datagram socket sends nothing when it connects
            return str(probe.getsockname()[0])

    def unreached(self, address: str, port: int) -> str:
        """Why a port of another host cannot be reached from here; empty where it can."""
        return probe.unreached(address, port)

    def listens_on(self, address: str) -> None:
        """Raises LeadlineError where this host has no such address."""
        with socket.socket() as probe:
            try:
                probe.bind((address, 0))
            except OSError as error:
                raise LeadlineError(f"{address} is no address of this host ({error.strerror})") from None

    # the stack -----------------------------------------------------------------------------------------------

    def open_work(self, name: str) -> str:
        """Make the directory of a study, which ``restore`` removes with all in it; where it is."""
        if self._watchdog is None:
            raise LeadlineError("this host is not guarded")
        work = cache_dir() / "far" / name
        if work != self._work:
            if work.exists():  # what an earlier run journalled is restored by now
                shutil.rmtree(work)
            self._host.private_tree(work)
            work.chmod(0o711)  # services are users of their own
            (work / _TRIALS).mkdir(mode=0o711)
            self._work = work
        return str(work)

    def open_stack(self, choice: StackChoice, options: Mapping[str, Any]) -> None:
        """Make the stack, not started; its home and its trials lie in the directory of the study."""
        options_ = dict(options)
        self._observe, self._choice = bool(options_["observe"]), choice
        options_["http_names"] = tuple(options_["http_names"])
        options_["database_clients"] = tuple(options_["database_clients"])
        options_["web_servers"], options_["roles"] = tuple(options_["web_servers"]), tuple(options_["roles"])
        self._stack = Stack(choice, self._host, self._work / "services", StackOptions(**options_))

    def provision(self) -> None:
        """Raises Absent for the first distribution that is not in the cache."""
        self._running().provision(self._tell)

    def check_stack(self, choice: StackChoice, roles: Sequence[str], web_servers: Sequence[str]) -> None:
        """Raises UsageError for a JDK that is not there or that the server does not run on, LeadlineError for an Apache
        httpd that is not there.
        """
        if "application" in roles:
            server_of(choice).check_java(choice.java)
        elif "database" in roles or "supplier" in roles:
            find_java_home(Path(choice.java) if choice.java else None)
        if "web" in roles and "httpd" in web_servers:
            WEB_SERVERS["httpd"]().provision(self._tell)

    def prepare_data(self) -> None:
        self._running().prepare_data(self._tell)

    def _trial(self, key: str) -> Path:
        """The directory of an attempt, by its path below the lab."""
        path = self._work / _TRIALS / key
        if ".." in path.parts or not path.is_relative_to(self._work / _TRIALS):
            raise UsageError(f"{key!r} is no trial")
        path.mkdir(mode=0o711, parents=True, exist_ok=True)
        return path

    def reset_data(self, key: str) -> None:
        self._running().reset_data(self._trial(key))

    def start_database(self, settings: Mapping[str, Level], key: str) -> float:
        return self._running().start_database(settings, self._trial(key))

    def start_server(self, settings: Mapping[str, Level], key: str) -> float:
        return self._running().start_server(settings, self._trial(key))

    def start_companion(self, name: str, settings: Mapping[str, Level], key: str, url: str) -> str:
        return self._running().start_companion(name, settings, self._trial(key), url)

    def start_web(self, settings: Mapping[str, Level], key: str) -> float:
        return self._running().start_web(settings, self._trial(key))

    def down(self) -> Sequence[str]:
        """Everything that was started, the observers first; nothing happens where nothing runs."""
        self._observers.stop()
        return self._stack.down() if self._stack is not None else []

    def drain(self, key: str, file: str) -> None:
        self._running().drain(self._trial(key) / "raw" / Path(file).name)

    def audit(self, counts: Counts, key: str, load: AskedFor) -> Sequence[Any]:
        return self._running().audit(counts, self._trial(key) / "logs" / "audit.log", load)

    def place(self, key: str) -> str:
        """Where an attempt's directory is."""
        return str(self._trial(key))

    def forget(self, key: str) -> None:
        """Remove what was fetched of an attempt."""
        shutil.rmtree(self._trial(key), ignore_errors=True)

    # observers -----------------------------------------------------------------------------------------------

    def start_observers(self, key: str, profiling: Profiling) -> None:
        """Of what runs here; where the database has a host of its own that is a part of the stack."""
        stack = self._running()
        processes: dict[str, Process] = dict(stack.processes())
        observers = observers_of(self._observe, self._host, stack)
        self._profile = None if profiling == "off" else ProfileObserver(self._host, profiling)
        every = [*observers, *([self._profile] if self._profile else [])]
        self._observers = ObserverSet([observer for observer in every if _fits(observer.name, processes)])
        java = Path(self._choice.java) if self._choice.java else None
        self._observers.start(ObserverContext(self._trial(key), processes, java))

    def stop_observers(self) -> Sequence[str]:
        self._observers.stop()
        return list(self._observers.warnings)

    def profile(self, on: bool) -> None:
        """Take samples from now on, of what runs here, or no more."""
        stack = self._running()
        if self._profile is not None:
            self._profile.sample(on)  # which was not started where no server is
            if "database" in stack.processes():
                stack.database.track(on)

    def samples(self, key: str) -> str:
        """What the agent in the server's JVM has written so far."""
        try:
            return (self._trial(key) / "raw" / "agent.csv").read_text()
        except OSError:
            return ""


@cache
def kinds() -> Mapping[str, Any]:
    """Request -> the type of its answer, as its method says."""
    methods = {name: method for name, method in vars(Agent).items() if callable(method) and not name.startswith("_")}
    of_host = {f"host.{name}": getattr(LocalHost, name) for name in _HOST}
    of_stack = {f"stack.{name}": getattr(Stack, name) for name in _STACK}
    return {name: get_type_hints(method).get("return") for name, method in (methods | of_host | of_stack).items()}


# Observer -> role.
_NEEDS = {
    **dict.fromkeys(("gc", "pools", "profile"), "server"),
    **dict.fromkeys(("database", "statements"), "database"),
    "web": "web",
}


def _fits(observer: str, processes: Mapping[str, Process]) -> bool:
    return _NEEDS.get(observer, "") in ("", *processes)


def _absent(artefact: Artefact) -> None:
    raise wire.Absent(artefact)


def serve(source: BinaryIO, sink: BinaryIO, disposable: bool) -> None:
    """Answer requests, one after the other, until the input ends. Returns never: the process ends."""
    lock, requests = threading.Lock(), queue.Queue[dict[str, Any]]()
    current: list[int] = [0]

    def send(message: Mapping[str, Any]) -> None:
        with lock:
            try:
                sink.write(wire.frame(message))
                sink.flush()
            except OSError:
                os._exit(1)

    agent = Agent(lambda text: send({"id": current[0], "told": text}), disposable)
    table = agent.table()

    def listen() -> None:
        while True:
            ready, _, _ = select.select([source], [], [], agent.silence)
            try:
                message = wire.read_frame(_reader(source)) if ready else None
            except (OSError, ValueError):
                message = None
            if message is None:  # the controller is gone, or silent for too long: its watchdog takes over
                os._exit(0)
            if message:
                requests.put(message)

    threading.Thread(target=listen, name="controller", daemon=True).start()
    while True:
        request = requests.get()
        current[0] = int(request["id"])
        try:
            work = table.get(str(request["do"]))
            if work is None:
                raise LeadlineError(f"the agent knows no {request['do']!r}")
            value = wire.packed(work(*(wire.unpacked(argument) for argument in request["with"])))
        except Exception as error:
            send({"id": current[0], "error": wire.packed_error(error)})
        else:
            send({"id": current[0], "value": value})


def _reader(source: BinaryIO) -> Callable[[int], bytes]:
    def read(size: int) -> bytes:
        reader = b""
        while len(reader) < size and (part := os.read(source.fileno(), size - len(reader))):
            reader += part
        return reader

    return read


def main() -> None:
    """``disposable`` as the only argument: 0 or 1. Requests on standard input, answers on standard output."""
    usual_mask()
    sink = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what anything prints is no answer
    serve(sys.stdin.buffer, sink, sys.argv[1:2] == ["1"])
