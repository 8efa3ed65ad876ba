"""A web server alone with a site of files: study C without an application and without a database.

A web server serves it, or a Java server that has it as an archive; which one is a level of a knob. The site has a
trivial page, files of heavy-tailed sizes, and pages that embed some of them.

Sizes are those of SURGE: P. Barford, M. Crovella, "Generating Representative Web Workloads for Network and Server
Performance Evaluation", SIGMETRICS 1998. The body of the distribution is lognormal, its tail Pareto; here the tail is
cut at ``LARGEST``. A file's number is its rank by popularity, which the scenario draws from Zipf's law as SURGE does.
Sizes are drawn in the order of the numbers, so size and popularity are independent. A seed gives the same bytes always.
"""

from __future__ import annotations

import hashlib
import os
import random
import shutil
import zipfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from http import HTTPStatus
from pathlib import Path
from typing import ClassVar, cast
from urllib.parse import urlsplit

from leadline.host.base import PROC, Process
from leadline.host.files import rows
from leadline.host.java import find_java_home
from leadline.host.paths import cache_dir, exclusive
from leadline.model.errors import LeadlineError, NotInPlay, UsageError
from leadline.model.knob import AtStart, Knob, Level
from leadline.model.ownstack import OwnFile, OwnStack, ServerName
from leadline.model.study import ALONE, StackChoice
from leadline.stack.base import (
    AskedFor,
    AuditResult,
    Counts,
    DataSource,
    Deployment,
    Endpoint,
    Opaque,
    Progress,
    Ready,
    ServiceContext,
    Settings,
)
from leadline.stack.own.wars import WARS
from leadline.stack.probe import MOST_READ, Client
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
    return OwnFile(file=str(made_site().archive.with_name("pages.stack.yaml")), content=content)


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
        site=made_site().root,
        cpus=context.placement.server_cpus,
        limits=context.placement.limits("server"),
        observe=context.observe,
    )


SEED = 1
FILES = 500
PAGES = 50
BODY_MU, BODY_SIGMA = 9.357, 1.318  # of the logarithm of bytes
TAIL_SHARE, TAIL_FROM, TAIL_ALPHA = 0.07, 133_000, 1.1
EMBEDDED_ALPHA = 2.43  # files that a page embeds: Pareto from 1
MOST_EMBEDDED = 20
SMALLEST, LARGEST = 64, 4 * 1024**2  # bytes
TRIVIAL = "index.html"
_VERSION = "1"  # another one makes another site
_LETTERS = b"abcdefghijklmnopqrstuvwxyz      "
_TRIVIAL_PAGE = "<!doctype html><title>trivial</title><p>leadline: the trivial page.</p>\n"
_WEB_XML = '<web-app xmlns="https://jakarta.ee/xml/ns/jakartaee" version="5.0"/>\n'


@dataclass(frozen=True)
class Site:
    """``root``: directory of the files; ``archive``: the same as an archive (WAR)."""

    root: Path
    archive: Path


def sizes(files: int = FILES, seed: int = SEED) -> list[int]:
    """Bytes of each file, the most popular first."""
    draw = random.Random(f"sizes {seed}")
    return [_size(draw) for _ in range(files)]


def _size(draw: random.Random) -> int:
    if draw.random() < TAIL_SHARE:
        size = TAIL_FROM * draw.paretovariate(TAIL_ALPHA)
    else:
        size = draw.lognormvariate(BODY_MU, BODY_SIGMA)
        while size > TAIL_FROM:
            size = draw.lognormvariate(BODY_MU, BODY_SIGMA)
    return min(LARGEST, max(SMALLEST, round(size)))


def embedded(pages: int = PAGES, files: int = FILES, seed: int = SEED) -> list[list[int]]:
    """Numbers of the files that each page embeds, the most popular page first."""
    draw = random.Random(f"pages {seed}")
    counts = [min(MOST_EMBEDDED, int(draw.paretovariate(EMBEDDED_ALPHA))) for _ in range(pages)]
    return [[draw.randrange(1, files + 1) for _ in range(count)] for count in counts]


def file_name(number: int) -> str:
    """Of a file below the site's root."""
    return f"files/{number:06}.txt"


def contents(seed: int = SEED) -> dict[str, bytes]:
    """Name below the root to bytes, of the whole site."""
    letters = random.Random(f"text {seed}").choices(_LETTERS, k=1 << 16)
    text = bytes(letters) * (LARGEST // len(letters) + 1)
    contents_ = {TRIVIAL: _TRIVIAL_PAGE.encode()}
    for number, size in enumerate(sizes(seed=seed), 1):
        contents_[file_name(number)] = (f"leadline-file {number:06}\n".encode() + text)[:size]
    for number, files in enumerate(embedded(seed=seed), 1):
        images = "".join(f'<img src="/{file_name(file)}" alt="">\n' for file in files)
        contents_[f"pages/{number:06}.html"] = (
            f"<!doctype html><title>leadline-page {number:06}</title>\n{images}".encode()
        )
    return contents_


@lru_cache(maxsize=1)
def digest() -> str:
    """A hash of every name and byte of the site."""
    digest_ = hashlib.sha256()
    for name, content in contents().items():
        digest_.update(name.encode() + b"\0" + content + b"\0")
    return digest_.hexdigest()


def made_site() -> Site:
    """The site in leadline's cache, made unless it is there."""
    place = cache_dir() / "site" / f"v{_VERSION}-s{SEED}"
    site = Site(place / "www", place / "pages.war")
    if site.archive.is_file():
        return site
    place.parent.mkdir(parents=True, exist_ok=True)
    with exclusive(place.with_suffix(".lock"), lambda: None):
        if not site.archive.is_file():
            _make(place)
    return site


def _make(place: Path) -> None:
    """All or nothing: under another name first."""
    work = place.with_name(f"{place.name}.{os.getpid()}")
    shutil.rmtree(work, ignore_errors=True)
    shutil.rmtree(place, ignore_errors=True)
    work.mkdir(mode=0o755)
    with zipfile.ZipFile(work / "pages.war", "w") as archive:
        archive.writestr("WEB-INF/web.xml", _WEB_XML)
        for name, content in contents().items():
            file = work / "www" / name
            file.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
            file.write_bytes(content)
            file.chmod(0o644)
            archive.writestr(name, content)
    (work / "pages.war").chmod(0o644)
    work.rename(place)


_SHOWN = 12  # digits of the site's hash


class Pages(Opaque):
    """Implements ``leadline.stack.base.Application``."""

    name = ALONE

    @property
    def version(self) -> str:
        """Hash of the site."""
        return f"site {digest()[:_SHOWN]}"

    def scenarios(self) -> Sequence[str]:
        return ("pages", "pages-embedded")

    def deployment(self, mode: str, settings: Settings) -> Deployment:
        del mode, settings
        return Deployment(
            name=self.name,
            archive=made_site().archive,
            context_root="/",
            data_source=DataSource("jdbc/none"),
            profile="web",
            ready=Ready(f"/{TRIVIAL}"),
        )

    def build(self, progress: Progress) -> None:
        """Make the site, unless it is there."""
        del progress
        made_site()

    def data_key(self, load_units: int, seed: int) -> str:
        """The site is one, whatever the units."""
        del load_units, seed
        return f"{self.name}-{digest()[:_SHOWN]}"

    def load_data(self, database: Endpoint, load_units: int, seed: int, log: Path) -> None:
        """There is no database."""
        del database, load_units, seed, log

    def audit(
        self, database: Endpoint, load_units: int, seed: int, counts: Counts, log: Path, load: AskedFor = None
    ) -> Sequence[AuditResult]:
        """Whether the trivial page, a page and some files come byte by byte, and what is not there does not."""
        del database, load_units, seed, counts, log, load
        client, wanted = Client(urlsplit(self._url).port or 80), contents()
        names = [TRIVIAL, "pages/000001.html", *(file_name(number) for number in (1, 2, FILES))]
        wrong = [difference for name in names if (difference := _other(client, name, wanted[name]))]
        try:
            status, _, _ = client.get("/files/none.txt")
        except (OSError, ValueError) as error:
            status, wrong = 0, [*wrong, f"files/none.txt: {error}"]
        if status != HTTPStatus.NOT_FOUND:
            wrong.append(f"files/none.txt, which is not there: HTTP {status}")
        difference = "; ".join(wrong) or f"{len(names)} files come as they are, one that is not there does not"
        return [AuditResult("files-are-the-sites", not wrong, difference)]


def _other(client: Client, name: str, wanted: bytes) -> str:
    """What came in place of a file; empty where it came."""
    try:
        status, _, body = client.get(f"/{name}")
    except (OSError, ValueError) as error:
        return f"{name}: {error}"
    same = status == HTTPStatus.OK and body == wanted[:MOST_READ]
    return "" if same else f"{name}: HTTP {status}, {len(body):,} other bytes"
