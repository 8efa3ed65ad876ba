"""WildFly's knobs: properties that its configuration's expressions read, and its management model to read them back."""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from leadline.model.errors import UsageError
from leadline.model.knob import Level
from leadline.stack.base import Deployment, ServiceContext, Settings
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


_CHECKER = "org.jboss.jca.adapters.jdbc.extensions.novendor.JDBC4ValidConnectionChecker"
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


_WAYS = knobs.ways_of("wildfly")


def question(application: Deployment) -> dict[str, str]:
    """What the agent is asked: a resource each, with the attributes that have knobs."""
    questions = {}
    for number, (kind, resource) in enumerate(_RESOURCES.items()):
        same = {kind, *(first for first, other in _INSTEAD.items() if other == kind)}
        attributes = ",".join(way.attribute for way in _WAYS.values() if way.place in same and way.attributes)
        named = resource.replace("*", application.data_source.name)
        questions[f"bean.{number}"] = f"jboss.as:{named}|{attributes or _PRESENCE[kind]}"
    return questions


def operations(settings: Settings) -> list[str]:
    """Operations of the command line that these levels need beside the template's."""
    ways = [way for name, way in _WAYS.items() if name in settings and settings[name] is not False]
    return with_tls(settings, [line for way in ways for line in way.lines])


def written_over(settings: Settings, pool: str) -> list[str]:
    """Operations that write these levels over a configuration that is not leadline's, those left out that
    ``operations`` has; ``pool`` is the name of its data source.
    """
    lines = []
    for name, way in _WAYS.items():
        if name not in settings or way.lines or not way.variable or (way.place == "source" and not pool):
            continue
        resource = "/" + _RESOURCES[way.place].replace("*", pool).replace(",", "/")
        attribute = _WRITTEN.get(way.attribute, way.attribute) if way.place == "worker" else way.attribute
        dashed = re.sub(r"[A-Z]", lambda found: f"-{found[0].lower()}", attribute)
        lines.append(f'{resource}:write-attribute(name={dashed},value="${{{way.variable}}}")')
    if pool and (knobs.VALIDATION.name in settings or settings.get(knobs.PURGE_POLICY.name) == "validate-all"):
        source = f"/subsystem=datasources/data-source={pool}"
        checker = "${leadline.pool.checker:org.jboss.jca.adapters.jdbc.extensions.novendor.NullValidConnectionChecker}"
        lines.append(f'{source}:write-attribute(name=valid-connection-checker-class-name,value="{checker}")')
    return lines


def properties(settings: Settings) -> dict[str, str]:
    """Properties for the levels that are set. Raises UsageError for levels that contradict or cannot be written."""
    knobs.check_bounds(settings, knobs.MIN_THREADS, knobs.THREADS, None)
    values = {
        _WAYS[name].variable: _WAYS[name].written(name, level, "WildFly")
        for name, level in settings.items()
        if name in _WAYS and _WAYS[name].variable
    }
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
        way = _WAYS[name]
        resource = _RESOURCES[instead.get(way.place, way.place)].replace("*", application.data_source.name)
        attribute, value = _WRITTEN.get(way.attribute, way.attribute), way.written(name, levels[name], "WildFly")
        questions[f"set.{number:02}"] = f"jboss.as:{resource}|{attribute}|{value}"
    return questions


def taken(answer: Mapping[str, Any]) -> bool:
    """Whether what was set is in force. Raises LookupError where WildFly would have to be loaded again."""
    state = answer["beans"].get(f"jboss.as:{_SERVER}", {}).get(_STATE)
    if state not in ("running", None):
        raise LookupError(f"WildFly would have to be loaded again: it is in state {state}")
    return state is not None


def level(name: str, answer: Mapping[str, Any]) -> Level:
    """A knob's level from the agent's answer. Raises LookupError, KeyError."""
    if name not in _WAYS:
        raise LookupError(f"WildFly does not tell the level of {name}")
    way = _WAYS[name]
    resource = attributes_of(answer, _RESOURCES[way.place])
    if resource is None and way.place in _INSTEAD:
        resource = attributes_of(answer, _RESOURCES[_INSTEAD[way.place]])
    if way.place in _PRESENCE:
        return resource is not None
    if resource is None:
        raise KeyError(f"management resource {_RESOURCES[way.place]}")
    return way.level(name, resource[way.attribute], "WildFly")


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
