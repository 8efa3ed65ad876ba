"""Apache TomEE Plume: Tomcat with session beans, entities and messages; configured as Tomcat, with a tomee.xml."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from leadline.model.knob import Level
from leadline.stack.base import ServiceContext, Settings
from leadline.stack.deployment import Deployment, Feature, RemoteBean, RemoteClient
from leadline.stack.options import LOOPBACK
from leadline.stack.provision import TOMEE, Artefact
from leadline.stack.servers import messaging, tomee_levels, tomee_messaging
from leadline.stack.servers.common import Answer
from leadline.stack.servers.files import properties_text, template
from leadline.stack.servers.tomcat import Tomcat

# EclipseLink reads through the pool that writes, as it does where a server gives it no second one.
_ONE_POOL = "eclipselink.jdbc.exclusive-connection.mode = Always"


class TomEE(Tomcat):
    """TomEE with one application; started as a JVM directly, without its scripts."""

    name: ClassVar[str] = "tomee"
    title: ClassVar[str] = "TomEE"
    distribution: ClassVar[Artefact] = TOMEE
    features: ClassVar[frozenset[Feature]] = frozenset(Feature)
    # It sets a java.security.Policy, which the JDK refuses from 24 on (JEP 486).
    newest_java: ClassVar[int | None] = 23

    @property
    def unpacked(self) -> Path:
        return self.home / f"apache-tomee-plume-{self.version}"

    def write_configuration(self, context: ServiceContext, settings: Settings) -> None:
        super().write_configuration(context, settings)
        resources = tomee_levels.resources(template("tomee.xml", context.application), settings)
        resources = resources.replace("</tomee>", f"{tomee_messaging.resources(context, settings)}</tomee>")
        conf = context.directory / "conf"
        (conf / "tomee.xml").write_text(resources)
        units = context.application.persistence_units
        properties_ = self.driver.persistence_properties.items()
        properties = {f"{unit}.{name}": value for unit in units for name, value in properties_}
        properties |= tomee_messaging.properties(context, settings)
        if Feature.REMOTE_CLIENTS in context.application.features:
            properties["tomee.remote.support"] = "true"
        fixed = template("tomee-system.properties") + "".join(f"{unit}.{_ONE_POOL}\n" for unit in units)
        (conf / "system.properties").write_text(fixed + properties_text(properties))
        self.keep("tomee.xml", resources)

    def level_properties(self, settings: Settings) -> dict[str, str]:
        return tomee_levels.properties(settings)

    def command(self, context: ServiceContext) -> tuple[list[str], dict[str, str]]:
        argv, environment = super().command(context)
        # As its bin/catalina.sh does: entity classes are woven by it.
        return [argv[0], f"-javaagent:{self.unpacked / 'lib' / 'openejb-javaagent.jar'}", *argv[1:]], environment

    def remote_client(self, application: Deployment, bean: RemoteBean, http_port: int, calls_port: int) -> RemoteClient:
        """OpenEJB's client: its protocol in requests of HTTP, to a servlet of TomEE beside the application."""
        del application, calls_port
        lib = self.unpacked / "lib"
        return RemoteClient(
            tuple(next(lib.glob(name)) for name in ("openejb-client-*.jar", "jakartaee-api-*.jar")),
            {
                "java.naming.factory.initial": "org.apache.openejb.client.RemoteInitialContextFactory",
                "java.naming.provider.url": f"http://{LOOPBACK}:{http_port}/tomee/ejb",
            },
            f"{bean.bean}Remote",
            ("-Dhttp.maxConnections=1000",),  # kept open when idle
        )

    def question(self) -> Mapping[str, str]:
        application = self.context.application
        return {**tomee_levels.question(application), **tomee_messaging.question(application)}

    def level_of(self, name: str, answer: Answer) -> Level:
        if messaging.knows(name):
            return tomee_messaging.level(name, answer, self.context)
        return tomee_levels.level(name, answer)
