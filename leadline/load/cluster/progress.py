"""Progress lines of several drivers as one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Second:
    """One second of all drivers. ``p99_ms`` is that of the driver where it was highest."""

    second: float
    phase: str
    per_second: float
    p50_ms: float
    p99_ms: float
    errors: int
    in_flight: int

    def as_json(self) -> str:
        """As leadline-load prints it."""
        found = {
            "t": int(self.second),
            "phase": self.phase,
            "tps": round(self.per_second, 1),
            "p50_ms": round(self.p50_ms, 3),
            "p99_ms": round(self.p99_ms, 3),
            "errors": self.errors,
            "in_flight": self.in_flight,
        }
        return json.dumps(found, separators=(",", ":"))

    def as_text(self) -> str:
        return (
            f"{self.second:>5.0f} s  {self.phase:<9} {self.per_second:>9.1f}/s  p50 {self.p50_ms:>8.2f} ms  "
            f"p99 {self.p99_ms:>8.2f} ms  errors {self.errors}  in flight {self.in_flight}"
        )


class ProgressLog:
    """The output of one driver as it is written."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._position = 0
        self._rest = ""
        self._words: list[str] = []
        self.ready = False
        self.seconds: dict[int, Second] = {}

    def read(self) -> bool:
        """Whether there was something new."""
        try:
            with self._log.open(encoding="utf-8", errors="replace") as stream:
                stream.seek(self._position)
                text = stream.read()
                self._position = stream.tell()
        except FileNotFoundError:
            return False
        *lines, self._rest = (self._rest + text).split("\n")
        for line in lines:
            self._line(line)
        return bool(text)

    def _line(self, line: str) -> None:
        try:
            found = json.loads(line)
            if "ready" in found:
                self.ready = True
                return
            self.seconds[int(found["t"])] = Second(
                second=float(found["t"]),
                phase=str(found["phase"]),
                per_second=float(found["tps"]),
                p50_ms=float(found["p50_ms"]),
                p99_ms=float(found["p99_ms"]),
                errors=int(found["errors"]),
                in_flight=int(found["in_flight"]),
            )
        except (ValueError, TypeError, KeyError):
            self._words.append(line)

    def last_words(self) -> str:
        """The end of what is no progress."""
        return "\n".join([*self._words, self._rest][-20:]).strip()


def together(logs: Sequence[ProgressLog], after: int) -> list[Second]:
    """The seconds after ``after`` that every driver has told of, summed over them."""
    found = []
    second = after + 1
    while all(second in log.seconds for log in logs):
        parts = [log.seconds[second] for log in logs]
        found.append(
            Second(
                second=float(second),
                phase=parts[0].phase,
                per_second=sum(part.per_second for part in parts),
                p50_ms=max(part.p50_ms for part in parts),
                p99_ms=max(part.p99_ms for part in parts),
                errors=sum(part.errors for part in parts),
                in_flight=sum(part.in_flight for part in parts),
            )
        )
        second += 1
    return found
