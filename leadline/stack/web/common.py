"""What nginx and httpd have in common: start, readiness, read-back, counters, stop."""

from __future__ import annotations

import re
import shutil
import time
import zipfile
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from leadline import catalogue
from leadline.host.base import Completed, Host, Process, ProcessSpec
from leadline.host.facts import backlog
from leadline.host.files import connected, established, listens, opened
from leadline.model.errors import Event, Evidence, FailureClass, TrialFailure, UsageError, blamed
from leadline.model.knob import Level
from leadline.stack import probe, started
from leadline.stack.base import Deployment, Progress, Settings
from leadline.stack.certificate import Certificate
from leadline.stack.started import LOOPBACK, Started

NONE = "none"
ABSENT, SAME, OWN = "absent", "same", "own"

_KNOBS = catalogue.load("web")
KNOBS = tuple(_KNOBS.values())
SERVER = _KNOBS["web.server"]
PLACE = _KNOBS["web.place"]
WORKERS = _KNOBS["web.workers"]
MODEL = _KNOBS["web.model"]
SENDFILE = _KNOBS["web.sendfile"]
BACKLOG = _KNOBS["web.backlog"]
KEEPALIVE_REQUESTS = _KNOBS["web.keepalive_requests"]
UPSTREAM_KEEPALIVE = _KNOBS["web.upstream_keepalive"]
UPSTREAM = _KNOBS["web.upstream"]
COMPRESSION = _KNOBS["web.compression"]
HTTP2 = _KNOBS["web.http2"]
TLS = _KNOBS["web.tls"]
STATIC = _KNOBS["web.static"]
ACCESS_LOG = _KNOBS["web.access_log"]
KNOB_NAMES = frozenset(knob.name for knob in KNOBS)
# Of a web server alone: what means nothing without an application server, and TLS, is left out.
ALONE = (WORKERS, MODEL, KEEPALIVE_REQUESTS, SENDFILE, BACKLOG, HTTP2, ACCESS_LOG)
PREFORK = "prefork"


def chosen(settings: Settings) -> str | None:
    """The web server that these levels ask for; None for none."""
    name = str(settings.get(SERVER.name, NONE))
    return None if name == NONE or settings.get(PLACE.name) == ABSENT else name


def own(settings: Settings) -> dict[str, int | float | str | bool]:
    """The levels of knobs that a web server itself has."""
    return {name: level for name, level in settings.items() if name in KNOB_NAMES - {SERVER.name, PLACE.name}}


PRIVATE = "/.leadline"  # paths below are the web server's own, never the application's
PROBE = f"{PRIVATE}/probe.html"
STATUS = f"{PRIVATE}/status"
FILES = "static"  # directory of the application's archive
_MOST_COUNTED = 2000  # requests sent to see a connection closed; beyond it the parsed configuration must do
_WORKERS_START = 5.0  # seconds that all workers may take
_POLL = 0.02
_TAKEN = re.compile(r"Address (?:already )?in use")  # as glibc and as musl say it


@dataclass(frozen=True)
class FrontContext:
    """What a web server needs for one start. ``socket``: the Unix socket of the application server, where it has one.
    ``site``: the files that it serves, where it is alone and no application server is behind it.

    ``directory`` is private and wiped at every ``configure``; ``artefacts`` takes logs and configuration.
    """

    host: Host
    directory: Path
    artefacts: Path
    address: str
    port: int
    server_port: int
    deployment: Deployment  # what the application server runs
    certificate: Certificate | None
    socket: Path | None = None
    site: Path | None = None
    server_address: str = LOOPBACK  # another where the application server has a host of its own
    cpus: str | None = None
    limits: Mapping[str, float] = field(default_factory=dict)
    observe: bool = True


class WebServer(Started[FrontContext]):
    """A web server as reverse proxy of one application server, or alone with a site of files."""

    name: ClassVar[str]

    def __init__(self) -> None:
        super().__init__()
        self._settings: Settings = {}
        self._asked = 0  # requests of our own since the start, which the server counts too
        self._files: Sequence[str] = ()  # of the application's archive, that a web server can serve

    # -- what each fills in

    @property
    @abstractmethod
    def version(self) -> str: ...

    @abstractmethod
    def provision(self, progress: Progress) -> None:
        """Make sure that the program is there. Raises LeadlineError."""

    @abstractmethod
    def configuration(self, context: FrontContext, settings: Settings) -> str:
        """The text of its configuration file."""

    @abstractmethod
    def command(self, context: FrontContext) -> list[str]:
        """The command line that starts it in the foreground with ``self.file``."""

    @abstractmethod
    def parsed(self) -> str:
        """The configuration as the server's own parser reads it back. Raises LookupError."""

    @abstractmethod
    def parsed_level(self, name: str, text: str) -> Level:
        """The level of a knob that only the parsed configuration tells. Raises LookupError."""

    @abstractmethod
    def counters(self) -> Mapping[str, float]:
        """The server's own counters, without the connections. Raises OSError, LookupError."""

    def reads(self, context: FrontContext) -> list[Path]:
        """What it must reach beside its own directory."""
        program = Path(self.command(context)[0])
        socket = None if context.socket is None else context.socket.parent
        return [path for path in (program, socket, context.site) if path is not None]

    def asked(self, argv: Sequence[str]) -> Completed:
        """What its program says, asked as the user that it runs as. Raises OSError."""
        context, pid = self.context, self.process.pid
        return context.host.run(argv, pid, self.reads(context), cwd=context.directory, timeout=60)

    # -- the service

    def configure(self, context: FrontContext, settings: Settings) -> None:
        """Write the private configuration; knobs without a level keep the server's own default. Raises UsageError."""
        if context.directory.exists():
            shutil.rmtree(context.directory)
        site = context.directory / "www" / PRIVATE.strip("/")
        site.mkdir(parents=True)
        context.directory.chmod(0o700)
        context.artefacts.mkdir(parents=True, exist_ok=True)
        (site / "probe.html").write_text(probe.PAGE)
        static = settings.get(STATIC.name)
        into = context.directory if static else None
        self._files = [] if context.site else copy_files(context.deployment.archive, into)
        if static and not self._files:
            raise UsageError(
                f"{STATIC.name} is on, but {context.deployment.archive.name} holds no files below {FILES}/"
            )
        self._context, self._settings = context, dict(settings)
        if settings.get(TLS.name) and context.certificate is not None:
            context.certificate.write(context.directory)
        text = self.configuration(context, settings)
        self.file.write_text(text)
        (context.artefacts / f"{self.name}.conf").write_text(text)

    def start(self) -> Process:
        """Raises TrialFailure(infrastructure) when the port is taken."""
        context = self.context
        why = context.host.port_taken(context.port)
        if why:
            raise self._port_taken(why)
        self._asked = 0
        spec = ProcessSpec(
            name="web",
            argv=self.command(context),
            output=self.log,
            cwd=context.directory,
            cpus=context.cpus,
            limits=context.limits,
            owns=(context.directory,),
            reads=self.reads(context),
        )
        return self.launch(context.host, spec)

    def wait_ready(self, timeout: float) -> float:
        """Seconds from the start until the application answers through the web server, or the site does. Raises
        TrialFailure with the server's own words.
        """
        context, process = self.context, self.process
        what = "its site" if context.site else "the application"
        while True:
            if not process.alive():
                end = started.of_process(context.host.files, process, self.words(), ready=False)
                raise self._failure(end.before_ready, end)
            state = "nothing listens there yet"
            if listens(context.host.files, process.pids(), context.port):
                state = probe.ready(self.client(), context.deployment)
            if not state:
                return self.is_ready()
            if time.monotonic() - self._started > timeout:
                late = Event.STOPPED if started.stopped(context.host.files, process.pids()) else Event.LATE
                raise self._failure(f"did not reach {what} in {timeout:g} s ({state})", Evidence(late))
            time.sleep(_POLL)

    def read_back(self, name: str) -> Level:
        """The level in force: by behaviour where a client can see it, else by the configuration as the server's own
        parser reads it. Raises LookupError.
        """
        if not self.process.alive():
            raise LookupError(f"{self.title} is not running")
        try:
            return self._level(name)
        except (OSError, ValueError) as error:
            raise LookupError(f"{self.title} does not tell the level of {name}: {error}") from error

    def _level(self, name: str) -> Level:
        client = self.client()
        if name == TLS.name:
            return client.speaks_tls()
        if name == HTTP2.name:
            return client.speaks_http2()
        if name == COMPRESSION.name:
            self._asked += 1
            return client.compresses(PROBE)
        if name == STATIC.name:
            return self._serves_files(client)
        if name == WORKERS.name:
            return self._started_workers()
        if name == KEEPALIVE_REQUESTS.name:
            wanted = self._settings.get(name)
            if not isinstance(wanted, int) or wanted <= _MOST_COUNTED:
                carried = client.requests_carried(PROBE, _MOST_COUNTED + 1)
                self._asked += carried
                if carried <= _MOST_COUNTED:
                    return carried
        if name == BACKLOG.name:
            with suppress(OSError):  # a kernel that does not tell
                return backlog(self.context.port)
        return self.parsed_level(name, self.parsed())

    def _started_workers(self) -> int:
        """How many there are; those that were asked for are started one after the other, the first of them answers."""
        wanted, deadline = self._settings.get(WORKERS.name), time.monotonic() + _WORKERS_START
        while (started_workers := len(self.workers())) != wanted and wanted is not None and time.monotonic() < deadline:
            time.sleep(0.05)
        return started_workers

    def _serves_files(self, client: probe.Client) -> bool:
        """By the entity tag that web servers give files and the application does not. Raises OSError, ValueError."""
        if not self._files:
            return False
        root = self.context.deployment.path
        status, headers, _ = client.get(f"{root}/{self._files[0]}")
        if status != 200:
            raise ValueError(f"{root}/{self._files[0]} was answered by HTTP {status}")
        return "etag" in headers

    def identify(self) -> str:
        """What calls itself the server of the port. Raises LookupError."""
        try:
            self._asked += 1
            return self.client().get(PROBE)[1].get("server", "")
        except (OSError, ValueError) as error:
            raise LookupError(f"{self.title} cannot be asked: {error}") from error

    def workers(self) -> list[int]:
        """Process ids of those that serve: all but the leader."""
        return [pid for pid in self.process.pids() if pid != self.process.pid]

    def stats(self) -> dict[str, float]:
        """Counters and gauges of the running server, see ``GAUGES``. Raises LookupError."""
        context, files = self.context, self.context.host.files
        try:
            figures = {**self.counters(), "connections": float(established(files, context.port))}
            if context.site is not None:
                return figures
            return {**figures, "upstream_connections": float(self._upstream())}
        except (OSError, ValueError) as error:
            raise LookupError(f"{self.title} cannot be asked: {error}") from error

    def _upstream(self) -> int:
        context, files = self.context, self.context.host.files
        if context.socket:
            return connected(files, context.socket)
        if context.server_address == LOOPBACK:
            return established(files, context.server_port)
        return opened(files, context.server_address, context.server_port)

    def stop(self) -> bool:
        process, self._process = self._process, None
        if process is None:
            return True
        clean = process.stop(grace=10.0) and process.exit_code() == 0
        self.keep_logs()
        return clean

    def keep_logs(self) -> None:
        """Copy logs that the server wrote in its private directory to the artefacts, where it does so."""
        return

    def log_tail(self, lines: int = 40) -> str:
        return "\n".join(self.words().splitlines()[-lines:])

    def artefacts(self) -> Sequence[Path]:
        return sorted(path for path in self.context.artefacts.glob(f"{self.name}*") if path.is_file())

    # -- shared parts

    @property
    def file(self) -> Path:
        return self.context.directory / f"{self.name}.conf"

    @property
    def log(self) -> Path:
        return self.context.artefacts / f"{self.name}.log"

    @property
    def tls(self) -> bool:
        return bool(self._settings.get(TLS.name, False))

    def client(self) -> probe.Client:
        """A client of the web server's own port."""
        certificate = self.context.certificate if self.tls else None
        return probe.Client(self.context.port, certificate.certificate if certificate else None, self.prompt)

    def _port_taken(self, words: str) -> TrialFailure:
        message = (
            f"port {self.context.port} was taken while {self.title} started; end what listens there or choose another"
        )
        return TrialFailure(FailureClass.INFRASTRUCTURE, message, words)

    def _failure(self, what: str, evidence: Evidence) -> TrialFailure:
        words = self.words()
        if _TAKEN.search(words):
            return self._port_taken(words)
        lines = [line.strip() for line in words.splitlines()]
        at = next((index for index, line in enumerate(lines) if self.is_error(line)), None)
        first = "" if at is None else lines[at]
        if first.endswith(":") and at is not None:  # only announces the next line
            first = " ".join(lines[at : at + 2])
        first_text = f": {first[:400]}" if first else ""
        return blamed(evidence, f"{self.title} {what}{first_text}", self.log_tail())

    def is_error(self, line: str) -> bool:
        """Whether a line of its log says why it does not run."""
        return bool(line.strip())


def copy_files(archive: Path, directory: Path | None) -> list[str]:
    """Names of the files below static/ of an archive, which are copied to ``directory`` (None: only named)."""
    with zipfile.ZipFile(archive) as source:
        names = [name for name in source.namelist() if name.startswith(f"{FILES}/") and not name.endswith("/")]
        if directory is not None:
            source.extractall(directory, names)
    return sorted(names)


GAUGES = ("connections", "upstream_connections", "workers_busy", "workers_idle")
