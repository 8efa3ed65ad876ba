"""Tomcat's knobs: how levels are written as properties that its server.xml substitutes, and read from its MBeans."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from xml.sax.saxutils import quoteattr

from leadline.model.knob import Level
from leadline.stack.base import Settings
from leadline.stack.deployment import Deployment
from leadline.stack.servers import knobs
from leadline.stack.servers.agent import beans

_THREADS = 200  # Tomcat's default maxThreads
_EVICTABLE = 1800000  # its pool's default minEvictableIdleTimeMillis
_SPARE_THREADS = 25  # Tomcat's default minSpareThreads; it must not exceed maxThreads


_POOL = (
    "maxTotal",
    "minIdle",
    "maxWaitMillis",
    "softMinEvictableIdleTimeMillis",
    "maxConnLifetimeMillis",
    "testOnBorrow",
    "poolPreparedStatements",
    "maxOpenPreparedStatements",
    "numActive",
    "numIdle",
)
_CONNECTOR = ("maxKeepAliveRequests", "keepAliveTimeout", "maxConnections", "acceptCount", "compression")
_BEANS = (
    f"Catalina:type=DataSource,*|{','.join(_POOL)}",
    "Catalina:type=Executor,*|maxThreads,minSpareThreads,maxIdleTime,maxQueueSize",
    f"Catalina:type=ProtocolHandler,*|{','.join(_CONNECTOR)}",
    "Catalina:type=Valve,name=AccessLogValve,*|enabled",
)
QUESTION = {f"bean.{number}": pattern for number, pattern in enumerate(_BEANS)}

_PROPERTIES = {
    knobs.MAX_CONNECTIONS.name: "leadline.pool.max",
    knobs.MIN_CONNECTIONS.name: "leadline.pool.min",
    knobs.THREADS.name: "leadline.threads.max",
    knobs.THREAD_QUEUE.name: "leadline.threads.queue",
    knobs.KEEP_ALIVE.name: "leadline.http.keepalive",
    knobs.HTTP_CONNECTIONS.name: "leadline.http.connections",
    knobs.ACCEPT_QUEUE.name: "leadline.http.queue",
}
_MILLISECONDS = {
    knobs.CONNECTION_TIMEOUT.name: "leadline.pool.wait",
    knobs.IDLE_TIMEOUT.name: "leadline.pool.idle",
    knobs.MAX_AGE.name: "leadline.pool.age",
    knobs.THREAD_KEEP_ALIVE.name: "leadline.threads.idle",
    knobs.KEEP_ALIVE_TIMEOUT.name: "leadline.http.keepalive.timeout",
}
_SWITCHES = {
    knobs.ACCESS_LOG.name: "leadline.access.log",
    knobs.MONITORING.name: "leadline.monitoring",
    knobs.VALIDATION.name: "leadline.pool.validation",
}
_LOOKED_OVER = (knobs.MIN_CONNECTIONS.name, knobs.IDLE_TIMEOUT.name)
_HTTP2_ELEMENT = '      <UpgradeProtocol className="org.apache.coyote.http2.Http2Protocol"/>\n'


def properties(settings: Settings) -> dict[str, str]:
    """Properties of the template for the levels that are set. Raises UsageError for levels that contradict."""
    values = {_PROPERTIES[name]: str(level) for name, level in settings.items() if name in _PROPERTIES}
    for name, properties_of in _MILLISECONDS.items():
        if name in settings:
            values[properties_of] = str(round(float(settings[name]) * 1000))
    values |= {_SWITCHES[name]: str(level).lower() for name, level in settings.items() if name in _SWITCHES}
    if settings.get(knobs.COMPRESSION.name):
        values["leadline.http.compression"] = "on"
    if statements := settings.get(knobs.STATEMENT_CACHE.name, 0):
        values |= {"leadline.statements.pooled": "true", "leadline.statements.max": str(statements)}
    knobs.check_bounds(settings, knobs.MIN_THREADS, knobs.THREADS, _THREADS)
    spare = min(_SPARE_THREADS, int(settings.get(knobs.THREADS.name, _THREADS)))
    values["leadline.threads.spare"] = str(settings.get(knobs.MIN_THREADS.name, spare))
    if any(settings.get(name) for name in _LOOKED_OVER):
        values["leadline.pool.upkeep"] = str(knobs.UPKEEP * 1000)  # Tomcat never looks by itself
    return values


# property -> type of the MBean, its attributes: what changes while Tomcat runs
_LIVE = {
    "leadline.pool.max": ("DataSource", "maxTotal", "maxIdle"),
    "leadline.pool.min": ("DataSource", "minIdle"),
    "leadline.pool.upkeep": ("DataSource", "timeBetweenEvictionRunsMillis"),
    "leadline.pool.wait": ("DataSource", "maxWaitMillis"),
    "leadline.pool.idle": ("DataSource", "softMinEvictableIdleTimeMillis"),
    "leadline.pool.validation": ("DataSource", "testOnBorrow"),
    "leadline.threads.max": ("Executor", "maxThreads"),
    "leadline.threads.spare": ("Executor", "minSpareThreads"),
    "leadline.threads.idle": ("Executor", "maxIdleTime"),
    "leadline.http.keepalive.timeout": ("ProtocolHandler", "keepAliveTimeout"),
    "leadline.http.connections": ("ProtocolHandler", "maxConnections"),
    "leadline.http.compression": ("ProtocolHandler", "compression"),
    "leadline.access.log": ("Valve", "enabled"),
}
_DEFAULTS = {"leadline.pool.upkeep": "-1", "leadline.http.compression": "off"}


def changes(before: Mapping[str, str], after: Mapping[str, str], application: Deployment) -> list[str]:
    """What the agent sets, from the properties that the levels had to those that they have now."""
    names = {
        "DataSource": _pool(application),
        "Executor": "Catalina:type=Executor,name=http",
        "ProtocolHandler": "Catalina:type=ProtocolHandler,*",
        "Valve": "Catalina:type=Valve,name=AccessLogValve,*",
    }
    wanted = {name: after.get(name, _DEFAULTS.get(name)) for name in _LIVE}
    changed = [name for name, value in wanted.items() if value != before.get(name, _DEFAULTS.get(name))]
    threads = "leadline.threads.max"
    if threads in changed and int(after[threads]) < int(before.get(threads, _THREADS)):
        changed.reverse()  # it refuses fewer threads than it keeps
    return [f"{names[_LIVE[name][0]]}|{property_}|{wanted[name]}" for name in changed for property_ in _LIVE[name][1:]]


def _pool(application: Deployment) -> str:
    return f'Catalina:type=DataSource,class=javax.sql.DataSource,name="{application.data_source.jndi}"'


def draining(application: Deployment, most: Level) -> list[str]:
    """What the agent sets so that the pool comes down to ``most`` connections: those that are idle are closed within
    hundredths of a second, those in use when they are given back. By itself the pool goes on using what it has.
    """
    limits = {"maxTotal": most, "maxIdle": 0, "minEvictableIdleTimeMillis": 1, "timeBetweenEvictionRunsMillis": 10}
    return [f"{_pool(application)}|{name}|{value}" for name, value in limits.items()]


def drained(application: Deployment, settings: Settings) -> list[str]:
    """What ends ``draining``."""
    upkeep = properties(settings).get("leadline.pool.upkeep", _DEFAULTS["leadline.pool.upkeep"])
    limits = {"minEvictableIdleTimeMillis": _EVICTABLE, "timeBetweenEvictionRunsMillis": upkeep}
    return [f"{_pool(application)}|{name}|{value}" for name, value in limits.items()]


def connections(answer: Mapping[str, Any]) -> int:
    """How many the pool has open."""
    pool = _of_pool(answer)
    return int(pool["numActive"]) + int(pool["numIdle"])


def configuration(text: str, settings: Settings) -> str:
    """The template of server.xml without the elements that the levels switch off."""
    assert _HTTP2_ELEMENT in text
    return text if settings.get(knobs.HTTP2.name, True) else text.replace(_HTTP2_ELEMENT, "")


def with_socket(text: str, path: str) -> str:
    """server.xml with a second connector of the same levels on a Unix socket."""
    match = re.search(r"    <Connector .*?</Connector>\n", text, re.DOTALL)
    assert match
    address = 'address="${leadline.http.address}" port="${leadline.http.port}"'
    assert address in match[0]
    # Web servers run as another user where leadline is root.
    socket = f'unixDomainSocketPath={quoteattr(path)} unixDomainSocketPathPermissions="rwxrwxrwx"'
    return text[: match.end()] + match[0].replace(address, socket) + text[match.end() :]


def with_tls(text: str, certificate: str, key: str) -> str:
    """server.xml with TLS on its connector."""
    files = f"certificateFile={quoteattr(certificate)} certificateKeyFile={quoteattr(key)}"
    host = f'      <SSLHostConfig><Certificate {files} type="EC"/></SSLHostConfig>\n'
    match = re.search(r"    <Connector (.*?)>\n(.*?)    </Connector>\n", text, re.DOTALL)
    assert match
    tls = 'SSLEnabled="true" scheme="https" secure="true"'
    connector = f"    <Connector {tls} {match[1]}>\n{host}{match[2]}    </Connector>\n"
    return text[: match.start()] + connector + text[match.end() :]


def _of_pool(answer: Mapping[str, Any]) -> Mapping[str, Any]:
    return next(bean for bean in beans(answer, "type=DataSource") if "maxTotal" in bean)


# knob -> part of the MBean's name, attribute
_READ = {
    knobs.THREADS.name: ("type=Executor", "maxThreads"),
    knobs.MIN_THREADS.name: ("type=Executor", "minSpareThreads"),
    knobs.THREAD_KEEP_ALIVE.name: ("type=Executor", "maxIdleTime"),
    knobs.THREAD_QUEUE.name: ("type=Executor", "maxQueueSize"),
    knobs.KEEP_ALIVE.name: ("type=ProtocolHandler", "maxKeepAliveRequests"),
    knobs.KEEP_ALIVE_TIMEOUT.name: ("type=ProtocolHandler", "keepAliveTimeout"),
    knobs.HTTP_CONNECTIONS.name: ("type=ProtocolHandler", "maxConnections"),
    knobs.ACCEPT_QUEUE.name: ("type=ProtocolHandler", "acceptCount"),
    knobs.COMPRESSION.name: ("type=ProtocolHandler", "compression"),
    knobs.ACCESS_LOG.name: ("name=AccessLogValve", "enabled"),
}
_OF_THE_POOL = {
    knobs.MAX_CONNECTIONS.name: "maxTotal",
    knobs.MIN_CONNECTIONS.name: "minIdle",
    knobs.CONNECTION_TIMEOUT.name: "maxWaitMillis",
    knobs.IDLE_TIMEOUT.name: "softMinEvictableIdleTimeMillis",
    knobs.MAX_AGE.name: "maxConnLifetimeMillis",
    knobs.VALIDATION.name: "testOnBorrow",
}


def level(name: str, answer: Mapping[str, Any]) -> Level:
    """A knob's level from the agent's answer. Raises LookupError, KeyError."""
    if name in _READ:
        part, attribute = _READ[name]
        value = beans(answer, part)[0][attribute]
    else:
        pool = _of_pool(answer)
        if name == knobs.STATEMENT_CACHE.name:
            return int(pool["maxOpenPreparedStatements"]) if pool["poolPreparedStatements"] else 0
        if name == knobs.MONITORING.name:
            if not pool["numActive"] + pool["numIdle"]:
                raise LookupError("Tomcat's pool has opened no connection yet whose MBean would tell server.monitoring")
            return any("connection=" in bean for bean in answer["beans"])
        if name not in _OF_THE_POOL:
            raise LookupError(f"Tomcat does not tell the level of {name}")
        value = pool[_OF_THE_POOL[name]]
    if name in _MILLISECONDS:
        if int(value) < 0:
            raise LookupError(f"Tomcat has no limit for {name}")
        return float(value) / 1000
    if name == knobs.COMPRESSION.name:
        return bool(value == "on")
    return bool(value) if isinstance(value, bool) else int(value)
