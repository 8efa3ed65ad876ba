"""The generators by name: the module of that name in this folder has it as ``GENERATOR``."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import get_args

from leadline.load.generators.base import Generator
from leadline.model.errors import UsageError, nearest
from leadline.model.workload import GeneratorName

GENERATORS: Mapping[str, Generator] = {
    name: import_module(f"leadline.load.generators.{name}").GENERATOR for name in get_args(GeneratorName)
}


def find_generator(name: str) -> Generator:
    """Raises UsageError naming the nearest one."""
    if name in GENERATORS:
        return GENERATORS[name]
    close = nearest(name, list(GENERATORS))
    hint = f"did you mean {close}?" if close else f"generators: {', '.join(GENERATORS)}"
    raise UsageError(f"no generator {name!r}; {hint}")
