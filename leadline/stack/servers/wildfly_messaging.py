"""WildFly's messaging (ActiveMQ Artemis in the server): queue, topic, journal, and the transaction log beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from leadline.model.errors import NotInPlay, UsageError
from leadline.model.knob import Level
from leadline.model.places import DISK
from leadline.stack import places
from leadline.stack.base import ServiceContext, Settings
from leadline.stack.deployment import Deployment, Resource
from leadline.stack.servers import messaging
from leadline.stack.servers.wildfly_levels import attributes_of

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


def operations(context: ServiceContext, settings: Settings) -> Sequence[str]:
    """Operations of the command line beside the template's; none without a queue. Raises UsageError."""
    if not messaging.in_use(context):
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
    if settings.get(messaging.STORE_PLACE.name, DISK) != DISK:
        for name in _PATHS:
            where = f"{_SERVER}/path={name}-directory"
            lines.append(f'{where}:write-attribute(name=path,value="${{leadline.jms.place}}/{name}")')
    if settings.get(messaging.LOG_PLACE.name, DISK) != DISK:
        lines.append('/subsystem=transactions:write-attribute(name=object-store-path,value="${leadline.tx.place}")')
        lines.append("/subsystem=transactions:undefine-attribute(name=object-store-relative-to)")
    if messaging.CONSUMERS.name in settings:
        pool = "/subsystem=ejb3/strict-max-bean-instance-pool=mdb-strict-max-pool"
        lines.append(f"{pool}:undefine-attribute(name=derive-size)")
        lines.append(f'{pool}:write-attribute(name=max-pool-size,value="${{leadline.jms.consumers}}")')
    if settings.get(messaging.STORE.name) == "database":
        if context.database is None or context.database.subprotocol != _STORE_DATABASE:
            raise UsageError(f"{messaging.STORE.name} database: WildFly's message store is set up for postgres only")
        lines.append(
            "/subsystem=datasources/data-source=messages:add(jndi-name=java:/jdbc/messages,driver-name=leadline,jta=false,"
            'connection-url="${leadline.database.url}",user-name="${leadline.database.user}",'
            'password="${leadline.database.password}",max-pool-size=20)'
        )
        lines.append(f"{_SERVER}:write-attribute(name=journal-datasource,value=messages)")
        lines.append(f"{_SERVER}:write-attribute(name=journal-database,value={_STORE_DATABASE})")
    return lines


def properties(context: ServiceContext, settings: Settings) -> dict[str, str]:
    """Properties for the levels that are set; none without a queue."""
    if not messaging.in_use(context):
        return {}
    properties_ = {}
    wanted = settings.get(messaging.RELIABILITY.name, _DEFAULT)
    if wanted == "express-nonpersistent":
        properties_["leadline.jms.durable"] = "false"
    if wanted == "reliable-persistent":
        properties_["leadline.jms.sync"] = "false"
    if settings.get(messaging.STORE.name) == "memory":
        properties_["leadline.jms.persistence"] = "false"
    if messaging.CONSUMERS.name in settings:
        properties_["leadline.jms.consumers"] = str(settings[messaging.CONSUMERS.name])
    if messaging.in_memory(settings):
        directories = messaging.directories(context, settings, "wildfly")
        properties_["leadline.jms.place"] = str(directories[messaging.STORE_PLACE.name])
        properties_["leadline.tx.place"] = str(directories[messaging.LOG_PLACE.name])
    return properties_


def level(name: str, answer: Mapping[str, Any], context: ServiceContext) -> Level:
    """A knob's level from the agent's answer. Raises KeyError, NotInPlay where no messages are sent."""
    server, queue, journal, log, instances = (attributes_of(answer, bean) for bean, _ in _BEANS)
    if server is None or queue is None:
        raise NotInPlay(messaging.NONE)
    if name == messaging.RELIABILITY.name:
        if not queue["durable"]:
            return "express-nonpersistent"
        return _DEFAULT if server["journalSyncTransactional"] else "reliable-persistent"
    if name == messaging.STORE.name:
        if not server["persistenceEnabled"]:
            return "memory"
        return "database" if server["journalDatasource"] else "file"
    if name == messaging.CONSUMERS.name and instances is not None:
        return int(instances["derivedSize"])
    path = journal["path"] if name == messaging.STORE_PLACE.name and journal else None
    if name == messaging.LOG_PLACE.name and log:
        path = log["objectStorePath"]
    return places.level_at(context.host, context.directory / "data" / str(path or "activemq"))
