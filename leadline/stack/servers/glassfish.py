"""Eclipse GlassFish: a private domain, levels as attributes of its domain.xml."""

from __future__ import annotations

import base64
import hashlib
import re
import secrets
import shutil
import xml.etree.ElementTree as ElementTree
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import ClassVar

from leadline.host.textfile import write_private
from leadline.model.knob import Level
from leadline.stack.base import DataSource, Deployment, Feature, RemoteBean, RemoteClient, ServiceContext, Settings
from leadline.stack.options import LOOPBACK
from leadline.stack.provision import GLASSFISH, Artefact
from leadline.stack.servers import glassfish_levels, glassfish_messaging, knobs
from leadline.stack.servers.common import Answer, JavaServer
from leadline.stack.servers.files import LogEvidence, template
from leadline.stack.servers.glassfish_levels import added, only

_LOOPBACK = "127.0.0.1"
_LISTENER = "http-listener-1"
KEY = "s1as"  # the name under which its listeners look for a key
_DEFAULT = "jdbc/__default"  # shares the pool: a persistence unit may name none


def domain_text(
    shipped: str,
    settings: Settings,
    context: ServiceContext,
    broker: int,
    log: Path | None,
    database: Mapping[str, str],
) -> str:
    """The domain with one pool, one port for HTTP as ``context`` has it, and its other ports free ones of the loopback.

    ``broker`` is a free port for the message broker, which starts with the archive's message-driven beans.
    ``log``: the directory of the log of transactions, None for its own.
    ``database``: ``leadline.database.url`` and so on. Raises UsageError for levels that contradict.
    """
    root = ElementTree.fromstring(shipped)
    config = only(root, "configs/config[@name='server-config']")
    _pool(root, database, context.application.data_source)
    _ports(config, context)
    _broker(config, broker, knobs.in_use(context))
    if settings.get(knobs.TLS.name):
        _tls(config)
    # Two beans with one remote interface would be bound under one name.
    _property(added(config, "ejb-container"), "disable-nonportable-jndi-names", "true")
    added(added(config, "monitoring-service"), "module-monitoring-levels")
    glassfish_levels.apply(root, settings, context.application.data_source.name)
    glassfish_messaging.apply(root, context, settings, log, database)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True)


def administrator() -> str:
    """The realm of administration: a user whose password nobody knows, as a salted hash (SHA-256) of random bytes. The
    shipped one has an empty password.
    """
    password, salt = secrets.token_bytes(32), secrets.token_bytes(8)
    hashed = base64.b64encode(hashlib.sha256(password + salt).digest() + salt).decode()
    return f"admin;{{SSHA256}}{hashed};asadmin\n"


def _pool(root: ElementTree.Element, database: Mapping[str, str], source: DataSource) -> None:
    resources, server = only(root, "resources"), only(root, "servers/server")
    for resource in list(resources):
        if resource.get("jndi-name") == _DEFAULT or resource.get("name") == "DerbyPool":
            resources.remove(resource)
    for name in (source.jndi, _DEFAULT):
        names = {"pool-name": source.name, "jndi-name": name}
        ElementTree.SubElement(resources, "jdbc-resource", names)
    ElementTree.SubElement(server, "resource-ref", {"ref": source.jndi})
    attributes = {
        "name": source.name,
        "res-type": "java.sql.Driver",
        "driver-classname": database["leadline.database.driver"],
    }
    pool = ElementTree.SubElement(resources, "jdbc-connection-pool", attributes)
    for name in ("URL", "user", "password"):
        _property(pool, name, database[f"leadline.database.{name.lower()}"])


def written_over(own: str, settings: Settings, context: ServiceContext, pool: str, broker: int) -> str:
    """A domain of the user's with the levels over it, ports as above, and without the application as it was deployed
    there; ``pool``: the one that has knobs, empty where there is none. Raises UsageError for levels that contradict.
    """
    root = ElementTree.fromstring(own)
    config = only(root, "configs/config[@name='server-config']")
    _ports(config, context)
    if config.find("jms-service") is None:  # as GlassFish adds it, at a fixed port of all addresses
        element = ElementTree.SubElement(config, "jms-service", {"type": "EMBEDDED", "default-jms-host": "broker"})
        ElementTree.SubElement(element, "jms-host", {"name": "broker", "lazy-init": "true"})
    for service in config.findall("jms-service"):
        if service.get("type", "EMBEDDED") != "REMOTE":  # it starts a broker, where the application asks for it
            service.set("start-args", f"{service.get('start-args', '')} -Dimq.hostname={_LOOPBACK}".strip())
            for host in service.findall("jms-host"):
                host.set("host", _LOOPBACK)
                host.set("port", str(broker))
    application = context.application
    for deployed in root.findall("applications/application"):
        name = deployed.get("name")
        if name == application.file_name or deployed.get("context-root") == application.context_root:
            only(root, "applications").remove(deployed)
            for parent in root.iter("server"):
                for reference in parent.findall(f"application-ref[@ref='{name}']"):
                    parent.remove(reference)
    added(config, "ejb-container")
    added(added(config, "monitoring-service"), "module-monitoring-levels")
    glassfish_levels.apply_over(root, settings, pool)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True)


def _ports(config: ElementTree.Element, context: ServiceContext) -> None:
    calls = context.calls_port if Feature.REMOTE_CLIENTS in context.application.features else 0
    for parent in list(config.iter()):
        for child in list(parent):
            if child.get("name") == "http-listener-2":  # TLS
                parent.remove(child)
    only(config, "http-service/virtual-server[@id='server']").set("network-listeners", _LISTENER)
    for listener in [*config.iter("network-listener"), *config.iter("iiop-listener")]:
        ours = listener.get("name") == _LISTENER
        listener.set("address", context.http_address if ours else _LOOPBACK)
        listener.set("port", str(context.http_port if ours else calls if listener.tag == "iiop-listener" else 0))
    for found in config.findall("iiop-service/iiop-listener"):
        if found.find("ssl") is not None:  # of calls from other hosts, which there are none of
            only(config, "iiop-service").remove(found)
    for connector in config.iter("jmx-connector"):
        connector.set("enabled", "false")


def _tls(config: ElementTree.Element) -> None:
    protocol = only(config, f"network-config/protocols/protocol[@name='{_LISTENER}']")
    protocol.set("security-enabled", "true")
    secured = {"classname": "com.sun.enterprise.security.ssl.GlassfishSSLImpl", "cert-nickname": KEY}
    ElementTree.SubElement(protocol, "ssl", {**secured, "ssl3-enabled": "false"})


def _broker(config: ElementTree.Element, port: int, used: bool) -> None:
    """Without a queue the server has none: it would start one, with shipped passwords, for whoever connects."""
    for found in config.findall("jms-service"):
        config.remove(found)
    host = {"name": "broker", "host": _LOOPBACK, "port": str(port), "lazy-init": "true"}
    service = {"type": "EMBEDDED" if used else "REMOTE", "default-jms-host": "broker"}
    service["start-args"] = f"-Dimq.hostname={_LOOPBACK}"
    ElementTree.SubElement(ElementTree.SubElement(config, "jms-service", service), "jms-host", host)


def _property(parent: ElementTree.Element, name: str, value: str) -> None:
    ElementTree.SubElement(parent, "property", {"name": name, "value": value})


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
        full, unlimited = (domain_text(shipped, levels, context, broker, log, each) for each in (properties, hidden))
        glassfish_messaging.write_users(context, properties)
        written = domain / "config" / "domain.xml"
        write_private(written, full)
        self.keep("domain.xml", unlimited)
        self.furnish(context)
        if settings.get(knobs.TLS.name) and context.certificate is not None:
            store = domain / "config" / "keystore.jks"
            store.unlink(missing_ok=True)
            context.certificate.write_keystore(store, _STORE_PASSWORD, KEY)

    @staticmethod
    def furnish(context: ServiceContext) -> None:
        """What every domain gets: an administrator, its log, the archive."""
        domain, application = context.directory / "domain", context.application
        write_private(domain / "config" / "admin-keyfile", administrator())
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

    def failed_for_good(self, found: LogEvidence) -> bool:
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
        if knobs.knows(name):
            return glassfish_messaging.level(name, answer, self.context)
        return glassfish_levels.level(name, answer)
