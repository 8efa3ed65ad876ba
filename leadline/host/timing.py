"""The side of who wants programs timed (``leadline.host.timed``)."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from leadline.host import timed

_AT_MOST = 10  # seconds for its end
_GROWS = 512  # KiB by which the process that starts programs may grow while it does


@dataclass(frozen=True)
class Timed:
    """One run of a program. ``figures``: by the names of ``leadline.host.timed``. ``why``: it failed, and how."""

    figures: dict[str, float]
    why: str = ""
    left: bool = False
    exit_code: int | None = None  # as of a shell; None where it ran too long, or could not be started


class Stopwatch:
    """Times programs one after the other. A context manager; on leaving, what still runs is ended."""

    def __enter__(self) -> Stopwatch:
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(Path(timed.__file__))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()  # which ends what it started, and it
        try:
            self._process.wait(_AT_MOST)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(_AT_MOST)
        self._process.stdout.close()

    def time(self, argv: Sequence[str], timeout: float, accept: frozenset[int] | None = frozenset({0})) -> Timed:
        """One run. ``accept``: exit codes that are no failure, None for all."""
        return next(self.times([argv], timeout, accept))

    def floor(self, timeout: float) -> float:
        """MiB of peak memory up to which a program's figure may be that of the process that starts it."""
        return (self.time(["/bin/true"], timeout, None).figures.get("peak_kib", math.inf) + _GROWS) / 1024

    def times(
        self, programs: Sequence[Sequence[str]], timeout: float, accept: frozenset[int] | None = frozenset({0})
    ) -> Iterator[Timed]:
        """Several runs, told when the last has ended, so that nothing of ours runs between them. An interruption ends
        the one under way, tells of those before it, and is raised then.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        request = {"programs": [list(argv) for argv in programs], "timeout": timeout}
        self._process.stdin.write(json.dumps(request).encode() + b"\n")
        self._process.stdin.flush()
        count, interruption = 0, None
        while count < len(programs):
            try:
                line = self._process.stdout.readline()
            except KeyboardInterrupt as error:
                interruption = error
                self._process.stdin.close()
                continue
            if not line:
                break
            count += 1
            yield _timed(json.loads(line), timeout, accept)
        if interruption is not None:
            raise interruption
        if count < len(programs):
            raise RuntimeError("the process that times programs has ended")


def _timed(answer: dict[str, Any], timeout: float, accept: frozenset[int] | None) -> Timed:
    if "cannot" in answer:
        return Timed({}, str(answer["cannot"]))
    words = str(answer.pop("stderr")).strip().splitlines()
    left_behind, timed_out, status = bool(answer.pop("left")), answer.pop("timed_out"), int(answer["status"])
    why = ""
    if timed_out:
        why = f"it ran longer than {timeout:g} s and was ended"
    elif accept is not None and status not in accept:
        why = f"exit code {status}" + (f": {words[-1][:200]}" if words else "")
    figures = {name: float(value) for name, value in answer.items()}
    return Timed(figures, why, left_behind, None if timed_out else status)
