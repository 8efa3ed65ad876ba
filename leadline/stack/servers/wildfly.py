"""WildFly: a private server base directory, levels as properties that the prepared configuration's expressions read."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from leadline.host.textfile import write_private
from leadline.model.knob import Level
from leadline.stack.base import Progress, ServiceContext, Settings
from leadline.stack.deployment import Deployment, Feature, RemoteBean, RemoteClient
from leadline.stack.options import LOOPBACK
from leadline.stack.provision import WILDFLY, Artefact
from leadline.stack.servers import knobs, messaging, wildfly_cli, wildfly_levels, wildfly_messaging
from leadline.stack.servers.common import Answer, JavaServer
from leadline.stack.servers.files import LogEvidence, properties_text, template

_PROFILE = "standalone.xml"
_STARTED_WITH_ERRORS = re.compile(r"\bWFLYSRV0026\b|\bWFLYSRV0056\b")
# As bin/standalone.conf and bin/common.sh of this version pass them.
_SIZING = ("-Xms64m", "-Xmx512m")
_JAVA_OPTIONS = (
    "-Djdk.serialFilter=maxbytes=10485760;maxdepth=128;maxarray=100000;maxrefs=300000",
    "-Djava.net.preferIPv4Stack=true",
    "-Djboss.modules.system.pkgs=org.jboss.byteman",
    "-Djava.awt.headless=true",
    "--add-exports=java.desktop/sun.awt=ALL-UNNAMED",
    "--add-exports=java.naming/com.sun.jndi.ldap=ALL-UNNAMED",
    "--add-exports=java.naming/com.sun.jndi.url.ldap=ALL-UNNAMED",
    "--add-exports=java.naming/com.sun.jndi.url.ldaps=ALL-UNNAMED",
    "--add-exports=jdk.naming.dns/com.sun.jndi.dns=ALL-UNNAMED",
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
    "--add-opens=java.base/java.lang.invoke=ALL-UNNAMED",
    "--add-opens=java.base/java.lang.reflect=ALL-UNNAMED",
    "--add-opens=java.base/java.io=ALL-UNNAMED",
    "--add-opens=java.base/java.net=ALL-UNNAMED",
    "--add-opens=java.base/java.security=ALL-UNNAMED",
    "--add-opens=java.base/java.util=ALL-UNNAMED",
    "--add-opens=java.base/java.util.concurrent=ALL-UNNAMED",
    "--add-opens=java.management/javax.management=ALL-UNNAMED",
    "--add-opens=java.naming/javax.naming=ALL-UNNAMED",
)
# Callers of beans log in as nobody: the application asks for no user, as its JSON does not.
_ANYBODY = (
    "/subsystem=remoting/http-connector=http-remoting-connector:undefine-attribute(name=sasl-authentication-factory)"
)
# So that a connection which has failed is seen as such, and the pool is purged as the policy says.
_SORTERS = {
    "postgresql": "org.jboss.jca.adapters.jdbc.extensions.postgres.PostgreSQLExceptionSorter",
    "mariadb": "org.jboss.jca.adapters.jdbc.extensions.mysql.MySQLExceptionSorter",
}


class WildFly(JavaServer):
    """WildFly's default profile with one application; started as a JVM directly, without its scripts."""

    name: ClassVar[str] = "wildfly"
    title: ClassVar[str] = "WildFly"
    distribution: ClassVar[Artefact] = WILDFLY
    features: ClassVar[frozenset[Feature]] = frozenset(Feature)
    temporary: ClassVar[tuple[str, ...]] = ("tmp",)

    def profile(self, application: Deployment) -> str:
        """File of the configuration that is used."""
        return wildfly_messaging.PROFILE if Feature.MESSAGING in application.features else _PROFILE

    def prepare(self, deployment: Deployment, progress: Progress) -> None:
        self._prepared(deployment, [], self.find_java(None), progress)

    def _prepared(self, application: Deployment, operations: Sequence[str], java: Path, progress: Progress) -> Path:
        called = [_ANYBODY] * (Feature.REMOTE_CLIENTS in application.features)
        every = [*template("wildfly.cli", application).splitlines(), *called, *operations]
        return wildfly_cli.prepared(self.cached / self.unpacked.name, java, self.profile(application), every, progress)

    @property
    def unpacked(self) -> Path:
        """JBOSS_HOME."""
        return self.home / f"wildfly-{self.version}"

    def write_configuration(self, context: ServiceContext, settings: Settings) -> None:
        base = context.directory
        configuration = base / "configuration"
        operations = [*wildfly_levels.operations(settings), *wildfly_messaging.operations(context, settings)]
        application = context.application
        prepared = self._prepared(application, operations, self.java_home(context), lambda _: None)
        shutil.copytree(prepared, configuration)
        (configuration / "logging.properties").write_text(template("wildfly-logging.properties"))
        module = base / "modules" / "leadline" / "jdbc" / "main"
        module.mkdir(parents=True)
        (module / "module.xml").write_text(template("wildfly-module.xml"))
        (module / "driver.jar").symlink_to(self.driver.jar())
        deployments = base / "deployments"
        deployments.mkdir()
        (deployments / f"{application.file_name}{application.archive.suffix}").symlink_to(application.archive)
        properties = self._properties(context, settings)
        levels = base / "levels.properties"
        write_private(levels, properties_text(properties))
        self.keep("standalone.xml", (configuration / self.profile(application)).read_text())
        hidden = {name: "(not kept)" for name in properties if name.endswith(".password")}
        self.keep("levels.properties", properties_text(properties | hidden))

    def _properties(self, context: ServiceContext, settings: Settings) -> dict[str, str]:
        values = {
            "jboss.bind.address": context.http_address,
            "jboss.http.port": str(context.http_port),
            "jboss.tx.node.id": "leadline",
            **self.database_properties(context),
        }
        if self.driver.subprotocol in _SORTERS:
            values["leadline.pool.sorter"] = _SORTERS[self.driver.subprotocol]
        # A level that was set wins: observing must not undo a treatment.
        observed: Settings = {knobs.MONITORING.name: context.observe}
        values |= wildfly_messaging.properties(context, settings) | wildfly_levels.tls_properties(context, settings)
        return values | wildfly_levels.properties({**observed, **settings})

    def command(self, context: ServiceContext) -> tuple[list[str], dict[str, str]]:
        base, home = context.directory, self.unpacked
        argv = [
            str(self.java_home(context) / "bin" / "java"),
            *_SIZING,  # a level comes later and wins
            *self.jvm_options(context),
            *_JAVA_OPTIONS,
            f"-Dlogging.configuration={(base / 'configuration' / 'logging.properties').as_uri()}",
            "-jar",
            str(home / "jboss-modules.jar"),
            "-mp",
            f"{home / 'modules'}:{base / 'modules'}",
            "org.jboss.as.standalone",
            f"-Djboss.home.dir={home}",
            f"-Djboss.server.base.dir={base}",
            f"--server-config={self.profile(context.application)}",
            f"--properties={base / 'levels.properties'}",
        ]
        return argv, {"JBOSS_HOME": str(home)}

    def remote_client(self, application: Deployment, bean: RemoteBean, http_port: int, calls_port: int) -> RemoteClient:
        """Its own client, over the port for HTTP, where a connection is turned into one for calls."""
        del calls_port
        return RemoteClient(
            (self.unpacked / "bin" / "client" / "jboss-client.jar",),
            {
                "java.naming.factory.initial": "org.wildfly.naming.client.WildFlyInitialContextFactory",
                "java.naming.provider.url": f"remote+http://{LOOPBACK}:{http_port}",
            },
            f"ejb:/{application.file_name}/{bean.bean}!{bean.interface}",
        )

    def changes(self, levels: Settings, settings: Settings) -> Mapping[str, str]:
        wildfly_levels.properties(settings)  # refuses what contradicts
        return wildfly_levels.changes(levels, settings, self.context.application)

    def taken(self, answer: Answer, said: str) -> bool:
        del said
        return wildfly_levels.taken(answer)

    def failed_for_good(self, found: LogEvidence) -> bool:
        return super().failed_for_good(found) or any(_STARTED_WITH_ERRORS.search(line) for line in found.errors)

    def question(self) -> Mapping[str, str]:
        application = self.context.application
        return {**wildfly_levels.question(application), **wildfly_messaging.question(application)}

    def level_of(self, name: str, answer: Answer) -> Level:
        if messaging.knows(name):
            return wildfly_messaging.level(name, answer, self.context)
        return wildfly_levels.level(name, answer)
