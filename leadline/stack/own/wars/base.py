"""What the servers have in common when they run an archive of one's own."""

from __future__ import annotations

import shutil
import xml.etree.ElementTree as ElementTree
from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import ClassVar

from leadline.model.errors import UsageError, did_you_mean, quoted
from leadline.model.knob import ApplyCost, Knob, Level
from leadline.model.ownparts import knob_of
from leadline.model.ownstack import DRIVER, filled
from leadline.model.places import TEMPORARY
from leadline.stack.base import ServiceContext, Settings
from leadline.stack.own.parameters import Parameters, database_words, invoked
from leadline.stack.own.words import Words, beside
from leadline.stack.provision import driver_for
from leadline.stack.servers import knobs

POOL = "server.datasource."
_LEAVES = ("log", "logs", "tmp", "temp", "work", "workarea")


class WarServer(Parameters):
    """A server with an archive of one's own. Where the stack file has leadline's own database and no configuration of
    the server, leadline's configuration is used as for its own applications (``templated``); else levels go over a copy
    of the user's configuration, or of the one that the server is shipped with.
    """

    lacks: ClassVar[Collection[str]] = ()  # knobs that this server has in leadline's configuration only
    live: ClassVar[bool] = True  # whether levels over the user's configuration change while it runs

    # -- what each server fills in

    @abstractmethod
    def pools_in(self, directory: Path) -> Collection[str]:
        """Names of the pools in a configuration of the user's. Raises UsageError where it is none."""

    def root_in(self, directory: Path, archive: Path) -> str:  # noqa: ARG002 - as its configuration says
        """Where an archive is deployed by a configuration of the user's."""
        return f"/{archive.stem}"

    @abstractmethod
    def own_base(self, context: ServiceContext) -> Path:
        """The directory below which ``data`` of the stack file are named."""

    @abstractmethod
    def write_over(self, context: ServiceContext, settings: Settings) -> None:
        """Write these levels over a copy of the user's configuration, or of the shipped one."""

    # -- the stack file's words

    @property
    def templated(self) -> bool:
        """Whether leadline's own configuration is used."""
        return self._spec.server_config is None and self._spec.database.private

    @property
    def config(self) -> Path | None:
        """The directory of the user's configuration."""
        return beside(self._own, self._spec.server_config).absolute() if self._spec.server_config else None

    @cached_property
    def pool(self) -> str:
        """The pool whose knobs are ``server.datasource.``; empty where there is none. Raises UsageError."""
        wanted = self._spec.data_source
        if self.templated:
            return wanted or f"jdbc/{self._spec.stack}"
        if self.config is None:
            return ""
        pools = sorted(self.pools_in(self.config))
        if wanted is None:
            return pools[0] if len(pools) == 1 else ""
        if wanted not in pools:
            hint = did_you_mean(wanted, pools) or f"there is {', '.join(pools) or 'none'}"
            raise UsageError(f"{self.config} has no data source {quoted(wanted)}; {hint}")
        return wanted

    @property
    def needs_database(self) -> bool:
        return self.templated

    def knobs(self) -> Sequence[Knob]:
        knobs = [knob_of(name, knob) for name, knob in self._spec.own_knobs.items()]
        return [*knobs, *(self._as_here(knob) for knob in super().knobs() if self._has(knob.name))]

    def _has(self, name: str) -> bool:
        if knobs.knows(name) or (not self.templated and name in (*self.lacks, TEMPORARY)):
            return False
        return bool(self.pool) or not name.startswith(POOL)

    def _as_here(self, knob: Knob) -> Knob:
        if self.templated or not knob.name.startswith("server."):
            return knob
        cost = knob.apply_cost if self.live else ApplyCost.RESTART
        if self.config is None:
            return replace(knob, apply_cost=cost)
        return replace(knob, default=None, default_note="as your configuration of the server has it", apply_cost=cost)

    def _values(self, context: ServiceContext) -> dict[str, str]:
        """Placeholders of the environment and the system properties."""
        values = {
            **self.named_ports(),
            "address": context.http_address,
            "folder": str(Path(self._own.file).parent),
            "directory": str(self.own_base(context)),
            **database_words(context),
        }
        if context.database is not None:
            values[DRIVER] = str(driver_for(context.database).jar())
        return values

    # -- a start

    def environment(self, context: ServiceContext) -> Mapping[str, str]:
        values = self._values(context)
        variables = {name: filled(text, Words(self._own, values)) for name, text in self._spec.environment.items()}
        return variables | dict(assignment.split("=", 1) for assignment in self._given("environment"))

    def jvm_options(self, context: ServiceContext) -> list[str]:
        values = self._values(context)
        properties = [
            f"-D{name}={filled(text, Words(self._own, values))}" for name, text in self._spec.properties.items()
        ]
        return [
            *super().jvm_options(context),
            *properties,
            *(f"-D{assignment}" for assignment in self._given("system_property")),
        ]

    def jars(self) -> list[Path]:
        return super().jars() if self.context.database is not None else []

    def wait_ready(self, timeout: float) -> float:
        return super().wait_ready(self._spec.ready.within or timeout)

    def write_configuration(self, context: ServiceContext, settings: Settings) -> None:
        if self.templated:  # as the server that this is mixed with does it
            super().write_configuration(context, settings)  # type: ignore[safe-super]
        else:
            self.write_over(context, settings)
        for place, name in self._spec.data.items():
            shutil.copytree(beside(self._own, name), self.own_base(context) / place, symlinks=True, dirs_exist_ok=True)

    # -- levels

    def change(self, levels: Settings) -> None:
        own_levels = {name: level for name, level in levels.items() if name in self._spec.own_knobs}
        if own_levels:
            self.tell(self._own_changes(own_levels), invoked)
            self._settings = {**self._settings, **own_levels}
        if rest := {name: level for name, level in levels.items() if name not in own_levels}:
            super().change(rest)

    def read_back(self, name: str) -> Level:
        return self._own_level(name) if name in self._spec.own_knobs else super().read_back(name)


def copied(source: Path, target: Path, *leaves: str) -> None:
    """A private copy of a server's directory, without what runs have left there, ``leaves`` among it."""
    ignored = shutil.ignore_patterns(*_LEAVES, *leaves)
    shutil.copytree(source, target, symlinks=True, ignore=ignored, dirs_exist_ok=True)


def linked(archive: Path, place: Path) -> None:
    """A link to the archive there, in place of what the copy has of that name, unpacked or not."""
    place.parent.mkdir(parents=True, exist_ok=True)
    for old in (place, place.with_suffix("")):
        if old.is_dir() and not old.is_symlink():
            shutil.rmtree(old)
        else:
            old.unlink(missing_ok=True)
    place.symlink_to(archive)


def tree_of(file: Path, directory: Path) -> ElementTree.Element:
    """The root of an XML file of the user's configuration. Raises UsageError."""
    try:
        return ElementTree.parse(file).getroot()
    except FileNotFoundError:
        raise UsageError(f"{directory} has no {file.relative_to(directory)}") from None
    except (OSError, ElementTree.ParseError) as error:
        raise UsageError(f"{file} cannot be read: {error}") from None
