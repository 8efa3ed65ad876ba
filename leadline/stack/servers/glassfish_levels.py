"""GlassFish's knobs: attributes of a private domain.xml, read back from the beans of its configuration (AMX)."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping
from typing import Any

from leadline import catalogue
from leadline.model.knob import Level
from leadline.stack.base import Settings
from leadline.stack.servers import knobs
from leadline.stack.servers.files import beans

_LISTENER = "http-listener-1"
_CONFIG = "configs/config[@name='server-config']"
# Elements of domain.xml that have knobs, and the name of the bean that shows each.
_ELEMENTS = {
    "pool": "resources/jdbc-connection-pool[@name='{pool}']",
    "threads": f"{_CONFIG}/thread-pools/thread-pool[@name='http-thread-pool']",
    "http": f"{_CONFIG}/network-config/protocols/protocol[@name='{_LISTENER}']/http",
    "transport": f"{_CONFIG}/network-config/transports/transport[@name='tcp']",
    "service": f"{_CONFIG}/http-service",
    "beans": f"{_CONFIG}/ejb-container",
    "monitoring": f"{_CONFIG}/monitoring-service/module-monitoring-levels",
}
_BEANS = {
    "pool": "pp=/domain/resources,type=jdbc-connection-pool",  # without its name
    "threads": "name=http-thread-pool,pp=/domain/configs/config[server-config]/thread-pools,type=thread-pool",
    "http": f"pp=/domain/configs/config[server-config]/network-config/protocols/protocol[{_LISTENER}],type=http",
    "transport": "name=tcp,pp=/domain/configs/config[server-config]/network-config/transports,type=transport",
    "service": "pp=/domain/configs/config[server-config],type=http-service",
    "beans": "pp=/domain/configs/config[server-config],type=ejb-container",
    "monitoring": "pp=/domain/configs/config[server-config]/monitoring-service,type=module-monitoring-levels",
}


_WAYS = knobs.ways_of("glassfish")
_KNOBS = catalogue.load("glassfish")
_CONNECTIONS, _KEPT = (int(str(_KNOBS[knob.name].default)) for knob in (knobs.MAX_CONNECTIONS, knobs.MIN_CONNECTIONS))

_BOUNDS = ((knobs.MIN_CONNECTIONS, knobs.MAX_CONNECTIONS), (knobs.MIN_THREADS, knobs.THREADS))


def _bean_attribute(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("-"))


def _names(pool: str) -> dict[str, str]:
    """Canonical names of the beans by element; without a pool's where ``pool`` is empty."""
    kinds = [kind for kind in _BEANS if pool or kind != "pool"]
    return {kind: f"amx:{f'name={pool},' if kind == 'pool' else ''}{_BEANS[kind]}" for kind in kinds}


def expected(pool: str) -> list[str]:
    """Canonical names of the beans that must be there; ``pool`` may be empty."""
    return list(_names(pool).values())


def question(pool: str) -> dict[str, str]:
    """What the agent is asked. The beans appear only after the operation."""
    questions = {"invoke.0": "amx-support:type=boot-amx|bootAMX"}
    for kind, name in _names(pool).items():
        attributes = [attribute for way in _WAYS.values() if way.place == kind for attribute in way.attributes]
        questions[f"bean.{kind}"] = f"{name}|{','.join(map(_bean_attribute, attributes))}"
    return questions


def apply(root: ElementTree.Element, settings: Settings, pool: str) -> None:
    """Set the attributes of the levels in a domain's tree; ``pool`` names its pool. Raises UsageError."""
    for (kind, attribute), value in _attributes(settings).items():
        only(root, _ELEMENTS[kind].format(pool=pool)).set(attribute, value)


def apply_over(root: ElementTree.Element, settings: Settings, pool: str) -> None:
    """The same over a domain that has numbers of its own: those hold beside the levels, and what is kept is lowered to
    a level below it.
    """
    levels_of_domain: dict[str, Level] = {}
    for knob in (knob for pair in _BOUNDS for knob in pair):
        way = _WAYS[knob.name]
        element = root.find(_ELEMENTS[way.place].format(pool=pool))
        if element is not None and (number := element.get(way.attribute, "")).isdecimal():
            levels_of_domain[knob.name] = int(number)
    for least, most in _BOUNDS:
        least_level, limit = levels_of_domain.get(least.name), settings.get(most.name)
        if isinstance(least_level, int) and isinstance(limit, int):
            levels_of_domain[least.name] = min(least_level, limit)
    apply(root, {**levels_of_domain, **settings}, pool)


def lacking(root: ElementTree.Element) -> str:
    """The first element that has knobs and that a domain of one's own lacks; empty where it has all."""
    wanted = (path for kind, path in _ELEMENTS.items() if kind not in ("pool", "beans", "monitoring"))
    return next((path for path in wanted if root.find(path) is None), "")


def _attributes(settings: Settings) -> dict[tuple[str, str], str]:
    """Values of the attributes, by element and name. Raises UsageError for levels that contradict."""
    knobs.check_bounds(settings, knobs.MIN_THREADS, knobs.THREADS, _KNOBS[knobs.THREADS.name].default)
    knobs.check_bounds(settings, knobs.MIN_CONNECTIONS, knobs.MAX_CONNECTIONS, _CONNECTIONS)
    values = {}
    if (most := settings.get(knobs.MAX_CONNECTIONS.name)) is not None:  # it does not hold fewer than it keeps
        settings = {knobs.MIN_CONNECTIONS.name: min(_KEPT, int(most)), **settings}
    if settings.get(knobs.VALIDATION.name):
        # Its other ways ask a driver that answers from memory, or count the rows of a table.
        values["pool", "connection-validation-method"] = "custom-validation"
        values["pool", "validation-classname"] = "org.glassfish.api.jdbc.validation.JDBC40ConnectionValidation"
    for name, level_ in settings.items():
        if way := _WAYS.get(name):
            values |= dict.fromkeys(
                [(way.place, attribute) for attribute in way.attributes], way.written(name, level_, "GlassFish")
            )
    return values


def changes(before: Settings, after: Settings, pool: str) -> dict[str, str]:
    """What the agent sets so that the levels ``after`` take the place of those ``before``. Raises UsageError."""
    was, wanted = _attributes(before), _attributes(after)
    most, default = ("pool", _WAYS[knobs.MAX_CONNECTIONS.name].attribute), str(_CONNECTIONS)
    falls = int(wanted.get(most, default)) < int(was.get(most, default))
    # It refuses a maximum below what is kept, so the one comes after the other, or before it.
    keys = sorted((key for key in wanted if wanted[key] != was.get(key)), key=lambda key: (key == most) == falls)
    names = _names(pool)
    assignments = [f"{names[kind]}|{_bean_attribute(name)}|{wanted[kind, name]}" for kind, name in keys]
    return {f"set.{number:02}": assignment for number, assignment in enumerate(assignments)}


def only(root: ElementTree.Element, path: str) -> ElementTree.Element:
    """The element there, which every domain has."""
    element = root.find(path)
    assert element is not None, path
    return element


def added(parent: ElementTree.Element, name: str) -> ElementTree.Element:
    """The child of that name, made where there is none."""
    element = parent.find(name)
    return ElementTree.SubElement(parent, name) if element is None else element


def level(name: str, answer: Mapping[str, Any]) -> Level:
    """A knob's level from the agent's answer. Raises LookupError, KeyError."""
    if name not in _WAYS:
        raise LookupError(f"GlassFish does not tell the level of {name}")
    way = _WAYS[name]
    bean = beans(answer, _BEANS[way.place])[0]
    values = {str(bean[_bean_attribute(attribute)]) for attribute in way.attributes}
    if len(values) > 1:
        raise LookupError(f"GlassFish has {name} at different levels: {', '.join(sorted(values))}")
    return way.level(name, values.pop(), "GlassFish")
