"""Families of host parameters: one small module each, found by its ``FAMILY``."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from pathlib import Path

from leadline.host.base import Host, HostKnobs
from leadline.model.knob import Knob

Family = Callable[[Path], HostKnobs]  # takes the directory that stands for /


def _families() -> tuple[Family, ...]:
    modules = sorted(module.name for module in pkgutil.iter_modules(__path__))
    found = (getattr(importlib.import_module(f"{__name__}.{name}"), "FAMILY", None) for name in modules)
    return tuple(family for family in found if family is not None)


FAMILIES: tuple[Family, ...] = _families()


def host_catalogue(host: Host) -> list[Knob]:
    """Every host parameter leadline knows, those this kernel lacks included (reading them raises LookupError)."""
    return list(host.knobs())
