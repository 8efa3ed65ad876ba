"""Frameworks as servers: the application is a program of its own, with a server and a pool of connections inside."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from leadline import catalogue
from leadline.host.java import agent_jar
from leadline.host.textfile import write_private
from leadline.model.errors import UsageError
from leadline.model.knob import Kind, Knob, Level
from leadline.stack.base import Deployment, Feature, Progress, ServiceContext, Settings
from leadline.stack.servers import knobs
from leadline.stack.servers.common import Answer, JavaServer
from leadline.stack.servers.files import ensure_agent, properties_text


class Framework(JavaServer):
    """Levels are properties in a file that the framework reads; the agent reads them from its pool and its server."""

    release: ClassVar[str]  # pinned in workloads/pom.xml
    configuration: ClassVar[str]  # file of properties, below the working directory
    features: ClassVar[frozenset[Feature]] = frozenset({Feature.SERVLETS})
    plain_http2: ClassVar[bool] = False
    url: ClassVar[str]  # property of the pool's URL, as the agent reads it
    password: ClassVar[str]  # property that is not kept among the artefacts
    properties: ClassVar[Mapping[str, str]]  # knob -> its property

    # -- what each framework fills in

    @abstractmethod
    def fixed(self, context: ServiceContext) -> Mapping[str, str]:
        """Properties beside the levels: where it listens, the database."""

    @abstractmethod
    def written(self, knob: Knob, level: Level) -> str:
        """A level as its property takes it."""

    @abstractmethod
    def told(self, knob: Knob, value: object) -> Level:
        """A level from its property as the agent read it. Raises LookupError, ValueError."""

    def check(self, settings: Settings) -> None:
        """Raises UsageError for levels that contradict."""

    # -- the service

    @classmethod
    def runs(cls, deployment: Deployment) -> bool:
        return super().runs(deployment) and cls.name in deployment.programs

    @property
    def version(self) -> str:
        return self.release

    @property
    def cached(self) -> Path:
        """Where the program lies: there is no distribution beside it."""
        return self.context.application.archive.parent

    def knobs(self) -> Sequence[Knob]:
        return [*catalogue.load(self.name).values(), *self.jvm.knobs()]

    def provision(self, progress: Progress) -> None:
        ensure_agent(progress)

    def configure(self, context: ServiceContext, settings: Settings) -> None:
        """The program takes the archive's place. Raises UsageError for an application without one."""
        deployment = context.deployment
        if deployment is not None:
            if self.name not in deployment.programs:
                raise UsageError(f"{deployment.name} is not built for {self.title}")
            context = replace(context, deployment=replace(deployment, archive=deployment.programs[self.name]))
        super().configure(context, settings)

    def write_configuration(self, context: ServiceContext, settings: Settings) -> None:
        self.check(settings)
        levels_ = {name: level for name, level in settings.items() if name in self.properties}
        levels = {self.properties[name]: self.written(self._own[name], level) for name, level in levels_.items()}
        values = {**self.fixed(context), **levels}
        file = context.directory / self.configuration
        file.parent.mkdir(exist_ok=True)
        write_private(file, properties_text(values))
        (context.directory / "tmp").mkdir()
        self.keep("levels.properties", properties_text({**values, self.password: "(not kept)"}))

    def command(self, context: ServiceContext) -> tuple[list[str], dict[str, str]]:
        java = str(self.java_home(context) / "bin" / "java")
        temporary = f"-Djava.io.tmpdir={context.directory}/tmp"
        return [java, *self.jvm_options(context), temporary, "-jar", str(context.application.archive)], {}

    def jars(self) -> list[Path]:
        """The program has the drivers of the databases."""
        return []

    def reads(self, context: ServiceContext) -> list[Path]:
        paths = [self.java_home(context), agent_jar(), self._exchange(context), context.application.archive]
        return [*paths, *([context.raw] if context.raw is not None else [])]

    # -- levels

    @property
    def _own(self) -> Mapping[str, Knob]:
        return catalogue.load(self.name)

    def pool_url(self, context: ServiceContext) -> str:
        """With the driver's own cache of statements, where a level asks for one: these pools have none."""
        assert context.database is not None
        return self.driver.pool_url(context.database, int(self._settings.get(knobs.STATEMENT_CACHE.name, 0)))

    def question(self) -> Mapping[str, str]:
        asked_for = [self.url, *self.properties.values()]
        return {f"property.{number:02}": name for number, name in enumerate(asked_for)}

    def changes(self, levels: Settings, settings: Settings) -> Mapping[str, str]:
        self.check(settings)
        assignments = [f"{self.properties[name]}={_set(self._own[name], level)}" for name, level in levels.items()]
        return {f"property-set.{number:02}": assignment for number, assignment in enumerate(assignments)}

    def level_of(self, name: str, answer: Answer) -> Level:
        cache = name == knobs.STATEMENT_CACHE.name
        property_ = self.url if cache else self.properties[name]
        if property_ not in answer["properties"]:
            why = answer["errors"].get(property_, "the agent has no word of it")
            raise LookupError(f"{self.title} does not tell the level of {name}: {why}")
        value = answer["properties"][property_]
        return self.driver.statements(str(value)) if cache else self.told(self._own[name], value)


def _set(knob: Knob, level: Level) -> str:
    """A live level as the agent gives it to a setter: durations in milliseconds."""
    return str(round(float(level) * 1000)) if knob.kind is Kind.DURATION else str(level)


_HIKARI = "spring.datasource.hikari"
_TOMCAT = "server.tomcat"
_CONNECTIONS = 10  # HikariCP's default maximum
_SPRING_THREADS = 200  # Tomcat's default threads.max


class SpringBoot(Framework):
    """Spring Boot reads ``application.properties`` of its working directory after the jar's own."""

    name: ClassVar[str] = "spring-boot"
    title: ClassVar[str] = "Spring Boot"
    release: ClassVar[str] = "3.5.7"
    configuration: ClassVar[str] = "application.properties"
    url: ClassVar[str] = f"{_HIKARI}.jdbc-url"
    password: ClassVar[str] = "spring.datasource.password"
    properties: ClassVar[Mapping[str, str]] = {
        knobs.MAX_CONNECTIONS.name: f"{_HIKARI}.maximum-pool-size",
        knobs.MIN_CONNECTIONS.name: f"{_HIKARI}.minimum-idle",
        knobs.CONNECTION_TIMEOUT.name: f"{_HIKARI}.connection-timeout",
        knobs.IDLE_TIMEOUT.name: f"{_HIKARI}.idle-timeout",
        knobs.MAX_AGE.name: f"{_HIKARI}.max-lifetime",
        knobs.THREADS.name: f"{_TOMCAT}.threads.max",
        knobs.MIN_THREADS.name: f"{_TOMCAT}.threads.min-spare",
        knobs.HTTP_CONNECTIONS.name: f"{_TOMCAT}.max-connections",
        knobs.ACCEPT_QUEUE.name: f"{_TOMCAT}.accept-count",
        knobs.KEEP_ALIVE.name: f"{_TOMCAT}.max-keep-alive-requests",
    }

    def fixed(self, context: ServiceContext) -> Mapping[str, str]:
        assert context.database is not None
        return {
            "server.address": context.http_address,
            "server.port": str(context.http_port),
            "server.servlet.context-path": context.application.path,
            "spring.datasource.driver-class-name": self.driver.driver,
            "spring.datasource.url": self.pool_url(context),
            "spring.datasource.username": context.database.user,
            "spring.datasource.password": context.database.password,
        }

    def check(self, settings: Settings) -> None:
        knobs.check_bounds(settings, knobs.MIN_CONNECTIONS, knobs.MAX_CONNECTIONS, _CONNECTIONS)
        knobs.check_bounds(settings, knobs.MIN_THREADS, knobs.THREADS, _SPRING_THREADS)

    def written(self, knob: Knob, level: Level) -> str:
        return str(round(float(level) * 1000)) if knob.kind is Kind.DURATION else str(level)

    def told(self, knob: Knob, value: object) -> Level:
        number = int(str(value))
        return number / 1000 if knob.kind is Kind.DURATION else number


_POOL = "quarkus.datasource.jdbc"
_THREADS = "quarkus.thread-pool"


class Quarkus(Framework):
    """Quarkus reads ``config/application.properties`` of its working directory over the jar's own. The database's kind
    is fixed when the jar is built.
    """

    name: ClassVar[str] = "quarkus"
    title: ClassVar[str] = "Quarkus"
    release: ClassVar[str] = "3.28.5"
    configuration: ClassVar[str] = "config/application.properties"
    databases: ClassVar[tuple[str, ...]] = ("postgres",)
    url: ClassVar[str] = f"{_POOL}.url"
    password: ClassVar[str] = "quarkus.datasource.password"
    properties: ClassVar[Mapping[str, str]] = {
        knobs.MAX_CONNECTIONS.name: f"{_POOL}.max-size",
        knobs.MIN_CONNECTIONS.name: f"{_POOL}.min-size",
        knobs.CONNECTION_TIMEOUT.name: f"{_POOL}.acquisition-timeout",
        knobs.MAX_AGE.name: f"{_POOL}.max-lifetime",
        knobs.THREADS.name: f"{_THREADS}.max-threads",
        knobs.MIN_THREADS.name: f"{_THREADS}.core-threads",
    }

    def fixed(self, context: ServiceContext) -> Mapping[str, str]:
        assert context.database is not None
        return {
            "quarkus.http.host": context.http_address,
            "quarkus.http.port": str(context.http_port),
            "quarkus.datasource.jdbc.url": self.pool_url(context),
            "quarkus.datasource.username": context.database.user,
            "quarkus.datasource.password": context.database.password,
        }

    def check(self, settings: Settings) -> None:
        knobs.check_bounds(settings, knobs.MIN_CONNECTIONS, knobs.MAX_CONNECTIONS, None)
        knobs.check_bounds(settings, knobs.MIN_THREADS, knobs.THREADS, None)

    def written(self, knob: Knob, level: Level) -> str:
        return f"{round(float(level) * 1000)}ms" if knob.kind is Kind.DURATION else str(level)

    def told(self, knob: Knob, value: object) -> Level:
        return float(str(value)) if knob.kind is Kind.DURATION else int(str(value))
