"""Open Liberty's messaging engine inside the server: queue, topic, file store, and the transaction log beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.sax.saxutils import quoteattr

from leadline.model.errors import NotInPlay
from leadline.model.knob import Level
from leadline.stack import places
from leadline.stack.base import ServiceContext, Settings
from leadline.stack.deployment import Deployment, Queue, Resource
from leadline.stack.servers import messaging

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
    if not messaging.in_use(context):
        return []
    directories = messaging.directories(context, settings, "liberty")
    store, log = (quoteattr(str(directories[knob.name])) for knob in (messaging.STORE_PLACE, messaging.LOG_PLACE))
    wanted = str(settings.get(messaging.RELIABILITY.name, _DEFAULT))
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
    consumers = messaging.consumers(application, {messaging.CONSUMERS.name: _CONSUMERS, **settings})
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
        raise NotInPlay(messaging.NONE)
    if name == messaging.RELIABILITY.name:
        persistent = found(_QUEUE)[f"{_OF_A_RESOURCE}deliveryMode"] == "Persistent"
        mapping = found(_SENDER)[f"{_OF_A_RESOURCE}{'persistentMapping' if persistent else 'nonPersistentMapping'}"]
        return next(level for level, word in _LEVELS.items() if word == mapping)
    if name == messaging.CONSUMERS.name:
        return int(found(_RECEIVER)[f"{_OF_A_RESOURCE}maxConcurrency"])
    if name == messaging.LOG_PLACE.name:
        return places.level_at(context.host, Path(found(_LOG)["transactionLogDirectory"]))
    path = found(_STORE)["path"]
    return places.level_at(context.host, Path(path)) if name == messaging.STORE_PLACE.name else "file"


def _rows(answer: Mapping[str, Any], asked: str) -> list[Mapping[str, Any]]:
    """What was found by the filter of which ``asked`` is a part."""
    return [row for filter_, rows in answer["configurations"].items() if asked in filter_ for row in rows]
