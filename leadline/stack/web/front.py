"""The place in front of the application server: a web server as the levels ask for it, or nothing."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from leadline.host.base import Host, Process
from leadline.host.files import field
from leadline.host.paths import Scratch
from leadline.host.process import cpu_set
from leadline.model.errors import NotInPlay, UsageError
from leadline.model.knob import AtStart, Knob, Level
from leadline.model.study import Placement
from leadline.stack.base import Deployment, Progress, Settings
from leadline.stack.certificate import Certificate, make_certificate
from leadline.stack.servers import knobs as server_knobs
from leadline.stack.started import LOOPBACK
from leadline.stack.web import common
from leadline.stack.web.common import FrontContext, WebServer
from leadline.stack.web.httpd import Httpd
from leadline.stack.web.nginx import Nginx

WEB_SERVERS: Mapping[str, Callable[[], WebServer]] = {"nginx": Nginx, "httpd": Httpd}
_LONGEST = 100  # bytes of a socket's path; the kernel takes 108, unix(7)


@dataclass(frozen=True)
class Behind:
    """The application server that is served; ``address``: of its host."""

    port: int
    deployment: Deployment
    address: str = LOOPBACK


class Front(AtStart):
    """Starts, asks and stops the web server of one stack. ``home``: private directory; ``names``: addresses by which
    other hosts know this one; ``apart``: the application server has another host.
    """

    def __init__(
        self,
        host: Host,
        home: Path,
        placement: Placement,
        observe: bool,
        names: Sequence[str] = (),
        apart: bool = False,
    ) -> None:
        self._host = host
        self._home = home
        self.placement = placement
        self._observe = observe
        self._names = names
        self._apart = apart
        self._server: WebServer | None = None
        self._settings: Settings = {}  # of the last start
        self._sockets: Scratch | None = None

    @cached_property
    def certificate(self) -> Certificate:
        """One for as long as this object lives."""
        return make_certificate(self._names)

    @property
    def server(self) -> WebServer | None:
        """The web server that runs; None where there is none."""
        return self._server

    def provision(self, names: Sequence[str], progress: Progress) -> dict[str, str]:
        """Make sure that these web servers are there; name to version. Raises LeadlineError."""
        versions = {}
        for name in dict.fromkeys(names):
            if name != common.NONE:
                server = WEB_SERVERS[name]()
                server.provision(progress)
                versions[name] = server.version
        return versions

    def knobs(self) -> Sequence[Knob]:
        return common.KNOBS

    def configure(self, settings: Settings) -> None:
        """Take the levels of a start. Raises UsageError for those that this placement does not allow."""
        self._settings = dict(settings)
        if common.chosen(settings) is None:
            return
        if settings.get(server_knobs.TLS.name):
            raise UsageError("the web server speaks plain HTTP to the application server: leave server.tls out")
        if self._place(settings) == common.OWN and self.placement.web_cpus is None and not self._apart:
            raise UsageError("web.place is own, but placement.web_cpus names no CPUs")

    def socket(self, settings: Settings, server: str | None) -> Path | None:
        """Where the application server must listen for a web server with ``web.upstream: unix``; else None.

        Raises UsageError without a ``server`` that can.
        """
        if common.chosen(settings) is None or settings.get(common.UPSTREAM.name) != "unix":
            return None
        if server is None:
            raise UsageError("web.upstream is unix, but the application server listens on TCP only")
        place = self._home / "socket"  # the application server's: it makes the socket
        place.mkdir(parents=True, exist_ok=True)
        place.chmod(0o711)
        path = place / "application.socket"
        if len(os.fsencode(path)) > _LONGEST:
            if self._sockets is None:
                self._sockets = Scratch(shared=True)
            path = self._sockets.path / "application.socket"
        path.unlink(missing_ok=True)
        return path

    def start(
        self,
        settings: Settings,
        behind: Behind,
        socket: Path | None,
        address: str,
        port: int,
        artefacts: Path,
        timeout: float,
        started: Callable[[Process], None],
    ) -> float:
        """Start the web server that the levels ask for; seconds until the application answers through it.

        ``started`` gets its process at once. Raises UsageError, LeadlineError, TrialFailure.
        """
        self.configure(settings)
        name = common.chosen(settings)
        assert name is not None
        server = WEB_SERVERS[name]()
        context = FrontContext(
            host=self._host,
            directory=self._home / name,
            artefacts=artefacts,
            address=address,
            port=port,
            server_port=behind.port,
            server_address=behind.address,
            deployment=behind.deployment,
            certificate=self.certificate,
            socket=socket,
            cpus=self._cpus(settings),
            limits=self.placement.limits("web"),
            observe=self._observe,
        )
        server.configure(context, common.own(settings))
        self._server = server
        started(server.start())
        return server.wait_ready(timeout)

    def stop(self) -> bool:
        """True if it ended cleanly, or there was none."""
        server, self._server = self._server, None
        clean = server is None or server.stop()
        if self._sockets is not None:
            self._sockets.close()
            self._sockets = None
        return clean

    def read_back(self, name: str) -> Level:
        """The level in force. Raises NotInPlay for a knob of a web server while none is asked for, LookupError."""
        settings = self._settings
        if name == common.SERVER.name and (self._server is not None or settings.get(name, common.NONE) == common.NONE):
            return common.NONE if self._server is None else named(self._server)
        if name == common.PLACE.name and self._server is None and settings.get(name) == common.ABSENT:
            return common.ABSENT
        if self._server is None:
            raise NotInPlay("no web server")
        if name == common.PLACE.name:
            return self._found_place(self._server)
        return self._server.read_back(name)

    def stats(self) -> Mapping[str, float]:
        """Counters of the web server. Raises LookupError, NotInPlay without one."""
        if self._server is None:
            raise NotInPlay("no web server")
        return self._server.stats()

    # helpers -------------------------------------------------------------------------------------------------

    def _place(self, settings: Settings) -> Level:
        cpus = self._apart or self.placement.web_cpus
        return settings.get(common.PLACE.name, common.OWN if cpus else common.SAME)

    def _cpus(self, settings: Settings) -> str | None:
        return self.placement.web_cpus if self._place(settings) == common.OWN else self.placement.server_cpus

    def _found_place(self, server: WebServer) -> Level:
        masks = ("".join(field(self._host.files, pid, "Cpus_allowed_list")) for pid in server.process.pids())
        usable = self._host.cpus()
        sets = {cpu_set(text, usable) for text in masks if text}
        web_cpus, same = (cpu_set(text, usable) for text in (self.placement.web_cpus, self.placement.server_cpus))
        if (self._apart or self.placement.web_cpus) and sets == {web_cpus}:
            return common.OWN
        if sets == {same}:
            return common.SAME
        raise LookupError(f"{server.title} runs on CPUs {sorted(map(sorted, sets))}")


def named(server: WebServer) -> str:
    """The web server's name, by what answers on its port. Raises LookupError."""
    program = server.identify().lower()
    name_ = next((name for name, word in (("nginx", "nginx"), ("httpd", "apache")) if word in program), None)
    if name_ is None:
        raise LookupError(f"what answers on the port calls itself {program!r}")
    return name_
