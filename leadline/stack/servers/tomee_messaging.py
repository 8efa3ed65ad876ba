"""TomEE's messaging (ActiveMQ 5 in the server): queue, topic, KahaDB or memory, without a port."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote_plus
from xml.sax.saxutils import escape

from leadline.model.errors import NotInPlay
from leadline.model.knob import Level
from leadline.stack.base import ServiceContext, Settings
from leadline.stack.servers import messaging, places
from leadline.stack.servers.beans import beans

_BROKER, _CONTAINER = "brokerage", "brokerageMessages"
_REDELIVERIES, _REDELIVERY_MS = 5, 1000
_PERSISTENT, _IN_MEMORY = "reliable-persistent", "express-nonpersistent"
_DEFAULT = _PERSISTENT

# Ends in the dead letters of ActiveMQ's default policy, which has this name.
_DEAD = "ActiveMQ.DLQ"
_DESTINATIONS = (
    ("OrderReceiver", "jms/brokerageOrders", "Queue", "brokerageOrders"),
    ("DeadOrderReceiver", "jms/brokerageDeadOrders", "Queue", _DEAD),
    ("QuoteReceiver", "jms/brokerageQuotes", "Topic", "brokerageQuotes"),
)


_BROKER_BEAN = f"org.apache.activemq:brokerName={_BROKER},type=Broker"  # keys sorted, as answers have them
_STORE_BEAN, _RECEIVER_BEAN = "service=PersistenceAdapter", "MessageDrivenBean=OrderReceiver"
QUESTION = {
    "bean.broker": f"{_BROKER_BEAN}|Persistent",
    "bean.store": f"{_BROKER_BEAN},{_STORE_BEAN},*|Name",
    "bean.receiver": f"openejb.management:{_RECEIVER_BEAN},j2eeType=Instances,*|InstanceLimit",
}


def resources(context: ServiceContext, settings: Settings) -> str:
    """Elements of tomee.xml: broker, container, connections and destinations; none without a queue."""
    if not messaging.in_use(context):
        return ""
    found = [
        _element("Resource", "brokerageBroker", "ActiveMQResourceAdapter", {
            "BrokerXmlConfig": _broker(context, settings),
            "ServerUrl": f"vm://{_BROKER}?create=false&waitForStart=20000",
            "DataSource": "",
        }),
        _element("Container", _CONTAINER, "MESSAGE", {"ResourceAdapter": "brokerageBroker"}),
        _element("Resource", "jms/brokerageConnections", "jakarta.jms.ConnectionFactory", {
            "ResourceAdapter": "brokerageBroker",
        }),
    ]  # fmt: skip
    for _, name, kind, destination in _DESTINATIONS:
        found.append(_element("Resource", name, f"jakarta.jms.{kind}", {"destination": destination}))
    return "".join(found)


def _element(tag: str, name: str, kind: str, properties: Mapping[str, str]) -> str:
    lines = "".join(f"    {key} = {escape(value)}\n" for key, value in properties.items())
    return f'  <{tag} id="{name}" type="{kind}">\n{lines}  </{tag}>\n'


def _broker(context: ServiceContext, settings: Settings) -> str:
    """The broker's URI (ActiveMQ, "Broker Configuration URI")."""
    if settings.get(messaging.RELIABILITY.name, _DEFAULT) == _IN_MEMORY:
        return f"broker:()/{_BROKER}?persistent=false"
    store = messaging.directories(context, settings, "tomee")[messaging.STORE_PLACE.name]
    return f"broker:()/{_BROKER}?persistent=true&usekahadb=true&kahadb.directory={quote_plus(str(store))}"


def properties(context: ServiceContext, settings: Settings) -> dict[str, str]:
    """Properties of the system for the receivers; none without a queue."""
    if not messaging.in_use(context):
        return {}
    found = {f"{bean}.activation.destination": destination for bean, _, _, destination in _DESTINATIONS}
    for name, level_ in (
        ("maximumRedeliveries", _REDELIVERIES),
        ("initialRedeliveryDelay", _REDELIVERY_MS),
    ):
        found[f"mdb.activation.{name}"] = str(level_)
    if messaging.CONSUMERS.name in settings:
        consumers = str(settings[messaging.CONSUMERS.name])
        found |= {"OrderReceiver.activation.maxSessions": consumers, "OrderReceiver.InstanceLimit": consumers}
    return found


def level(name: str, answer: Mapping[str, Any]) -> Level:
    """A knob's level from the agent's answer. Raises KeyError, NotInPlay where orders do not go through a queue."""
    if _BROKER_BEAN not in answer["beans"]:
        raise NotInPlay("no messaging, as app.orders is direct")
    if name == messaging.CONSUMERS.name:
        return int(beans(answer, _RECEIVER_BEAN)[0]["InstanceLimit"])
    kept = answer["beans"][_BROKER_BEAN]["Persistent"]
    if name == messaging.RELIABILITY.name:
        return _PERSISTENT if kept else _IN_MEMORY
    if not kept:
        raise NotInPlay(f"no store, as {messaging.RELIABILITY.name} is {_IN_MEMORY}")
    store = str(beans(answer, _STORE_BEAN)[0]["Name"])  # KahaDBPersistenceAdapter[directory,Index:directory]
    if name == messaging.STORE.name:
        return "file" if store.startswith("KahaDB") else store
    return places.place_of(Path(store.partition("[")[2].removesuffix("]").partition(",Index:")[0]))
