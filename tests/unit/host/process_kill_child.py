"""A leadline that is killed at every line of starting a service, one after the other: ``STATE [--user]``.

The service forgets its environment, and with it leadline's mark. Prints how many lines there were, and for each line
after which something was left, where it was and what is left.
"""

import os
import signal
import sys
import time
from pathlib import Path
from types import FrameType
from typing import Any

from leadline.host import journal as journal_module
from leadline.host import process
from leadline.host.base import ProcessSpec
from leadline.host.journal import UndoJournal

OWN_USER = "--user" in sys.argv
TRACED = {process.__file__} if OWN_USER else {process.__file__, journal_module.__file__}
PATIENCE = 10.0  # seconds for what ends by itself


def started(state: Path, journal: UndoJournal, seconds: str, last: int) -> None:
    """Start the service and be killed at the line of this number, if there is one."""
    lines = 0

    def trace(frame: FrameType, event: str, _argument: Any) -> Any:
        nonlocal lines
        if frame.f_code.co_filename not in TRACED or frame.f_code.co_name == "_locked":
            return None
        if event == "line":
            lines += 1
            if lines == last:
                (state / "where").write_text(f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}")
                os.kill(os.getpid(), signal.SIGKILL)
        return trace

    spec = ProcessSpec("service", ["env", "-i", "sleep", seconds], state / "log", unprivileged=OWN_USER)
    sys.settrace(trace)
    process.start(spec, journal)
    sys.settrace(None)


def running(seconds: str) -> list[int]:
    found = []
    for name in os.listdir("/proc"):  # noqa: PTH208 - names only
        if name.isdigit():
            try:
                words = Path(f"/proc/{name}/cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if seconds.encode() in words:
                found.append(int(name))
    return found


def main() -> None:
    state = Path(sys.argv[1])
    number = 0
    while True:
        number += 1
        journal = UndoJournal(state / "undo" / f"{number}.jsonl")
        seconds = f"300.{os.getpid()}{number:05d}"
        child = os.fork()
        if not child:
            started(state, journal, seconds, number)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        journal.restore()
        deadline = time.monotonic() + PATIENCE
        while (left := running(seconds)) and time.monotonic() < deadline:
            time.sleep(0.01)
        if left:
            print((state / "where").read_text(), left, flush=True)
            for pid in left:
                os.kill(pid, signal.SIGKILL)
        if not os.WIFSIGNALED(status):
            print(number - 1, "lines", flush=True)
            return


if __name__ == "__main__":
    main()
