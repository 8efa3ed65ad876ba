"""Progress lines of drivers: of one as it writes them, of several as one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from leadline.host.received import opened
from leadline.load.result import LONGEST
from leadline.model.received import LONGEST_FIELD, MOST_BYTES, ReceivedError, json_object, number, whole
from leadline.model.record import LoadSecond

_WHAT = "progress"
_WORDS = 20  # lines that are no progress, kept


def as_json(second: LoadSecond) -> str:
    """As leadline-load prints it."""
    document = {
        "t": int(second.second),
        "phase": second.phase,
        "tps": round(second.throughput, 1),
        "p50_ms": round(second.p50_ms, 3),
        "p99_ms": round(second.p99_ms, 3),
        **({} if second.unanswered_from_ms is None else {"unanswered_from_ms": second.unanswered_from_ms}),
        "errors": second.errors,
        "in_flight": second.in_flight,
    }
    return json.dumps(document, separators=(",", ":"))


def as_text(second: LoadSecond) -> str:
    p50, p99 = (f"{second.known(ms):.2f}" for ms in (second.p50_ms, second.p99_ms))
    return (
        f"{second.second:>5.0f} s  {second.phase:<9} {second.throughput:>9.1f}/s  p50 {p50:>8} ms  "
        f"p99 {p99:>8} ms  errors {second.errors}  in flight {second.in_flight}"
    )


class ProgressLog:
    """The output of one driver as it is written. ``ready``: it waits for its start."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._position = 0
        self._rest = b""
        self._words: list[str] = []
        self._fresh: list[LoadSecond] = []
        self.ready = False
        self.seconds: dict[int, LoadSecond] = {}

    def read(self) -> bool:
        """Whether there was something new."""
        try:
            with opened(self._log) as file:
                file.seek(self._position)
                data = file.read(MOST_BYTES)
        except FileNotFoundError:
            return False
        self._position += len(data)
        *lines, rest = (self._rest + data).split(b"\n")
        self._rest = rest[-LONGEST_FIELD:]
        for line in lines:
            self._line(line.decode(errors="replace"))
        return bool(data)

    def take(self) -> list[LoadSecond]:
        """Read on; the seconds that were not taken yet."""
        self.read()
        fresh, self._fresh = self._fresh, []
        return fresh

    def _line(self, line: str) -> None:
        try:
            document = json_object(line, _WHAT)
            if "ready" in document:
                self.ready = True
                return
            second = LoadSecond(
                second=number(document, "t", _WHAT, most=LONGEST),
                phase=str(document.get("phase")),
                throughput=number(document, "tps", _WHAT),
                p50_ms=number(document, "p50_ms", _WHAT),
                p99_ms=number(document, "p99_ms", _WHAT),
                errors=whole(document, "errors", _WHAT),
                in_flight=whole(document, "in_flight", _WHAT),
                unanswered_from_ms=number(document, "unanswered_from_ms", _WHAT)
                if "unanswered_from_ms" in document
                else None,
            )
        except ReceivedError:
            self._words.append(line)
            del self._words[:-_WORDS]
        else:
            self.seconds[int(second.second)] = second
            self._fresh.append(second)

    def last_words(self) -> str:
        """The end of what is no progress."""
        return "\n".join([*self._words, self._rest.decode(errors="replace")][-_WORDS:]).strip()


def together(logs: Sequence[ProgressLog], after: int) -> list[LoadSecond]:
    """The seconds after ``after`` that every driver has told of, summed over them; the highest percentiles."""
    seconds = []
    second = after + 1
    while all(second in log.seconds for log in logs):
        parts = [log.seconds[second] for log in logs]
        bounds = [part.unanswered_from_ms for part in parts if part.unanswered_from_ms is not None]
        seconds.append(
            LoadSecond(
                second=float(second),
                phase=parts[0].phase,
                throughput=sum(part.throughput for part in parts),
                p50_ms=max(part.p50_ms for part in parts),
                p99_ms=max(part.p99_ms for part in parts),
                errors=sum(part.errors for part in parts),
                in_flight=sum(part.in_flight for part in parts),
                unanswered_from_ms=min(bounds, default=None),
            )
        )
        second += 1
    return seconds
