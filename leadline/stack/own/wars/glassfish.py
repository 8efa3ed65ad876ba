"""GlassFish over the user's domain: a copy of it, in whose ``domain.xml`` levels are attributes."""

from __future__ import annotations

import re
import shutil
import xml.etree.ElementTree as ElementTree
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import ClassVar

from leadline.host.java import java_home
from leadline.host.textfile import write_private
from leadline.model.errors import UsageError
from leadline.stack.base import ServiceContext, Settings
from leadline.stack.own.wars.base import WarServer, copied, tree_of
from leadline.stack.servers import glassfish, glassfish_levels, knobs
from leadline.stack.servers.glassfish import GlassFish

_DOMAIN = "config/domain.xml"
_SERVER_CONFIG = "configs/config[@name='server-config']"
_SHIPPED = ("DerbyPool", "__TimerPool")
_FOR_SOME = re.compile(r"\[(?:[\w ]+-)?([\d.]*)\|([\d.]*)\](.*)", re.DOTALL)  # an option of some versions of Java
_SHELL = ("-Dosgi.shell.telnet.", "-Dorg.glassfish.additionalOSGiBundlesToStart=")  # it listens on a fixed port
_PLACE = re.compile(r"\$\{([^}]*)\}")


class OwnGlassFish(WarServer, GlassFish):
    """GlassFish with an archive of one's own."""

    lacks: ClassVar[Collection[str]] = (knobs.TLS.name,)
    live: ClassVar[bool] = False

    def own_base(self, context: ServiceContext) -> Path:
        return context.directory / "domain"

    def pools_in(self, directory: Path) -> Collection[str]:
        root = tree_of(directory / _DOMAIN, directory)
        if root.tag != "domain":
            raise UsageError(f"{directory / _DOMAIN} begins with <{root.tag}>, not with <domain> as GlassFish's")
        if path := glassfish_levels.lacking(root):
            raise UsageError(f"{directory / _DOMAIN} has no {path}, where leadline writes levels")
        names = [name for pool in root.findall("resources/jdbc-connection-pool") if (name := pool.get("name"))]
        return [name for name in names if name not in _SHIPPED] or names

    @property
    def pool_name(self) -> str:
        return super().pool_name if self.templated else self.pool

    def write_over(self, context: ServiceContext, settings: Settings) -> None:
        domain, application = self.own_base(context), context.application
        source = self.config if self.config is not None else self.unpacked / "domains" / "domain1"
        copied(source, domain, "generated", "osgi-cache", "autodeploy")
        bundles = source / "autodeploy" / "bundles"
        if bundles.is_dir():
            shutil.copytree(bundles, domain / "autodeploy" / "bundles", symlinks=True)
        for part in ("applications", "autodeploy", "logs"):
            (domain / part).mkdir(exist_ok=True)
        shutil.rmtree(domain / "applications" / application.file_name, ignore_errors=True)
        levels: Settings = {knobs.MONITORING.name: context.observe, **settings}
        own = (domain / _DOMAIN).read_text(encoding="utf-8")
        broker = context.host.free_port()
        text = glassfish.written_over(own, levels, context, self.pool_name, broker)
        write_private(domain / _DOMAIN, text)
        self.furnish(context)

    def options_of_domain(self, context: ServiceContext) -> list[str]:
        if self.templated:
            return super().options_of_domain(context)
        domain = self.own_base(context)
        config = tree_of(domain / _DOMAIN, domain).find(_SERVER_CONFIG)
        assert config is not None  # it was looked for when the levels were written
        values = {
            str(property_.get("name")): str(property_.get("value")) for property_ in config.findall("system-property")
        }
        values |= {"com.sun.aas.instanceRoot": str(domain), "com.sun.aas.installRoot": str(self.unpacked)}
        values |= {"com.sun.aas.productRoot": str(self.unpacked.parent)}
        major = java_home(self.java_home(context)).major
        return [*_options(config, major, values), _SHELL[1]]


def _options(config: ElementTree.Element, major: int, values: Mapping[str, str]) -> list[str]:
    """Options of a domain's JVM as asadmin would give them to this version of Java, without the remote shell."""
    options = []
    for element in config.findall("java-config/jvm-options"):
        text = (element.text or "").strip()
        if some := _FOR_SOME.fullmatch(text):
            least, most, text = some.groups()
            if (least and major < _major(least)) or (most and major > _major(most)):
                continue
        if text.startswith("-") and not text.startswith(_SHELL):
            options.append(_PLACE.sub(lambda name: values.get(name[1], name[0]), text))
    return options


def _major(version: str) -> int:
    """8 of 1.8.0, 17 of 17.0.2."""
    parts = [int(part) for part in version.split(".") if part]
    return parts[1] if parts[0] == 1 and len(parts) > 1 else parts[0]
