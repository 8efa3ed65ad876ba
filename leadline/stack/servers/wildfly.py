"""WildFly: a private server base directory, levels as properties that the prepared configuration's expressions read."""

from __future__ import annotations

import hashlib
import re
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from leadline.host import here
from leadline.host.java import java_environment
from leadline.host.paths import cache_dir, exclusive
from leadline.host.textfile import write_private
from leadline.model.errors import LeadlineError, NotInPlay, UsageError
from leadline.model.knob import Level
from leadline.model.places import DISK
from leadline.stack import places
from leadline.stack.base import (
    Deployment,
    Feature,
    Progress,
    RemoteBean,
    RemoteClient,
    Resource,
    ServiceContext,
    Settings,
)
from leadline.stack.options import LOOPBACK
from leadline.stack.provision import WILDFLY, Artefact
from leadline.stack.servers import knobs, wildfly_levels
from leadline.stack.servers.common import Answer, JavaServer
from leadline.stack.servers.files import LogEvidence, properties_text, template
from leadline.stack.servers.wildfly_levels import attributes_of

_TIMEOUT = 300.0


def prepared(
    home: Path,
    java: Path,
    profile: str,
    operations: Sequence[str],
    progress: Progress,
    source: Path | None = None,
) -> Path:
    """A configuration directory with ``profile`` of ``source`` (a configuration directory of the user's; the
    distribution's if None) after ``operations``.

    Made by an embedded server in admin-only mode (WildFly Admin Guide, "Offline mode"), all operations or none; kept in
    the cache under the hash of all that decides it. ``java`` is the home of a JDK. Raises LeadlineError with WildFly's
    own words.
    """
    lines = [line for line in operations if line.strip() and not line.startswith("#")]
    text = "\n".join([f"embed-server --server-config={profile} --std-out=discard", "batch", *lines, "run-batch"])
    script = f"{text}\nstop-embedded-server\n"
    hashed = hashlib.sha256(f"{home.parent.name}\n{script}".encode())
    for path in sorted(source.iterdir()) if source is not None else ():
        hashed.update(path.name.encode() + path.read_bytes() if path.is_file() else b"")
    digest = hashed.hexdigest()[:16]
    place = cache_dir() / "dist"
    target = place / f"{home.name}-configuration-{digest}"
    if not target.exists():
        with exclusive(
            place / f".{digest}.lock", lambda: progress("waiting for another process that prepares WildFly")
        ):
            if not target.exists():
                progress("preparing WildFly's configuration")
                _prepare(home, java, profile, script, target, source)
    return target


def _prepare(home: Path, java: Path, profile: str, script: str, target: Path, own: Path | None) -> None:
    work = Path(tempfile.mkdtemp(prefix=f".{target.name}.", suffix=".tmp", dir=target.parent))
    try:
        source, configuration = own or home / "standalone" / "configuration", work / "base" / "configuration"
        configuration.mkdir(parents=True)
        names = {profile, *(path.name for path in source.glob("*.properties"))}
        for name in names if own is None else [path.name for path in own.iterdir() if path.is_file()]:
            shutil.copyfile(source / name, configuration / name)
        (work / "script.cli").write_text(script)
        output = _run(home, java, work)
        written = configuration / profile
        if output or written.read_bytes() == (source / profile).read_bytes():
            raise LeadlineError(
                f"WildFly refused the configuration that leadline wants:\n{output or '(it said nothing)'}"
            )
        for unused in ("standalone_xml_history", *(["logging.properties"] if own is None else [])):
            path = configuration / unused
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        (work / "script.cli").rename(configuration / "script.cli")
        for path in configuration.iterdir():
            path.chmod(0o644)
        configuration.chmod(0o755)
        configuration.rename(target)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _run(home: Path, java: Path, work: Path) -> str:
    """Run the script; empty when every operation was done, else the last words."""
    command = [
        str(java / "bin" / "java"),
        f"-Djboss.cli.config={home / 'bin' / 'jboss-cli.xml'}",
        f"-Djboss.server.base.dir={work / 'base'}",
        f"-Dlogging.configuration={(home / 'bin' / 'jboss-cli-logging.properties').as_uri()}",
        "-jar",
        str(home / "jboss-modules.jar"),
        "-mp",
        str(home / "modules"),
        "org.jboss.as.cli",
        f"--file={work / 'script.cli'}",
    ]
    environment = java_environment(JBOSS_HOME=str(home))
    try:
        done = here.alone(command, [home, java], [work], home=work, cwd=work, env=environment, timeout=_TIMEOUT)
    except TimeoutError:
        return f"no end after {_TIMEOUT:g} s"
    if done.returncode == 0:
        return ""
    return "\n".join(f"  {line}" for line in (done.stdout + done.stderr).strip().splitlines()[-20:])


PROFILE = "standalone-full.xml"  # the default profile with messaging (and an ORB, which is taken out)
_DEFAULT = "assured-persistent"  # durable messages, journal synchronised before a sender goes on
_SERVER = "/subsystem=messaging-activemq/server=default"
_RESOURCE = "subsystem=messaging-activemq,server=default"
_PATHS = ("bindings", "journal", "large-messages", "paging")
_STORE_DATABASE = "postgresql"
_REDELIVERIES, _REDELIVERY_MS = 5, 1000


_BEANS = (
    (_RESOURCE, "persistenceEnabled,journalDatasource,journalSyncTransactional"),
    (f"{_RESOURCE},jms-queue=*", "durable"),  # the first of the application
    (f"{_RESOURCE},path=journal-directory", "path"),
    ("subsystem=transactions", "objectStorePath"),
    ("subsystem=ejb3,strict-max-bean-instance-pool=mdb-strict-max-pool", "derivedSize"),
)


def question(application: Deployment) -> dict[str, str]:
    """What the agent is asked: a resource each; nothing of an application without a queue."""
    queue = application.queues[0].name if application.queues else ""
    return {
        f"bean.messaging{number}": f"jboss.as:{bean.replace('*', queue)}|{attributes}"
        for number, (bean, attributes) in enumerate(_BEANS)
        if queue
    }


def _destinations(application: Deployment) -> list[str]:
    lines = []
    for queue in application.queues:
        durable = 'durable="${leadline.jms.durable:true}"'
        lines.append(f'{_SERVER}/jms-queue={queue.name}:add(entries=["java:/{queue.jndi}"],{durable})')
    for topic in application.topics:
        lines.append(f'{_SERVER}/jms-topic={topic.name}:add(entries=["java:/{topic.jndi}"])')
    for queue in application.queues:
        if queue.dead_letters:
            dead = f"dead-letter-address=jms.queue.{Resource(queue.dead_letters).name}"
            again = f"max-delivery-attempts={_REDELIVERIES + 1},redelivery-delay={_REDELIVERY_MS}"
            lines.append(f"{_SERVER}/address-setting=jms.queue.{queue.name}:add({dead},{again})")
    return lines


def messaging_operations(context: ServiceContext, settings: Settings) -> Sequence[str]:
    """Operations of the command line beside the template's; none without a queue. Raises UsageError."""
    if not knobs.in_use(context):
        return []
    lines = [
        "/subsystem=ejb3/service=iiop:remove",
        "/subsystem=iiop-openjdk:remove",
        *(f"/socket-binding-group=standard-sockets/socket-binding={name}:remove" for name in ("iiop", "iiop-ssl")),
        *_destinations(context.application),
        f'{_SERVER}:write-attribute(name=persistence-enabled,value="${{leadline.jms.persistence:true}}")',
    ]
    for when in ("transactional", "non-transactional"):
        value = '"${leadline.jms.sync:true}"'
        lines.append(f"{_SERVER}:write-attribute(name=journal-sync-{when},value={value})")
    if settings.get(knobs.STORE_PLACE.name, DISK) != DISK:
        for name in _PATHS:
            where = f"{_SERVER}/path={name}-directory"
            lines.append(f'{where}:write-attribute(name=path,value="${{leadline.jms.place}}/{name}")')
    if settings.get(knobs.LOG_PLACE.name, DISK) != DISK:
        lines.append('/subsystem=transactions:write-attribute(name=object-store-path,value="${leadline.tx.place}")')
        lines.append("/subsystem=transactions:undefine-attribute(name=object-store-relative-to)")
    if knobs.CONSUMERS.name in settings:
        pool = "/subsystem=ejb3/strict-max-bean-instance-pool=mdb-strict-max-pool"
        lines.append(f"{pool}:undefine-attribute(name=derive-size)")
        lines.append(f'{pool}:write-attribute(name=max-pool-size,value="${{leadline.jms.consumers}}")')
    if settings.get(knobs.STORE.name) == "database":
        if context.database is None or context.database.subprotocol != _STORE_DATABASE:
            raise UsageError(f"{knobs.STORE.name} database: WildFly's message store is set up for postgres only")
        lines.append(
            "/subsystem=datasources/data-source=messages:add(jndi-name=java:/jdbc/messages,driver-name=leadline,jta=false,"
            'connection-url="${leadline.database.url}",user-name="${leadline.database.user}",'
            'password="${leadline.database.password}",max-pool-size=20)'
        )
        lines.append(f"{_SERVER}:write-attribute(name=journal-datasource,value=messages)")
        lines.append(f"{_SERVER}:write-attribute(name=journal-database,value={_STORE_DATABASE})")
    return lines


def messaging_properties(context: ServiceContext, settings: Settings) -> dict[str, str]:
    """Properties for the levels that are set; none without a queue."""
    if not knobs.in_use(context):
        return {}
    properties_ = {}
    wanted = settings.get(knobs.RELIABILITY.name, _DEFAULT)
    if wanted == "express-nonpersistent":
        properties_["leadline.jms.durable"] = "false"
    if wanted == "reliable-persistent":
        properties_["leadline.jms.sync"] = "false"
    if settings.get(knobs.STORE.name) == "memory":
        properties_["leadline.jms.persistence"] = "false"
    if knobs.CONSUMERS.name in settings:
        properties_["leadline.jms.consumers"] = str(settings[knobs.CONSUMERS.name])
    if knobs.in_memory(settings):
        directories = knobs.directories(context, settings, "wildfly")
        properties_["leadline.jms.place"] = str(directories[knobs.STORE_PLACE.name])
        properties_["leadline.tx.place"] = str(directories[knobs.LOG_PLACE.name])
    return properties_


def level(name: str, answer: Mapping[str, Any], context: ServiceContext) -> Level:
    """A knob's level from the agent's answer. Raises KeyError, NotInPlay where no messages are sent."""
    server, queue, journal, log, instances = (attributes_of(answer, bean) for bean, _ in _BEANS)
    if server is None or queue is None:
        raise NotInPlay(knobs.NONE)
    if name == knobs.RELIABILITY.name:
        if not queue["durable"]:
            return "express-nonpersistent"
        return _DEFAULT if server["journalSyncTransactional"] else "reliable-persistent"
    if name == knobs.STORE.name:
        if not server["persistenceEnabled"]:
            return "memory"
        return "database" if server["journalDatasource"] else "file"
    if name == knobs.CONSUMERS.name and instances is not None:
        return int(instances["derivedSize"])
    path = journal["path"] if name == knobs.STORE_PLACE.name and journal else None
    if name == knobs.LOG_PLACE.name and log:
        path = log["objectStorePath"]
    return places.level_at(context.host, context.directory / "data" / str(path or "activemq"))


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
        return PROFILE if Feature.MESSAGING in application.features else _PROFILE

    def prepare(self, deployment: Deployment, progress: Progress) -> None:
        self._prepared(deployment, [], self.find_java(None), progress)

    def _prepared(self, application: Deployment, operations: Sequence[str], java: Path, progress: Progress) -> Path:
        called = [_ANYBODY] * (Feature.REMOTE_CLIENTS in application.features)
        every = [*template("wildfly.cli", application).splitlines(), *called, *operations]
        return prepared(self.cached / self.unpacked.name, java, self.profile(application), every, progress)

    @property
    def unpacked(self) -> Path:
        """JBOSS_HOME."""
        return self.home / f"wildfly-{self.version}"

    def write_configuration(self, context: ServiceContext, settings: Settings) -> None:
        base = context.directory
        configuration = base / "configuration"
        operations = [*wildfly_levels.operations(settings), *messaging_operations(context, settings)]
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
        values |= messaging_properties(context, settings) | wildfly_levels.tls_properties(context, settings)
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
        return {**wildfly_levels.question(application), **question(application)}

    def level_of(self, name: str, answer: Answer) -> Level:
        if knobs.knows(name):
            return level(name, answer, self.context)
        return wildfly_levels.level(name, answer)
