"""How a stack is placed and watched, where its private files are, and CPUs and limits of its services as factors."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from leadline import catalogue
from leadline.host.base import Host, Process
from leadline.host.files import OPEN_FILES, group_limit, open_files
from leadline.host.files import field as field_of
from leadline.host.paths import cache_dir
from leadline.host.process import cpu_set
from leadline.model.errors import NotInPlay
from leadline.model.knob import AtStart, Kind, Knob, Level
from leadline.model.study import Placement
from leadline.stack.base import Settings

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


ALL = "all"
KNOBS = tuple(catalogue.load("placement").values())
NAMES = frozenset(knob.name for knob in KNOBS)
_PREFIX = "placement."
OF_SERVER = tuple(knob for knob in KNOBS if knob.name.startswith(f"{_PREFIX}server_"))


def role_of(name: str) -> str:
    """Of a knob: the service that it limits."""
    return name.removeprefix(_PREFIX).partition("_")[0]


class Limits(AtStart):
    """``processes``: the stack's that run, by role."""

    def __init__(self, host: Host, processes: Mapping[str, Process], knobs: tuple[Knob, ...] = KNOBS) -> None:
        self._host, self._processes, self._knobs = host, processes, knobs
        self._asked: dict[str, Level] = {}

    def knobs(self) -> tuple[Knob, ...]:
        return self._knobs

    def placement(self, fixed: Placement, settings: Settings) -> Placement:
        """Of one start: what is ``fixed`` for the study, with the levels of the settings."""
        self._asked = {name: level for name, level in settings.items() if name in NAMES}
        levels = {name.removeprefix(_PREFIX): level for name, level in self._asked.items()}
        free = {knob.name.removeprefix(_PREFIX): knob.default for knob in KNOBS}
        return fixed.model_copy(update={key: None if level == free[key] else level for key, level in levels.items()})

    def read_back(self, name: str) -> Level:
        """Of all processes of the service. Raises LookupError where they differ, NotInPlay without the service."""
        role = role_of(name)
        process = self._processes.get(role)
        if process is None:
            raise NotInPlay(f"no {role} runs")
        pids = process.pids()
        if name.endswith(OPEN_FILES):
            return self._open_files(name, pids)
        return self._cpus(name, pids) if name.endswith("_cpus") else self._limit(name, pids)

    def _open_files(self, name: str, pids: list[int]) -> Level:
        limits = {open_files(self._host.files, pid) for pid in pids} - {None}
        if len(limits) != 1:
            raise LookupError(f"{name}: its processes have limits of {sorted(map(str, limits))}")
        level, own = limits.pop(), open_files(self._host.files, os.getpid())
        return 0 if level == own and not self._asked.get(name) else level or 0

    def _cpus(self, name: str, pids: list[int]) -> Level:
        usable = self._host.cpus()
        texts = {"".join(field_of(self._host.files, pid, "Cpus_allowed_list")) for pid in pids}
        sets = {cpu_set(text, usable) for text in texts if text}
        if len(sets) != 1:
            raise LookupError(f"{name}: its processes may use CPUs {sorted(map(sorted, sets))}")
        cpus = str(self._asked.get(name, ALL))
        if sets == {cpu_set(None if cpus == ALL else cpus, usable)}:
            return cpus
        return ALL if sets == {frozenset(usable)} else texts.pop()

    def _limit(self, name: str, pids: list[int]) -> Level:
        limit = name.removeprefix(f"{_PREFIX}{role_of(name)}_")
        limits = {group_limit(self._host.files, pid, limit) for pid in pids}
        if len(limits) != 1:
            raise LookupError(f"{name}: its processes have limits of {sorted(map(str, limits))}")
        level, knob = limits.pop(), next(knob for knob in self._knobs if knob.name == name)
        free = 0 if knob.default is None else knob.default
        return free if level is None else level if knob.kind is Kind.NUMBER else int(level)
