"""Parameters that are one small text file each: sysctls and /sys settings."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from leadline.host.undo import normalise, write_setting
from leadline.model.knob import ApplyCost, Kind, Knob, Level, Risk

VM_MANUAL = "Linux Documentation/admin-guide/sysctl/vm.rst"
KERNEL_MANUAL = "Linux Documentation/admin-guide/sysctl/kernel.rst"


@dataclass(frozen=True)
class VectorKnob(Knob):
    """Several whole numbers in one file, written with single spaces."""

    def parse(self, raw: object) -> Level:
        """``256 256 32`` or ``256,256,32``. Raises ValueError."""
        words = str(raw).replace(",", " ").split()
        if not words or not all(word.lstrip("-").isdecimal() for word in words):
            raise ValueError(f"{raw!r} is not a row of whole numbers such as '256 256 32'")
        return " ".join(words)


def setting(
    name: str,
    summary: str,
    default: Level | None = None,
    bounds: tuple[float | None, float | None] = (None, None),
    unit: str = "",
    *,
    kind: Kind = Kind.INTEGER,
    risk: Risk = Risk.SAFE,
    above: float | None = None,
    below: float | None = None,
    choices: tuple[str, ...] = (),
    source: str = VM_MANUAL,
) -> Knob:
    """A live kernel parameter, briefly. ``bounds``: legal range; ``above``, ``below``: where danger begins."""
    if above is not None or below is not None:
        risk = Risk.DANGEROUS
    return Knob(
        name=name,
        kind=kind,
        apply_cost=ApplyCost.LIVE,
        summary=summary,
        default=default,
        unit=unit,
        minimum=bounds[0],
        maximum=bounds[1],
        choices=choices,
        risk=risk,
        dangerous_above=above,
        dangerous_below=below,
        source=source,
    )


def vector(name: str, summary: str, default: str | None, source: str, risk: Risk = Risk.CAUTION) -> Knob:
    """A live kernel parameter of several numbers."""
    return VectorKnob(name, Kind.TEXT, ApplyCost.LIVE, summary, default=default, risk=risk, source=source)


class FileKnobs:
    """A family of parameters held in files. ``table``: each knob with its file below ``root``."""

    def __init__(self, root: Path, table: Iterable[tuple[Knob, str]]) -> None:
        rows = list(table)
        self._paths = {knob.name: root / path for knob, path in rows}
        self._knobs = tuple(knob for knob, _ in rows)

    def knobs(self) -> Sequence[Knob]:
        return self._knobs

    def path(self, knob: Knob) -> Path:
        return self._paths[knob.name]

    def read(self, knob: Knob) -> Level:
        """Today's level. Raises LookupError where this kernel has no such parameter, PermissionError."""
        path = self.path(knob)
        try:
            text = normalise(path.read_text())
        except (FileNotFoundError, NotADirectoryError):
            raise LookupError(f"this kernel has no {knob.name} ({path} does not exist)") from None
        if knob.kind is Kind.INTEGER:
            return int(text, 0)
        if knob.kind is Kind.BOOLEAN:
            return text not in ("0", "N", "n")
        return text

    def text(self, level: Level) -> str:
        """The level as the file takes it."""
        return str(int(level)) if isinstance(level, bool) else str(level)

    def write(self, knob: Knob, level: Level) -> None:
        """Raises LookupError where there is no such parameter, PermissionError, OSError."""
        path = self.path(knob)
        if not path.exists():
            raise LookupError(f"this kernel has no {knob.name} ({path} does not exist)")
        write_setting(path, self.text(level))


def sysctl_path(name: str) -> str:
    """``vm.dirty_ratio`` -> ``proc/sys/vm/dirty_ratio``."""
    return "proc/sys/" + name.replace(".", os.sep)


def kernel_version(root: Path) -> tuple[int, int]:
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
