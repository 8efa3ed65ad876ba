"""The small lab of two real runs that comes with the package."""

from __future__ import annotations

import lzma
from pathlib import Path

from leadline.host import received
from leadline.model.errors import UsageError

ARCHIVE = Path(__file__).parents[1] / "demo.tar.xz"  # written by tools/demo_lab.py
_MARK = "lab.sqlite"
COMMANDS = ("comparison  leadline compare startup@1 startup@2", "results     leadline show startup@1")


def unpack(out: Path) -> list[str]:
    """Unpack the lab into ``out`` where it is not there yet; what to look at, a line each. Raises UsageError."""
    if not (out / _MARK).exists():
        if out.exists() and any(out.iterdir()):
            raise UsageError(f"--out {out}: the directory holds other files; name a new one")
        with lzma.open(ARCHIVE) as archive:
            received.unpack(archive, out, ARCHIVE.name)
    about = (out / "about.txt").read_text(encoding="utf-8").strip()
    return [about, f"report      {out / 'report.html'}", *(f"{line} --lab {out}" for line in COMMANDS)]
