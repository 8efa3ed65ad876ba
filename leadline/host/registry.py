"""Kinds of hosts that a study's ``stack.host`` can name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeGuard

from leadline.host.base import Host, TrialHost
from leadline.host.local import LocalHost

HOSTS: Mapping[str, type[LocalHost]] = {"local": LocalHost}


def is_machine(host: TrialHost) -> TypeGuard[Host]:
    """Whether services can run there; a simulated host has its knobs only."""
    return host.name in HOSTS
