"""Tomcat's knobs: how levels are written as properties that its server.xml substitutes, and read from its MBeans."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from xml.sax.saxutils import quoteattr

from leadline import catalogue
from leadline.model.knob import ApplyCost, Level
from leadline.stack.base import Settings
from leadline.stack.deployment import Deployment
from leadline.stack.servers import knobs
from leadline.stack.servers.agent import beans

_THREADS = 200  # Tomcat's default maxThreads
_EVICTABLE = 1800000  # its pool's default minEvictableIdleTimeMillis
_SPARE_THREADS = 25  # Tomcat's default minSpareThreads; it must not exceed maxThreads

_WAYS = knobs.ways_of("tomcat")
_ASKED = ("poolPreparedStatements", "maxOpenPreparedStatements", "numActive", "numIdle")  # of the pool, beside levels
_BEANS = {
    "DataSource": "type=DataSource",
    "Executor": "type=Executor",
    "ProtocolHandler": "type=ProtocolHandler",
    "AccessLogValve": "type=Valve,name=AccessLogValve",
}


def _question(place: str) -> str:
    attributes = [way.attribute for way in _WAYS.values() if way.place == place]
    return f"Catalina:{_BEANS[place]},*|{','.join([*attributes, *(_ASKED if place == 'DataSource' else ())])}"


QUESTION = {f"bean.{number}": _question(place) for number, place in enumerate(_BEANS)}

_LOOKED_OVER = (knobs.MIN_CONNECTIONS.name, knobs.IDLE_TIMEOUT.name)
_HTTP2_ELEMENT = '      <UpgradeProtocol className="org.apache.coyote.http2.Http2Protocol"/>\n'


def properties(settings: Settings) -> dict[str, str]:
    """Properties of the template for the levels that are set. Raises UsageError for levels that contradict."""
    values = {
        _WAYS[name].variable: _WAYS[name].written(name, level, "Tomcat")
        for name, level in settings.items()
        if name in _WAYS
    }
    if statements := settings.get(knobs.STATEMENT_CACHE.name, 0):
        values |= {"leadline.statements.pooled": "true", "leadline.statements.max": str(statements)}
    knobs.check_bounds(settings, knobs.MIN_THREADS, knobs.THREADS, _THREADS)
    spare = min(_SPARE_THREADS, int(settings.get(knobs.THREADS.name, _THREADS)))
    values.setdefault("leadline.threads.spare", str(spare))
    if any(settings.get(name) for name in _LOOKED_OVER):
        values["leadline.pool.upkeep"] = str(knobs.UPKEEP * 1000)  # Tomcat never looks by itself
    return values


# property -> what changes while Tomcat runs
_LIVE = {
    **{
        _WAYS[name].variable: _WAYS[name]
        for name, knob in catalogue.load("tomcat").items()
        if name in _WAYS and knob.apply_cost is ApplyCost.LIVE
    },
    "leadline.pool.upkeep": knobs.Way(place="DataSource", attributes=("timeBetweenEvictionRunsMillis",)),
}
_DEFAULTS = {"leadline.pool.upkeep": "-1", "leadline.http.compression": "off"}


def changes(before: Mapping[str, str], after: Mapping[str, str], application: Deployment) -> list[str]:
    """What the agent sets, from the properties that the levels had to those that they have now."""
    beans_ = {place: f"Catalina:{bean},*" for place, bean in _BEANS.items()}
    names = {**beans_, "DataSource": _pool(application), "Executor": "Catalina:type=Executor,name=http"}
    wanted = {name: after.get(name, _DEFAULTS.get(name)) for name in _LIVE}
    changed = [name for name, value in wanted.items() if value != before.get(name, _DEFAULTS.get(name))]
    threads = "leadline.threads.max"
    if threads in changed and int(after[threads]) < int(before.get(threads, _THREADS)):
        changed.reverse()  # it refuses fewer threads than it keeps
    return [
        f"{names[_LIVE[name].place]}|{attribute}|{wanted[name]}"
        for name in changed
        for attribute in _LIVE[name].attributes
    ]


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


def level(name: str, answer: Mapping[str, Any]) -> Level:
    """A knob's level from the agent's answer. Raises LookupError, KeyError."""
    if name == knobs.STATEMENT_CACHE.name:
        pool = _of_pool(answer)
        return int(pool["maxOpenPreparedStatements"]) if pool["poolPreparedStatements"] else 0
    if name == knobs.MONITORING.name:
        if not connections(answer):
            raise LookupError("Tomcat's pool has opened no connection yet whose MBean would tell server.monitoring")
        return any("connection=" in bean for bean in answer["beans"])
    if name not in _WAYS:
        raise LookupError(f"Tomcat does not tell the level of {name}")
    way = _WAYS[name]
    bean = _of_pool(answer) if way.place == "DataSource" else beans(answer, f"={way.place}")[0]
    return way.level(name, bean[way.attribute], "Tomcat")
