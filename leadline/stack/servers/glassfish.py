"""Eclipse GlassFish: a private domain, levels as attributes of its domain.xml."""

from __future__ import annotations

import re
import shutil
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import ClassVar

from leadline.host.textfile import write_private
from leadline.model.knob import Level
from leadline.stack.base import ServiceContext, Settings
from leadline.stack.deployment import Deployment, Feature, RemoteBean, RemoteClient
from leadline.stack.options import LOOPBACK
from leadline.stack.provision import GLASSFISH, Artefact
from leadline.stack.servers import (
    evidence,
    glassfish_domain,
    glassfish_levels,
    glassfish_messaging,
    knobs,
    messaging,
)
from leadline.stack.servers.common import Answer, JavaServer
from leadline.stack.servers.files import template

_STORE_PASSWORD = "changeit"  # of the domain as it is shipped; the file is for this user only
_NOT_DEPLOYED = re.compile(r"SEVERE.*\bException while (?:loading|deploying|preparing) the app")
# As its domain.xml gives them to asadmin, without the remote shell and its port.
_SIZING = ("-Xmx512m", "-XX:NewRatio=2")
_JAVA_OPTIONS = (
    "-XX:+UnlockDiagnosticVMOptions",
    "--add-opens=java.base/java.io=ALL-UNNAMED",
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
    "--add-opens=java.base/java.util=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.fs=ALL-UNNAMED",
    "--add-opens=java.base/sun.net.www.protocol.jrt=ALL-UNNAMED",
    "--add-opens=java.naming/javax.naming.spi=ALL-UNNAMED",
    "--add-opens=java.rmi/sun.rmi.transport=ALL-UNNAMED",
    "--add-opens=jdk.management/com.sun.management.internal=ALL-UNNAMED",
    "--add-exports=java.naming/com.sun.jndi.ldap=ALL-UNNAMED",
    "--add-exports=java.base/jdk.internal.vm.annotation=ALL-UNNAMED",
    "--add-opens=java.base/jdk.internal.vm.annotation=ALL-UNNAMED",
    "-Djava.awt.headless=true",
    "-Djdk.corba.allowOutputStreamSubclass=true",
    "-Djdk.tls.rejectClientInitiatedRenegotiation=true",
    "-Djavax.xml.accessExternalSchema=all",
    "-Dcom.sun.enterprise.security.httpsOutboundKeyAlias=s1as",
    "-DANTLR_USE_DIRECT_CLASS_LOADING=true",
    "-Dcom.sun.enterprise.config.config_environment_factory_class="
    "com.sun.enterprise.config.serverbeans.AppserverConfigEnvironmentFactory",
    "-Dorg.glassfish.additionalOSGiBundlesToStart=",
    "-Dorg.glassfish.gmbal.no.multipleUpperBoundsException=true",
    "-Dcom.ctc.wstx.returnNullForDefaultNamespace=true",
    "-Djdk.attach.allowAttachSelf=true",
)


class GlassFish(JavaServer):
    """GlassFish's domain administration server with one application; started as a JVM directly."""

    name: ClassVar[str] = "glassfish"
    title: ClassVar[str] = "GlassFish"
    distribution: ClassVar[Artefact] = GLASSFISH
    features: ClassVar[frozenset[Feature]] = frozenset(Feature)
    temporary: ClassVar[tuple[str, ...]] = ("domain/generated", "domain/osgi-cache")
    plain_http2: ClassVar[bool] = False
    # Its OSGi configuration (config/osgi.properties) knows no later execution environment.
    newest_java: ClassVar[int | None] = 23

    @property
    def unpacked(self) -> Path:
        """The installation's root."""
        return self.home / "glassfish7" / "glassfish"

    def write_configuration(self, context: ServiceContext, settings: Settings) -> None:
        domain = context.directory / "domain"
        shutil.copytree(self.unpacked / "domains" / "domain1", domain)
        jar = self.driver.jar()
        (domain / "lib" / jar.name).symlink_to(jar)
        shipped = (domain / "config" / "domain.xml").read_text()
        properties = self.database_properties(context)
        broker = context.host.free_port()
        log = glassfish_messaging.log_directory(context, settings)
        properties |= glassfish_messaging.passwords(context)
        hidden = {name: "(not kept)" if name.endswith(".password") else value for name, value in properties.items()}
        # A level that was set wins: observing must not undo a treatment.
        levels: Settings = {knobs.MONITORING.name: context.observe, **settings}
        full, unlimited = (
            glassfish_domain.written(shipped, levels, context, broker, log, each) for each in (properties, hidden)
        )
        glassfish_messaging.write_users(context, properties)
        written = domain / "config" / "domain.xml"
        write_private(written, full)
        self.keep("domain.xml", unlimited)
        self.furnish(context)
        if settings.get(knobs.TLS.name) and context.certificate is not None:
            store = domain / "config" / "keystore.jks"
            store.unlink(missing_ok=True)
            context.certificate.write_keystore(store, _STORE_PASSWORD, glassfish_domain.KEY)

    @staticmethod
    def furnish(context: ServiceContext) -> None:
        """What every domain gets: an administrator, its log, the archive."""
        domain, application = context.directory / "domain", context.application
        write_private(domain / "config" / "admin-keyfile", glassfish_domain.administrator())
        (domain / "config" / "logging.properties").write_text(template("glassfish-logging.properties"))
        (domain / "autodeploy" / f"{application.file_name}{application.archive.suffix}").symlink_to(application.archive)

    def options_of_domain(self, context: ServiceContext) -> list[str]:
        """Options of the JVM that its domain.xml gives to asadmin."""
        config = context.directory / "domain" / "config"
        return [
            *_SIZING,
            *_JAVA_OPTIONS,
            f"-Djava.security.policy={config / 'server.policy'}",
            f"-Djava.security.auth.login.config={config / 'login.conf'}",
            f"-Djavax.net.ssl.keyStore={config / 'keystore.jks'}",
            f"-Djavax.net.ssl.trustStore={config / 'cacerts.jks'}",
        ]

    def command(self, context: ServiceContext) -> tuple[list[str], dict[str, str]]:
        domain, home = context.directory / "domain", self.unpacked
        argv = [
            str(self.java_home(context) / "bin" / "java"),
            "-cp",
            str(home / "modules" / "glassfish.jar"),
            *self.options_of_domain(context),
            *self.jvm_options(context),  # a level comes later and wins
            f"-javaagent:{home / 'lib' / 'monitor' / 'flashlight-agent.jar'}",
            f"-Dcom.sun.aas.instanceRoot={domain}",
            f"-Dcom.sun.aas.installRoot={home}",
            "com.sun.enterprise.glassfish.bootstrap.GlassFishMain",
            *("-upgrade", "false", "-domaindir", str(domain), "-domainname", "domain1", "-instancename", "server"),
            *("-type", "DAS", "-verbose", "true", "-debug", "false"),
        ]
        return argv, {}

    def remote_client(self, application: Deployment, bean: RemoteBean, http_port: int, calls_port: int) -> RemoteClient:
        """Its own client, over IIOP; the jar names the others that it needs."""
        del http_port
        return RemoteClient(
            (self.unpacked / "lib" / "gf-client.jar",),
            {
                "java.naming.factory.initial": "com.sun.enterprise.naming.SerialInitContextFactory",
                "org.omg.CORBA.ORBInitialHost": LOOPBACK,
                "org.omg.CORBA.ORBInitialPort": str(calls_port),
            },
            f"java:global/{application.file_name}/{bean.bean}!{bean.interface}",
            (*_JAVA_OPTIONS, f"-Dcom.sun.corba.ee.ORBServerHost={LOOPBACK}"),  # its ORB listens, too
            (self.unpacked,),
        )

    def failed_for_good(self, found: evidence.Evidence) -> bool:
        return super().failed_for_good(found) or any(_NOT_DEPLOYED.search(line) for line in found.errors)

    def changes(self, levels: Settings, settings: Settings) -> Mapping[str, str]:
        del levels
        return glassfish_levels.changes(self._settings, settings, self.pool_name)

    @property
    def pool_name(self) -> str:
        """Of the pool whose knobs these are; empty where there is none."""
        return self.context.application.data_source.name

    def question(self) -> Mapping[str, str]:
        return {**glassfish_levels.question(self.pool_name), **glassfish_messaging.QUESTION}

    def expected_beans(self) -> Collection[str]:
        # Asking for them only begins their registration, which a thread of its own does.
        return [
            *glassfish_levels.expected(self.pool_name),
            *glassfish_messaging.expected(self.context, self._settings),
        ]

    def level_of(self, name: str, answer: Answer) -> Level:
        if messaging.knows(name):
            return glassfish_messaging.level(name, answer, self.context)
        return glassfish_levels.level(name, answer)
