"""A host over SSH as ``leadline.far.boot`` asks it, also while it goes down and comes back."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence

from leadline.far.connection import Connection

_BOOT = "/proc/sys/kernel/random/boot_id"


class Booting:
    """Implements ``leadline.far.boot.Machine``. ``hang_up`` ends whatever the connection carries."""

    def __init__(self, reach: Callable[[], None], hang_up: Callable[[], None], connection: Connection) -> None:
        self._reach, self._hang_up, self._connection = reach, hang_up, connection
        self._down = False

    def run(self, command: Sequence[str]) -> str:
        """Raises ConnectionLost, LeadlineError."""
        if not self._down:
            self._reach()
        try:
            return self._connection.run_as_root(f"exec {shlex.join(command)}")
        finally:
            self._down = list(command) == ["systemctl", "reboot"]

    def text(self, path: str) -> str:
        return self._connection.run_as_root(f"cat {shlex.quote(path)} 2> /dev/null || true")

    def boot_id(self) -> str:
        """Tried once, by a new connection while it is down. Raises ConnectionLost."""
        if self._down:
            self._hang_up()
            self._connection.open()
        return self._connection.run_as_root(f"exec cat {_BOOT}")
