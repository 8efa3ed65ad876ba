"""GlassFish over the user's domain: a copy of it, in whose ``domain.xml`` levels are attributes."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Collection
from pathlib import Path
from typing import ClassVar

from leadline.host.textfile import write_private
from leadline.model.errors import UsageError
from leadline.stack.base import ServiceContext, Settings
from leadline.stack.own.wars.base import WarServer, copied, linked, tree_of
from leadline.stack.servers import glassfish_domain, knobs
from leadline.stack.servers.files import template
from leadline.stack.servers.glassfish import GlassFish

_DOMAIN = "config/domain.xml"


class OwnGlassFish(WarServer, GlassFish):
    """GlassFish with an archive of one's own."""

    lacks: ClassVar[Collection[str]] = (knobs.TLS.name,)

    def own_base(self, context: ServiceContext) -> Path:
        return context.directory / "domain"

    def pools_in(self, directory: Path) -> Collection[str]:
        root = tree_of(directory / _DOMAIN, directory)
        if root.tag != "domain":
            raise UsageError(f"{directory / _DOMAIN} begins with <{root.tag}>, not with <domain> as GlassFish's")
        return [name for each in root.iter("jdbc-connection-pool") if (name := each.get("name"))]

    def write_configuration(self, context: ServiceContext, settings: Settings) -> None:
        if self.templated:
            super().write_configuration(context, settings)
        else:
            self._write_over(context, settings)
        self.put_data(context)

    def _write_over(self, context: ServiceContext, settings: Settings) -> None:
        domain, application = context.directory / "domain", context.application
        copied(self.config or self.unpacked / "domains" / "domain1", domain)
        levels: Settings = {knobs.MONITORING.name: context.observe, **settings}
        broker = context.host.free_port()
        try:
            text = glassfish_domain.written_over((domain / _DOMAIN).read_text(), levels, context, broker, self.pool)
        except (AssertionError, ElementTree.ParseError) as error:
            told = (
                "server-config, http-listener-1 and http-thread-pool must have these names"
            )
            raise UsageError(f"{domain / _DOMAIN}: {told}: {error}") from None
        write_private(domain / _DOMAIN, text)
        if self.config is None:
            write_private(domain / "config" / "admin-keyfile", glassfish_domain.administrator())
        (domain / "config" / "logging.properties").write_text(template("glassfish-logging.properties"))
        linked(application.archive, domain / "autodeploy" / f"{application.file_name}{application.archive.suffix}")

    def expected_beans(self) -> Collection[str]:
        pool = "type=jdbc-connection-pool"
        return [name for name in super().expected_beans() if self.pool or pool not in name]
