"""Families of host parameters: the files of ``leadline/catalogue/host``, and modules here with a ``FAMILY``."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

from leadline import catalogue
from leadline.host.base import HostKnobs
from leadline.host.knobs.files import FileKnobs
from leadline.model.knob import Knob

Family = Callable[[Path], HostKnobs]  # takes the directory that stands for /


def _families() -> tuple[Family, ...]:
    files = (partial(FileKnobs.of, family) for family in catalogue.families())
    modules = sorted(module.name for module in pkgutil.iter_modules(__path__))
    families = (getattr(importlib.import_module(f"{__name__}.{name}"), "FAMILY", None) for name in modules)
    return (*files, *(family for family in families if family is not None))


FAMILIES: tuple[Family, ...] = _families()


def every_knob() -> list[Knob]:
    """Every knob that some host has."""
    return [knob for family in FAMILIES for knob in family(Path("/")).knobs()]
