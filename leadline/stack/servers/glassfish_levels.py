"""GlassFish's knobs: attributes of a private domain.xml, read back from the beans of its configuration (AMX)."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from leadline.model.knob import Knob, Level
from leadline.stack.base import Settings
from leadline.stack.servers import knobs
from leadline.stack.servers.beans import beans

POOL = "brokerage"
_LISTENER = "http-listener-1"
_CONFIG = "configs/config[@name='server-config']"
_MANUAL = "Eclipse GlassFish 7 Reference Manual and Administration Guide"
# Elements of domain.xml that have knobs, and the name of the bean that shows each.
_ELEMENTS = {
    "pool": f"resources/jdbc-connection-pool[@name='{POOL}']",
    "threads": f"{_CONFIG}/thread-pools/thread-pool[@name='http-thread-pool']",
    "http": f"{_CONFIG}/network-config/protocols/protocol[@name='{_LISTENER}']/http",
    "transport": f"{_CONFIG}/network-config/transports/transport[@name='tcp']",
    "service": f"{_CONFIG}/http-service",
    "beans": f"{_CONFIG}/ejb-container",
    "monitoring": f"{_CONFIG}/monitoring-service/module-monitoring-levels",
}
_BEANS = {
    "pool": f"name={POOL},pp=/domain/resources,type=jdbc-connection-pool",
    "threads": "name=http-thread-pool,pp=/domain/configs/config[server-config]/thread-pools,type=thread-pool",
    "http": f"pp=/domain/configs/config[server-config]/network-config/protocols/protocol[{_LISTENER}],type=http",
    "transport": "name=tcp,pp=/domain/configs/config[server-config]/network-config/transports,type=transport",
    "service": "pp=/domain/configs/config[server-config],type=http-service",
    "beans": "pp=/domain/configs/config[server-config],type=ejb-container",
    "monitoring": "pp=/domain/configs/config[server-config]/monitoring-service,type=module-monitoring-levels",
}


@dataclass(frozen=True)
class _Own:
    """A knob as GlassFish has it: attributes of an element, all of one value; ``milliseconds`` and ``seconds`` are
    whole.
    """

    knob: Knob
    element: str
    attribute: str
    form: Literal["plain", "milliseconds", "seconds", "on", "high"] = "plain"
    second: str = ""

    @property
    def attributes(self) -> tuple[str, ...]:
        return (self.attribute, self.second) if self.second else (self.attribute,)


def _own(knob: Knob, name: str, default: Level | None, **more: object) -> Knob:
    return knobs.for_server(knob, "glassfish", name, default, _MANUAL, **more)


_TABLE = (
    _Own(_own(knobs.MAX_CONNECTIONS, "jdbc-connection-pool/@max-pool-size", 32), "pool", "max-pool-size"),
    _Own(_own(knobs.MIN_CONNECTIONS, "jdbc-connection-pool/@steady-pool-size", 8), "pool", "steady-pool-size"),
    _Own(_own(knobs.STATEMENT_CACHE, "jdbc-connection-pool/@statement-cache-size", 0), "pool", "statement-cache-size"),
    _Own(
        _own(knobs.CONNECTION_TIMEOUT, "jdbc-connection-pool/@max-wait-time-in-millis", 60.0),
        "pool",
        "max-wait-time-in-millis",
        "milliseconds",
    ),
    _Own(
        _own(knobs.IDLE_TIMEOUT, "jdbc-connection-pool/@idle-timeout-in-seconds", 300.0),
        "pool",
        "idle-timeout-in-seconds",
        "seconds",
    ),
    _Own(
        _own(knobs.VALIDATION, "jdbc-connection-pool/@is-connection-validation-required", False),
        "pool",
        "is-connection-validation-required",
    ),
    _Own(_own(knobs.THREADS, "http-thread-pool/@max-thread-pool-size", 5), "threads", "max-thread-pool-size"),
    _Own(_own(knobs.MIN_THREADS, "http-thread-pool/@min-thread-pool-size", 5), "threads", "min-thread-pool-size"),
    _Own(
        _own(knobs.THREAD_KEEP_ALIVE, "http-thread-pool/@idle-thread-timeout-seconds", 900.0),
        "threads",
        "idle-thread-timeout-seconds",
        "seconds",
    ),
    _Own(_own(knobs.THREAD_QUEUE, "http-thread-pool/@max-queue-size", 4096), "threads", "max-queue-size"),
    _Own(_own(knobs.BEAN_INSTANCES, "ejb-container/@max-pool-size", 32), "beans", "max-pool-size"),
    _Own(
        _own(knobs.HTTP_CONNECTIONS, "transport/@max-connections-count", 4096),
        "transport",
        "max-connections-count",
    ),
    _Own(_own(knobs.KEEP_ALIVE, "http/@max-connections", 250), "http", "max-connections"),
    _Own(_own(knobs.KEEP_ALIVE_TIMEOUT, "http/@timeout-seconds", 30.0), "http", "timeout-seconds", "seconds"),
    _Own(_own(knobs.COMPRESSION, "http/@compression", False), "http", "compression", "on"),
    _Own(_own(knobs.ACCESS_LOG, "http-service/@access-logging-enabled", False), "service", "access-logging-enabled"),
    _Own(
        _own(knobs.MONITORING, "module-monitoring-levels/@jdbc-connection-pool, @http-service", False),
        "monitoring",
        "jdbc-connection-pool",
        "high",
        second="http-service",  # the threads that serve requests are counted with it
    ),
)
_OWN = {row.knob.name: row for row in _TABLE}
TLS = _own(knobs.TLS, "protocol/@security-enabled", False)
KNOBS = (*(row.knob for row in _TABLE), TLS)


def _bean_attribute(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("-"))


# The beans appear only after the operation.
QUESTION = {"invoke.0": "amx-support:type=boot-amx|bootAMX"} | {
    f"bean.{kind}": "|".join(
        (
            f"amx:{name}",
            ",".join(_bean_attribute(each) for row in _TABLE if row.element == kind for each in row.attributes),
        )
    )
    for kind, name in _BEANS.items()
}

EXPECTED = tuple(f"amx:{name}" for name in _BEANS.values())


def apply(root: ElementTree.Element, settings: Settings) -> None:
    """Set the attributes of the levels in a domain's tree. Raises UsageError for levels that contradict."""
    knobs.check_threads(settings, int(str(_OWN[knobs.THREADS.name].knob.default)))
    for name, level_ in settings.items():
        if name in _OWN:
            row = _OWN[name]
            element = root.find(_ELEMENTS[row.element])
            assert element is not None, row.element
            for attribute in row.attributes:
                element.set(attribute, _written(row, level_))
    if settings.get(knobs.VALIDATION.name):
        pool = root.find(_ELEMENTS["pool"])
        assert pool is not None
        # Its other ways ask a driver that answers from memory, or count the rows of a table.
        pool.set("connection-validation-method", "custom-validation")
        pool.set("validation-classname", "org.glassfish.api.jdbc.validation.JDBC40ConnectionValidation")


def _written(row: _Own, level_: Level) -> str:
    if row.form == "milliseconds":
        return str(round(float(level_) * 1000))
    if row.form == "seconds":
        return str(knobs.whole_seconds(row.knob.name, {row.knob.name: level_}, "GlassFish"))
    if row.form == "on":
        return "on" if level_ else "off"
    if row.form == "high":
        return "HIGH" if level_ else "OFF"
    return str(level_).lower()


def level(name: str, answer: Mapping[str, Any]) -> Level:
    """A knob's level from the agent's answer. Raises LookupError, KeyError."""
    if name not in _OWN:
        raise LookupError(f"GlassFish does not tell the level of {name}")
    row = _OWN[name]
    bean = beans(answer, f"amx:{_BEANS[row.element]}")[0]
    values = {str(bean[_bean_attribute(attribute)]) for attribute in row.attributes}
    if len(values) > 1:
        raise LookupError(f"GlassFish has {name} at different levels: {', '.join(sorted(values))}")
    found = values.pop()
    if row.form == "on":
        return found == "on"
    if row.form == "high":
        return found == "HIGH"
    if found in ("true", "false"):
        return found == "true"
    if row.form == "plain":
        return int(found)
    return float(found) / (1000 if row.form == "milliseconds" else 1)
