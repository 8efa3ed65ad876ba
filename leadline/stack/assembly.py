"""Database, server, web server and application joined to one stack on one host."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from statistics import median

from leadline.host.base import Host, Process
from leadline.host.files import oom_kills
from leadline.host.paths import cache_dir, exclusive
from leadline.model.errors import Event, Evidence, FailureClass, LeadlineError, Memory, Part, TrialFailure, blamed
from leadline.model.study import StackChoice
from leadline.model.units import format_size
from leadline.stack import base, databases, registry, started
from leadline.stack.base import RemoteClient
from leadline.stack.options import LOOPBACK, StackOptions
from leadline.stack.pages import SiteServer
from leadline.stack.parts import Parts
from leadline.stack.provision import driver_for
from leadline.stack.servers import knobs as server_knobs
from leadline.stack.web import common as web_knobs
from leadline.stack.web.common import WebServer
from leadline.stack.web.front import Behind

# What a server was refused, as its logs have it: connections of its database, room for its messages.


_KEPT = 10
_WIDTH = 400
# Open Liberty's errors of the message store (CWSIS, CWSOM) and of the engine that stands on it (CWSID); what ActiveMQ,
# which is in TomEE, says when it gives its store up; what Open MQ, which is in GlassFish, could not keep.
_STORE = re.compile(
    r"\bCWS(?:IS|ID|OM)\d{4}E\b.*|\bStopping BrokerService\[\w+\] due to exception, .*"
    r"|\[B4\d{3}\]: Failed to persist .*|\bFailed to create transaction log file\b.*"
)
_STORE_HEADING = re.compile(r"\bJournal failed while writing\b.*")  # ActiveMQ's; the next line has the reason


def check(database: str, server: str, logs: Iterable[Path], words: Sequence[str]) -> None:
    """Raises TrialFailure(configuration) when one of ``words`` stands in the server's logs (files and directories).

    A database without a free connection refuses every further one, so that the trial would tell of the refusals.
    """
    lines: list[str] = []
    for line in _lines(logs):
        if any(word in line for word in words) and line not in lines:
            lines.append(line)
            if len(lines) == _KEPT:
                break
    if lines:
        word_found = next(word for word in words if word in lines[0])
        raise blamed(
            Evidence(Event.REFUSED),
            f"{database} refused connections of {server}'s pool: {word_found}; the pool may grow beyond"
            " database.max_connections: lower server.datasource.max_connections or raise it",
            "\n".join(lines),
        )


def check_store(server: str, logs: Iterable[Path]) -> None:
    """Raises TrialFailure(configuration) when the server's logs tell of a message store that failed (full, say).

    Orders are then refused, so that the trial would tell of the refusals.
    """
    lines: list[str] = []
    heading = ""
    for line in _lines(logs):
        match = _STORE.search(line)
        words = f"{heading}: {line}" if heading else match[0] if match else ""
        heading = begun[0] if (begun := _STORE_HEADING.search(line)) else ""
        if words and words not in lines:
            lines.append(words)
            if len(lines) == _KEPT:
                break
    if lines:
        raise blamed(
            Evidence(Event.REFUSED),
            f"{server} cannot keep messages: {lines[0].rstrip('.')}; is there room where"
            " server.messaging.store_place puts them?",
            "\n".join(lines),
        )


def _lines(logs: Iterable[Path]) -> Iterator[str]:
    for path in logs:
        files = sorted(path.rglob("*.log")) if path.is_dir() else [path]
        for file in files:
            with file.open(encoding="utf-8", errors="replace") as stream:
                for line in stream:
                    yield line.strip()[:_WIDTH]


_STARTS = 5  # times the median of its starts that one more may take
_LOOK = 1.0  # seconds between two looks at all processes of the services


class Stack(Parts):
    """One stack, started and stopped many times.

    ``home`` holds the private directories of its services. A trial's ``directory`` takes ``logs/`` and ``raw/``.
    Steps are separate because the lab writes each to its store before it acts: ``provision``, ``prepare_data`` once,
    then ``reset_data``, ``start_database``, ``start_server``, ..., ``down`` for every trial. Raises UsageError for
    names that do not exist, modes a server cannot run and JDKs it does not run on.
    """

    def __init__(self, choice: StackChoice, host: Host, home: Path, options: StackOptions | None = None) -> None:
        super().__init__(choice, host, home, options)
        self._configured = self._database_configured = False  # server, database, since they were last stopped
        self._expected = False  # the ports of the server's next start are chosen
        self._socket: Path | None = None
        self._memory_kills = 0
        self._members: dict[str, set[int]] = {}  # processes of each service, as last seen
        self._look_again = 0.0  # monotonic
        self._starts: dict[str, list[float]] = {}  # seconds that each service took, on this host

    def processes(self) -> Mapping[str, Process]:
        """``database``, ``server``, ``web`` and the application's companions, those that have been started."""
        return dict(self._processes)

    # once a run ----------------------------------------------------------------------------------------------

    def prepare_data(self, progress: base.Progress) -> str:
        """Load the data and keep a snapshot, unless there is one; returns its name. The database is stopped after.

        Raises TrialFailure, LeadlineError.
        """
        key = self.application.data_key(self.options.load_units, self.options.data_seed)
        if not self.database.has_snapshot(key):
            lock = cache_dir() / "data" / f".{self.database.name}-{key}.lock"
            with exclusive(lock, lambda: progress("waiting for another process that loads the same data")):
                if not self.database.has_snapshot(key):
                    self._load_data(key, progress)
        return key

    def _load_data(self, key: str, progress: base.Progress) -> None:
        units, seed = self.options.load_units, self.options.data_seed
        progress(f"loading {units} load unit{'' if units == 1 else 's'} of {self.application.name} data")
        began = time.monotonic()
        directory = self._home / "load"
        shutil.rmtree(directory, ignore_errors=True)
        try:
            self._placement = self.options.placement.model_copy(update={"database_memory": None})
            self.database.configure(self._context(directory / self.database.name, directory), {})
            self._start_database()
            self.application.load_data(self.endpoint(), units, seed, directory / "logs" / "load.log")
            if self.deployment().first_start:
                self._first_start(directory, progress)
            self.database.settle()
            if not self._stop_database():
                raise TrialFailure(
                    FailureClass.INFRASTRUCTURE, "the database did not stop after the load", self.database.log_tail()
                )
            self.database.snapshot(key)
        finally:
            self._stop_database()
        shutil.rmtree(directory, ignore_errors=True)
        progress(f"loaded and kept as a snapshot in {time.monotonic() - began:.1f} s")

    def _first_start(self, directory: Path, progress: base.Progress) -> None:
        progress(f"starting {self.application.name} once for its migrations")
        try:
            self.start_server({}, directory)
        finally:
            self._stop_server()
            self._stop_services()

    # every trial ---------------------------------------------------------------------------------------------

    def reset_data(self, directory: Path) -> None:
        """Put the data back to the snapshot; nothing runs. Raises LookupError before ``prepare_data``."""
        if self.options.here("database"):
            self.database.configure(self._context(self._home / self.database.name, directory), {})
            self.database.restore(self.application.data_key(self.options.load_units, self.options.data_seed))
        for companion in self.application.companions({}):
            companion.reset(self._home / companion.name)

    def has_data(self) -> bool:
        """Whether there are whole data of an earlier start, for a study that keeps them."""
        data = self._home / self.database.name / "data"
        return not self.database.runs or (data.exists() and not databases.interrupted(data))

    def start_database(self, settings: base.Settings, directory: Path) -> float:
        """Seconds until it answers. ``settings``: all levels; those of other layers are left alone."""
        self._place(settings)
        context = self._context(self._home / self.database.name, directory)
        self._database_configured = True  # it holds places from its start on, also where that fails
        self.database.configure(context, self._owners.levels(settings, self.database))
        return self._start_database()

    def start_server(self, settings: base.Settings, directory: Path) -> float:
        """Seconds from the start until the application answers, through the web server where the levels ask for one;
        the database runs.
        """
        self.server = self.servers.get(str(settings.get(registry.SERVER_KNOB.name)), self.server)
        self._place(settings)
        in_front = self._in_front(settings)
        fronted = web_knobs.chosen(in_front) is not None
        self.front.configure(in_front)
        self._make_work()
        self._socket = self.front.socket(in_front, self.server.name if self.server.unix_socket else None)
        if not self._expected:
            self.expect(settings)
        self._expected = False
        self._start_companions(directory)
        ports = self._start_services(settings, directory)
        deployment = self.deployment()
        if not deployment.archive.is_file():
            raise LeadlineError(f"{deployment.name} is not built: {deployment.archive} does not exist")
        context = self._context(
            self._work / self.server.name,
            directory,
            http_port=self._http_port,
            calls_port=self._calls_port,
            http_socket=self._socket,
            tls=bool(settings.get(server_knobs.TLS.name)),
            http_address=LOOPBACK if fronted and not self._reached else self.options.http_address,
            database=self.endpoint() if self.database.runs else None,
            deployment=deployment,
            ports=ports,
        )
        self._configured = True
        levels = self._owners.levels(settings, self._serving)
        self.server.configure(context, {name: at for name, at in levels.items() if name != registry.SERVER_KNOB.name})
        self._processes["server"] = self.server.start()
        seconds = self._server_ready()
        return seconds + self.start_web(settings, directory) if fronted else seconds

    def expect(self, settings: base.Settings) -> str:
        """Take the levels and choose the ports of the server's next start; where other hosts will reach it then."""
        self._settings = dict(settings)
        fronted = web_knobs.chosen(self._in_front(settings)) is not None
        fixed = self.choice.own.content.fixed_port if self.choice.own else None
        port = (0 if fronted else self.options.http_port) or fixed
        self._http_port = self._url_port = port or self._host.free_port()
        self._calls_port = self._host.free_port()
        self._expected = True
        return self._direct_url(self.options.address)

    def _start_companions(self, directory: Path) -> None:
        """Start the processes that the application needs beside its server, before it; both know each other's port.
        Those of other hosts run already.
        """
        self.companions = {}
        for companion in self.application.companions(self._owners.levels(self._settings, self._deployed)):
            if companion.name in self._reached:
                companion.use(self._reached[companion.name])
                self.companions[companion.name] = companion
            else:
                self._start_companion(companion, directory, self._direct_url())

    def _start_services(self, settings: base.Settings, directory: Path) -> dict[str, str]:
        """Start those of the stack file, one after the other; returns their ports by their placeholders."""
        ports: dict[str, str] = {}
        for name, service in self.services.items():
            port = self._host.free_port()
            context = self._context(
                self._work / name,
                directory,
                http_port=port,
                http_address=LOOPBACK,
                database=self.endpoint() if self.database.runs else None,
                ports=ports,
            )
            service.configure(context, self._owners.levels(settings, service))
            self._processes[name] = service.server.start()
            with self._told_of_memory(name):
                self._started(name, service.server.wait_ready)
            here = {key: number for key, number in service.server.named_ports().items() if key not in ports}
            ports = {**ports, **{f"{name}.{key}": number for key, number in here.items()}}
        return ports

    def start_companion(self, name: str, settings: base.Settings, directory: Path, url: str) -> str:
        """Start one beside an application that another stack runs at ``url``; where other hosts reach it. Raises
        TrialFailure.
        """
        self._settings = dict(settings)
        companions = self.application.companions(self._owners.levels(settings, self._deployed))
        companion = next(companion for companion in companions if companion.name == name)
        self._start_companion(companion, directory, url)
        return companion.address

    def _start_companion(self, companion: base.Companion, directory: Path, url: str) -> None:
        context = base.CompanionContext(
            host=self._host,
            directory=self._home / companion.name,
            artefacts=directory.absolute() / "logs",
            port=self._host.free_port(),
            url=url,
            seed=self.options.data_seed,
            cpus=self.options.placement.driver_cpus,
            listen=self.options.http_address,
            address=self.options.address,
            client=self._remote_client() if self.options.here("application") else None,
        )
        companion.configure(context, self._owners.levels(self._settings, self._deployed))
        self.companions[companion.name] = companion
        self.restart_companion(companion.name)

    def _remote_client(self) -> RemoteClient | None:
        """For a program outside that calls the bean which the deployment names; None where it names none."""
        deployment = self.deployment()
        if deployment.remote_bean is None or isinstance(self.server, SiteServer):
            return None
        return self.server.remote_client(deployment, deployment.remote_bean, self._http_port, self._calls_port)

    def restart_companion(self, name: str) -> float:
        """Start it, also anew after its process has ended; seconds until it answers. Raises TrialFailure."""
        companion = self.companions[name]
        self._processes[name] = companion.start()
        return companion.wait_ready(self.options.ready_timeout)

    def start_web(self, settings: base.Settings, directory: Path) -> float:
        """Start the web server that the levels ask for in front of the running server; seconds until the application
        answers through it, 0 where they ask for none. A Unix socket is there only if the server was started with the
        same levels.
        """
        self._settings = dict(settings)
        self._place(settings)
        if web_knobs.chosen(settings) is None:
            self.front.configure(settings)
            return 0.0
        self._make_work()
        self._url_port = self.options.http_port or self._host.free_port()
        behind = Behind(self._http_port, self.deployment(), self._server_address)
        socket = self._socket if settings.get(web_knobs.UPSTREAM.name) == "unix" else None
        return self.front.start(
            settings,
            behind,
            socket,
            self.options.http_address,
            self._url_port,
            directory.absolute() / "logs",
            self.options.ready_timeout,
            lambda process: self._processes.__setitem__("web", process),
        )

    def stop_web(self) -> bool:
        """True if it ended cleanly, or there was none; the application is then reached directly."""
        self._processes.pop("web", None)
        self._url_port = self._http_port
        return self.front.stop()

    def up(self, settings: base.Settings, directory: Path) -> float:
        """Database and server in order, both ready; seconds it took. What was started is stopped when it fails."""
        self.check_settings(settings)
        began = time.monotonic()
        try:
            self.start_database(settings, directory)
            self.start_server(settings, directory)
        except BaseException:
            self.down()
            raise
        return time.monotonic() - began

    def down(self) -> list[str]:
        """Stop in reverse order; returns what did not end cleanly. Nothing happens when nothing runs."""
        unclean = []
        web = self.front.server
        if not self.stop_web():
            unclean.append(f"{web.name if web else 'web server'} did not stop cleanly")
        if not self._stop_server():
            unclean.append(f"{self.server.name} did not stop cleanly")
        unclean += self._stop_services()
        for name, companion in self.companions.items():
            if self._processes.pop(name, None) is not None and not companion.stop():
                unclean.append(f"{name} did not stop cleanly")
        if self._work != self._home:
            self._host.remove_tree(self._work)
        if not self._stop_database():
            unclean.append(f"{self.database.name} did not stop cleanly")
        return unclean

    def check_alive(self) -> None:
        """Raises TrialFailure with the last words of a service that has ended or is stopped, of the class that
        ``leadline.model.errors`` has for what is known of it.
        """
        files, looks = self._host.files, time.monotonic() >= self._look_again
        for role, process in self._processes.items():
            if process.alive():
                if looks:
                    self._members[role] = set(process.pids())
                if (pid := started.stopped(files, self._members.get(role) or {process.pid})) is None:
                    continue
                evidence, verb = started.held(pid), f"does not run (process {pid})"
            else:
                members, before = self._members.get(role, ()), self._memory_kills
                evidence = started.of_process(files, process, self._service(role).log_tail(), True, members, before)
                verb = "died during the trial"
            if role in self.companions:
                evidence = replace(evidence, part=Part.LOAD)
            service = self._service(role)
            raise blamed(evidence, f"{service.name} {verb}: {evidence.how}", service.log_tail())
        if looks:
            self._look_again = time.monotonic() + _LOOK

    def check_members(self) -> None:
        """Raises TrialFailure where a service tells of a process of its own that ended under the load: a database's
        backend, a web server's worker.
        """
        for role in self._processes.keys() - self.companions.keys():
            service = self._main(role)
            for pid, evidence in started.lost_members(self._host.files, service.words(), self._memory_kills):
                lost = "was" if evidence.asked else f"lost process {pid}:" if pid else "lost a process:"
                raise blamed(evidence, f"{service.name} {lost} {evidence.how}", service.log_tail())

    def _service(self, role: str) -> base.Service | WebServer | base.Companion:
        return self.companions[role] if role in self.companions else self._main(role)

    def _main(self, role: str) -> base.Service | WebServer:
        if role == "web" and self.front.server is not None:
            return self.front.server
        if role in self.services:
            return self.services[role].server
        server = self.server.served if isinstance(self.server, SiteServer) else self.server
        return self.database if role == "database" else server

    def restarts(self) -> int:
        """Times that the running server stopped the application and started it anew, by its own words."""
        return started.restarts(self.server.words()) if "server" in self._processes else 0

    def check_connections(self) -> None:
        """Raises TrialFailure(configuration) with the database's words when it refused connections of the pool."""
        if not self.database.runs:
            return
        words = driver_for(self.endpoint()).refusals
        check(self.database.name, self.server.name, self.server.artefacts(), words)

    def check_messages(self) -> None:
        """Raises TrialFailure(configuration) with the server's words when its message store failed."""
        check_store(self.server.name, self.server.artefacts())

    def restart_server(self) -> float:
        """Start the server anew, after its process has ended, on what it left behind: nothing is configured again.

        Seconds until the application answers. Raises TrialFailure.
        """
        self._processes["server"] = self.server.start()
        return self._server_ready()

    def _server_ready(self) -> float:
        try:
            with self._told_of_memory("server"):
                return self._started("server", self.server.wait_ready)
        except TrialFailure:
            # What was refused says more than that the server is not ready.
            self.check_connections()
            self.check_messages()
            raise

    def drain(self, times: Path) -> None:
        """Wait until the work that the application has accepted has had its effect; ``times`` as its ``drain``."""
        self.application.drain(self._direct_url(), self._settings, times)

    def audit(self, counts: base.Counts, log: Path, load: base.AskedFor = None) -> Sequence[base.AuditResult]:
        """The application's audits of its data; the database runs. ``counts`` as the driver counted them."""
        units, seed = self.options.load_units, self.options.data_seed
        return self.application.audit(self.endpoint(), units, seed, counts, log, load)

    # helpers -------------------------------------------------------------------------------------------------

    def _make_work(self) -> None:
        if not self._processes:
            self._memory_kills = oom_kills(self._host.files)
        if self._work != self._home and not self._work.exists():
            self._host.private_tree(self._work)
            self._work.chmod(0o711)

    def _start_database(self) -> float:
        self._memory_kills = oom_kills(self._host.files)
        if not self.database.runs:
            return 0.0
        self._processes["database"] = self.database.start()
        with self._told_of_memory("database"):
            return self._started("database", self.database.wait_ready)

    def _started(self, role: str, wait_ready: Callable[[float], float]) -> float:
        """Seconds of a start. It may take as long as the study says, or several times what earlier ones took here."""
        before = self._starts.setdefault(role, [])
        seconds = wait_ready(max(self.options.ready_timeout, _STARTS * median(before) if before else 0.0))
        before.append(seconds)
        return seconds

    @contextmanager
    def _told_of_memory(self, role: str) -> Iterator[None]:
        """Where the kernel killed a service that starts, its failure says so."""
        try:
            yield
        except TrialFailure as failure:
            process = self._processes[role]
            memory = started.starved(self._host.files, {process.pid, *process.pids()}, self._memory_kills)
            if memory is Memory.NOT_SHORT:
                raise
            evidence = Evidence(Event.ENDED, memory=memory)
            limit = getattr(self._placement, f"{role}_memory", None)
            why = f"{evidence.how}; placement.{role}_memory is {format_size(limit)}" if limit else evidence.how
            raise blamed(evidence, f"{failure} ({why})", failure.evidence) from failure

    def _stop_server(self) -> bool:
        self._processes.pop("server", None)
        if not self._configured:  # it is also when it could not start: it may hold a place in memory
            return True
        self._configured = False
        return self.server.stop()

    def _stop_services(self) -> list[str]:
        """In reverse order; returns what did not end cleanly."""
        unclean = []
        for name, service in reversed(self.services.items()):
            self._processes.pop(name, None)
            if not service.server.stop():
                unclean.append(f"{name} did not stop cleanly")
        return unclean

    def _stop_database(self) -> bool:
        if self._processes.pop("database", None) is None and not self._database_configured:
            return True
        self._database_configured = False
        return self.database.stop()
