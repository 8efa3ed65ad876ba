"""Apache Tomcat: a private CATALINA_BASE, levels as properties that its server.xml substitutes.

The pool is Tomcat's default, Commons DBCP 2: it tells waiters and the mean wait for a connection in MBeans that need
no switching on, which the alternative (tomcat-jdbc) does not.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from leadline.host.textfile import write_private
from leadline.model.knob import Level
from leadline.stack.base import ServiceContext, Settings
from leadline.stack.deployment import Feature
from leadline.stack.provision import TOMCAT, Artefact
from leadline.stack.servers import knobs, tomcat_levels
from leadline.stack.servers.common import Answer, JavaServer
from leadline.stack.servers.files import LogEvidence, properties_text, template

_NOT_DEPLOYED = re.compile(r"startup failed due to previous errors|SEVERE.*\bError deploying\b")
# As bin/catalina.sh of this version passes them.
_JAVA_OPTIONS = (
    "-Djdk.tls.ephemeralDHKeySize=2048",
    "-Djava.protocol.handler.pkgs=org.apache.catalina.webresources",
    "-Dsun.io.useCanonCaches=false",
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
    "--add-opens=java.base/java.lang.reflect=ALL-UNNAMED",
    "--add-opens=java.base/java.io=ALL-UNNAMED",
    "--add-opens=java.base/java.util=ALL-UNNAMED",
    "--add-opens=java.base/java.util.concurrent=ALL-UNNAMED",
    "--add-opens=java.rmi/sun.rmi.transport=ALL-UNNAMED",
)


class Tomcat(JavaServer):
    """Tomcat with one application; started as a JVM directly, without its scripts."""

    name: ClassVar[str] = "tomcat"
    title: ClassVar[str] = "Tomcat"
    distribution: ClassVar[Artefact] = TOMCAT
    temporary: ClassVar[tuple[str, ...]] = ("temp", "work")
    features: ClassVar[frozenset[Feature]] = frozenset({Feature.SERVLETS})
    unix_socket: ClassVar[bool] = True

    @property
    def unpacked(self) -> Path:
        """CATALINA_HOME."""
        return self.home / f"apache-tomcat-{self.version}"

    def write_configuration(self, context: ServiceContext, settings: Settings) -> None:
        base, home = context.directory, self.unpacked
        for part in ("conf/Catalina/localhost", "lib", "logs", "temp", "webapps", "work"):
            (base / part).mkdir(parents=True)
        shutil.copyfile(home / "conf" / "web.xml", base / "conf" / "web.xml")
        jar = self.driver.jar()
        (base / "lib" / jar.name).symlink_to(jar)
        server = tomcat_levels.configuration(template(f"{self.name}-server.xml", context.application), settings)
        if context.http_socket is not None:
            server = tomcat_levels.with_socket(server, str(context.http_socket))
        if settings.get(knobs.TLS.name) and context.certificate is not None:
            certificate, key = context.certificate.write(base / "conf")
            server = tomcat_levels.with_tls(server, str(certificate), str(key))
        (base / "conf" / "server.xml").write_text(server)
        (base / "conf" / "logging.properties").write_text(template("tomcat-logging.properties"))
        context_file = base / "conf" / "Catalina" / "localhost" / f"{context.application.file_name}.xml"
        context_file.write_text(template(f"{self.name}-context.xml", context.application))
        # Tomcat reads this file first and makes its entries system properties: the loaders come from its own copy.
        shipped = (home / "conf" / "catalina.properties").read_text()
        properties = self._properties(context, settings)
        write_private(base / "conf" / "catalina.properties", f"{shipped}\n{properties_text(properties)}")
        self.keep("server.xml", server)
        self.keep("levels.properties", properties_text({**properties, "leadline.database.password": "(not kept)"}))

    def _properties(self, context: ServiceContext, settings: Settings) -> dict[str, str]:
        values = {
            "leadline.http.address": context.http_address,
            "leadline.http.port": str(context.http_port),
            "leadline.archive": str(context.application.archive),
            **self.database_properties(context),
        }
        return values | self.level_properties(settings)

    def level_properties(self, settings: Settings) -> dict[str, str]:
        """Properties that the templates substitute, for the levels that are set. Raises UsageError."""
        return tomcat_levels.properties(settings)

    def command(self, context: ServiceContext) -> tuple[list[str], dict[str, str]]:
        base, home = context.directory, self.unpacked
        argv = [
            str(self.java_home(context) / "bin" / "java"),
            *self.jvm_options(context),
            *_JAVA_OPTIONS,
            f"-Djava.util.logging.config.file={base}/conf/logging.properties",
            "-Djava.util.logging.manager=org.apache.juli.ClassLoaderLogManager",
            # A connector that cannot listen ends the server instead of leaving a deaf one.
            "-Dorg.apache.catalina.startup.EXIT_ON_INIT_FAILURE=true",
            "-classpath",
            f"{home}/bin/bootstrap.jar:{home}/bin/tomcat-juli.jar",
            f"-Dcatalina.base={base}",
            f"-Dcatalina.home={home}",
            f"-Djava.io.tmpdir={base}/temp",
            "org.apache.catalina.startup.Bootstrap",
            "start",
        ]
        return argv, {}

    def changes(self, levels: Settings, settings: Settings) -> Mapping[str, str]:
        del levels
        before, after = self.level_properties(self._settings), self.level_properties(settings)
        return _set(tomcat_levels.changes(before, after, self.context.application))

    def change(self, levels: Settings) -> None:
        application, most = self.context.application, levels.get(knobs.MAX_CONNECTIONS.name)
        if most is None:
            super().change(levels)
            return
        drain = _set(tomcat_levels.draining(application, most))
        try:
            self.tell(drain, lambda answer: tomcat_levels.connections(answer) <= int(most))
        finally:
            self.tell(_set(tomcat_levels.drained(application, {**self._settings, **levels})))
        super().change(levels)

    def failed_for_good(self, found: LogEvidence) -> bool:
        return super().failed_for_good(found) or any(_NOT_DEPLOYED.search(line) for line in found.errors)

    def question(self) -> Mapping[str, str]:
        return tomcat_levels.QUESTION

    def level_of(self, name: str, answer: Answer) -> Level:
        return tomcat_levels.level(name, answer)


def _set(changes: list[str]) -> dict[str, str]:
    return {f"set.{number:02}": change for number, change in enumerate(changes)}
