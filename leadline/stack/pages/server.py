"""What serves the site: a web server, or a Java server that has it as an archive. Which one is a level of a knob."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import ClassVar, cast

from leadline.host.base import PROC, Process
from leadline.host.files import rows
from leadline.host.java import find_java_home
from leadline.model.errors import LeadlineError, NotInPlay, UsageError
from leadline.model.knob import AtStart, Knob, Level
from leadline.model.ownstack import OwnFile, OwnStack, ServerName
from leadline.model.study import StackChoice
from leadline.stack.base import Progress, ServiceContext, Settings
from leadline.stack.deployment import Deployment
from leadline.stack.own.wars import WARS
from leadline.stack.pages import site
from leadline.stack.servers import jvm
from leadline.stack.servers.common import JavaServer
from leadline.stack.web import common
from leadline.stack.web.common import FrontContext, WebServer
from leadline.stack.web.front import WEB_SERVERS, named

# What the command line of each Java server has and no other's.
_JAVA: Mapping[str, str] = {"tomcat": "org.apache.catalina", "liberty": "ws-server.jar", "wildfly": "jboss-modules.jar"}
NAMES = (*WEB_SERVERS, *_JAVA)


def own_file(server: ServerName | None = None) -> OwnFile:
    """The site as the archive of a stack file, as Java servers take it."""
    content = OwnStack(stack="pages", war="pages.war", server=server or "tomcat", context_root="/")
    return OwnFile(file=str(site.made_site().archive.with_name("pages.stack.yaml")), content=content)


def java_server(name: ServerName, java: Path | None = None) -> JavaServer:
    """A new server with the site as its application; the flags of its JVM are knobs, too."""
    server = WARS[name](own_file(name))
    with suppress(UsageError):  # without a JDK nothing will start, which is told where it does not
        server.jvm.of(server.find_java(java))
    return server


def is_java(name: Level) -> bool:
    """Whether a level of ``web.server`` is a Java server."""
    return name in _JAVA


class SiteServer(AtStart):
    """The server that the levels ask for, as a service. ``may_be``: those that levels will ask for."""

    name: ClassVar[str] = "site"
    title: ClassVar[str] = "the web server"
    plain_http2: ClassVar[bool] = True
    unix_socket: ClassVar[bool] = False
    second_thread: ClassVar[bool] = False

    def __init__(self, choice: StackChoice) -> None:
        assert choice.web is not None
        self._usual = choice.web
        self._java = Path(choice.java) if choice.java else None
        self.may_be: Sequence[str] = (choice.web,)
        self._served: WebServer | JavaServer | None = None
        self._flags: Mapping[str, Knob] = {}
        with suppress(UsageError):  # without a JDK no Java server will start, which is told where it does not
            self._flags = jvm.flag_knobs(self.find_java(self._java))

    @property
    def served(self) -> WebServer | JavaServer:
        """The one of the last ``configure``. Raises LeadlineError before it."""
        if self._served is None:
            raise LeadlineError(f"{self.title} has not been configured")
        return self._served

    @property
    def runs_java(self) -> bool:
        """Whether the one of the last ``configure`` is a JVM."""
        return isinstance(self._served, JavaServer)

    @property
    def version(self) -> str:
        return ", ".join(f"{name} {self._made(name).version}" for name in self.may_be)

    def knobs(self) -> Sequence[Knob]:
        usual = {"none": "a web server alone is what is measured"}
        server = replace(common.SERVER, default=self._usual, refused=usual)
        return [server, *common.ALONE, *jvm.KNOBS, *self._flags.values()]

    def chosen(self, settings: Settings) -> str:
        """The server that these levels ask for."""
        return str(settings.get(common.SERVER.name, self._usual))

    def check_java(self, wanted: str | None) -> None:
        """Java servers that take the site run on any JDK."""

    def find_java(self, wanted: Path | None) -> Path:
        """``wanted``, else a JDK of this host. Raises UsageError."""
        return find_java_home(wanted)

    def provision(self, progress: Progress) -> None:
        for name in self.may_be:
            self._made(name).provision(progress)

    def prepare(self, deployment: Deployment, progress: Progress) -> None:
        for name in self.may_be:
            served = self._made(name)
            if isinstance(served, JavaServer):
                served.prepare(deployment, progress)

    def configure(self, context: ServiceContext, settings: Settings) -> None:
        self._files = context.host.files
        served = self._made(self.chosen(settings))
        levels = {name: level for name, level in settings.items() if name != common.SERVER.name}
        if isinstance(served, JavaServer):
            served.configure(context, {name: level for name, level in levels.items() if not name.startswith("web.")})
        else:
            served.configure(
                _front(context), {name: level for name, level in levels.items() if name.startswith("web.")}
            )
        self._served = served

    # the process, as the one that serves has it ---------------------------------------------------------------

    def start(self) -> Process:
        return self.served.start()

    @property
    def process(self) -> Process:
        return self.served.process

    def wait_ready(self, timeout: float) -> float:
        return self.served.wait_ready(timeout)

    def stop(self) -> bool:
        return self._served is None or self._served.stop()

    def words(self) -> str:
        """Of the one that serves."""
        return self.served.words()

    def log_tail(self, lines: int = 40) -> str:
        return self.served.log_tail(lines)

    def artefacts(self) -> Sequence[Path]:
        return self._served.artefacts() if self._served is not None else ()

    def apply(self, levels: Settings) -> None:
        """Live levels of a JVM; those of web servers take effect at a start."""
        served = self.served
        if isinstance(served, JavaServer) and not any(name.startswith("web.") for name in levels):
            served.apply(levels)
        else:
            super().apply(levels)

    def read_back(self, name: str) -> Level:
        served = self.served
        if name == common.SERVER.name:
            return self._found()
        if name.startswith("web.") and isinstance(served, JavaServer):
            raise NotInPlay(f"{served.title} is no web server")
        if not name.startswith("web.") and not isinstance(served, JavaServer):
            raise NotInPlay("no JVM")
        return served.read_back(name)

    def _found(self) -> str:
        """Which one serves: by what answers, or for a Java server by its command line. Raises LookupError."""
        served = self.served
        if isinstance(served, WebServer):
            return named(served)
        pids = served.process.pids()
        commands = " ".join(" ".join(rows(self._files, f"{PROC}/{pid}/cmdline")) for pid in pids)
        server_name = next((name for name, word in _JAVA.items() if word in commands), None)
        if server_name is None or not served.process.alive():
            raise LookupError(f"none of {', '.join(_JAVA)} runs")
        return server_name

    def stats(self) -> Mapping[str, float]:
        """Counters of a web server. Raises LookupError."""
        if not isinstance(self.served, WebServer):
            raise NotInPlay("no web server")
        return self.served.stats()

    def _made(self, name: str) -> WebServer | JavaServer:
        return WEB_SERVERS[name]() if name in WEB_SERVERS else java_server(cast(ServerName, name), self._java)


def _front(context: ServiceContext) -> FrontContext:
    return FrontContext(
        host=context.host,
        directory=context.directory,
        artefacts=context.artefacts,
        address=context.http_address,
        port=context.http_port,
        server_port=0,
        deployment=context.application,
        certificate=None,
        site=site.made_site().root,
        cpus=context.placement.server_cpus,
        limits=context.placement.limits("server"),
        observe=context.observe,
    )
