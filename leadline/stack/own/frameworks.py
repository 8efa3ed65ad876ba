"""The frameworks whose properties are knobs: one module each."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from leadline.model.knob import Knob, Level
from leadline.model.ownstack import OwnFile
from leadline.stack.own import quarkus, spring
from leadline.stack.own.parameters import Catalogue
from leadline.stack.own.words import artifact


class Framework(Protocol):
    """``OPTION``: before ``NAME=VALUE``; ``--`` is a word at the end of the command, ``-D`` an option of the JVM."""

    @property
    def OPTION(self) -> str: ...  # noqa: N802 - a constant of a module
    def catalogue(self, artifact: Path) -> Catalogue:
        """Raises UsageError."""

    def value(self, knob: Knob, level: Level) -> str:
        """A level as the framework takes it at a start."""

    def level_of(self, knob: Knob, told: object) -> Level:
        """The level from what the agent read. Raises LookupError."""


FRAMEWORKS: Mapping[str, Framework] = {"spring-boot": spring, "quarkus": quarkus}


def catalogue(own: OwnFile) -> Catalogue:
    """The properties of a stack file's artifact; nothing where it names no catalogue. Raises UsageError."""
    name = own.content.catalogue
    return FRAMEWORKS[name].catalogue(artifact(own)) if name else Catalogue({}, {}, frozenset())
