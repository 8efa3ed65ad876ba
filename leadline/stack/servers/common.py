"""What every Java server has in common: start, readiness, read-back through the agent, stop."""

from __future__ import annotations

import math
import shutil
import time
from abc import abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

from leadline import catalogue
from leadline.host.base import Files, Process, ProcessSpec
from leadline.host.files import listens
from leadline.host.java import JAVA_ENVIRONMENT, AttachError, agent_jar, find_java, find_java_home, java_home, java_pid
from leadline.model.errors import (
    Event,
    Evidence,
    FailureClass,
    LeadlineError,
    TrialFailure,
    UsageError,
    blamed,
    unanswered,
)
from leadline.model.knob import Knob, Level
from leadline.stack import places, probe, started
from leadline.stack.base import Deployment, Feature, Progress, RemoteBean, RemoteClient, ServiceContext, Settings
from leadline.stack.provision import Artefact, JdbcDriver, driver_for, fetch
from leadline.stack.servers import jvm, knobs, large_pages
from leadline.stack.servers.files import ANSWER, LogEvidence, ask, ensure_agent, gather_evidence
from leadline.stack.started import Changing

GC_LOG = "gc.log"
AGENT_FILES = ("agent.csv", "compilations.log")  # made by who loads the agent, once the server runs
_POLL = 0.1
_CHECKS = 12  # of a limit's length: one step of a start that may take longer
_AT_WORK = 0.1  # CPUs of a program that still starts
_FRESH = 0.5  # seconds: so that several knobs cost one question

Answer = Mapping[str, Any]  # what the agent answered: flags, beans, configuration


class JavaServer(Changing[ServiceContext]):
    """A Java application server as a service (``leadline.stack.base.Service``)."""

    name: ClassVar[str]
    role: ClassVar[str] = "server"  # of its process
    distribution: ClassVar[Artefact]
    stop_grace: ClassVar[float] = 30.0
    longest_start = 1.0  # times the limit, for one that is still at work then
    newest_java: ClassVar[int | None] = None  # major version of the last JDK that it runs on; None: any from 17 on
    features: ClassVar[frozenset[Feature]] = frozenset(Feature) - {Feature.REMOTE_CLIENTS}
    plain_http2: ClassVar[bool] = True  # to who begins with it (prior knowledge)
    unix_socket: ClassVar[bool] = False  # whether it can listen on one
    temporary: ClassVar[tuple[str, ...]] = ()  # directories of temporary files and compiled pages, below its own
    databases: ClassVar[tuple[str, ...]] = ()  # those that it has drivers for; none: leadline gives it any
    second_thread: ClassVar[bool] = False  # whether a remote call inside the server holds one beside its request's

    def __init__(self) -> None:
        super().__init__()
        self.jvm = jvm.Jvm(self._asked_flags)
        self._answer: Answer | None = None
        self._fresh_until = math.inf  # monotonic; how long the answer holds
        self._settings: Settings = {}
        self.ready_timeout = 0.0  # seconds, of the last wait
        self._answer_by: float | None = None
        self._places: places.ServerPlaces | None = None

    # -- what each server fills in

    @property
    def needs_database(self) -> bool:
        """Whether its configuration has a pool of leadline's database."""
        return True

    def environment(self, context: ServiceContext) -> Mapping[str, str]:
        """Variables beside those of ``command``."""
        del context
        return {}

    @abstractmethod
    def write_configuration(self, context: ServiceContext, settings: Settings) -> None:
        """Write the private configuration below ``context.directory``, which is empty."""

    @abstractmethod
    def command(self, context: ServiceContext) -> tuple[list[str], dict[str, str]]:
        """The command line and the environment that start the server in the foreground."""

    def remote_client(self, application: Deployment, bean: RemoteBean, http_port: int, calls_port: int) -> RemoteClient:
        """How a program outside calls this bean, at either port; for servers with the feature REMOTE_CLIENTS."""
        del application, bean, http_port, calls_port
        raise LeadlineError(f"{self.title} takes no remote calls of other programs")

    @abstractmethod
    def question(self) -> Mapping[str, str]:
        """What to ask the agent for, as options of the agent (``bean.N``, ``configuration``)."""

    @abstractmethod
    def level_of(self, name: str, answer: Answer) -> Level:
        """A server knob's level from the agent's answer. Raises LookupError, KeyError."""

    @abstractmethod
    def changes(self, levels: Settings, settings: Settings) -> Mapping[str, str]:
        """What the agent is told to change (``set.N``, ``changed.N``) for these live levels of the server's own knobs;
        ``settings``: all levels that are in force then. Raises UsageError for levels that contradict.
        """

    def taken(self, answer: Answer, said: str) -> bool:
        """Whether changes are in force, from the agent's answer and what the server said since. Raises LookupError
        where they cannot come to be.
        """
        del answer, said
        return True

    def expected_beans(self) -> Collection[str]:
        """Canonical names of the MBeans that an answer must have: it is asked for again until they are there."""
        return ()

    def failed_for_good(self, found: LogEvidence) -> bool:
        """Whether the log says that the application cannot become ready any more: its port is taken, the database has
        no connection left for a pool that is filled at start.
        """
        lines = (*found.errors, *found.tail)
        refusals = self.driver.refusals if self.context.database is not None else ()
        return found.port_taken or any(word in line for word in refusals for line in lines)

    # -- the service

    @classmethod
    def runs(cls, deployment: Deployment) -> bool:
        """Whether it can do what this application needs."""
        return deployment.features <= cls.features

    @classmethod
    def reaches(cls, database: str) -> bool:
        """Whether it can use this database."""
        return not cls.databases or database in cls.databases

    @property
    def version(self) -> str:
        return self.distribution.version

    def knobs(self) -> Sequence[Knob]:
        return [*catalogue.load(self.name).values(), *places.knobs(self.name), *self.jvm.knobs()]

    def provision(self, progress: Progress) -> None:
        fetch(self.distribution, progress)
        ensure_agent(progress)

    def prepare(self, deployment: Deployment, progress: Progress) -> None:
        """Make what is made once for an application, before the first trial would wait for it."""
        del deployment, progress

    def configure(self, context: ServiceContext, settings: Settings) -> None:
        names = {knob.name for knob in self.knobs()}
        for name in settings:
            if name not in names:
                raise UsageError(f"{self.title} has no knob {name}; it has {', '.join(sorted(names))}")
        without = self.needs_database and context.database is None
        if without or context.deployment is None or not context.http_port:
            raise UsageError(f"{self.title} needs a database, an archive and a port for HTTP")
        if settings.get(knobs.TLS.name) and context.certificate is None:
            raise UsageError(f"{knobs.TLS.name} is on, but {self.title} was given no certificate")
        archive = context.deployment.archive
        if not archive.exists():
            raise LeadlineError(f"the application's archive {archive} does not exist; build it first")
        if context.directory.exists():
            shutil.rmtree(context.directory)
        context.directory.mkdir(mode=0o700, parents=True)
        self.own_artefacts(context).mkdir(mode=0o700, parents=True, exist_ok=True)
        self._exchange(context).mkdir(exist_ok=True)
        shared = [self._exchange(context), *([context.raw] if context.raw is not None else [])]
        for path in shared:  # the server writes there, into files that are made for it
            path.mkdir(parents=True, exist_ok=True)
            path.chmod(path.stat().st_mode | 0o011)
        self._context, self._settings = context, dict(settings)
        self._places = places.ServerPlaces(context, settings)
        self._context = context = self._places.furnish(context, self.cached)
        self.write_configuration(context, settings)
        self._places.link(self.temporary)

    def start(self) -> Process:
        context = self.context
        if why := context.host.port_taken(context.http_port):
            raise TrialFailure(
                FailureClass.INFRASTRUCTURE,
                f"port {context.http_port} on 127.0.0.1 is taken ({why});"
                " end what listens there or choose another port",
            )
        if why := large_pages.shortage(context.host.files, self._settings):
            raise blamed(Evidence(Event.REFUSED), why)
        command, own = self.command(context)
        environment = {**own, **self.environment(context), **jvm.environment(self._settings)}
        unset = [word for name in JAVA_ENVIRONMENT if name not in environment for word in ("-u", name)]
        spec = ProcessSpec(
            name=self.role,
            argv=["env", *unset, *command],
            output=self.log,
            env=environment,
            cwd=context.directory,
            cpus=context.placement.server_cpus,
            limits=context.placement.limits("server"),
            owns=self.owns(context),
            reads=self.reads(context),
        )
        self._answer, self._answer_by, self._fresh_until = None, None, math.inf
        return self.launch(context.host, spec)

    def owns(self, context: ServiceContext) -> list[Path]:
        """What the server writes to: its directory, what it leaves for the trial, stores in memory."""
        answer = self._exchange(context) / ANSWER
        owned = [context.directory, self.own_artefacts(context), answer, *places.made(context.directory)]
        owned += self._places.owned() if self._places is not None else []
        if context.observe and context.raw is not None:
            log = context.raw / GC_LOG
            log.touch()
            owned += [log, *(context.raw / name for name in AGENT_FILES)]
            if not jvm.fit_for_log(log):
                link = self.working_directory(context) / GC_LOG
                link.parent.mkdir(parents=True, exist_ok=True)
                link.symlink_to(log)
        if context.http_socket is not None:
            owned.append(context.http_socket.parent)
        return owned

    def reads(self, context: ServiceContext) -> list[Path]:
        """What it must reach beside that."""
        java, shared = self.java_home(context), self._exchange(context)
        paths = [self.home, java, agent_jar(), shared, context.raw, context.application.archive, *self.jars()]
        return [path for path in paths if path is not None]

    def working_directory(self, context: ServiceContext) -> Path:
        """Of the server's JVM."""
        return context.directory

    def _gc_log(self, context: ServiceContext) -> Path | None:
        if context.raw is None:
            return None
        log = context.raw / GC_LOG
        return log if jvm.fit_for_log(log) else Path(GC_LOG)  # a link to it in the working directory

    def jars(self) -> list[Path]:
        """Of the database's driver."""
        return [self.driver.jar()]

    def own_artefacts(self, context: ServiceContext) -> Path:
        """Where the server itself leaves files for the trial."""
        return context.artefacts / f"{self.name}-logs"

    def _exchange(self, context: ServiceContext) -> Path:
        """Where leadline and the agent in the server's JVM leave files for each other: the server cannot put others
        in their place.
        """
        return context.directory.with_name(f"{context.directory.name}-agent")

    def wait_ready(self, timeout: float) -> float:
        process, context = self.process, self.context
        self.ready_timeout = timeout
        deadline, last, spent = self._started + timeout, self._started + self.longest_start * timeout, 0.0
        while True:
            ready = "nothing listens there yet"
            if self.reachable():
                ready = self.not_ready()
            if not ready:
                return self.is_ready()
            evidence = self._evidence()
            if not process.alive():
                # The last words may come after the check that found the process dead.
                time.sleep(_POLL)
                evidence = self._evidence()
                end = started.of_process(context.host.files, process, self.words(), ready=False)
                raise self._failure(end.before_ready, evidence, end)
            if self.failed_for_good(evidence):
                raise self._failure("could not start the application", evidence, Evidence(Event.REFUSED))
            if time.monotonic() > deadline:
                before, spent = spent, sum(process.cpu_seconds())
                deadline += timeout / _CHECKS
                works = spent - before >= _AT_WORK * timeout / _CHECKS
                if deadline > last or not works:
                    seconds = time.monotonic() - self._started if self.longest_start > 1 else timeout
                    still = "; it is still at work" if works and self.longest_start > 1 else ""
                    raise self._late(f"was not ready after {round(seconds, 1):g} s ({ready}){still}", evidence)
            time.sleep(_POLL)

    def not_ready(self) -> str:
        """Why the application is not up yet; empty where it is."""
        return probe.ready(self.client(), self.context.application)

    def reachable(self) -> bool:
        """Whether its own process listens on its port: another one that answers there is not ours."""
        return listens(self.context.host.files, self.process.pids(), self.context.http_port)

    def change(self, levels: Settings) -> None:
        settings = {**self._settings, **levels}
        flags = {name: level for name, level in levels.items() if self._is_flag(name)}
        live_levels = {name: level for name, level in levels.items() if name not in flags}
        spoken = len(self.words())
        self.tell(
            {**jvm.flags(flags), **(self.changes(live_levels, settings) if live_levels else {})},
            lambda answer: (
                not live_levels or (self.taken(answer, self.words()[spoken:]) and self._holds(live_levels, answer))
            ),
        )
        self._settings = settings

    def _is_flag(self, name: str) -> bool:
        return name in jvm.FLAG_OF or name.startswith(jvm.PREFIX)

    def _holds(self, levels: Settings, answer: Answer) -> bool:
        try:
            return all(self.level_of(name, answer) == level for name, level in levels.items())
        except LookupError:
            return False

    def tell(self, changes: Mapping[str, str], done: Callable[[Answer], bool] = lambda _: True) -> None:
        """Have the agent make changes, and wait until its answer says that it is done. Raises TrialFailure."""
        deadline = time.monotonic() + self.patience
        try:
            if self._answer is None and self.expected_beans():
                self.answer()  # they come only after they were asked for
            answer = self._ask(changes)
            while not answer["refused"] and not done(answer):
                if time.monotonic() > deadline:
                    message = f"{self.title} did not make a change in {self.patience:.0f} s: {_said(changes)}"
                    raise LookupError(message) from TimeoutError()
                time.sleep(_POLL / 10)
                answer = self._ask()
        except LookupError as error:
            raise blamed(Evidence(unanswered(error)), str(error)) from error
        self._answer, self._fresh_until = answer, time.monotonic() + _FRESH
        if answer["refused"]:
            raise blamed(Evidence(Event.REFUSED), f"{self.title} refuses {'; '.join(answer['refused'])}")

    def read_back(self, name: str) -> Level:
        if name not in {knob.name for knob in self.knobs()}:
            raise LookupError(f"{self.title} has no knob {name}")
        process = self.process
        if not process.alive():
            raise LookupError(f"{self.title} is not running")
        answer = self.answer()
        try:
            if name in places.NAMES and self._places is not None:
                return self._places.level(name, answer, java_pid(self.context.host.files, process), self.home)
            if name in {knob.name for knob in self.jvm.knobs()}:
                return self.jvm.read_back(name)
            if name == knobs.HTTP2.name:
                return self._seen(name, self.client().speaks_http2)
            if name == knobs.TLS.name:
                return self._seen(name, self.client().speaks_tls)
            return self.level_of(name, answer)
        except (KeyError, IndexError) as error:
            raise LookupError(f"{self.title} does not tell the level of {name}: no {error} in its answer") from error

    def _asked_flags(self) -> tuple[Mapping[str, str], Files, int]:
        files = self.context.host.files
        return self.answer()["flags"], files, java_pid(files, self.process)

    def _seen(self, name: str, look: Callable[[], bool]) -> bool:
        try:
            return look()
        except OSError as error:
            raise LookupError(f"{self.title} does not tell the level of {name}: {error}") from error

    def client(self) -> probe.Client:
        """A client of the server's port."""
        certificate = self.context.certificate if self._settings.get(knobs.TLS.name) else None
        return probe.Client(self.context.http_port, certificate.certificate if certificate else None, self.prompt)

    def stop(self) -> bool:
        process, self._process = self._process, None
        clean = process is None or process.stop(self.stop_within)
        if knobs.in_memory(self._settings):  # made before the start, which may have failed
            places.remove(self.context.host, self.context.directory)
        if self._places is not None:
            self._places.remove()
        if process is None:
            return clean
        with suppress(OSError):  # it left something
            self.own_artefacts(self.context).rmdir()
        return clean

    @property
    def stop_within(self) -> float:
        """Seconds that an end in order may take."""
        return max(self.stop_grace, self._took or 0.0)

    def log_tail(self, lines: int = 40) -> str:
        return "\n".join(self._evidence(lines).tail)

    def artefacts(self) -> Sequence[Path]:
        logs = [self.log, *sorted(self.context.artefacts.glob(f"{self.name}-*"))]
        return [path for path in logs if path.is_file() or (path.is_dir() and any(path.iterdir()))]

    # -- shared parts

    @property
    def log(self) -> Path:
        return self.context.artefacts / f"{self.role}.log"

    @property
    def cached(self) -> Path:
        """Directory of the unpacked distribution in leadline's cache (its archive's own top directory is below)."""
        return fetch(self.distribution, _quiet)

    @property
    def home(self) -> Path:
        """The same, or its copy at the place that a level says."""
        copied = self._places.installation if self._places is not None else None
        return copied or self.cached

    @property
    def driver(self) -> JdbcDriver:
        """Of the database of this start: its jar, its classes, the URL for a pool."""
        if self.context.database is None:
            raise LeadlineError(f"{self.title} has been configured without a database")
        return driver_for(self.context.database)

    def database_properties(self, context: ServiceContext) -> dict[str, str]:
        """``leadline.database.url``, ``.user``, ``.password`` and ``.driver`` (class of ``java.sql.Driver``)."""
        assert context.database is not None
        return {
            "leadline.database.url": self.driver.pool_url(context.database),
            "leadline.database.user": context.database.user,
            "leadline.database.password": context.database.password,
            "leadline.database.driver": self.driver.driver,
        }

    def jvm_options(self, context: ServiceContext) -> list[str]:
        """Options of the JVM: the levels, the collector's log, the application's properties."""
        log = self._gc_log(context) if context.observe else None
        properties = [f"-D{name}={value}" for name, value in sorted(context.application.properties.items())]
        return [
            *jvm.options(self._settings, log, self.jvm.flags),
            *(jvm.recorder(self.own_artefacts(context)) if context.profile else ()),
            f"-XX:ErrorFile={self.own_artefacts(context)}/hs_err.log",
            *(self._places.options() if self._places is not None else ()),
            *properties,
        ]

    def java_home(self, context: ServiceContext) -> Path:
        return self.find_java(context.java_home)

    @classmethod
    def check_java(cls, wanted: str | None) -> None:
        """Raises UsageError when it does not run on the JDK ``wanted`` (None: on any JDK of this host)."""
        if cls.newest_java is not None:
            cls.find_java(Path(wanted) if wanted else None)

    @classmethod
    def find_java(cls, wanted: Path | None) -> Path:
        """``wanted``, else the first JDK of this host that the server runs on. Raises UsageError."""
        if cls.newest_java is None:
            return find_java_home(wanted)
        if wanted is None:
            return find_java(newest=cls.newest_java)
        home = java_home(wanted)
        if home.major > cls.newest_java:
            raise UsageError(
                f"{cls.title} {cls.distribution.version} runs on Java 17 to {cls.newest_java}; {wanted} is Java"
                f" {home.major}. Set stack.java to the home of an older JDK, or leave it out"
            )
        return wanted

    def keep(self, name: str, text: str) -> None:
        """Put a file of the effective configuration, without passwords, among the trial's artefacts."""
        (self.context.artefacts / f"{self.name}-{name}").write_text(text)

    def answer(self) -> Answer:
        """The running server's configuration as the agent read it; asked once a start until a level is changed live,
        then no older than half a second; for at most ``ready_timeout`` again while it lacks ``expected_beans``.

        Raises LookupError if the agent cannot be loaded or beans do not come.
        """
        if self._answer is None or time.monotonic() > self._fresh_until:
            if self._answer_by is None:
                self._answer_by = time.monotonic() + self.ready_timeout
            answer = self._ask()
            while missing := [name for name in self.expected_beans() if name not in answer["beans"]]:
                if time.monotonic() > self._answer_by:
                    errors = "".join(f"; {error}" for error in answer.get("errors", {}).values())
                    raise LookupError(
                        f"{self.title} has not shown {len(missing)} of the MBeans asked for, {missing[0]} first,"
                        f" {self.ready_timeout:g} s after it was asked{errors}"
                    )
                time.sleep(_POLL)
                answer = self._ask()
            self._answer = answer
            if self._fresh_until < math.inf:
                self._fresh_until = time.monotonic() + _FRESH
        return self._answer

    def _ask(self, changes: Mapping[str, str] | None = None) -> Answer:
        try:
            host = self.context.host
            flags = [*jvm.FLAGS, *(name.removeprefix(jvm.PREFIX) for name in self.jvm.flags)]
            where = {} if self._places is None else places.QUESTION
            question = {"flags": ",".join(flags), **where, **self.question(), **(changes or {})}
            java = java_pid(host.files, self.process)
            return ask(host, self.context.java_home, java, self._exchange(self.context), question)
        except (AttachError, OSError, ValueError) as error:
            raise LookupError(f"{self.title} cannot be asked: {error}") from error

    def _evidence(self, lines: int = 40) -> LogEvidence:
        return gather_evidence(self.words(), lines)

    def _late(self, what: str, found: LogEvidence) -> TrialFailure:
        """Not in time; of one that a signal stops, or that says itself that its memory is not enough, for that."""
        if started.stopped(self.context.host.files, self.process.pids()):
            return self._failure(what, found, Evidence(Event.STOPPED))
        refused = found.out_of_memory
        return self._failure(what, found, Evidence(Event.REFUSED if refused else Event.LATE))

    def _failure(self, what: str, found: LogEvidence, why: Evidence) -> TrialFailure:
        if found.port_taken:
            port = self.context.http_port
            return TrialFailure(
                FailureClass.INFRASTRUCTURE,
                f"port {port} on 127.0.0.1 was taken while {self.title} started; end what listens there"
                " or choose another port",
                found.text(),
            )
        words = f": {found.headline}" if found.headline else ""
        return blamed(why, f"{self.title} {what}{words}", found.text())


def _said(changes: Mapping[str, str]) -> str:
    return ", ".join(changes.values())


def _quiet(message: str) -> None:
    del message
