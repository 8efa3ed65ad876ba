"""Alarms of a soak as they happen: a command of the user's, a request to an address that the user named.

What fires: ``degrading`` (two interim verdicts one after the other: a series degrades, once for each), ``errors`` (more
transactions failed between two checkpoints than the limit allows, once until it is kept again), ``disk`` (the lab's
disk is nearly full, once), ``ended`` (the end, with the verdict). The load does not wait for them.
"""

from __future__ import annotations

import http.client
import json
import queue
import shutil
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from leadline.analysis.soak import CHANCE
from leadline.conclude.soak import SoakAnswer, conclude_soak
from leadline.experiments.soak.record import SoakRecord, evened
from leadline.host import here
from leadline.model.errors import UsageError, quoted
from leadline.model.units import format_size

LOOKS = 20  # interim verdicts of a soak, each at a 20th of the chance of a false alarm
FIRST_LOOK = 0.25  # of the run: what is judged before is mostly its warm-up
LITTLE = 1 << 30  # bytes free on the lab's disk
COMMAND_TIMEOUT, WEBHOOK_TIMEOUT = 60.0, 10.0  # seconds
_WAITING = 100  # alarms that may wait; more are dropped, and told
_AT_THE_END = 90.0  # seconds for those that still wait


@dataclass(frozen=True)
class Alarm:
    """``kind``: degrading, errors, disk, ended. ``at``: unix seconds."""

    kind: str
    at: float
    sentence: str
    details: Mapping[str, Any]

    def document(self, soak: str) -> dict[str, Any]:
        return {"soak": soak, "kind": self.kind, "at": self.at, "sentence": self.sentence, **self.details}


def check_webhook(url: str) -> None:
    """Raises UsageError for what is no address of a web server."""
    try:
        parts = urlsplit(url)
        right = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        right = False
    if not right:
        raise UsageError(f"--webhook {quoted(url)}: write an address as in https://example.org/path")


class Alarms:
    """Sends alarms from a thread of its own, in order. ``command``: run by sh -c with the alarm as JSON on its standard
    input; ``webhook``: the same JSON by POST, to this address only (a redirect is a failure). ``told`` hears what could
    not be sent, from that thread.
    """

    def __init__(
        self, soak: str, command: str | None, webhook: str | None, told: Callable[[str], None] = lambda _: None
    ) -> None:
        self._soak, self._command, self._webhook, self._told = soak, command, webhook, told
        self._queue: queue.Queue[Alarm | None] = queue.Queue(maxsize=_WAITING)
        self._thread = threading.Thread(target=self._work, name="soak-alarms", daemon=True)
        if command or webhook:
            self._thread.start()

    def fire(self, alarm: Alarm) -> None:
        if not self._thread.ident:
            return
        try:
            self._queue.put_nowait(alarm)
        except queue.Full:
            self._told(f"alarm dropped, {_WAITING} wait already: {alarm.sentence}")

    def close(self) -> None:
        """Send what still waits, for a bounded time."""
        if self._thread.ident:
            self._queue.put(None, timeout=_AT_THE_END)
            self._thread.join(_AT_THE_END)

    def _work(self) -> None:
        for alarm in iter(lambda: self._queue.get(timeout=None), None):
            text = json.dumps(alarm.document(self._soak)) + "\n"
            if self._command and (why := run_command(self._command, text)):
                self._told(f"--alarm failed: {why}")
            if self._webhook and (why := post(self._webhook, text)):
                self._told(f"--webhook failed: {why}")


def run_command(command: str, text: str) -> str:
    """Why it failed, empty if it did not."""
    try:
        done = here.run(["/bin/sh", "-c", command], text.encode(), timeout=COMMAND_TIMEOUT)
    except OSError as error:
        return str(error)
    return "" if done.returncode == 0 else f"exit code {done.returncode}: {done.stderr.strip()[-200:]}"


def post(url: str, text: str) -> str:
    """As ``run_command``, one POST without following a redirect."""
    parts = urlsplit(url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=WEBHOOK_TIMEOUT)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    try:
        connection.request("POST", path, text.encode(), {"Content-Type": "application/json"})
        status = connection.getresponse().status
    except (OSError, http.client.HTTPException) as error:
        return f"{type(error).__name__}: {error}"
    finally:
        connection.close()
    return "" if 200 <= status < 300 else f"answered by status {status}"


class Watch:
    """Looks at the record at each checkpoint. ``errors``: share of transactions that may fail."""

    def __init__(self, alarms: Alarms, errors: float, message: Callable[[str], None]) -> None:
        self._alarms, self._errors, self._message = alarms, errors, message

    def __call__(self, record: SoakRecord) -> None:
        for alarm in [*self._failures(record), *self._disk(record), *self._degrading(record)]:
            record.alarms.append({"kind": alarm.kind, "at": alarm.at, "sentence": alarm.sentence, **alarm.details})
            self._message(f"alarm: {alarm.sentence}")
            self._alarms.fire(alarm)

    def _failures(self, record: SoakRecord) -> list[Alarm]:
        fresh = [interval for interval in record.intervals if interval.begin >= record.checked]
        record.checked = record.intervals[-1].end if record.intervals else 0.0
        failed, ok = sum(interval.failed for interval in fresh), sum(interval.ok for interval in fresh)
        share = failed / (failed + ok) if failed else 0.0
        was, record.failing = record.failing, share > self._errors
        if not record.failing or was:
            return []
        sentence = f"{share:.2%} of the transactions failed since the last checkpoint; the limit is {self._errors:.2%}"
        return [Alarm("errors", time.time(), sentence, {"failed": failed, "ok": ok})]

    def _disk(self, record: SoakRecord) -> list[Alarm]:
        free = shutil.disk_usage(record.path.parent).free
        if free >= LITTLE or any(alarm["kind"] == "disk" for alarm in record.alarms):
            return []
        sentence = f"{format_size(free >> 20 << 20)} are free on the lab's disk"
        return [Alarm("disk", time.time(), sentence, {"free_bytes": free})]

    def _degrading(self, record: SoakRecord) -> list[Alarm]:
        due = int(LOOKS * record.measured / record.times.seconds)
        if due <= record.looks or record.measured < FIRST_LOOK * record.times.seconds:
            return []
        record.looks = due
        answer = conclude_soak(
            record.intervals, evened(record.intervals), record.times, record.ends, chance=CHANCE / LOOKS
        )
        before = set(record.degrading) - {alarm.get("series") for alarm in record.alarms}
        record.degrading = [drift.series.name for drift in answer.judged.degrading]
        return [
            Alarm(
                "degrading",
                time.time(),
                f"{drift.series.name} degrades by {drift.change}",
                {"series": drift.series.name, "per_day": drift.per_day, "unit": drift.series.unit},
            )
            for drift in answer.judged.degrading
            if drift.series.name in before
        ]


def at_the_end(answer: SoakAnswer) -> Alarm:
    return Alarm("ended", time.time(), answer.sentence, {"verdict": answer.judged.verdict, "failure": answer.failure})


__all__: Sequence[str] = ["Alarm", "Alarms", "Watch", "at_the_end", "check_webhook", "post", "run_command"]
