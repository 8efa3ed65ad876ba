"""Guests: virtual machines as hosts of a study, in real time (``vm``) or virtual time, which alone can fork."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

from pydantic import Field

from leadline.model.bounds import MEBIBYTE, TEBIBYTE, FilePath, Strict, count, cpu_numbers, memory
from leadline.model.errors import KeyedError
from leadline.model.units import format_size

if TYPE_CHECKING:
    from leadline.model.design import Design
    from leadline.model.study import Study

GuestKind = Literal["vm", "virtual-time"]
GUEST_KINDS: tuple[str, ...] = get_args(GuestKind)
FORKS = "forks"  # the design in which every treatment is a fork of the same guest
KERNEL = "guest.kernel"  # the knob
WORLDS = 10  # what a message proposes
MOST_WORLDS = 1_000

_ALONE = "nothing is changed in a guest while it is loaded"
_OF_GUESTS = {  # keys that no guest has: path -> why, and what to write
    ("design", "switchback"): f"{_ALONE}: leave slots out",
    ("design", "rotation"): f"{_ALONE}: leave the rotation out",
    ("drivers",): "the driver runs inside the guest: leave drivers out",
    ("workload", "generator"): "leadline-load runs inside the guest, no other generator does: leave it out",
    (
        "workload",
        "warm_up",
    ): "a guest is not asked whether it is warm: leave warm_up out, and write ramp_up as a time, such as 20s",
    ("profile",): "a profile is taken on this host, and a guest's server is not here: leave profile out",
    ("workload", "cpu_latency"): "a guest's CPUs have no idle states to bound: leave it out",
    ("stack", "java"): "the guest gets the runtime that leadline finds on this machine: leave java out",
}
_VIRTUAL = "no other program can disturb virtual time"
_OF_VIRTUAL = {  # those that make no sense in virtual time
    ("covariates",): f"{_VIRTUAL}, so the machine's figures explain nothing: leave covariates out",
    ("repeat",): f"{_VIRTUAL}, so no trial is repeated: leave repeat out",
    ("wait",): f"{_VIRTUAL}, so there is nothing to wait for: leave wait out",
    ("reset", "page_cache"): "a fork begins with the page cache of its world: leave page_cache out",
    ("reset", "swap"): "a fork begins with the swap of its world: leave swap out",
    ("reset", "database"): "a fork begins with the database of its world: leave database out",
}


Memory = Annotated[int, memory(128 * MEBIBYTE, TEBIBYTE)]
DiskSize = Annotated[int, memory(32 * MEBIBYTE, TEBIBYTE)]
DiskRate = Annotated[int, count(100_000)]
DISK_RATE = 60  # MiB/s: a disk that turns


class GuestDisk(Strict):
    """A disk with ext4 that lies in memory of its own beside the guest's, and takes its time."""

    size: DiskSize
    mib_per_s: DiskRate = Field(default=DISK_RATE, description="MiB read or written in a second at most")


class Guest(Strict):
    """The virtual machine of ``host: vm`` and ``host: virtual-time``. Disk and swap come on top of ``memory``."""

    memory: Memory = 2048 * MEBIBYTE
    cpus: Annotated[int, count(64)] = 1
    disk: GuestDisk | None = Field(default=None, description="holds the database's files; without it memory does")
    swap: DiskSize | None = Field(default=None, description="a swap device of this size, as fast as the disk")
    kernel: FilePath | None = Field(
        default=None,
        description="LINE-FLAVOUR such as 6.1-cloud, or the path of a kernel; may be the factor guest.kernel instead",
    )

    @property
    def machine_memory(self) -> int:
        """Bytes of the virtual machine: its memory, and what stands for its devices."""
        return self.memory + (self.disk.size if self.disk else 0) + (self.swap or 0)


def forked(found: Mapping[str, Any]) -> Mapping[str, Any]:
    """The keys of a design; of forks each world is a replicate, and nothing but the treatments is run in it.

    Raises KeyedError for keys that forks do not have.
    """
    if found.get("kind") != FORKS:
        return found
    worlds = found.get("worlds")
    if worlds is None:
        raise KeyedError(("kind",), f"forks need worlds, to be compared in: write `worlds: {WORLDS}`")
    if found.get("replicates", worlds) != worlds:
        raise KeyedError(("replicates",), "the worlds of forks are the replicates: leave replicates out")
    if found.get("sentinels") is not None:
        raise KeyedError(("sentinels",), "a fork has no order in time that a sentinel could watch: leave sentinels out")
    bounded = isinstance(worlds, int) and 1 <= worlds <= MOST_WORLDS  # else it is refused by its own bounds
    return {**found, **({"replicates": worlds} if bounded else {}), "sentinels": None}


def check_forks(design: Design) -> None:
    """Raises KeyedError for keys of a design that contradict its kind."""
    if design.kind != FORKS:
        for key in ("worlds", "of"):
            if getattr(design, key) is not None:
                raise KeyedError((key,), f"{key} works with forks only: write `kind: forks`, or leave {key} out")
        return
    for key, usual, why in (
        ("blocks", "by-replicate", "each world of forks is a block"),
        ("block_size", None, "each world of forks is a block"),
        ("looks", 1, "forks are analysed once, at the end"),
    ):
        if getattr(design, key) != usual:
            raise KeyedError((key,), f"{why}: leave {key} out")


def check_guest(study: Study) -> None:
    """Raises KeyedError, with the key to blame, for what the study's kind of host cannot have."""
    stack, forks = study.stack, study.design.kind == FORKS
    if not stack.in_guest:
        _check_none(study)
    if forks and not stack.virtual:
        place = f"only virtual time can fork, and this study runs on {stack.place}"
        raise KeyedError(("design", "kind"), f"{place}: write `host: virtual-time` in stack, or another kind of design")
    if stack.virtual and not forks:
        place = "a study in virtual time compares forks of one guest"
        raise KeyedError(("stack", "host"), f"{place}: write `design: {{ kind: forks, worlds: {WORLDS} }}`")
    if stack.in_guest:
        _check_responses(study)
        _check_keys(study, {**_OF_GUESTS, **(_OF_VIRTUAL if stack.virtual else {})})
        _check_size(study, study.guest or Guest())


def _check_responses(study: Study) -> None:
    for at, name in enumerate(study.responses):
        if name.startswith("completion_"):
            problem = f"{name} is read from the database after the load, and a guest's is gone with it"
            raise KeyedError(("responses", at), f"{problem}: leave {name} out")


def _check_none(study: Study) -> None:
    """That a study without guests names nothing of theirs."""
    place = f"of `host: virtual-time` or `host: vm` in stack, and this study runs on {study.stack.place}"
    if study.guest is not None:
        raise KeyedError(("guest",), f"guest is {place}: leave guest out, or name one of them")
    for key in ("factors", "settings"):
        for name in getattr(study, key):
            if name.startswith("guest."):
                raise KeyedError((key, name), f"{name} is a knob {place}: leave it out, or name one of them")


def _check_keys(study: Study, refused: Mapping[tuple[str, ...], str]) -> None:
    usual = type(study)(study=study.study, question=study.question)
    for path, why in refused.items():
        value, default = study, usual
        for part in path:
            value, default = getattr(value, part), getattr(default, part)
        if value != default:
            raise KeyedError(path, why)


def _check_size(study: Study, guest: Guest) -> None:
    if guest.kernel is not None and (KERNEL in study.factors or KERNEL in study.settings):
        other = "factor" if KERNEL in study.factors else "setting"
        raise KeyedError(("guest", "kernel"), f"the kernel is a {other}, too: keep one of them")
    for role in ("server", "database", "driver", "web"):
        cpus = getattr(study.placement, f"{role}_cpus")
        if cpus is not None and cpu_numbers(cpus)[-1] >= guest.cpus:
            limit_text = f"the guest has {guest.cpus} CPU{'' if guest.cpus == 1 else 's'}, numbered from 0"
            raise KeyedError(
                ("placement", f"{role}_cpus"), f"{cpus}: {limit_text}; write more `cpus` in guest, or leave it out"
            )
        for name in set(study.placement.limits(role)) - {"memory"}:
            raise KeyedError(("placement", f"{role}_{name}"), "it is of this host: leave it out in a guest")
        limit = getattr(study.placement, f"{role}_memory", None)
        if limit is not None and limit > guest.memory:
            limit_text = f"{format_size(limit)} is more than the guest has ({format_size(guest.memory)})"
            raise KeyedError(
                ("placement", f"{role}_memory"), f"{limit_text}; write more `memory` in guest, or less here"
            )
