"""How a study names a host that is reached over SSH."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, core_schema

from leadline.model.errors import quoted
from leadline.model.knob import ApplyCost, Kind, Knob, Owner, Risk

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
