"""Tomcat and TomEE over the user's CATALINA_BASE: a copy of it, in whose ``conf`` levels are attributes.

Neither has a file that goes over another, so the levels are written into the copy's ``server.xml``, those of the pool
into each file that defines it: ``server.xml``, ``context.xml``, one of the application's own, or TomEE's ``tomee.xml``.
"""

from __future__ import annotations

import shutil
import xml.etree.ElementTree as ElementTree
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import ClassVar

from leadline.host.textfile import write_private
from leadline.model.errors import UsageError
from leadline.model.knob import Level
from leadline.stack.base import ServiceContext, Settings
from leadline.stack.own.wars.base import WarServer, copied, linked, tree_of
from leadline.stack.servers import knobs, tomee
from leadline.stack.servers.common import Answer
from leadline.stack.servers.files import properties_text, template
from leadline.stack.servers.tomcat import Tomcat
from leadline.stack.servers.tomee import TomEE

_SERVER = "conf/server.xml"
_TOMEE = "conf/tomee.xml"
_HTTP2 = "org.apache.coyote.http2.Http2Protocol"
_ACCESS_LOG = "org.apache.catalina.valves.AccessLogValve"
_EXECUTOR = "leadline-http"
# property of a level -> attributes
_CONNECTOR = {
    "leadline.http.keepalive": ("maxKeepAliveRequests",),
    "leadline.http.keepalive.timeout": ("keepAliveTimeout",),
    "leadline.http.connections": ("maxConnections",),
    "leadline.http.queue": ("acceptCount",),
    "leadline.http.compression": ("compression",),
}
_THREADS = {
    "leadline.threads.max": ("maxThreads",),
    "leadline.threads.spare": ("minSpareThreads",),
    "leadline.threads.idle": ("maxIdleTime",),
    "leadline.threads.queue": ("maxQueueSize",),
}
_POOL = {
    "leadline.pool.max": ("maxTotal", "maxIdle"),
    "leadline.pool.min": ("minIdle",),
    "leadline.pool.upkeep": ("timeBetweenEvictionRunsMillis",),
    "leadline.pool.wait": ("maxWaitMillis",),
    "leadline.pool.idle": ("softMinEvictableIdleTimeMillis",),
    "leadline.pool.age": ("maxConnLifetimeMillis",),
    "leadline.pool.validation": ("testOnBorrow",),
    "leadline.statements.pooled": ("poolPreparedStatements",),
    "leadline.statements.max": ("maxOpenPreparedStatements",),
}
_OF_THREADS = {knobs.THREADS.name: "maxThreads", knobs.MIN_THREADS.name: "minSpareThreads"}


class OwnTomcat(WarServer, Tomcat):
    """Tomcat with an archive of one's own."""

    lacks: ClassVar[Collection[str]] = (knobs.MONITORING.name, knobs.TLS.name)
    live: ClassVar[bool] = False  # the names of its MBeans are those of the user's configuration
    unix_socket: ClassVar[bool] = False

    def own_base(self, context: ServiceContext) -> Path:
        return context.directory

    def pools_in(self, directory: Path) -> Collection[str]:
        server = tree_of(directory / _SERVER, directory)
        if server.tag != "Server":
            raise UsageError(f"{directory / _SERVER} begins with <{server.tag}>, not with <Server> as Tomcat's")
        trees = [server, *(tree_of(file, directory) for file in _contexts(directory))]
        return list(
            dict.fromkeys(
                name for tree in trees for data_source in _data_sources(tree) if (name := data_source.get("name"))
            )
        )

    def write_over(self, context: ServiceContext, settings: Settings) -> None:
        base, application = context.directory, context.application
        if self.config is None:
            copied(self.unpacked / "conf", base / "conf")
        else:
            copied(self.config, base)
        for part in ("lib", "logs", "temp", "webapps", "work"):
            (base / part).mkdir(exist_ok=True)
        for name in ("web.xml", "catalina.properties"):
            if not (base / "conf" / name).exists():
                shutil.copyfile(self.unpacked / "conf" / name, base / "conf" / name)
        (base / "conf" / "logging.properties").write_text(template("tomcat-logging.properties"))
        root = tree_of(base / _SERVER, base)
        properties = self.level_properties(settings)
        host = _served(root, context, settings, properties)
        self.write_pool(base, root, settings, properties)
        text = ElementTree.tostring(root, encoding="unicode", xml_declaration=True)
        write_private(base / _SERVER, text)
        linked(application.archive, base / host / f"{application.file_name}.war")
        self.keep("levels.properties", properties_text(properties))

    def write_pool(
        self, base: Path, root: ElementTree.Element, settings: Settings, properties: Mapping[str, str]
    ) -> None:
        """The levels of the pool: attributes of the user's resource, wherever it is defined; a context's goes before
        one of ``server.xml``.
        """
        del settings
        self._set_pool(root, properties)
        for file in _contexts(base):
            tree = tree_of(file, base)
            if self._set_pool(tree, properties):
                write_private(file, ElementTree.tostring(tree, encoding="unicode", xml_declaration=True))

    def _set_pool(self, tree: ElementTree.Element, properties: Mapping[str, str]) -> bool:
        """Whether the pool is defined in this tree."""
        pools = [data_source for data_source in _data_sources(tree) if data_source.get("name") == self.pool]
        for pool in pools:
            _set(pool, _POOL, properties)
        return bool(pools)

    def level_of(self, name: str, answer: Answer) -> Level:
        if not self.templated:
            answer = {**answer, "beans": {bean: of for bean, of in answer["beans"].items() if self._is_ours(bean)}}
        if self.templated or name not in _OF_THREADS:
            return super().level_of(name, answer)
        if any("type=Executor" in bean for bean in answer["beans"]):
            return super().level_of(name, answer)
        (pool,) = (bean for bean in answer["beans"].values() if "maxThreads" in bean)
        return int(pool[_OF_THREADS[name]])

    def _is_ours(self, bean: str) -> bool:
        """False for another pool than the one whose knobs these are."""
        return "type=DataSource" not in bean or f'name="{self.pool}"' in bean

    def question(self) -> Mapping[str, str]:
        beans = {"bean.threads": f"Catalina:type=ThreadPool,*|{','.join(_OF_THREADS.values())}"}
        return {**super().question(), **({} if self.templated else beans)}


class OwnTomEE(OwnTomcat, TomEE):
    """TomEE with an archive of one's own; its pools are in ``tomee.xml``."""

    # an archive without session beans has no pool of them to read
    lacks: ClassVar[Collection[str]] = (*OwnTomcat.lacks, knobs.BEAN_INSTANCES.name)

    def pools_in(self, directory: Path) -> Collection[str]:
        super().pools_in(directory)
        if not (directory / _TOMEE).exists():
            return []
        return [name for resource in _resources(tree_of(directory / _TOMEE, directory)) if (name := resource.get("id"))]

    def write_pool(
        self, base: Path, root: ElementTree.Element, settings: Settings, properties: Mapping[str, str]
    ) -> None:
        del root
        file = base / _TOMEE
        if not self.pool:
            return
        tree = tree_of(file, base)
        lines = _lines(settings, properties)
        for resource in _resources(tree):
            if resource.get("id") == self.pool:
                resource.text = "\n".join(
                    [(resource.text or "").rstrip(), *lines, ""]
                )  # of two lines the last one counts
        write_private(file, ElementTree.tostring(tree, encoding="unicode", xml_declaration=True))
        self.keep("tomee.xml", "\n".join(lines) + "\n")


def _lines(settings: Settings, properties: Mapping[str, str]) -> list[str]:
    """Lines of TomEE's resource for these levels."""
    lines = tomee.lines(settings)
    for name, value in properties.items():
        lines = [line.replace(f"${{{name}}}", value) for line in lines]
    return lines


def _served(root: ElementTree.Element, context: ServiceContext, settings: Settings, own: Mapping[str, str]) -> str:
    """One port for HTTP with its levels; returns the directory of the host's applications. Raises UsageError."""
    root.set("port", "-1")
    service, engine = root.find("Service"), root.find("Service/Engine")
    host = next(iter(root.findall("Service/Engine/Host")), None)
    if service is None or engine is None or host is None:
        raise UsageError(f"{_SERVER} has no Service with an Engine and a Host")
    connectors = service.findall("Connector")
    plain = [
        connector
        for connector in connectors
        if "AJP" not in connector.get("protocol", "") and not connector.get("SSLEnabled")
    ]
    if not plain:
        raise UsageError(f"{_SERVER} has no Connector for HTTP without TLS")
    connector = plain[0]
    for other in connectors:
        if other is not connector:  # its port is fixed
            service.remove(other)
    connector.set("address", context.http_address)
    connector.set("port", str(context.http_port))
    connector.attrib.pop("redirectPort", None)
    _set(connector, _CONNECTOR, own)
    _http2(connector, settings)
    if any(name.startswith("server.threads.") for name in settings):
        _set(_executor(service, connector), _THREADS, own)
    if knobs.ACCESS_LOG.name in settings:
        _access_log(host, bool(settings[knobs.ACCESS_LOG.name]))
    return host.get("appBase", "webapps")


def _http2(connector: ElementTree.Element, settings: Settings) -> None:
    wanted = settings.get(knobs.HTTP2.name)
    protocols = [protocol for protocol in connector.findall("UpgradeProtocol") if protocol.get("className") == _HTTP2]
    if wanted is False:
        for protocol in protocols:
            connector.remove(protocol)
    elif wanted and not protocols:
        ElementTree.SubElement(connector, "UpgradeProtocol", {"className": _HTTP2})


def _executor(service: ElementTree.Element, connector: ElementTree.Element) -> ElementTree.Element:
    """The connector's; a connector without one gets one with its own numbers."""
    name = connector.get("executor")
    for executor in service.findall("Executor"):
        if executor.get("name") == name:
            return executor
    attributes = {key: value for key in ("maxThreads", "minSpareThreads") if (value := connector.get(key)) is not None}
    element = ElementTree.Element("Executor", {"name": _EXECUTOR, "namePrefix": "http-exec-", **attributes})
    service.insert(0, element)
    connector.set("executor", _EXECUTOR)
    return element


def _access_log(host: ElementTree.Element, on: bool) -> None:
    valves = [valve for valve in host.findall("Valve") if valve.get("className") == _ACCESS_LOG]
    if not valves and on:
        attributes = {"className": _ACCESS_LOG, "directory": "logs", "prefix": "access", "suffix": ".log"}
        valves = [ElementTree.SubElement(host, "Valve", {**attributes, "pattern": "common", "rotatable": "false"})]
    for valve in valves:
        valve.set("enabled", str(on).lower())


def _contexts(directory: Path) -> list[Path]:
    """Files besides ``server.xml`` that define data sources: of all applications, and of single ones."""
    shared = directory / "conf" / "context.xml"
    return [*([shared] if shared.is_file() else []), *sorted((directory / "conf" / "Catalina").glob("*/*.xml"))]


def _data_sources(root: ElementTree.Element) -> Iterator[ElementTree.Element]:
    """Those that Commons DBCP 2 makes, whose knobs leadline knows."""
    for resource in root.iter("Resource"):
        if resource.get("type") == "javax.sql.DataSource" and "dbcp2" in resource.get("factory", "dbcp2"):
            yield resource


def _resources(root: ElementTree.Element) -> Iterator[ElementTree.Element]:
    return (
        resource for resource in root.iter("Resource") if resource.get("type", "").rpartition(".")[2] == "DataSource"
    )


def _set(element: ElementTree.Element, names: Mapping[str, tuple[str, ...]], values: Mapping[str, str]) -> None:
    for name, attributes in names.items():
        for attribute in attributes if name in values else ():
            element.set(attribute, values[name])
