"""Kinds of machines that a study can name as its host: the module of that name in this folder has it as ``HOST``.

Guests (``model.guest.GuestKind``) are no such machines: they have a testbed of their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TypeGuard, get_args

from leadline.host.base import Host, PlannedHost
from leadline.host.local import LocalHost
from leadline.model.study import MachineKind

HOSTS: Mapping[str, type[LocalHost]] = {
    kind: import_module(f"leadline.host.{kind}").HOST for kind in get_args(MachineKind)
}


def is_machine(host: PlannedHost) -> TypeGuard[Host]:
    """Whether services can run there; a simulated host and a guest that is not booted have their knobs only."""
    return host.name in HOSTS
