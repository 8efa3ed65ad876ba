"""How a study names a host that is reached over SSH.

Where files of a program, a server or a database may lie, and what has to be said of a place.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, core_schema

from leadline.model.errors import quoted
from leadline.model.knob import ApplyCost, Kind, Knob, Level, Owner, Risk

DISK, TMPFS, RAMDISK, BRD, OVERLAY = "disk", "tmpfs", "ramdisk", "brd", "overlay"
FILE_SYSTEMS = ("ext4", "xfs", "btrfs")  # each in a file on the lab's disk
MOUNTED = (*FILE_SYSTEMS, OVERLAY)  # those that take options of mount(8)
CHOICES = (DISK, TMPFS, RAMDISK, *MOUNTED, BRD)
DEFAULTS = "defaults"  # options of mount(8)
SCHEDULER = "database.io_scheduler"
NO_SCHEDULER = "none"
SCHEDULERS = (NO_SCHEDULER, "mq-deadline", "bfq", "kyber")

DATA, LOG, DATABASE_TEMPORARY = "database.data_place", "database.log_place", "database.temporary_place"
INSTALLATION, TEMPORARY = "server.installation_place", "server.temporary_place"
STORE, TRANSACTIONS = "server.messaging.store_place", "server.transactions.log_place"
DATABASE_MOUNT, SERVER_MOUNT, COMMAND_MOUNT = "database.mount_options", "server.mount_options", "command.mount"
COMMAND = "command.place"
# knob of options -> the places that they are of
OPTIONS_OF: Mapping[str, tuple[str, ...]] = {
    DATABASE_MOUNT: (DATA, LOG, DATABASE_TEMPORARY),
    SERVER_MOUNT: (INSTALLATION, TEMPORARY, STORE, TRANSACTIONS),
    COMMAND_MOUNT: (COMMAND,),
}
PLACES = tuple(name for names in OPTIONS_OF.values() for name in names)
_KEPT = (DATA, LOG, STORE, TRANSACTIONS)  # what a program relies on finding again
IN_MEMORY = {
    TMPFS: "it takes memory from everything else and can be swapped out",
    RAMDISK: "it takes memory from everything else",
    BRD: "it takes memory from everything else, which the kernel cannot swap out",
}


def warnings(levels: Mapping[str, Sequence[Level]]) -> list[str]:
    """What is lost and what is taken where levels lie in memory: a sentence for each place that does."""
    lines = []
    for name in PLACES:
        for level in dict.fromkeys(levels.get(name, ())):
            if (sentence := IN_MEMORY.get(str(level))) is None:
                continue
            lost = "all that was committed since the start" if name in _KEPT else "what lies there"
            lines.append(f"{name} = {level}: {lost} is lost at power-off; {sentence}.")
    return lines


def mount_mistakes(levels: Mapping[str, Sequence[Level]]) -> list[tuple[str, str]]:
    """Options of mount(8) that are of no place: the knob of the options, and what is wrong."""
    mistakes = []
    for knob in (DATABASE_MOUNT, SERVER_MOUNT):
        used = {str(level) for name in OPTIONS_OF[knob] for level in levels.get(name, ())}
        if set(levels.get(knob, ())) - {DEFAULTS} and not used & set(MOUNTED):
            names, some = ", ".join(OPTIONS_OF[knob]), ", ".join(MOUNTED)
            mistakes.append((knob, f"{knob} is of file systems of their own: one of {names} must be of {some}"))
    places_used = {str(level) for name in OPTIONS_OF[DATABASE_MOUNT] for level in levels.get(name, ())}
    if levels.get(SCHEDULER) and not places_used & set(FILE_SYSTEMS):
        some = f"one of {', '.join(OPTIONS_OF[DATABASE_MOUNT])} must be of {', '.join(FILE_SYSTEMS)}"
        mistakes.append((SCHEDULER, f"{SCHEDULER} is of file systems of their own: {some}"))
    return mistakes


SSH, SSH_SUDO = "ssh:", "ssh+sudo:"
SSH_NAMES = "an alias of ~/.ssh/config or user@host"
KERNEL = "kernel.release"  # the knob of a host that can boot several kernels
_NAME = re.compile(r"(?:[A-Za-z0-9_][\w.-]*@)?[A-Za-z0-9_][\w.-]*(?::[0-9]{1,5})?", re.ASCII)
PATTERN = rf"^ssh(\+sudo)?:{_NAME.pattern}$"


@dataclass(frozen=True)
class SshHost:
    """``name``: an alias of the SSH client's or ``user@host``, with ``:port`` or without. ``sudo``: leadline's agent
    runs by sudo there.
    """

    name: str
    sudo: bool = False

    @property
    def words(self) -> list[str]:
        """Of ssh's command line."""
        destination, _, port = self.name.partition(":")
        return [*(("-p", port) if port else ()), destination]

    def __str__(self) -> str:
        return f"{SSH_SUDO if self.sudo else SSH}{self.name}"


def ssh_host(word: str) -> SshHost | None:
    """The host that ``ssh:NAME`` or ``ssh+sudo:NAME`` names; None for another kind. Raises ValueError."""
    prefix = next((prefix for prefix in (SSH, SSH_SUDO) if word.startswith(prefix)), None)
    if prefix is None:
        if word in ("ssh", "ssh+sudo"):
            raise ValueError(f"{quoted(word)} names no host; write {word}:NAME, {SSH_NAMES}")
        return None
    name = word.removeprefix(prefix)
    port = name.partition(":")[2]
    if not _NAME.fullmatch(name) or (port and not 1 <= int(port) <= 65_535):
        raise ValueError(f"{quoted(word)}: {quoted(name)} is no host; write {SSH_NAMES}, or user@host:22")
    return SshHost(name, prefix == SSH_SUDO)


@dataclass(frozen=True)
class OrSsh:
    """An annotation of a kind of host, in whose place a host over SSH may be named; ``kinds``: None for SSH only."""

    kinds: Any = None

    def __get_pydantic_core_schema__(self, _source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        inner = core_schema.str_schema() if self.kinds is None else handler.generate_schema(self.kinds)
        as_it_is = core_schema.plain_serializer_function_ser_schema(lambda found: found)
        return core_schema.no_info_wrap_validator_function(self._read, inner, serialization=as_it_is)

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        named = {"type": "string", "pattern": PATTERN}
        return named if self.kinds is None else {"anyOf": [dict(handler(schema)), named]}

    def _read(self, found: object, kind: Callable[[object], object]) -> object:
        if isinstance(found, str) and ssh_host(found) is not None:
            return found
        if self.kinds is None:
            raise ValueError(f"{quoted(found)} is no host over SSH; write ssh:NAME, {SSH_NAMES}")
        return kind(found)


def release_knob(releases: Sequence[str], text: str, source: str) -> Knob:
    """The kernel of a host that can boot each of these."""
    return Knob(
        KERNEL,
        Kind.CHOICE,
        ApplyCost.REBOOT,
        text,
        default_note="the one that runs",
        choices=tuple(releases),
        risk=Risk.CAUTION,
        owner=Owner.HOST,
        names={"kernel": "uname -r"},
        source=source,
    )
