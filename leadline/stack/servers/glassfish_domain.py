"""GlassFish's domain.xml for one trial, from the one that its distribution ships."""

from __future__ import annotations

import base64
import hashlib
import secrets
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping
from pathlib import Path

from leadline.stack.base import ServiceContext, Settings
from leadline.stack.deployment import DataSource, Feature
from leadline.stack.servers import glassfish_levels, glassfish_messaging, knobs, messaging
from leadline.stack.servers.glassfish_levels import added, only

_LOOPBACK = "127.0.0.1"
_LISTENER = "http-listener-1"
KEY = "s1as"  # the name under which its listeners look for a key
_DEFAULT = "jdbc/__default"  # shares the pool: a persistence unit may name none


def written(
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
    _broker(config, broker, messaging.in_use(context))
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
