"""Open Liberty's knobs: how levels are written as variables and elements, and read from its resolved configurations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from xml.sax.saxutils import quoteattr

from leadline.model.knob import Level
from leadline.stack.base import Settings
from leadline.stack.servers import knobs

TITLE = "Open Liberty"
SOURCE, ENDPOINT = "DefaultDataSource", "defaultHttpEndpoint"
MONITOR = "monitor-1.0"
TRANSPORT = "transportSecurity-1.0"
KEYSTORE_PASSWORD = "leadline.keystore.password"  # the variable
_VALIDATION = "5s"  # how long the check of a connection may take; with a value every one is checked
_HTTP_1 = "http/1.1"


_CONFIGURATIONS = {
    "source": "(service.factoryPid=com.ibm.ws.jdbc.dataSource)",
    "manager": "(service.factoryPid=com.ibm.ws.jca.connectionManager)",
    "executor": "(service.pid=com.ibm.ws.threading)",
    "http": "(service.factoryPid=com.ibm.ws.http.options)",
    "tcp": "(service.factoryPid=com.ibm.ws.tcpchannel.options)",
    "compression": "(service.factoryPid=com.ibm.ws.http.compression)",
    "endpoint": "(service.factoryPid=com.ibm.ws.http)",
}
_REFERENCES = {
    "manager": ("source", "connectionManagerRef"),
    "http": ("endpoint", "httpOptionsRef"),
    "tcp": ("endpoint", "tcpOptionsRef"),
    "compression": ("endpoint", "compressionRef"),
}
IDENTITIES = {"source": SOURCE, "endpoint": ENDPOINT}
QUESTION = {
    **{f"configuration.{name}": filter_ for name, filter_ in _CONFIGURATIONS.items()},
    "bean.0": "WebSphere:type=ThreadPoolStats,*",
}

_WAYS = knobs.ways_of("liberty")


def variables(settings: Settings) -> dict[str, str]:
    """Variables of the template for the levels that are set. Raises UsageError for what Liberty cannot be told."""
    knobs.check_bounds(settings, knobs.MIN_THREADS, knobs.THREADS, None)
    values = {
        _WAYS[name].variable: f"{_WAYS[name].written(name, level, TITLE)}{'s' if _WAYS[name].form == 'seconds' else ''}"
        for name, level in settings.items()
        if name in _WAYS
    }
    if knobs.IDLE_TIMEOUT.name in settings or knobs.MAX_AGE.name in settings:
        values["leadline.pool.upkeep"] = f"{knobs.UPKEEP}s"
    if not settings.get(knobs.HTTP2.name, True):
        values["leadline.http.protocol"] = _HTTP_1
    return values


def elements(settings: Settings, access_log: str, endpoint: str = ENDPOINT, source: str = SOURCE) -> list[str]:
    """Elements of the overrides that only some levels need; ``access_log`` is the path of that log, ``endpoint`` and
    ``source`` are identities.
    """
    parts, lines = [], []
    if settings.get(knobs.ACCESS_LOG.name, False):
        parts.append(f"    <accessLogging filePath={quoteattr(access_log)}/>")
    if settings.get(knobs.COMPRESSION.name, False):
        parts.append("    <compression/>")
    if parts:
        lines += [f"  <httpEndpoint id={quoteattr(endpoint)}>", *parts, "  </httpEndpoint>"]
    if settings.get(knobs.VALIDATION.name, False):
        lines.append(f'  <dataSource id={quoteattr(source)} validationTimeout="{_VALIDATION}"/>')
    return lines


def keystore(path: str) -> str:
    """The element that gives the endpoint its certificate; under another name Liberty would make one of its own."""
    place = f'location={quoteattr(path)} password="${{{KEYSTORE_PASSWORD}}}"'
    return f'  <keyStore id="defaultKeyStore" type="PKCS12" {place}/>'


def level(name: str, answer: Mapping[str, Any], identities: Mapping[str, str] = IDENTITIES) -> Level:
    """A knob's level from the agent's answer; ``identities``: of the data source and the endpoint. Raises LookupError,
    KeyError.
    """
    if name == knobs.MONITORING.name:
        return any("type=ThreadPoolStats" in bean for bean in answer["beans"])
    if name == knobs.ACCESS_LOG.name:
        return bool(_configuration(answer, "endpoint", identities).get("accessLoggingRef"))
    if name == knobs.COMPRESSION.name:
        # The default instance is always there and compresses nothing.
        return bool(_configuration(answer, "compression", identities)["id"] != "defaultCompression")
    if name == knobs.VALIDATION.name:
        return _configuration(answer, "source", identities).get("validationTimeout") is not None
    if name not in _WAYS:
        raise LookupError(f"{TITLE} does not tell the level of {name}")
    way = _WAYS[name]
    level_ = way.level(name, _configuration(answer, way.place, identities)[way.attribute], TITLE)
    if way.place == "executor" and int(level_) < 0:
        raise LookupError("Open Liberty chooses the number of threads by the throughput it sees")
    return level_


def _configuration(answer: Mapping[str, Any], kind: str, identities: Mapping[str, str]) -> Mapping[str, Any]:
    """Resolved properties of the configuration in use: the one that its user refers to, not one of the defaults.

    Raises KeyError when there is none.
    """
    configurations: list[Mapping[str, Any]] = answer["configurations"].get(_CONFIGURATIONS[kind], [])
    if kind in _REFERENCES:
        user, reference = _REFERENCES[kind]
        wanted = _configuration(answer, user, identities)[reference]
        names = wanted if isinstance(wanted, list) else [wanted]
        configurations = [properties for properties in configurations if properties["service.pid"] in names]
    elif kind in identities:
        configurations = [properties for properties in configurations if properties.get("id") == identities[kind]]
    if not configurations:
        raise KeyError(f"configuration {_CONFIGURATIONS[kind]}")
    return configurations[0]
