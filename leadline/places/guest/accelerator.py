"""Does hardware virtualisation work here? A timed test boot tells; that its device exists does not."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from leadline.host.base import Host
from leadline.model.errors import TrialFailure
from leadline.places.guest.boot import Boot
from leadline.places.guest.machine import run

LIMIT = 15.0  # seconds of a test boot; with hardware virtualisation it takes one or two
_DIRECTORY, _DEVICE = "/dev", "kvm"
_EMULATED = (
    "emulation without hardware virtualisation ({why}): programs take 10 to 50 times as long, system calls and the "
    "network suffer most, and repeated times differ by 10 to 50 %; host: virtual-time is exact"
)


@dataclass(frozen=True)
class Accelerator:
    """What runs a guest in real time, and what that means for its times, one sentence."""

    name: Literal["kvm", "tcg"]
    meaning: str


def probe(host: Host, boot: Boot, directory: Path) -> Accelerator:
    """Boots a guest with hardware virtualisation, which is taken if the guest powers off within ``LIMIT`` seconds."""
    if _DEVICE not in host.files.names(_DIRECTORY):
        return _emulation(f"there is no {_DIRECTORY}/{_DEVICE}")
    test = replace(boot, time="real", accelerator="kvm", cpus=1)
    try:
        took = run(host, test, "finish\n", directory, LIMIT).wall_seconds
    except TrialFailure as failure:
        return _emulation(f"a test boot with it failed: {failure}")
    return Accelerator("kvm", f"hardware virtualisation (a test boot took {took:.1f} s)")


def _emulation(why: str) -> Accelerator:
    return Accelerator("tcg", _EMULATED.format(why=why))
