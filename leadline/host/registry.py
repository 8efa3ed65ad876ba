"""Kinds of hosts that a study's ``stack.host`` can name: the module of that name in this folder has it as ``HOST``."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TypeGuard, get_args

from leadline.host.base import Host, TrialHost
from leadline.host.local import LocalHost
from leadline.model.study import HostKind

HOSTS: Mapping[str, type[LocalHost]] = {
    kind: import_module(f"leadline.host.{kind}").HOST for kind in get_args(HostKind)
}


def is_machine(host: TrialHost) -> TypeGuard[Host]:
    """Whether services can run there; a simulated host has its knobs only."""
    return host.name in HOSTS
