"""WildFly's knobs: properties that its configuration's expressions read, and its management model to read them back."""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Literal

from leadline.model.errors import UsageError
from leadline.model.knob import Level
from leadline.stack.base import ServiceContext, Settings
from leadline.stack.deployment import Deployment
from leadline.stack.servers import knobs

_UNDERTOW = "/subsystem=undertow/server=default-server"
PLAIN, SECURE = f"{_UNDERTOW}/http-listener=default", f"{_UNDERTOW}/https-listener=default"
_ELYTRON = "/subsystem=elytron"
# What follows a colon only serves the embedded server that writes the configuration.
_PASSWORD = 'credential-reference={clear-text="${leadline.tls.password:none}"}'
# Remoting and messaging refer to the listener by its name, so it keeps it. Attributes as the template's.
_OPERATIONS = (
    f"{PLAIN}:remove",
    f'{_ELYTRON}/key-store=leadline:add(type=PKCS12,path="${{leadline.tls.store:none}}",{_PASSWORD})',
    f"{_ELYTRON}/key-manager=leadline:add(key-store=leadline,{_PASSWORD})",
    f"{_ELYTRON}/server-ssl-context=leadline:add(key-manager=leadline)",
    f"{SECURE}:add(socket-binding=http,ssl-context=leadline,"
    'tcp-backlog="${leadline.http.queue:10000}",no-request-timeout="${leadline.http.keepalive.timeout:60000}",'
    'enable-http2="${leadline.http.http2:true}")',
)


def with_tls(settings: Settings, others: Sequence[str]) -> list[str]:
    """``others`` for the listener that there is, after the operations that make it the one for HTTPS."""
    if not settings.get(knobs.TLS.name):
        return list(others)
    return [*_OPERATIONS, *(line.replace(PLAIN, SECURE) for line in others)]


def tls_properties(context: ServiceContext, settings: Settings) -> dict[str, str]:
    """Properties that name the key store, which is written; none without TLS."""
    if not settings.get(knobs.TLS.name) or context.certificate is None:
        return {}
    path, password = context.directory / "tls.p12", secrets.token_urlsafe(18)
    context.certificate.write_keystore(path, password)
    return {"leadline.tls.store": str(path), "leadline.tls.password": password}


_WORKER = "/subsystem=io/worker=default"
_BEAN_POOL = "/subsystem=ejb3/strict-max-bean-instance-pool=slsb-strict-max-pool"
_HOST = "/subsystem=undertow/server=default-server/host=default-host"
_TEXT = (
    "regex(pattern='text/.*|application/(json|javascript).*',value=%{o,Content-Type},full-match=true)"  # of the answer
)
_PURGE = {
    "entire-pool": "EntirePool",
    "failing-connection": "FailingConnectionOnly",
    "validate-all": "InvalidIdleConnections",
}
_CHECKER = "org.jboss.jca.adapters.jdbc.extensions.novendor.JDBC4ValidConnectionChecker"
_MINUTE = 60
# Management resources; of the worker what it has, not what its configuration asks for.
_RESOURCES = {
    "source": "subsystem=datasources,data-source=*",  # the one of the application
    "worker": "subsystem=io,worker=default",
    "listener": "subsystem=undertow,server=default-server,http-listener=default",
    "secure": "subsystem=undertow,server=default-server,https-listener=default",
    "access": "subsystem=undertow,server=default-server,host=default-host,setting=access-log",
    "compression": "subsystem=undertow,server=default-server,host=default-host,filter-ref=compression",
    "beans": "subsystem=ejb3",
    "instances": "subsystem=ejb3,strict-max-bean-instance-pool=slsb-strict-max-pool",
}
_INSTEAD = {"listener": "secure"}  # the resource with the same attributes where the first is not there
_PRESENCE = {"access": "pattern", "compression": "predicate"}  # on where the resource is; one attribute of each


@dataclass(frozen=True)
class _Own:
    """A knob as WildFly has it: the property that carries its level, the resource and attribute that tell it.

    ``operations`` are written into the configuration only when there is a level (a switch: when it is on), because
    WildFly derives the default by itself or has nothing there.
    """

    knob: str
    property: str
    resource: str = ""
    attribute: str = ""
    form: Literal["plain", "milliseconds", "minutes", "negated", "purge"] = "plain"
    operations: tuple[str, ...] = ()


def _set(resource: str, attribute: str, name: str) -> str:
    return f'{resource}:write-attribute(name={attribute},value="${{{name}}}")'


_TABLE = (
    _Own(knobs.MAX_CONNECTIONS.name, "leadline.pool.max", "source", "maxPoolSize"),
    _Own(knobs.MIN_CONNECTIONS.name, "leadline.pool.min", "source", "minPoolSize"),
    _Own(knobs.STATEMENT_CACHE.name, "leadline.statements", "source", "preparedStatementsCacheSize"),
    _Own(knobs.CONNECTION_TIMEOUT.name, "leadline.pool.wait", "source", "blockingTimeoutWaitMillis", "milliseconds"),
    _Own(knobs.IDLE_TIMEOUT.name, "leadline.pool.idle", "source", "idleTimeoutMinutes", "minutes"),
    _Own(knobs.PURGE_POLICY.name, "leadline.pool.flush", "source", "flushStrategy", "purge"),
    _Own(knobs.VALIDATION.name, "leadline.pool.validation", "source", "validateOnMatch"),
    _Own(
        knobs.THREADS.name,
        "leadline.threads.max",
        "worker",
        "maxPoolSize",
        operations=(_set(_WORKER, "task-max-threads", "leadline.threads.max"),),
    ),
    _Own(knobs.MIN_THREADS.name, "leadline.threads.min", "worker", "corePoolSize"),
    _Own(knobs.THREAD_KEEP_ALIVE.name, "leadline.threads.idle", "worker", "taskKeepalive", "milliseconds"),
    _Own(
        knobs.IO_THREADS.name,
        "leadline.threads.io",
        "worker",
        "ioThreadCount",
        operations=(_set(_WORKER, "io-threads", "leadline.threads.io"),),
    ),
    _Own(
        knobs.BEAN_INSTANCES.name,
        "leadline.beans.max",
        "instances",
        "derivedSize",  # with a derived size or without
        operations=(
            f"{_BEAN_POOL}:undefine-attribute(name=derive-size)",
            _set(_BEAN_POOL, "max-pool-size", "leadline.beans.max"),
        ),
    ),
    _Own(
        knobs.BY_REFERENCE.name,
        "leadline.calls.by_value",
        "beans",
        "inVmRemoteInterfaceInvocationPassByValue",
        "negated",
    ),
    _Own(
        knobs.HTTP_CONNECTIONS.name,
        "leadline.http.connections",
        "listener",
        "maxConnections",
        operations=(_set(PLAIN, "max-connections", "leadline.http.connections"),),
    ),
    _Own(knobs.ACCEPT_QUEUE.name, "leadline.http.queue", "listener", "tcpBacklog"),
    _Own(
        knobs.KEEP_ALIVE_TIMEOUT.name, "leadline.http.keepalive.timeout", "listener", "noRequestTimeout", "milliseconds"
    ),
    _Own(knobs.HTTP2.name, "leadline.http.http2", "listener", "enableHttp2"),
    _Own(
        knobs.COMPRESSION.name,
        "",
        "compression",
        operations=(
            "/subsystem=undertow/configuration=filter/gzip=compression:add",
            f'{_HOST}/filter-ref=compression:add(predicate="{_TEXT}")',
        ),
    ),
    _Own(knobs.MONITORING.name, "wildfly.statistics-enabled", "source", "statisticsEnabled"),
    _Own(
        knobs.ACCESS_LOG.name,
        "",
        "access",
        operations=(f"{_HOST}/setting=access-log:add(prefix=access,suffix=.log,rotate=false,pattern=common)",),
    ),
)
_OWN = {row.knob: row for row in _TABLE}


def question(application: Deployment) -> dict[str, str]:
    """What the agent is asked: a resource each, with the attributes that have knobs."""
    questions = {}
    for number, (kind, resource) in enumerate(_RESOURCES.items()):
        same = {kind, *(first for first, other in _INSTEAD.items() if other == kind)}
        attributes = ",".join(row.attribute for row in _TABLE if row.resource in same and row.attribute)
        named = resource.replace("*", application.data_source.name)
        questions[f"bean.{number}"] = f"jboss.as:{named}|{attributes or _PRESENCE[kind]}"
    return questions


def operations(settings: Settings) -> list[str]:
    """Operations of the command line that these levels need beside the template's."""
    lines = [line for name, row in _OWN.items() if name in settings and settings[name] is not False
             for line in row.operations]  # fmt: skip
    return with_tls(settings, lines)


def written_over(settings: Settings, pool: str) -> list[str]:
    """Operations that write these levels over a configuration that is not leadline's, those left out that
    ``operations`` has; ``pool`` is the name of its data source.
    """
    lines = []
    for name, row in _OWN.items():
        if name not in settings or row.operations or not row.property or (row.resource == "source" and not pool):
            continue
        resource = "/" + _RESOURCES[row.resource].replace("*", pool).replace(",", "/")
        attribute = _WRITTEN.get(row.attribute, row.attribute) if row.resource == "worker" else row.attribute
        dashed = re.sub(r"[A-Z]", lambda found: f"-{found[0].lower()}", attribute)
        lines.append(_set(resource, dashed, row.property))
    if pool and (knobs.VALIDATION.name in settings or settings.get(knobs.PURGE_POLICY.name) == "validate-all"):
        source = f"/subsystem=datasources/data-source={pool}"
        checker = "${leadline.pool.checker:org.jboss.jca.adapters.jdbc.extensions.novendor.NullValidConnectionChecker}"
        lines.append(f'{source}:write-attribute(name=valid-connection-checker-class-name,value="{checker}")')
    return lines


def properties(settings: Settings) -> dict[str, str]:
    """Properties for the levels that are set. Raises UsageError for levels that contradict or cannot be written."""
    knobs.check_bounds(settings, knobs.MIN_THREADS, knobs.THREADS, None)
    values = {_OWN[name].property: _written(_OWN[name], level) for name, level in settings.items()
              if name in _OWN and _OWN[name].property}  # fmt: skip
    check, purge = settings.get(knobs.VALIDATION.name), settings.get(knobs.PURGE_POLICY.name)
    if purge == "validate-all" and check is False:
        raise UsageError(
            f"{knobs.PURGE_POLICY.name} validate-all: WildFly then checks every connection before each use too;"
            f" set {knobs.VALIDATION.name} on, or take failing-connection"
        )
    # Wherever there is a checker IronJacamar uses it on every match, whatever validate-on-match says (JBJCA-1153).
    if check or purge == "validate-all":
        values["leadline.pool.checker"] = _CHECKER
    return values


_SERVER = "management-root=server"
_STATE = "serverState"
# How attributes that are written differ from those that are read.
_WRITTEN = {"maxPoolSize": "taskMaxThreads", "corePoolSize": "taskCoreThreads", "derivedSize": "maxPoolSize"}


def changes(levels: Settings, settings: Settings, application: Deployment) -> dict[str, str]:
    """What the agent sets for these levels, and asks: whether WildFly would have to be loaded again for them."""
    instead = _INSTEAD if settings.get(knobs.TLS.name) else {}
    questions = {"bean.state": f"jboss.as:{_SERVER}|{_STATE}"}
    for number, name in enumerate(levels):
        row = _OWN[name]
        resource = _RESOURCES[instead.get(row.resource, row.resource)].replace("*", application.data_source.name)
        attribute = _WRITTEN.get(row.attribute, row.attribute)
        questions[f"set.{number:02}"] = f"jboss.as:{resource}|{attribute}|{_written(row, levels[name])}"
    return questions


def taken(answer: Mapping[str, Any]) -> bool:
    """Whether what was set is in force. Raises LookupError where WildFly would have to be loaded again."""
    state = answer["beans"].get(f"jboss.as:{_SERVER}", {}).get(_STATE)
    if state not in ("running", None):
        raise LookupError(f"WildFly would have to be loaded again: it is in state {state}")
    return state is not None


def _written(row: _Own, level: Level) -> str:
    if row.form == "milliseconds":
        return str(round(float(level) * 1000))
    if row.form == "minutes":
        minutes = float(level) / _MINUTE
        if minutes != int(minutes):
            raise UsageError(
                f"{row.knob} {float(level):g} s: WildFly counts whole minutes; the nearest is {max(1, round(minutes))}m"
            )
        return str(int(minutes))
    if row.form == "purge":
        return _PURGE[str(level)]
    if isinstance(level, bool):
        return str(level != (row.form == "negated")).lower()
    return str(level)


def level(name: str, answer: Mapping[str, Any]) -> Level:
    """A knob's level from the agent's answer. Raises LookupError, KeyError."""
    if name not in _OWN:
        raise LookupError(f"WildFly does not tell the level of {name}")
    row = _OWN[name]
    resource = attributes_of(answer, _RESOURCES[row.resource])
    if resource is None and row.resource in _INSTEAD:
        resource = attributes_of(answer, _RESOURCES[_INSTEAD[row.resource]])
    if row.resource in _PRESENCE:
        return resource is not None
    if resource is None:
        raise KeyError(f"management resource {_RESOURCES[row.resource]}")
    value = resource[row.attribute]
    if value is None:
        raise LookupError(f"WildFly has no limit for {name}")
    if row.form == "milliseconds":
        return float(value) / 1000
    if row.form == "minutes":
        return float(value) * _MINUTE
    if row.form == "negated":
        return not value
    if row.form == "purge":
        return next((word for word, strategy in _PURGE.items() if strategy == value), str(value))
    return value if isinstance(value, bool) else int(value)


def attributes_of(answer: Mapping[str, Any], wanted: str) -> Mapping[str, Any] | None:
    """Of a management resource, whose last name may be ``*``; None where the server has no such resource. MBean names
    come with their keys sorted.
    """
    *keys, last = wanted.split(",")
    for name, attributes in answer["beans"].items():
        names = set(name.partition(":")[2].split(","))
        rest = names.difference(keys)
        if len(rest) == len(names) - len(keys) == 1 and fnmatchcase(rest.pop(), last):
            attributes_read: Mapping[str, Any] = attributes
            return attributes_read
    return None
