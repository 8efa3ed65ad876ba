"""WildFly's messaging (ActiveMQ Artemis in the server): queue, topic, journal, and the transaction log beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from leadline.model.errors import NotInPlay, UsageError
from leadline.model.knob import Level
from leadline.stack.base import ServiceContext, Settings
from leadline.stack.servers import messaging, places

PROFILE = "standalone-full.xml"  # the default profile with messaging (and an ORB, which is taken out)
_DEFAULT = "assured-persistent"  # durable messages, journal synchronised before a sender goes on
_SERVER = "/subsystem=messaging-activemq/server=default"
_RESOURCE = "jboss.as:subsystem=messaging-activemq,server=default"
_PATHS = ("bindings", "journal", "large-messages", "paging")
_STORE_DATABASE = "postgresql"
_REDELIVERIES, _REDELIVERY_MS = 5, 1000


_BEANS = (
    f"{_RESOURCE}|persistenceEnabled,journalDatasource,journalSyncTransactional",
    f"{_RESOURCE},jms-queue=brokerageOrders|durable",
    f"{_RESOURCE},path=journal-directory|path",
    "jboss.as:subsystem=transactions|objectStorePath",
    "jboss.as:subsystem=ejb3,strict-max-bean-instance-pool=mdb-strict-max-pool|derivedSize",
)
QUESTION = {f"bean.messaging{number}": bean for number, bean in enumerate(_BEANS)}


def _queue(name: str) -> str:
    return f'{_SERVER}/jms-queue={name}:add(entries=["java:/jms/{name}"],durable="${{leadline.jms.durable:true}}")'


def operations(context: ServiceContext, settings: Settings) -> Sequence[str]:
    """Operations of the command line beside the template's; none without a queue. Raises UsageError."""
    if not messaging.in_use(context):
        return []
    lines = [
        "/subsystem=ejb3/service=iiop:remove",
        "/subsystem=iiop-openjdk:remove",
        *(f"/socket-binding-group=standard-sockets/socket-binding={name}:remove" for name in ("iiop", "iiop-ssl")),
        _queue("brokerageOrders"),
        _queue("brokerageDeadOrders"),
        f'{_SERVER}/jms-topic=brokerageQuotes:add(entries=["java:/jms/brokerageQuotes"])',
        f"{_SERVER}/address-setting=jms.queue.brokerageOrders:add(dead-letter-address=jms.queue.brokerageDeadOrders,"
        f"max-delivery-attempts={_REDELIVERIES + 1},redelivery-delay={_REDELIVERY_MS})",
        f'{_SERVER}:write-attribute(name=persistence-enabled,value="${{leadline.jms.persistence:true}}")',
    ]
    for when in ("transactional", "non-transactional"):
        value = '"${leadline.jms.sync:true}"'
        lines.append(f"{_SERVER}:write-attribute(name=journal-sync-{when},value={value})")
    if settings.get(messaging.STORE_PLACE.name, places.DISK) != places.DISK:
        for name in _PATHS:
            where = f"{_SERVER}/path={name}-directory"
            lines.append(f'{where}:write-attribute(name=path,value="${{leadline.jms.place}}/{name}")')
    if settings.get(messaging.LOG_PLACE.name, places.DISK) != places.DISK:
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
    found = {}
    wanted = settings.get(messaging.RELIABILITY.name, _DEFAULT)
    if wanted == "express-nonpersistent":
        found["leadline.jms.durable"] = "false"
    if wanted == "reliable-persistent":
        found["leadline.jms.sync"] = "false"
    if settings.get(messaging.STORE.name) == "memory":
        found["leadline.jms.persistence"] = "false"
    if messaging.CONSUMERS.name in settings:
        found["leadline.jms.consumers"] = str(settings[messaging.CONSUMERS.name])
    if messaging.in_memory(settings):
        directories = messaging.directories(context, settings, "wildfly")
        found["leadline.jms.place"] = str(directories[messaging.STORE_PLACE.name])
        found["leadline.tx.place"] = str(directories[messaging.LOG_PLACE.name])
    return found


def level(name: str, answer: Mapping[str, Any], data: Path) -> Level:
    """A knob's level from the agent's answer; ``data`` is the server's data directory, where its stores are by default.

    Raises KeyError, NotInPlay where orders do not go through a queue.
    """
    found = {number: _bean(answer, bean.partition("|")[0]) for number, bean in enumerate(_BEANS)}
    server, queue, journal, log, instances = (found[number] for number in range(len(_BEANS)))
    if server is None or queue is None:
        raise NotInPlay("no messaging, as app.orders is direct")
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
    return places.place_of(data / str(path or "activemq"))


def _bean(answer: Mapping[str, Any], wanted: str) -> Mapping[str, Any] | None:
    """Its attributes, None where the server has no such resource. MBean names come with their keys sorted."""
    keys = set(wanted.partition(":")[2].split(","))
    for name, attributes in answer["beans"].items():
        if set(name.partition(":")[2].split(",")) == keys:
            found: Mapping[str, Any] = attributes
            return found
    return None
