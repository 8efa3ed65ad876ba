"""GlassFish's messaging (Open MQ in the server): queue, topic and file store through its adapter ``jmsra``."""

from __future__ import annotations

import hashlib
import secrets
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from leadline.host.textfile import write_private
from leadline.model.errors import NotInPlay
from leadline.model.knob import Level
from leadline.model.places import DISK
from leadline.stack import places
from leadline.stack.base import ServiceContext, Settings
from leadline.stack.servers import knobs
from leadline.stack.servers.files import beans
from leadline.stack.servers.glassfish_levels import added, only

_CONFIG = "configs/config[@name='server-config']"
_DEAD = "mq.sys.dmq"  # Open MQ's own queue of dead letters, whose name is fixed
_SYNC = "imq.persist.file.sync.enabled"
_PERSISTENT, _ASSURED = "reliable-persistent", "assured-persistent"


_ROOT = "${com.sun.aas.instanceRoot}"
_USERS = {"admin": "admin", "guest": "anonymous"}  # name -> group


def passwords(context: ServiceContext) -> dict[str, str]:
    """Random ones for the two users of Open MQ's broker, whose shipped ones are their names; none without a queue."""
    if not knobs.in_use(context):
        return {}
    return {f"leadline.broker.{user}.password": secrets.token_urlsafe(18) for user in _USERS}


def write_users(context: ServiceContext, given: Mapping[str, str]) -> None:
    """The broker's users; nothing without a queue. Outside its own directory, which it fills only where it is new."""
    if not knobs.in_use(context):
        return
    place = _users(context)
    place.mkdir(mode=0o700)
    rows = []
    for user, group in _USERS.items():
        hashed = hashlib.md5(f"{user}:{given[f'leadline.broker.{user}.password']}".encode(), usedforsecurity=False)
        rows.append(f"{user}:{int.from_bytes(hashed.digest(), 'big', signed=True):x}:{group}:1\n")
    write_private(place / "passwd", "".join(rows))


def apply(
    root: ElementTree.Element, context: ServiceContext, settings: Settings, log: Path | None, given: Mapping[str, str]
) -> None:
    """The connection factory, the destinations and the levels in a domain's tree; nothing without a queue. ``log``: see
    ``log_directory``; ``given``: ``passwords``.
    """
    if not knobs.in_use(context):
        return
    wanted = settings.get(knobs.RELIABILITY.name, _PERSISTENT)
    application = context.application
    assert application.connection_factory is not None
    connections = application.connection_factory.jndi
    attributes = {
        "name": connections,
        "resource-adapter-name": "jmsra",
        "connection-definition-name": "jakarta.jms.ConnectionFactory",
        "transaction-support": "XATransaction",
        "max-pool-size": "250",
        "steady-pool-size": "1",
    }
    resources, server, config = only(root, "resources"), only(root, "servers/server"), only(root, _CONFIG)
    pool = ElementTree.SubElement(resources, "connector-connection-pool", attributes)
    adapter = ElementTree.SubElement(resources, "resource-adapter-config", {"resource-adapter-name": "jmsra"})
    for parent in (pool, adapter):
        for name, value in (("UserName", "guest"), ("Password", given["leadline.broker.guest.password"])):
            ElementTree.SubElement(parent, "property", {"name": name, "value": value})
    for host in config.iter("jms-host"):
        host.set("admin-user-name", "admin")
        host.set("admin-password", given["leadline.broker.admin.password"])
    names = {"pool-name": connections, "jndi-name": connections}
    ElementTree.SubElement(resources, "connector-resource", names)
    for each in application.destinations:
        kind = f"jakarta.jms.{type(each).__name__}"
        names = {"jndi-name": each.jndi, "res-type": kind, "res-adapter": "jmsra"}
        resource = ElementTree.SubElement(resources, "admin-object-resource", names)
        destination = _DEAD if application.takes_dead_letters(each) else each.name
        ElementTree.SubElement(resource, "property", {"name": "Name", "value": destination})
    for name in (connections, *(destination.jndi for destination in application.destinations)):
        ElementTree.SubElement(server, "resource-ref", {"ref": name})
    service = only(config, "jms-service")
    sync = str(wanted == _ASSURED).lower()
    users = f"-Dimq.user_repository.file.dirpath={_users(context)}"
    service.set("start-args", f"{service.get('start-args', '')} -D{_SYNC}={sync} {users}".strip())
    transactions = added(config, "transaction-service")
    transactions.set("automatic-recovery", "true")
    if log is not None:
        transactions.set("tx-log-dir", str(log))
    if knobs.CONSUMERS.name in settings:
        added(config, "mdb-container").set("max-pool-size", str(settings[knobs.CONSUMERS.name]))


def log_directory(context: ServiceContext, settings: Settings) -> Path | None:
    """Makes room in memory where a level asks for it, and tells where the log of transactions goes, None: to its
    default place. The broker follows the link to its store. Raises UsageError, TrialFailure.
    """
    if not knobs.in_use(context) or not knobs.in_memory(settings):
        return None
    directories = knobs.directories(context, settings, "glassfish")
    if settings.get(knobs.STORE_PLACE.name, DISK) != DISK:
        store = directories[knobs.STORE_PLACE.name]
        store.mkdir()
        _store(context).symlink_to(store)
    if settings.get(knobs.LOG_PLACE.name, DISK) == DISK:
        return None
    log = directories[knobs.LOG_PLACE.name]
    log.mkdir()
    return log


def _store(context: ServiceContext) -> Path:
    return context.directory / "domain" / "imq"


def _users(context: ServiceContext) -> Path:
    return context.directory / "domain" / "broker-users"


_BROKER = "com.sun.messaging.jms.server:subtype=Monitor,type=Broker"  # keys sorted, as answers have them
_BEANS = {
    "service": "type=jms-service",
    "receivers": "type=mdb-container",
    "transactions": "type=transaction-service",
}
_ATTRIBUTES = {"service": "StartArgs", "receivers": "MaxPoolSize", "transactions": "TxLogDir"}
_SHOWN = {kind: f"amx:pp=/domain/configs/config[server-config],{bean}" for kind, bean in _BEANS.items()}
QUESTION = {f"bean.messaging_{kind}": f"{bean}|{_ATTRIBUTES[kind]}" for kind, bean in _SHOWN.items()} | {
    "bean.messaging_broker": f"{_BROKER}|Embedded,InstanceName"
}


def expected(context: ServiceContext, settings: Settings) -> list[str]:
    """Canonical names of the beans that must be there; none where no messages are sent."""
    if not knobs.in_use(context):
        return []
    kinds = ["service", "transactions", *(["receivers"] if knobs.CONSUMERS.name in settings else [])]
    return [*(_SHOWN[kind] for kind in kinds), _BROKER]


def level(name: str, answer: Mapping[str, Any], context: ServiceContext) -> Level:
    """A knob's level from the agent's answer. Raises KeyError, LookupError, NotInPlay where no messages are sent: no
    broker runs then.
    """
    if _BROKER not in answer["beans"]:
        raise NotInPlay(knobs.NONE)
    if name == knobs.RELIABILITY.name:
        return _ASSURED if f"-D{_SYNC}=true" in _told(answer, "service").split() else _PERSISTENT
    if name == knobs.CONSUMERS.name:
        return int(_told(answer, "receivers"))
    if name == knobs.LOG_PLACE.name:
        return places.level_at(
            context.host, Path(_told(answer, "transactions").replace(_ROOT, str(context.directory / "domain")))
        )
    broker = str(answer["beans"][_BROKER]["InstanceName"])
    store = next((_store(context) / "instances" / broker).glob("fs*"), None)
    if store is None:
        raise LookupError("GlassFish's broker has no file store")
    return "file" if name == knobs.STORE.name else places.level_at(context.host, store)


def _told(answer: Mapping[str, Any], kind: str) -> str:
    return str(beans(answer, _BEANS[kind])[0][_ATTRIBUTES[kind]])
