"""How a study names hosts that are reached over SSH, and those that bear a load together."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, core_schema

from leadline.model.bounds import LONGEST_PATH, Cpus, Strict, count, cpu_numbers
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


def _file_name(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9._-]*", name):
        raise ValueError(f"{quoted(name)} has other characters than letters, digits, dots and hyphens")
    return name


class DriverHost(Strict):
    """One driver and how it is reached. A plain word or command in a list is short for ``via``."""

    name: Annotated[str, AfterValidator(_file_name)] = Field(
        default="", max_length=100, description="for messages and files; made from `via`"
    )
    via: str = Field(
        default="local",
        min_length=1,
        max_length=LONGEST_PATH,
        description="`local`, an ssh command such as `ssh user@host`, or any command that runs another one there",
    )
    weight: Annotated[int, count(1000)] = Field(
        default=1, description="its part of the load, beside the weights of the others"
    )
    cpus: Cpus | None = Field(default=None, description="as in 0,2-3")
    processes: Annotated[int, count(128)] = Field(
        default=1,
        description="drivers there that share `cpus`, each of this weight; one works on one CPU",
    )
    server: str | None = Field(
        default=None,
        min_length=1,
        max_length=255,
        description="address of the server as seen from there; that of the URL if absent",
    )

    @property
    def destination(self) -> str:
        """Where OpenSSH's client, or one of that name, leads to: a host or ``user@host``; empty for another command."""
        words = shlex.split(self.via)
        return words[-1] if len(words) > 1 and PurePath(words[0]).name == "ssh" else ""

    def moved(self, host: str, server: str | None) -> DriverHost:
        """The same driver on another host; the user stays."""
        user, at, _ = self.destination.rpartition("@")
        via = shlex.join([*shlex.split(self.via)[:-1], f"{user}{at}{host}"])
        return self.model_copy(update={"via": via, "server": server})


def _short(value: Any) -> Any:
    return {"via": value} if isinstance(value, str) else value


def _each(driver: DriverHost) -> list[DriverHost]:
    """A driver for each of its processes, each with CPUs of its own where it names some. Raises ValueError."""
    if driver.processes == 1:
        return [driver]
    cpus = [] if driver.cpus is None else cpu_numbers(driver.cpus)
    if cpus and len(cpus) < driver.processes:
        raise ValueError(
            f"{driver.processes} processes share {len(cpus)} CPUs ({driver.cpus}): one needs a CPU or more"
        )
    drivers = []
    for at in range(driver.processes):
        cpus_of_process = ",".join(map(str, cpus[at :: driver.processes])) or None
        name = f"{driver.name}-{at + 1}" if driver.name else ""
        drivers.append(driver.model_copy(update={"name": name, "cpus": cpus_of_process, "processes": 1}))
    return drivers


def _named(given_drivers: list[DriverHost]) -> list[DriverHost]:
    """Every driver with a name of its own. Raises ValueError for a name given twice or a command that is none."""
    drivers = [named for driver in given_drivers for named in _each(driver)]
    names = [driver.name for driver in drivers if driver.name]
    if twice := {name for name in names if names.count(name) > 1}:
        raise ValueError(f"two drivers are named {min(twice)}")
    names_used, drivers_named = set(names), []
    for driver in drivers:
        try:
            words = shlex.split(driver.via)
        except ValueError as error:
            raise ValueError(f"via {driver.via!r} is no command: {error}") from None
        if not words:
            raise ValueError("via is empty: local, or a command such as `ssh user@host`")
        if words == ["ssh"]:
            raise ValueError("via names no host: write `ssh user@host`")
        name = driver.name
        if not name:
            stem = re.sub(r"[^A-Za-z0-9._-]", "-", words[-1].rpartition("@")[2]).strip("-.") or "driver"
            name = next(word for word in (stem, *(f"{stem}-{n}" for n in range(2, 2000))) if word not in names_used)
            names_used.add(name)
        drivers_named.append(driver.model_copy(update={"name": name}))
    return drivers_named


Driver = Annotated[DriverHost, BeforeValidator(_short)]


Drivers = Annotated[list[Driver], Field(max_length=100), AfterValidator(_named)]


def shares(drivers: Sequence[DriverHost]) -> list[str]:
    """The ``--share`` of each driver by weight: of every sum of all weights (in lowest terms) so many numbers."""
    divisor = math.gcd(*(driver.weight for driver in drivers))
    weights = [driver.weight // divisor for driver in drivers]
    ends = [sum(weights[: at + 1]) for at in range(len(weights))]
    return [f"{end - weight}-{end}/{ends[-1]}" for end, weight in zip(ends, weights, strict=True)]
