"""leadline: what the layers beneath a Java application do to it, measured by designed experiments.

The public names are those of ``leadline.api.public``; they are imported when they are first asked for.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from leadline.api.public import *  # noqa: F403 the names are listed there alone

__version__ = "0.2.0"


def __getattr__(name: str) -> Any:
    if name == "__all__" or not (name.startswith("_") or find_spec(f"leadline.{name}")):
        from leadline.api import public

        if name in ("__all__", *public.__all__):
            return getattr(public, name)
    raise AttributeError(f"module 'leadline' has no attribute {name!r}")
