"""How a pool is named: ``slurm``, ``slurm:PARTITION``, ``slurm:FILE.yaml`` or ``ssh:FILE.yaml``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, ValidationError, field_validator, model_validator

from leadline.checks.files.study import load_tree, sentences
from leadline.checks.files.yamltree import Places, plain
from leadline.host.textfile import read_text
from leadline.model.bounds import Strict
from leadline.model.errors import KeyedError, UsageError, nearest, quoted
from leadline.model.hosts import SshHost, ssh_host

_MOST_HOSTS = 10_000
_CHOICES = "slurm, slurm:PARTITION, slurm:FILE.yaml or ssh:FILE.yaml"
Word = Annotated[str, Field(min_length=1, max_length=4096, pattern=r"^[^\x00-\x1f]+$")]


class SshHosts(Strict):
    """Hosts that are reached over SSH, each with leadline installed. ``leadline``: its program there."""

    hosts: Annotated[tuple[Word, ...], Field(min_length=1, max_length=_MOST_HOSTS)]
    leadline: Word = "leadline"

    @field_validator("hosts")
    @classmethod
    def _are_hosts(cls, hosts: tuple[str, ...]) -> tuple[str, ...]:
        for at, name in enumerate(hosts):
            try:
                _ssh(name)
            except ValueError as error:
                raise KeyedError((at,), str(error)) from None
            if name in hosts[:at]:
                raise KeyedError((at,), f"{quoted(name)} is there twice: a host runs one block at a time")
        return hosts

    @property
    def machines(self) -> tuple[SshHost, ...]:
        return tuple(map(_ssh, self.hosts))


class Partition(Strict):
    """Where Slurm runs the jobs. ``leadline``: its program on the nodes, this one's own path if absent; ``options``:
    further ones of sbatch; ``kernels``: each release that nodes can boot, with the constraint that asks for it.
    """

    partition: Word | None = None
    leadline: Word | None = None
    options: tuple[Word, ...] = ()
    kernels: Mapping[Word, Word] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _has_one_constraint(self) -> Self:
        for at, option in enumerate(self.options):
            if self.kernels and option.startswith(("--constraint", "-C")):
                raise KeyedError(
                    ("options", at),
                    f"{quoted(option)} and `kernels` are two constraints; write it there: {{6.1.0-30-amd64: 'a&b'}}",
                )
        return self


def _ssh(name: str) -> SshHost:
    host = ssh_host(name) or ssh_host(f"ssh:{name}")
    assert host is not None
    return host


def read_pool(word: str) -> SshHosts | Partition:
    """What ``--pool`` names. Raises UsageError with option, or file and line."""
    kind, _, rest = word.partition(":")
    if kind == "slurm" and not rest.endswith((".yaml", ".yml")):
        if word.endswith(":"):
            raise UsageError(f"--pool {quoted(word)} names no partition; write slurm for the usual one")
        return Partition(partition=rest or None)
    if kind not in ("slurm", "ssh"):
        near = nearest(kind, ["slurm", "ssh"])
        hint = f"did you mean {near}?" if near else f"write {_CHOICES}"
        raise UsageError(f"--pool {quoted(word)}: there is no such kind of pool; {hint}")
    if not rest:
        raise UsageError(f"--pool {quoted(word)} names no file of hosts; write ssh:hosts.yaml")
    model: type[SshHosts] | type[Partition] = SshHosts if kind == "ssh" else Partition
    places = Places(rest, load_tree(read_text(Path(rest)), rest, model), {})
    try:
        return model.model_validate(plain(places.tree, places))
    except ValidationError as error:
        raise UsageError("\n".join(sentences(error, places, model))) from error
