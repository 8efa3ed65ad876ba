"""How a stack is placed and watched, and where its private files are."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from leadline.host.paths import cache_dir
from leadline.model.study import Placement

LOOPBACK = "127.0.0.1"
_PLAIN = re.compile(r"[A-Za-z0-9/._+=@~-]+")


@dataclass(frozen=True)
class StackOptions:
    """How a stack is placed and watched, and how much data it holds. ``http_port`` 0: a free one at every start.

    ``properties`` are system properties of the server's JVM beside the mode: switches of the application. ``roles``:
    what this host has of a stack over several (web, application, database, the names of companions); None: all of it.
    """

    load_units: int = 1
    data_seed: int = 1
    placement: Placement = field(default_factory=Placement)
    observe: bool = True
    profile: bool = False  # its JVMs keep what a profile needs to tell inlined methods apart
    ready_timeout: float = 120.0
    cold: bool = False  # the page cache is dropped before each trial, and again where files were copied to a place
    http_port: int = 0
    http_address: str = LOOPBACK  # 0.0.0.0 for load from other hosts
    address: str = LOOPBACK  # by which the load reaches this host
    database_address: str = LOOPBACK  # where the database listens beside the loopback
    database_clients: Sequence[str] = ()  # addresses of other hosts that may log in there
    database_port: int = 0
    web_servers: Sequence[str] = ()  # that levels will ask for
    http_names: Sequence[str] = ()  # addresses of this host as others know it
    servers: Sequence[str] = ()  # where the server is a factor: those that levels will name
    properties: Mapping[str, str] = field(default_factory=dict)
    roles: Sequence[str] | None = None

    def here(self, role: str) -> bool:
        """Whether this host has the role."""
        return self.roles is None or role in self.roles


def plain_directory(home: Path, cache: Path | None = None) -> Path:
    """``home``, or a directory in its place where its path holds more than letters, digits and ``._-+=@~`` of ASCII:
    each server has characters of its own that it takes in no path (Tomcat quotation marks, OpenMQ spaces).
    """
    if _PLAIN.fullmatch(str(home)):
        return home
    base = cache if cache is not None else cache_dir()
    base = base if _PLAIN.fullmatch(str(base)) else Path("/var/tmp")
    digest = hashlib.sha256(os.fsencode(home)).hexdigest()[:16]
    return base / f"leadline-{os.geteuid()}-{digest}"
