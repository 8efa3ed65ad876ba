"""Open Liberty over the user's ``server.xml``: a copy of its directory, levels through ``configDropins/overrides``."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Collection, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any
from xml.sax.saxutils import quoteattr

from leadline.host.textfile import write_private
from leadline.model.errors import UsageError
from leadline.model.knob import Level
from leadline.stack.base import ServiceContext, Settings
from leadline.stack.own.wars.base import WarServer, copied, linked, tree_of
from leadline.stack.servers import knobs, liberty, liberty_levels
from leadline.stack.servers.common import Answer
from leadline.stack.servers.liberty import Liberty

_APPLICATIONS = ("application", "webApplication", "enterpriseApplication")
# variable of a level -> part of the configuration and its attribute
_PLACES = {
    "leadline.pool.max": ("connectionManager", "maxPoolSize"),
    "leadline.pool.min": ("connectionManager", "minPoolSize"),
    "leadline.pool.wait": ("connectionManager", "connectionTimeout"),
    "leadline.pool.idle": ("connectionManager", "maxIdleTime"),
    "leadline.pool.age": ("connectionManager", "agedTimeout"),
    "leadline.pool.upkeep": ("connectionManager", "reapTime"),
    "leadline.pool.purge": ("connectionManager", "purgePolicy"),
    "leadline.statements": ("dataSource", "statementCacheSize"),
    "leadline.threads.max": ("executor", "maxThreads"),
    "leadline.threads.min": ("executor", "coreThreads"),
    "leadline.http.keepalive": ("httpOptions", "maxKeepAliveRequests"),
    "leadline.http.keepalive.timeout": ("httpOptions", "persistTimeout"),
    "leadline.http.connections": ("tcpOptions", "maxOpenConnections"),
    "leadline.http.protocol": ("httpEndpoint", "protocolVersion"),
}
_PARENTS = {"connectionManager": "dataSource", "httpOptions": "httpEndpoint", "tcpOptions": "httpEndpoint"}
_OVERRIDES = "zz-leadline.xml"  # the last of the overrides wins


class OwnLiberty(WarServer, Liberty):
    """Open Liberty with an archive of one's own."""

    def own_base(self, context: ServiceContext) -> Path:
        return context.directory / "usr"

    def pools_in(self, directory: Path) -> Collection[str]:
        return [identity for identity in _ids(_elements(directory), "dataSource") if identity]

    def root_in(self, directory: Path, archive: Path) -> str:
        deployed = (element for element in _elements(directory) if element.tag in _APPLICATIONS)
        roots = (each.get("contextRoot") for each in deployed if Path(each.get("location", "")).name == archive.name)
        root = next(filter(None, roots), "")
        return super().root_in(directory, archive) if not root or "${" in root else f"/{root.strip('/')}"

    @cached_property
    def _endpoint(self) -> str:
        """The first endpoint of the user's, or the one that there is by default."""
        ids = _ids(_elements(self.config), "httpEndpoint") if self.config else []
        return next(filter(None, ids), liberty_levels.ENDPOINT)

    def write_over(self, context: ServiceContext, settings: Settings) -> None:
        server = context.directory / "usr" / "servers" / liberty.SERVER
        if self.config is not None:
            copied(self.config, server)
        else:
            server.mkdir(parents=True)
            feature = f"<feature>{liberty.PROFILES[context.application.profile]}</feature>"
            (server / "server.xml").write_text(f"<server>\n  <featureManager>{feature}</featureManager>\n</server>\n")
        overrides = server / "configDropins" / "overrides"
        overrides.mkdir(parents=True, exist_ok=True)
        include = f"<server>\n  <include location={quoteattr(str(self._levels))}/>\n</server>\n"
        (overrides / _OVERRIDES).write_text(include)
        with (overrides / "jvm.options").open("a") as options:
            options.write("".join(f"\n{option}" for option in self.jvm_options(context)) + "\n")
        with (server / "bootstrap.properties").open("a") as bootstrap:
            bootstrap.write("\ncommand.port=-1\n")  # nobody sends it commands
        archive = context.application.archive
        linked(archive, server / "apps" / archive.name)
        self._tls = {}
        if settings.get(knobs.TLS.name):
            self._tls = self.keystore(context)
        text = self._levels_over(context, settings)
        write_private(self._levels, text)
        self.keep(liberty.LEVELS, text)
        self.keep("server.xml", (server / "server.xml").read_text())

    def changes(self, levels: Settings, settings: Settings) -> Mapping[str, str]:
        if self.templated:
            return super().changes(levels, settings)
        self._levels.write_text(self._levels_over(self.context, settings))
        return {"changed.0": str(self._levels)}

    def _levels_over(self, context: ServiceContext, settings: Settings) -> str:
        """The levels as elements that Liberty merges with the user's of the same identity."""
        elements = _elements(self.config) if self.config else []
        variables = liberty_levels.variables(settings)
        attributes: dict[str, dict[str, str]] = {}
        for name, value in variables.items():
            element, attribute = _PLACES[name]
            attributes.setdefault(element, {})[attribute] = value
        secure = bool(settings.get(knobs.TLS.name))
        ports = (-1, context.http_port) if secure else (context.http_port, -1)
        attributes.setdefault("httpEndpoint", {}).update(
            {"host": context.http_address, "httpPort": str(ports[0]), "httpsPort": str(ports[1])}
        )
        features = [liberty_levels.MONITOR] * bool(settings.get(knobs.MONITORING.name, context.observe))
        features += [liberty_levels.TRANSPORT] * secure
        lines = ["<server>", "  <featureManager>"]
        lines += [*(f"    <feature>{feature}</feature>" for feature in features), "  </featureManager>"]
        ids_by_tag = {"dataSource": self.pool, "httpEndpoint": self._endpoint}
        for element in ("httpEndpoint", "dataSource"):
            lines += _merged(element, ids_by_tag[element], attributes, elements)
        lines += _merged("executor", "", attributes, elements)
        log = str(context.directory / "access.log")
        lines += liberty_levels.elements(settings, log, self._endpoint, self.pool)
        lines += [f'  <variable name="{name}" value={quoteattr(value)}/>' for name, value in self._tls.items()]
        if secure:
            lines.append(liberty_levels.keystore(str(context.directory / liberty.KEYSTORE)))
        lines += ['  <config updateTrigger="mbean"/>', '  <applicationMonitor updateTrigger="disabled"/>']
        return "\n".join([*lines, *self._deployed(context, elements), "</server>", ""])

    def _deployed(self, context: ServiceContext, found: list[ElementTree.Element]) -> list[str]:
        """The element that deploys the archive, where the user's configuration has none for it."""
        application = context.application
        for element in found:
            location = element.get("location", "")
            if element.tag in _APPLICATIONS and ("${" in location or Path(location).name == application.archive.name):
                return []
        named = f"id={quoteattr(application.name)} name={quoteattr(application.name)}"
        where = f"location={quoteattr(application.archive.name)}"
        return [f"  <{liberty.application_element(application)} {named} {where}{liberty.root_of(application)}/>"]

    def level_of(self, name: str, answer: Answer) -> Level:
        if self.templated:
            return super().level_of(name, answer)
        return liberty_levels.level(name, answer, {"source": self.pool, "endpoint": self._endpoint})


def _elements(directory: Path | None) -> list[ElementTree.Element]:
    """Every element of the server's own files, also nested ones. Raises UsageError."""
    if directory is None:
        return []
    server = tree_of(directory / "server.xml", directory)
    if server.tag not in ("server", "client"):
        raise UsageError(f"{directory / 'server.xml'} begins with <{server.tag}>, not with <server> as Open Liberty's")
    others = [path for path in sorted(directory.rglob("*.xml")) if path.name != "server.xml" and _own(path, directory)]
    roots = [server, *(root for path in others if (root := tree_of(path, directory)).tag == "server")]
    return [element for root in roots for element in root.iter() if element is not root]


def _own(path: Path, directory: Path) -> bool:
    return path.relative_to(directory).parts[0] not in ("apps", "dropins", "resources", "workarea")


def _ids(elements: list[ElementTree.Element], tag: str) -> list[str]:
    return list(dict.fromkeys(element.get("id", "") for element in elements if element.tag == tag))


def _merged(
    tag: str, identity: str, attributes: Mapping[str, Mapping[str, str]], found: list[ElementTree.Element]
) -> Iterator[str]:
    """An element with the attributes of the levels, and those below it: nested, or of the identity that the user's
    element refers to.
    """
    below = [tag_ for tag_, parent in _PARENTS.items() if parent == tag and tag_ in attributes]
    if tag not in attributes and not below:
        return
    references = {
        tag_: reference
        for tag_ in below
        for element in found
        if element.tag == tag and element.get("id") == identity and (reference := element.get(f"{tag_}Ref"))
    }
    named = {"id": identity} if identity else {}
    nested = [f"    <{tag}{_written(attributes[tag])}/>" for tag in below if tag not in references]
    yield f"  <{tag}{_written({**named, **attributes.get(tag, {})})}>"
    yield from nested
    yield f"  </{tag}>"
    for tag_, reference in references.items():
        yield f"  <{tag_}{_written({'id': reference, **attributes[tag_]})}/>"


def _written(attributes: Mapping[str, Any]) -> str:
    return "".join(f" {name}={quoteattr(str(value))}" for name, value in attributes.items())
