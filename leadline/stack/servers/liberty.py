"""Open Liberty: a private WLP_USER_DIR, levels as variables in an included file that it reads again when told."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar
from xml.sax.saxutils import quoteattr

from leadline.host.textfile import write_private
from leadline.model.errors import NotInPlay
from leadline.model.knob import Level
from leadline.stack import places
from leadline.stack.base import Deployment, Feature, Queue, RemoteBean, RemoteClient, Resource, ServiceContext, Settings
from leadline.stack.options import LOOPBACK
from leadline.stack.provision import LIBERTY, Artefact
from leadline.stack.servers import knobs, liberty_levels
from leadline.stack.servers.common import Answer, JavaServer
from leadline.stack.servers.files import LogEvidence, template

# Open Liberty's messaging engine inside the server: queue, topic, file store, and the transaction log beside it.


FEATURES = ("messaging-3.0", "messagingServer-3.0", "messagingClient-3.0", "mdb-4.0")
_CONSUMERS = 5  # Liberty's default maxConcurrency
_REDELIVERY_MS = 1000  # between two deliveries of a message that failed
_LEVELS = {
    "best-effort-nonpersistent": "BestEffortNonPersistent",
    "express-nonpersistent": "ExpressNonPersistent",
    "reliable-nonpersistent": "ReliableNonPersistent",
    "reliable-persistent": "ReliablePersistent",
    "assured-persistent": "AssuredPersistent",
}
_PERSISTENT = ("reliable-persistent", "assured-persistent")
_DEFAULT = "reliable-persistent"  # of a connection factory, for messages that JMS calls persistent


_STORE, _SENDER, _QUEUE, _RECEIVER, _LOG = (
    "(service.factoryPid=com.ibm.ws.sib.fileStore)",
    "(service.factoryPid=com.ibm.ws.jca.jmsConnectionFactory)",
    "(service.factoryPid=com.ibm.ws.jca.jmsQueue)",
    "(service.factoryPid=com.ibm.ws.jca.jmsActivationSpec)",
    "(service.pid=com.ibm.ws.transaction)",
)
_OF_A_RESOURCE = "properties.0."  # how the resource adapter's own properties are named in a resolved configuration


def question(application: Deployment) -> dict[str, str]:
    """What the agent is asked: the store, the connection factory, the first queue and its receiver, the log."""
    if application.connection_factory is None or not application.queues:
        return {}
    queue = application.queues[0]
    questions = (
        f"(&{_STORE}(config.parentPID=com.ibm.ws.messaging.runtime))",
        f"(&{_SENDER}(id={application.connection_factory.name}))",
        f"(&{_QUEUE}(id={queue.jndi}))",
        f"(&{_RECEIVER}(id=*/{queue.receiver.bean}))",
        _LOG,
    )
    return {f"configuration.messaging{number}": filter_ for number, filter_ in enumerate(questions)}


def elements(context: ServiceContext, settings: Settings) -> Sequence[str]:
    """Elements of the overrides; none without a queue."""
    if not knobs.in_use(context):
        return []
    directories = knobs.directories(context, settings, "liberty")
    store, log = (quoteattr(str(directories[knob.name])) for knob in (knobs.STORE_PLACE, knobs.LOG_PLACE))
    wanted = str(settings.get(knobs.RELIABILITY.name, _DEFAULT))
    level, persistent = quoteattr(_LEVELS[wanted]), wanted in _PERSISTENT
    mapping = "persistentMapping" if persistent else "nonPersistentMapping"
    mode = 'deliveryMode="Persistent"' if persistent else 'deliveryMode="NonPersistent"'
    application = context.application
    factory = application.connection_factory
    assert factory is not None
    lines = [
        '  <wasJmsEndpoint enabled="false"/>',  # nobody connects from outside
        "  <messagingEngine>",
        f"    <fileStore path={store}/>",
        *(line for queue in application.queues for line in _queue(queue, level)),
        "  </messagingEngine>",
        f'  <jmsConnectionFactory id="{factory.name}" jndiName="{factory.jndi}">',
        f"    <properties.wasJms {mapping}={level}/>",
        "  </jmsConnectionFactory>",
        f"  <transaction transactionLogDirectory={log}/>",
    ]
    for destination in application.destinations:
        kind = type(destination).__name__
        lines.append(f'  <jms{kind} id="{destination.jndi}" jndiName="{destination.jndi}">')
        lines.append(f'    <properties.wasJms {kind.lower()}Name="{destination.name}" {mode}/></jms{kind}>')
    consumers = knobs.consumers(application, {knobs.CONSUMERS.name: _CONSUMERS, **settings})
    for destination in application.destinations:
        bean, kind = destination.receiver.bean, type(destination).__name__
        limit = f' maxConcurrency="{consumers[bean]}"' if bean in consumers else ""
        spec = f"{application.archive.stem}/{bean}"
        lines.append(f'  <jmsActivationSpec id="{spec}"><properties.wasJms destinationRef="{destination.jndi}"')
        lines.append(f'    destinationType="jakarta.jms.{kind}"{limit}/></jmsActivationSpec>')
    return lines


def _queue(queue: Queue, level: str) -> list[str]:
    if not queue.dead_letters:
        return [f'    <queue id="{queue.name}" forceReliability={level}/>']
    dead = Resource(queue.dead_letters).name
    return [
        f'    <queue id="{queue.name}" forceReliability={level} exceptionDestination="{dead}"',
        f'           redeliveryInterval="{_REDELIVERY_MS}"/>',
    ]


def level(name: str, answer: Mapping[str, Any], context: ServiceContext) -> Level:
    """A knob's level from the agent's answer. Raises KeyError, NotInPlay where no messages are sent."""

    def found(asked: str) -> Mapping[str, Any]:
        if not (rows := _rows(answer, asked)):
            raise KeyError(f"configuration {asked}")
        return rows[0]

    if not _rows(answer, _SENDER):
        raise NotInPlay(knobs.NONE)
    if name == knobs.RELIABILITY.name:
        persistent = found(_QUEUE)[f"{_OF_A_RESOURCE}deliveryMode"] == "Persistent"
        mapping = found(_SENDER)[f"{_OF_A_RESOURCE}{'persistentMapping' if persistent else 'nonPersistentMapping'}"]
        return next(level for level, word in _LEVELS.items() if word == mapping)
    if name == knobs.CONSUMERS.name:
        return int(found(_RECEIVER)[f"{_OF_A_RESOURCE}maxConcurrency"])
    if name == knobs.LOG_PLACE.name:
        return places.level_at(context.host, Path(found(_LOG)["transactionLogDirectory"]))
    path = found(_STORE)["path"]
    return places.level_at(context.host, Path(path)) if name == knobs.STORE_PLACE.name else "file"


def _rows(answer: Mapping[str, Any], asked: str) -> list[Mapping[str, Any]]:
    """What was found by the filter of which ``asked`` is a part."""
    return [row for filter_, rows in answer["configurations"].items() if asked in filter_ for row in rows]


SERVER = "leadline"
KEYSTORE = "tls.p12"
LEVELS = "levels.xml"
_UPDATED = re.compile(r"\bCWWKG001[78]I\b")  # the configuration was updated, or it did not change
# Jakarta EE 9.1; an application gets what it needs and no more.
_FEATURES = {
    Feature.SERVLETS: ("servlet-5.0", "jdbc-4.3", "jndi-1.0"),
    Feature.BEANS: ("enterpriseBeansLite-4.0",),
    Feature.PERSISTENCE: ("persistence-3.0",),
    Feature.REMOTE: ("enterpriseBeansRemote-4.0",),
    Feature.REMOTE_CLIENTS: ("enterpriseBeansRemote-4.0",),
    Feature.MESSAGING: FEATURES,
}
# Of an application whose needs are not known: its archive's kind decides.
PROFILES = {"web": "webProfile-10.0", "full": "jakartaee-10.0"}
# Errors of the application (CWWKZ), of features (CWWKF) and of the configuration (CWWKG); CWWKZ0012I: not started.
_NOT_STARTED = re.compile(r"\bCWWK[ZFG]\d{4}E\b|\bCWWKZ0012I\b")
_ROOT = 'contextRoot="${leadline.context.root}"'  # in the template
_ORB = "com.ibm.ws.org.apache.yoko.*.jar"
_ORB_OPTIONS = (
    "-Dorg.omg.CORBA.ORBClass=org.apache.yoko.orb.CORBA.ORB",
    "-Dorg.omg.CORBA.ORBSingletonClass=org.apache.yoko.orb.CORBA.ORBSingleton",
    "-Djavax.rmi.CORBA.UtilClass=org.apache.yoko.rmi.impl.UtilImpl",
    f"-Dyoko.orb.oa.endpoint=iiop --bind {LOOPBACK} --host {LOOPBACK}",  # it listens, too
    *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in ("java.io", "java.lang", "java.util")),
)
_LAUNCH_VARIABLES = ("JVM_ARGS", "WLP_DEBUG_ADDRESS", "LOG_FILE", "VARIABLE_SOURCE_DIRS", "SERVER_WORKING_DIR")


class Liberty(JavaServer):
    """Open Liberty with one application; ``server run`` replaces its shell by the JVM."""

    name: ClassVar[str] = "liberty"
    title: ClassVar[str] = liberty_levels.TITLE
    distribution: ClassVar[Artefact] = LIBERTY
    temporary: ClassVar[tuple[str, ...]] = (f"output/{SERVER}/workarea",)
    features: ClassVar[frozenset[Feature]] = frozenset(Feature)
    # Its ORB runs a call inside the server on a thread of the one executor, while the request's waits for it.
    second_thread: ClassVar[bool] = True

    def write_configuration(self, context: ServiceContext, settings: Settings) -> None:
        server = context.directory / "usr" / "servers" / SERVER
        server.mkdir(parents=True)
        text = template("liberty-server.xml", context.application).replace('"@levels@"', quoteattr(str(self._levels)))
        if application_element(context.application) != "webApplication":
            text = text.replace("<webApplication", "<enterpriseApplication").replace(_ROOT, "")
        (server / "server.xml").write_text(text)
        (server / "bootstrap.properties").write_text("command.port=-1\n")  # nobody sends it commands
        (server / "jvm.options").write_text("".join(f"{option}\n" for option in self.jvm_options(context)))
        self._tls: dict[str, str] = {}
        if settings.get(knobs.TLS.name) and context.certificate is not None:
            ports = {"leadline.http.plain": "-1", "leadline.https.port": str(context.http_port)}
            self._tls = ports | self.keystore(context)
        variables = self._variables(context, settings)
        write_private(self._levels, self._overrides(context, settings, variables))
        self.keep("server.xml", text)
        hidden = {**variables, **{name: "(not kept)" for name in variables if name.endswith(".password")}}
        self.keep(LEVELS, self._overrides(context, settings, hidden))

    def keystore(self, context: ServiceContext) -> dict[str, str]:
        """Write the certificate's; the variable of its password."""
        assert context.certificate is not None
        password = secrets.token_urlsafe(18)
        context.certificate.write_keystore(context.directory / KEYSTORE, password)
        return {liberty_levels.KEYSTORE_PASSWORD: password}

    @property
    def _levels(self) -> Path:
        """Where the server reads its levels, also after a change, and can put no other file in its place."""
        return self._exchange(self.context) / LEVELS

    def owns(self, context: ServiceContext) -> list[Path]:
        return [*super().owns(context), self._levels]

    def changes(self, levels: Settings, settings: Settings) -> Mapping[str, str]:
        del levels
        self._levels.write_text(self._overrides(self.context, settings, self._variables(self.context, settings)))
        return {"changed.0": str(self._levels)}

    def taken(self, answer: Answer, said: str) -> bool:
        del answer
        return bool(_UPDATED.search(said))

    def _variables(self, context: ServiceContext, settings: Settings) -> dict[str, str]:
        assert context.database is not None
        values = {
            "leadline.http.address": context.http_address,
            "leadline.http.port": str(context.http_port),
            "leadline.archive": str(context.application.archive),
            "leadline.context.root": context.application.context_root,
            "leadline.driver": str(self.driver.jar()),
            **self.database_properties(context),
            # without a word it sets one of its own, whatever the database is told
            "leadline.database.isolation": f"TRANSACTION_{context.database.isolation}",
            "leadline.database.driver": self.driver.connection_pool_data_source,
        }
        return values | liberty_levels.variables(settings) | self._tls

    def _overrides(self, context: ServiceContext, settings: Settings, variables: Mapping[str, str]) -> str:
        needed = context.application.features
        features = list(
            dict.fromkeys(feature for kind, names in _FEATURES.items() if kind in needed for feature in names)
        )
        if context.application.profile:
            features = [PROFILES[context.application.profile], "jdbc-4.3"]
        # A level that was set wins: observing must not undo a treatment.
        if settings.get(knobs.MONITORING.name, context.observe):
            features.append(liberty_levels.MONITOR)
        if settings.get(knobs.TLS.name):
            features.append(liberty_levels.TRANSPORT)
        lines = ["<server>", "  <featureManager>"]
        lines += [f"    <feature>{feature}</feature>" for feature in features]
        lines.append("  </featureManager>")
        lines += [
            f"  <variable name={quoteattr(name)} value={quoteattr(value)}/>"
            for name, value in sorted(variables.items())
        ]
        lines += _persistence(self.driver.persistence_properties)
        lines += liberty_levels.elements(settings, str(context.directory / "access.log"))
        if settings.get(knobs.TLS.name):
            lines.append(liberty_levels.keystore(str(context.directory / KEYSTORE)))
        lines += elements(context, settings)
        if needed & {Feature.REMOTE, Feature.REMOTE_CLIENTS}:
            # Calls inside the server need no port; a fixed one would be in the way of a second server.
            port = context.calls_port if Feature.REMOTE_CLIENTS in needed else -1
            lines.append(f'  <iiopEndpoint id="defaultIiopEndpoint" host="127.0.0.1" iiopPort="{port}"/>')
        return "\n".join([*lines, "</server>", ""])

    def remote_client(self, application: Deployment, bean: RemoteBean, http_port: int, calls_port: int) -> RemoteClient:
        """The ORB of its client container, without the container: it finds the bean at the naming service."""
        del http_port
        lib, interface = self.home / "wlp" / "lib", bean.interface.replace(".", "%5c.")
        return RemoteClient(
            tuple(sorted(lib.glob(_ORB))),
            {},
            f"corbaname::{LOOPBACK}:{calls_port}#ejb/global/{application.file_name}/{bean.bean}!{interface}",
            _ORB_OPTIONS,
        )

    def command(self, context: ServiceContext) -> tuple[list[str], dict[str, str]]:
        script = self.home / "wlp" / "bin" / "server"
        unset = [word for name in _LAUNCH_VARIABLES if name in os.environ for word in ("-u", name)]
        argv = ["env", *unset, "sh", str(script), "run", SERVER]
        environment = {
            "JAVA_HOME": str(self.java_home(context)),
            "WLP_USER_DIR": str(context.directory / "usr"),
            "WLP_OUTPUT_DIR": str(context.directory / "output"),
            "LOG_DIR": str(self.own_artefacts(context)),
            "PID_DIR": str(context.directory / "output"),
        }
        return argv, environment

    def working_directory(self, context: ServiceContext) -> Path:
        return context.directory / "output" / SERVER

    def failed_for_good(self, found: LogEvidence) -> bool:
        return super().failed_for_good(found) or any(_NOT_STARTED.search(line) for line in found.errors)

    def question(self) -> Mapping[str, str]:
        return {**liberty_levels.QUESTION, **question(self.context.application)}

    def level_of(self, name: str, answer: Answer) -> Level:
        if knobs.knows(name):
            return level(name, answer, self.context)
        return liberty_levels.level(name, answer)


def application_element(application: Deployment) -> str:
    """The element that deploys an archive of this kind."""
    return "enterpriseApplication" if application.archive.suffix.lower() == ".ear" else "webApplication"


def root_of(application: Deployment) -> str:
    """Its attribute for the context root; an EAR says its own."""
    if application_element(application) == "enterpriseApplication":
        return ""
    return f" contextRoot={quoteattr(application.context_root)}"


def _persistence(properties: Mapping[str, str]) -> list[str]:
    """Properties of every persistence unit."""
    if not properties:
        return []
    named = [f"      <property name={quoteattr(name)} value={quoteattr(value)}/>" for name, value in properties.items()]
    return ["  <jpa>", "    <defaultProperties>", *named, "    </defaultProperties>", "  </jpa>"]
