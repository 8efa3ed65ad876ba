"""What is known of hardware virtualisation here. Its device may be there and no guest boot with it: a test boot tells,
and what it told is kept in the cache until the machine's next start.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from leadline.host.paths import cache_dir

Known = Literal["absent", "untried", "works", "fails"]
_DEVICE, _BOOT = Path("/dev/kvm"), Path("/proc/sys/kernel/random/boot_id")


def known() -> Known:
    """Of the device ``/dev/kvm``."""
    if not _DEVICE.exists():
        return "absent"
    try:
        boot, answer = _file().read_text(encoding="utf-8").split()
    except (OSError, ValueError):
        return "untried"
    if boot != _boot():
        return "untried"
    return "works" if answer == "works" else "fails"


def remember(works: bool) -> None:
    """What a test boot told. Raises OSError."""
    _file().parent.mkdir(parents=True, exist_ok=True)
    _file().write_text(f"{_boot()} {'works' if works else 'fails'}\n", encoding="utf-8")


def _file() -> Path:
    return cache_dir() / "guests" / "kvm"


def _boot() -> str:
    return _BOOT.read_text(encoding="utf-8").strip()
