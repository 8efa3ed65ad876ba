"""A client of QMP, QEMU's machine protocol, over the process's standard input and output.

The answers are read from the file that holds the output, so that QEMU can run wherever its ``Host`` starts it. While a
guest runs in virtual time nothing may be asked: QEMU's main loop would wake at a moment of the host's choosing.
Source: QEMU's docs/interop/qmp-spec.txt and qapi/run-state.json.
"""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from leadline.host.base import Process
from leadline.model.received import from_json

Message = Mapping[str, Any]
_SHORTEST, _LONGEST = 0.002, 0.05  # seconds between two looks at the output


class MonitorError(Exception):
    """QEMU refuses a command, or ended; says so in its words."""


class Monitor:
    """``process`` was started with ``-qmp stdio``, its output goes to ``output``."""

    def __init__(self, process: Process, output: Path) -> None:
        self._process = process
        self._output = output
        self._offset = 0
        self._messages: deque[Message] = deque()
        self._said: list[str] = []  # what is not of the protocol: QEMU's warnings and errors

    @property
    def said(self) -> str:
        """QEMU's own words so far."""
        return "\n".join(self._said)

    def command(self, name: str, until: float, **arguments: object) -> Any:
        """What QEMU returns. Raises MonitorError, TimeoutError at ``until`` (of time.monotonic)."""
        order = {"execute": name, **({"arguments": arguments} if arguments else {})}
        self._process.write(json.dumps(order).encode() + b"\n")
        later: list[Message] = []
        while True:
            message = self._next(until)
            if "error" in message:
                raise MonitorError(f"QEMU refuses {name}: {message['error']['desc']}")
            if "return" in message:
                self._messages.extendleft(reversed(later))
                return message["return"]
            later.append(message)

    def event(self, names: Collection[str], until: float, tick: Callable[[], None] | None = None) -> Message:
        """The next event of these names; others before it are dropped. ``tick`` is called now and then meanwhile.

        Raises MonitorError when QEMU ends, TimeoutError at ``until``.
        """
        while True:
            message = self._next(until, tick)
            if message.get("event") in names:
                return message

    def _next(self, until: float, tick: Callable[[], None] | None = None) -> Message:
        wait = _SHORTEST
        while not self._messages:
            alive = self._process.alive()  # before the output is read, so that its last words are
            if self._read():
                continue
            if not alive:
                raise MonitorError(f"QEMU ended with exit code {self._process.exit_code()}")
            if time.monotonic() >= until:
                raise TimeoutError
            if tick is not None:
                tick()
            time.sleep(wait)
            wait = min(2 * wait, _LONGEST)
        return self._messages.popleft()

    def _read(self) -> bool:
        """Whether whole lines were read."""
        with self._output.open("rb") as file:
            file.seek(self._offset)
            whole, newline, _ = file.read().rpartition(b"\n")
        self._offset += len(whole) + len(newline)
        for line in whole.decode(errors="replace").splitlines():
            try:
                message = from_json(line)
            except ValueError:
                message = None
            if not isinstance(message, dict):
                self._said.append(line)
            elif "QMP" not in message:  # the greeting
                self._messages.append(message)
        return bool(newline)
