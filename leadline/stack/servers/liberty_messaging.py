"""Open Liberty's messaging engine inside the server: queue, topic, file store, and the transaction log beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.sax.saxutils import quoteattr

from leadline.model.errors import NotInPlay
from leadline.model.knob import Level
from leadline.stack.base import ServiceContext, Settings
from leadline.stack.servers import messaging, places

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
    "(&(service.factoryPid=com.ibm.ws.sib.fileStore)(config.parentPID=com.ibm.ws.messaging.runtime))",
    "(&(service.factoryPid=com.ibm.ws.jca.jmsConnectionFactory)(id=brokerageConnections))",
    "(&(service.factoryPid=com.ibm.ws.jca.jmsQueue)(id=jms/brokerageOrders))",
    "(&(service.factoryPid=com.ibm.ws.jca.jmsActivationSpec)(id=*/OrderReceiver))",
    "(service.pid=com.ibm.ws.transaction)",
)
_ASKED = (_STORE, _SENDER, _QUEUE, _RECEIVER, _LOG)
QUESTION = {f"configuration.messaging{number}": filter_ for number, filter_ in enumerate(_ASKED)}
_OF_A_RESOURCE = "properties.0."  # how the resource adapter's own properties are named in a resolved configuration


def elements(context: ServiceContext, settings: Settings) -> Sequence[str]:
    """Elements of the overrides; none without a queue."""
    if not messaging.in_use(context):
        return []
    directories = messaging.directories(context, settings, "liberty")
    store, log = (quoteattr(str(directories[knob.name])) for knob in (messaging.STORE_PLACE, messaging.LOG_PLACE))
    wanted = str(settings.get(messaging.RELIABILITY.name, _DEFAULT))
    level, persistent = quoteattr(_LEVELS[wanted]), wanted in _PERSISTENT
    mapping = "persistentMapping" if persistent else "nonPersistentMapping"
    mode = 'deliveryMode="Persistent"' if persistent else 'deliveryMode="NonPersistent"'
    module = context.archive.stem if context.archive else ""
    consumers = settings.get(messaging.CONSUMERS.name, _CONSUMERS)
    lines = [
        '  <wasJmsEndpoint enabled="false"/>',  # nobody connects from outside
        "  <messagingEngine>",
        f"    <fileStore path={store}/>",
        f'    <queue id="brokerageOrders" forceReliability={level} exceptionDestination="brokerageDeadOrders"',
        f'           redeliveryInterval="{_REDELIVERY_MS}"/>',
        f'    <queue id="brokerageDeadOrders" forceReliability={level}/>',
        "  </messagingEngine>",
        '  <jmsConnectionFactory id="brokerageConnections" jndiName="jms/brokerageConnections">',
        f"    <properties.wasJms {mapping}={level}/>",
        "  </jmsConnectionFactory>",
        f"  <transaction transactionLogDirectory={log}/>",
    ]
    for name in ("brokerageOrders", "brokerageDeadOrders"):
        lines.append(f'  <jmsQueue id="jms/{name}" jndiName="jms/{name}">')
        lines.append(f'    <properties.wasJms queueName="{name}" {mode}/></jmsQueue>')
    lines.append('  <jmsTopic id="jms/brokerageQuotes" jndiName="jms/brokerageQuotes">')
    lines.append(f'    <properties.wasJms topicName="brokerageQuotes" {mode}/></jmsTopic>')
    for bean, name, kind in (
        ("OrderReceiver", "brokerageOrders", "Queue"),
        ("DeadOrderReceiver", "brokerageDeadOrders", "Queue"),
        ("QuoteReceiver", "brokerageQuotes", "Topic"),
    ):
        limit = f' maxConcurrency="{consumers}"' if bean == "OrderReceiver" else ""
        lines.append(f'  <jmsActivationSpec id="{module}/{bean}"><properties.wasJms destinationRef="jms/{name}"')
        lines.append(f'    destinationType="jakarta.jms.{kind}"{limit}/></jmsActivationSpec>')
    return lines


def level(name: str, answer: Mapping[str, Any]) -> Level:
    """A knob's level from the agent's answer. Raises KeyError, NotInPlay where orders do not go through a queue."""

    def found(asked: str) -> Mapping[str, Any]:
        rows: list[Mapping[str, Any]] = answer["configurations"].get(asked, [])
        if not rows:
            raise KeyError(f"configuration {asked}")
        return rows[0]

    if not answer["configurations"].get(_SENDER):
        raise NotInPlay("no messaging, as app.orders is direct")
    if name == messaging.RELIABILITY.name:
        kept = found(_QUEUE)[f"{_OF_A_RESOURCE}deliveryMode"] == "Persistent"
        own = found(_SENDER)[f"{_OF_A_RESOURCE}{'persistentMapping' if kept else 'nonPersistentMapping'}"]
        return next(level for level, word in _LEVELS.items() if word == own)
    if name == messaging.CONSUMERS.name:
        return int(found(_RECEIVER)[f"{_OF_A_RESOURCE}maxConcurrency"])
    if name == messaging.LOG_PLACE.name:
        return places.place_of(Path(found(_LOG)["transactionLogDirectory"]))
    path = found(_STORE)["path"]
    return places.place_of(Path(path)) if name == messaging.STORE_PLACE.name else "file"
