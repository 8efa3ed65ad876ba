"""Apache TomEE Plume: Tomcat with session beans, entities and messages; configured as Tomcat, with a tomee.xml."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import quote_plus
from xml.sax.saxutils import escape

from leadline.model.errors import NotInPlay
from leadline.model.knob import Level
from leadline.stack import places
from leadline.stack.base import Deployment, Feature, Queue, RemoteBean, RemoteClient, ServiceContext, Settings, Topic
from leadline.stack.options import LOOPBACK
from leadline.stack.provision import TOMEE, Artefact
from leadline.stack.servers import knobs, tomcat
from leadline.stack.servers.common import Answer
from leadline.stack.servers.files import beans, properties_text, template
from leadline.stack.servers.tomcat import Tomcat

_CONNECTIONS = 100  # the pool's default maximum
_IDLE = 10  # the pool's default minimum; it opens as many at once, and fails if it may hold fewer
_OF_TOMCAT = ("server.threads.", "server.http.", knobs.TLS.name, knobs.ACCESS_LOG.name)

_WAYS = knobs.ways_of("tomee")  # lines of the data source; ${} are the properties that Tomcat's part writes
_BEANS = "leadline.beans.max"
_STATEMENTS = "StatementCache(prepared=true,callable=false,max=${leadline.statements.max})"
_CONTAINER = """\
  <Container id="Default Stateless Container" type="STATELESS">
    MaxSize = ${leadline.beans.max}
  </Container>
"""
_MARK = "    <!-- levels -->\n"


def properties(settings: Settings) -> dict[str, str]:
    """Properties that the templates read, for the levels that are set. Raises UsageError for contradictions."""
    values = tomcat.properties(settings)
    if statements := int(settings.get(knobs.STATEMENT_CACHE.name, 0)):
        values["leadline.statements.max"] = str(statements * _most(settings))
    if knobs.BEAN_INSTANCES.name in settings:
        values[_BEANS] = str(settings[knobs.BEAN_INSTANCES.name])
    return values


def _most(settings: Settings) -> int:
    return int(settings.get(knobs.MAX_CONNECTIONS.name, _CONNECTIONS))


def lines(settings: Settings) -> list[str]:
    """Lines of the data source that the levels need."""
    lines_ = [line for name, way in _WAYS.items() if name in settings for line in way.lines]
    if knobs.MIN_CONNECTIONS.name not in settings and _most(settings) < _IDLE:
        lines_ += ["MinIdle = ${leadline.pool.max}", "InitialSize = ${leadline.pool.max}"]
    if settings.get(knobs.STATEMENT_CACHE.name):
        lines_.append(f"JdbcInterceptors = {_STATEMENTS}")
    return lines_


def resources(text: str, settings: Settings) -> str:
    """The template of tomee.xml with the lines that the levels need."""
    assert _MARK in text
    written = text.replace(_MARK, "".join(f"    {line}\n" for line in lines(settings)))
    container = _CONTAINER if knobs.BEAN_INSTANCES.name in settings else ""
    return written.replace("</tomee>", f"{container}</tomee>")


_POOLS = "ObjectType=datasources"


def question(application: Deployment) -> dict[str, str]:
    """What the agent is asked: of the pools only the one that all work goes through."""
    source = application.data_source.jndi.replace("/", "_")
    attributes = ",".join([*(way.attribute for way in _WAYS.values()), "JdbcInterceptors"])
    return {
        **tomcat.QUESTION,
        "bean.pool": f"openejb.management:DataSource={source},{_POOLS}|{attributes}",
        "bean.stateless": "openejb.management:j2eeType=Pool,*|MaxSize",
    }


def level(name: str, answer: Mapping[str, Any]) -> Level:
    """A knob's level from the agent's answer. Raises LookupError, KeyError."""
    if name.startswith(_OF_TOMCAT):
        return tomcat.level(name, answer)
    if name == knobs.BEAN_INSTANCES.name:
        return int(beans(answer, "j2eeType=Pool")[0]["MaxSize"])
    pool = beans(answer, _POOLS)[0]
    if name == knobs.STATEMENT_CACHE.name:
        match = re.search(r"StatementCache\(.*\bmax=(\d+)", pool["JdbcInterceptors"] or "")
        return int(match[1]) // int(pool["MaxActive"]) if match else 0
    if name not in _WAYS:
        raise LookupError(f"TomEE does not tell the level of {name}")
    value = pool[_WAYS[name].attribute]
    return _WAYS[name].level(name, None if name == knobs.MAX_AGE.name and not value else value, "TomEE")


_REDELIVERIES, _REDELIVERY_MS = 5, 1000
_PERSISTENT, _IN_MEMORY = "reliable-persistent", "express-nonpersistent"
_DEFAULT = _PERSISTENT

# Ends in the dead letters of ActiveMQ's default policy, which has this name.
_DEAD = "ActiveMQ.DLQ"
_BROKER = re.compile(r"org\.apache\.activemq:brokerName=[^,]+,type=Broker")  # keys sorted, as answers have them
_STORE, _RECEIVER = "service=PersistenceAdapter", "MessageDrivenBean="


def messaging_question(application: Deployment) -> dict[str, str]:
    """What the agent is asked: the broker, its store, how many of the receivers that work in parallel."""
    broker = f"org.apache.activemq:brokerName={application.name},type=Broker"
    questions = {"bean.broker": f"{broker}|Persistent", "bean.store": f"{broker},{_STORE},*|Name"}
    for destination in application.destinations:
        if destination.receiver.parallel:
            bean = f"openejb.management:{_RECEIVER}{destination.receiver.bean},j2eeType=Instances,*"
            questions.setdefault("bean.receiver", f"{bean}|InstanceLimit")
    return questions if application.connection_factory else {}


def messaging_resources(context: ServiceContext, settings: Settings) -> str:
    """Elements of tomee.xml: broker, container, connections and destinations; none without a queue."""
    if not knobs.in_use(context):
        return ""
    application = context.application
    assert application.connection_factory is not None
    adapter = {"ResourceAdapter": f"{application.name}Broker"}
    elements = [
        _element("Resource", f"{application.name}Broker", "ActiveMQResourceAdapter", {
            "BrokerXmlConfig": _broker(context, settings),
            "ServerUrl": f"vm://{application.name}?create=false&waitForStart=20000",
            "DataSource": "",
        }),
        _element("Container", f"{application.name}Messages", "MESSAGE", adapter),
        _element("Resource", application.connection_factory.jndi, "jakarta.jms.ConnectionFactory", adapter),
    ]  # fmt: skip
    for destination in application.destinations:
        kind = f"jakarta.jms.{type(destination).__name__}"
        elements.append(
            _element("Resource", destination.jndi, kind, {"destination": _destination(application, destination)})
        )
    return "".join(elements)


def _destination(application: Deployment, each: Queue | Topic) -> str:
    return _DEAD if application.takes_dead_letters(each) else each.name


def _element(tag: str, name: str, kind: str, properties: Mapping[str, str]) -> str:
    lines = "".join(f"    {key} = {escape(value)}\n" for key, value in properties.items())
    return f'  <{tag} id="{name}" type="{kind}">\n{lines}  </{tag}>\n'


def _broker(context: ServiceContext, settings: Settings) -> str:
    """The broker's URI (ActiveMQ, "Broker Configuration URI")."""
    if settings.get(knobs.RELIABILITY.name, _DEFAULT) == _IN_MEMORY:
        return f"broker:()/{context.application.name}?persistent=false"
    store = knobs.directories(context, settings, "tomee")[knobs.STORE_PLACE.name]
    return (
        f"broker:()/{context.application.name}?persistent=true&usekahadb=true&kahadb.directory={quote_plus(str(store))}"
    )


def messaging_properties(context: ServiceContext, settings: Settings) -> dict[str, str]:
    """Properties of the system for the receivers; none without a queue."""
    if not knobs.in_use(context):
        return {}
    application = context.application
    properties_ = {
        f"{destination.receiver.bean}.activation.destination": _destination(application, destination)
        for destination in application.destinations
    }
    for name, level_ in (
        ("maximumRedeliveries", _REDELIVERIES),
        ("initialRedeliveryDelay", _REDELIVERY_MS),
    ):
        properties_[f"mdb.activation.{name}"] = str(level_)
    for bean, most in knobs.consumers(application, settings).items():
        properties_ |= {f"{bean}.activation.maxSessions": str(most), f"{bean}.InstanceLimit": str(most)}
    return properties_


def messaging_level(name: str, answer: Mapping[str, Any], context: ServiceContext) -> Level:
    """A knob's level from the agent's answer. Raises KeyError, NotInPlay where no messages are sent."""
    broker = next((bean for bean in answer["beans"] if _BROKER.fullmatch(bean)), None)
    if broker is None:
        raise NotInPlay(knobs.NONE)
    if name == knobs.CONSUMERS.name:
        return int(beans(answer, _RECEIVER)[0]["InstanceLimit"])
    persistent = answer["beans"][broker]["Persistent"]
    if name == knobs.RELIABILITY.name:
        return _PERSISTENT if persistent else _IN_MEMORY
    if not persistent:
        raise NotInPlay(f"no store, as {knobs.RELIABILITY.name} is {_IN_MEMORY}")
    store = str(beans(answer, _STORE)[0]["Name"])  # KahaDBPersistenceAdapter[directory,Index:directory]
    if name == knobs.STORE.name:
        return "file" if store.startswith("KahaDB") else store
    return places.level_at(context.host, Path(store.partition("[")[2].removesuffix("]").partition(",Index:")[0]))


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
        tomee_xml = resources(template("tomee.xml", context.application), settings)
        tomee_xml = tomee_xml.replace("</tomee>", f"{messaging_resources(context, settings)}</tomee>")
        conf = context.directory / "conf"
        (conf / "tomee.xml").write_text(tomee_xml)
        units = context.application.persistence_units
        properties_ = self.driver.persistence_properties.items()
        properties = {f"{unit}.{name}": value for unit in units for name, value in properties_}
        properties |= messaging_properties(context, settings)
        if Feature.REMOTE_CLIENTS in context.application.features:
            properties["tomee.remote.support"] = "true"
        fixed = template("tomee-system.properties") + "".join(f"{unit}.{_ONE_POOL}\n" for unit in units)
        (conf / "system.properties").write_text(fixed + properties_text(properties))
        self.keep("tomee.xml", tomee_xml)

    def level_properties(self, settings: Settings) -> dict[str, str]:
        return properties(settings)

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
        return {**question(application), **messaging_question(application)}

    def level_of(self, name: str, answer: Answer) -> Level:
        if knobs.knows(name):
            return messaging_level(name, answer, self.context)
        return level(name, answer)
