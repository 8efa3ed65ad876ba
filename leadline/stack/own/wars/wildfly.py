"""WildFly over the user's ``standalone.xml``: a copy of its base directory, levels by operations of its CLI."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Collection, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import ClassVar

from leadline.host.textfile import write_private
from leadline.model.errors import UsageError
from leadline.stack.base import Deployment, Progress, ServiceContext, Settings
from leadline.stack.own.wars.base import WarServer, copied, linked, tree_of
from leadline.stack.servers import knobs, wildfly, wildfly_levels
from leadline.stack.servers.files import properties_text
from leadline.stack.servers.wildfly import WildFly


class OwnWildFly(WarServer, WildFly):
    """WildFly with an archive of one's own."""

    lacks: ClassVar[Collection[str]] = (knobs.MONITORING.name,)  # it is of the pool, and on while observed

    def own_base(self, context: ServiceContext) -> Path:
        return context.directory

    def pools_in(self, directory: Path) -> Collection[str]:
        return [name for element in _named(self._tree(directory), "datasource") if (name := element.get("pool-name"))]

    def _tree(self, directory: Path) -> ElementTree.Element:
        root = tree_of(directory / "configuration" / self._file, directory)
        if _tag(root) != "server":
            raise UsageError(f"{self._file} begins with <{_tag(root)}>, not with <server> as WildFly's")
        if not any(True for _ in _named(root, "deployment-scanner")):
            raise UsageError(f"{self._file} has no deployment-scanner, which takes the archive")
        return root

    @cached_property
    def _file(self) -> str:
        """Of the profile: ``standalone.xml``, or the only one that is there."""
        if self.config is None:
            return "standalone-full.xml" if (self._spec.war or "").lower().endswith(".ear") else "standalone.xml"
        names = sorted(path.name for path in (self.config / "configuration").glob("standalone*.xml"))
        if "standalone.xml" in names:
            return "standalone.xml"
        if len(names) != 1:
            files_text = f"it has {', '.join(names)}" if names else "it has no standalone*.xml"
            raise UsageError(
                f"{self.config / 'configuration'} is no WildFly configuration: {files_text}; name the base "
                "directory of a"
                " server (standalone) with configuration/standalone.xml"
            )
        return names[0]

    def profile(self, application: Deployment) -> str:
        return super().profile(application) if self.templated else self._file

    def prepare(self, deployment: Deployment, progress: Progress) -> None:
        if self.templated:
            super().prepare(deployment, progress)
        else:
            self._made({knobs.MONITORING.name: True}, self.find_java(None), progress)

    def _made(self, settings: Settings, java: Path, progress: Progress) -> Path:
        source = self.config if self.config is not None else self.unpacked / "standalone"
        every = [*_ports(self._tree(source)), *wildfly_levels.operations(settings)]
        every += wildfly_levels.written_over(settings, self.pool)
        return wildfly.prepared(
            self.unpacked, java, self._file, every, progress, source / "configuration" if self.config else None
        )

    def write_over(self, context: ServiceContext, settings: Settings) -> None:
        base, application = context.directory, context.application
        levels: Settings = {knobs.MONITORING.name: context.observe, **settings}
        configuration = self._made(levels, self.java_home(context), lambda _: None)
        if self.config is not None:
            copied(self.config, base)
        for name in ("configuration", "deployments"):
            (base / name).mkdir(exist_ok=True)
        copied(configuration, base / "configuration")
        logging = base / "configuration" / "logging.properties"
        if not logging.exists():
            logging.write_text((self.unpacked / "standalone" / "configuration" / "logging.properties").read_text())
        linked(application.archive, base / "deployments" / f"{application.file_name}{application.archive.suffix}")
        values = {"jboss.bind.address": context.http_address, "jboss.http.port": str(context.http_port)}
        values |= wildfly_levels.properties(levels)
        write_private(base / "levels.properties", properties_text(values))
        self.keep("standalone.xml", (base / "configuration" / self._file).read_text())
        self.keep("levels.properties", properties_text(values))


def _ports(root: ElementTree.Element) -> Sequence[str]:
    """Operations that leave the server one fixed port, that of HTTP, on the address that it is given."""
    group = next(_named(root, "socket-binding-group"), None)
    if group is None or not any(binding.get("name") == "http" for binding in group):
        raise UsageError("its configuration has no socket-binding http, whose port leadline sets")
    at = f"/socket-binding-group={group.get('name')}"
    bindings = [binding for binding in group if _tag(binding) == "socket-binding" and binding.get("port") is not None]
    lines = [f"{at}:write-attribute(name=port-offset,value=0)"]
    for each in bindings:
        port = "${jboss.http.port:8080}" if each.get("name") == "http" else "0"
        lines.append(f'{at}/socket-binding={each.get("name")}:write-attribute(name=port,value="{port}")')
    interface = group.get("default-interface", "public")
    lines.append(f'/interface={interface}:write-attribute(name=inet-address,value="${{jboss.bind.address:127.0.0.1}}")')
    return lines


def _tag(element: ElementTree.Element) -> str:
    return re.sub(r"\{.*\}", "", element.tag)


def _named(root: ElementTree.Element, tag: str) -> Iterator[ElementTree.Element]:
    """Elements of a tag in any namespace; each version of a subsystem has its own."""
    return (element for element in root.iter() if _tag(element) == tag)
