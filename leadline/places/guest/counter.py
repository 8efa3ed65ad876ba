"""Counts of what a guest executes, taken by a plugin of QEMU's emulation (``driver/instructions``).

The guest executes no instruction more: its digits are the same with the plugin and without.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import leadline
from leadline.host import here
from leadline.places.guest.boot import QEMU

BLOCKS = "blocks"  # file of a guest's directory: address (hexadecimal), instructions and executions of each block
LIBRARY = "libleadline_instructions.so"
_PACKAGE = Path(leadline.__file__).parent
_PLACES = (_PACKAGE / "_bin", _PACKAGE.parent / "driver" / "target" / "release")
_QUIT = b'{"execute":"qmp_capabilities"}{"execute":"quit"}'


@dataclass(frozen=True)
class Counter:
    """Of one guest. ``marks``: addresses; the longest stretch between two executions of any of them counts."""

    library: Path
    marks: Sequence[int] = ()

    def options(self, out: str = BLOCKS) -> list[str]:
        """QEMU's, to run in the directory of a guest's files."""
        library = str(self.library).replace(",", ",,")
        words = [f"file={library}", f"out={out}", *(f"mark={address:x}" for address in self.marks)]
        return ["-plugin", ",".join(words)]


@cache
def library() -> Path | str:
    """The plugin, or why there are no counts on this machine."""
    path = next((place / LIBRARY for place in _PLACES if (place / LIBRARY).is_file()), None)
    if path is None:
        return f"{LIBRARY} is not built (make install)"
    empty = [QEMU, "-machine", "none", "-accel", "tcg", "-nodefaults", "-display", "none", "-qmp", "stdio"]
    try:
        done = here.run([*empty, *Counter(path).options("/dev/null")], _QUIT, timeout=60.0)
    except OSError as error:
        return f"{QEMU} cannot be asked for its plugins: {error}"
    return path if done.returncode == 0 else f"{QEMU} takes no such plugin: {done.stderr.strip()[-200:]}"
