"""Parameters that are one small text file each: sysctls and /sys settings."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from leadline import catalogue
from leadline.host.undo import normalise, write_setting
from leadline.model.knob import Elements, Kind, Knob, Level, Machine, Risk
from leadline.model.ownparts import OwnKnob, knob_of, level_read, written

_LEAST_MEMORY = 512 << 20  # bytes; assumed where the host does not tell


class FileKnobs:
    """A family of parameters held in files. ``table``: each knob with its file below ``root``."""

    def __init__(self, root: Path, table: Iterable[tuple[Knob, str]]) -> None:
        rows = list(table)
        self._paths = {knob.name: root / path for knob, path in rows}
        self._knobs = tuple(self._here(knob) for knob, _ in rows)

    @classmethod
    def of(cls, family: str, root: Path) -> FileKnobs:
        """A family of the catalogue with the bounds that this host gives it."""
        machine, directory = machine_of(root), catalogue.directory(family)
        knobs = [_of_this_kernel(knob, root).on(machine) for knob in catalogue.load(family).values()]
        paths = [f"{directory}/{knob.name.replace('.', os.sep)}" for knob in knobs]
        if family == "block":
            device = _device(root)
            paths = [path.replace("block/", f"block/{device}/") for path in paths]
        return cls(root, zip(knobs, paths, strict=True))

    def _here(self, knob: Knob) -> Knob:
        """A vector with as many elements as this kernel has, and zeros where it has them."""
        if knob.kind is not Kind.VECTOR:
            return knob
        try:
            today = self.path(knob).read_text().split()
        except OSError:
            return knob
        elements = knob.elements or Elements()
        zeros = frozenset(place for place, word in enumerate(today) if word == "0")
        return replace(knob, elements=replace(elements, length=len(today), zeros=zeros))

    def knobs(self) -> Sequence[Knob]:
        return self._knobs

    def path(self, knob: Knob) -> Path:
        return self._paths[knob.name]

    def read(self, knob: Knob) -> Level:
        """Today's level. Raises LookupError where this kernel has no such parameter, PermissionError."""
        text = self._today(knob)
        if knob.kind is Kind.INTEGER:
            return int(text, 0)
        if knob.kind is Kind.BOOLEAN:
            return text not in ("0", "N", "n")
        return text

    def _today(self, knob: Knob) -> str:
        path = self.path(knob)
        try:
            return normalise(path.read_text())
        except (FileNotFoundError, NotADirectoryError):
            raise LookupError(f"this kernel has no {knob.name} ({path} does not exist)") from None

    def text(self, knob: Knob, level: Level) -> str:  # noqa: ARG002 - a declared one has its own way
        """The level as the file takes it."""
        return str(int(level)) if isinstance(level, bool) else str(level)

    def write(self, knob: Knob, level: Level) -> None:
        """Raises LookupError where there is no such parameter, PermissionError, OSError."""
        path = self.path(knob)
        if not path.exists():
            raise LookupError(f"this kernel has no {knob.name} ({path} does not exist)")
        write_setting(path, self.text(knob, level))


class DeclaredKnobs(FileKnobs):
    """What a study or a stack file declares. ``known``: files with the catalogue's knobs, whose dangers hold."""

    def __init__(self, root: Path, declared: Mapping[str, OwnKnob], known: Mapping[Path, Knob]) -> None:
        self._declared = declared
        rows = [(knob_of(name, own), own.path.lstrip("/")) for name, own in declared.items()]
        super().__init__(root, ((_as_known(knob, known.get(root / path)), path) for knob, path in rows))

    def read(self, knob: Knob) -> Level:
        if knob.kind is Kind.BOOLEAN:
            return super().read(knob)
        text = self._today(knob)
        try:
            return level_read(self._declared[knob.name], text)
        except ValueError as error:
            raise LookupError(f"{self.path(knob)}: {error}") from None

    def text(self, knob: Knob, level: Level) -> str:
        own = self._declared[knob.name]
        return super().text(knob, level) if knob.kind is Kind.BOOLEAN else written(own, level)


def _as_known(knob: Knob, known: Knob | None) -> Knob:
    """A declared knob with what is dangerous of the catalogue's entry for its file."""
    if known is None:
        return knob
    for raw in knob.values.values():
        with suppress(ValueError):  # no level of the entry: the kernel refuses it
            if known.danger(known.parse(raw)):
                return replace(knob, risk=Risk.DANGEROUS)
    return replace(
        knob, dangerous_below=known.dangerous_below, dangerous_above=known.dangerous_above, special=known.special
    )


def machine_of(root: Path) -> Machine:
    """What limits of knobs depend on; the smallest machine where the host does not tell."""
    huge = memory_kib(root, "Hugepagesize") * 1024
    memory = memory_kib(root) * 1024
    return Machine(memory=memory or _LEAST_MEMORY, cpus=os.cpu_count() or 1, huge_page=huge or 2 << 20)


def _device(root: Path) -> str:
    """Name of the whole block device that holds the current directory; ``none`` where that lies on no device."""
    number = Path().stat().st_dev  # also where the directory has been removed: `restore` works there, too
    place = (root / f"sys/dev/block/{os.major(number)}:{os.minor(number)}").resolve()
    if (place / "partition").exists():
        place = place.parent
    return place.name if place.exists() else "none"


def _of_this_kernel(knob: Knob, root: Path) -> Knob:
    if knob.name == "vm.swappiness" and (0, 0) < _kernel_version(root) < (5, 8):
        return replace(knob, maximum=100)
    return knob


_NEEDS = {
    "zswap.parameters.enabled": "swap",
    "zswap.parameters.max_pool_percent": "swap",
    "zswap.parameters.compressor": "swap",
    "zswap.parameters.shrinker_enabled": "swap",
    "vm.swappiness": "swap",
    "vm.page-cluster": "swap",
    "kernel.numa_balancing": "nodes",
    "vm.zone_reclaim_mode": "nodes",
}


def cannot_act(name: str, root: Path) -> str:
    """Why no level of the knob changes anything on this machine; empty where one may, or where that is not known."""
    need = _NEEDS.get(name)
    try:
        if need == "swap" and len((root / "proc/swaps").read_text().splitlines()) == 1:
            return f"{name} acts on swap only, and this host has none (/proc/swaps)"
        if need == "nodes" and (root / "sys/devices/system/node/online").read_text().strip() == "0":
            return f"{name} acts between NUMA nodes only, and this host has one (/sys/devices/system/node/online)"
    except OSError:
        pass
    return ""


def _kernel_version(root: Path) -> tuple[int, int]:
    """``(6, 12)``; (0, 0) if unknown."""
    try:
        words = (root / "proc/sys/kernel/osrelease").read_text().split(".")
        return int(words[0]), int("".join(c for c in words[1] if c.isdigit()))
    except (OSError, ValueError, IndexError):
        return 0, 0


def memory_kib(root: Path, field: str = "MemTotal") -> int:
    """A field of /proc/meminfo in KiB, 0 if unknown."""
    try:
        for line in (root / "proc/meminfo").read_text().splitlines():
            if line.startswith(field + ":"):
                return int(line.split()[1])
    except (OSError, ValueError):
        return 0
    return 0
