"""What a run tells while it runs, in a file of the lab that other programs read, and the way to ask it to stop.

``LAB/.live/study-N.jsonl`` has one event a line. It begins anew once it is long, so it holds the trial at hand and
the end of those before. A file ``study-N.stop`` beside it ends the run in order, as Ctrl-C does.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from leadline.host.textfile import private_file, redacted
from leadline.model.errors import FailureClass, TrialFailure
from leadline.model.plan import Plan, PlannedTrial
from leadline.model.received import from_json
from leadline.model.record import LoadSecond, TrialRecord
from leadline.store.claims import log_path, stop_path
from leadline.trial.interruption import Interruption
from leadline.trial.progress import Progress, Watcher, sharing, together

STOPPED = "stopped on the page of leadline ui"
_LOOK = 0.5  # seconds between looks for a request to stop
_MOST = 4_000  # lines, after which the next trial begins a new file
_LONGEST = 40_000  # lines, after which it begins anew within a trial
_PROGRAMS = ("leadline", "__main__.py")


class LiveLog:
    """A watcher that passes everything on to another one and writes it down meanwhile."""

    def __init__(self, watcher: Watcher, lab: Path) -> None:
        self._watcher, self._lab = watcher, lab
        self._file: IO[str] | None = None
        self._lines, self._head = 0, ""
        self._path = Path()
        self.since = time.time()  # before the study is held, and so before anybody sees that it runs

    def begin(self, study_id: int, interruption: Interruption) -> _Asked:
        """Write from now on, and end the run when it is asked to; a context manager."""
        self._path = log_path(self._lab, study_id)
        return _Asked(self, stop_path(self._lab, study_id), interruption)

    def open(self) -> None:
        """A new file in place of an older run's. Without a place to write to nothing is told."""
        with suppress(OSError):
            self._path.parent.mkdir(mode=0o700, exist_ok=True)
            fresh = self._path.with_suffix(".new")
            self._file = open(fresh, "w", encoding="utf-8", buffering=1, opener=private_file)  # noqa: SIM115
            fresh.replace(self._path)
        self._lines = 0

    def close(self) -> None:
        if self._file is not None:
            with suppress(OSError):
                self._file.close()
            self._file = None

    def _again(self) -> None:
        self.close()
        self.open()
        if self._file is not None:
            self._file.write(self._head)

    def _tell(self, event: str, **values: Any) -> None:
        if self._file is None:
            return
        line = json.dumps({"event": event, "at": round(time.time(), 2), **values}, separators=(",", ":")) + "\n"
        if event == "study":
            self._head = line
        with suppress(OSError):  # a full disk ends the telling, never the study
            if self._lines > (_MOST if event == "trial" else _LONGEST):
                self._again()
            self._file.write(redacted(line))
            self._lines += 1

    def message(self, text: str) -> None:
        self._watcher.message(text)
        self._tell("message", text=text)

    def study(self, study_id: int, plan: Plan, done: int, seconds_left: float) -> None:
        self._watcher.study(study_id, plan, done, seconds_left)
        self._tell(
            "study",
            trials=len(plan.trials),
            done=done,
            together=together(plan),
            sharing=sharing(plan),
            left=seconds_left,
            command=_command(),
            directory=str(Path.cwd()),
        )

    def trial(self, planned: PlannedTrial, attempt: int, label: str, seconds_left: float) -> None:
        self._watcher.trial(planned, attempt, label, seconds_left)
        self._tell("trial", position=planned.position, attempt=attempt, label=label, left=seconds_left)

    def step(self, name: str) -> None:
        self._watcher.step(name)
        self._tell("step", name=name)

    def load(self, second: LoadSecond) -> None:
        self._watcher.load(second)
        self._tell("load", **asdict(second))

    def trial_ended(self, record: TrialRecord) -> None:
        self._watcher.trial_ended(record)
        failure = record.failure.value if record.failure else None
        self._tell("ended", position=record.planned.position, failure=failure, message=record.failure_message)


class _Asked:
    """Holds the log open, and looks for the request to stop, as long as the run lasts."""

    def __init__(self, log: LiveLog, path: Path, interruption: Interruption) -> None:
        self._log, self._path, self._interruption = log, path, interruption
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, name="stop-request", daemon=True)

    def __enter__(self) -> None:
        self._log.open()
        self._thread.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join(10)
        with suppress(OSError):
            self._path.unlink(missing_ok=True)
        self._log.close()

    def _look(self) -> None:
        while not self._over.wait(_LOOK):
            if self._is_asked():
                self._interruption.end(TrialFailure(FailureClass.INTERRUPTED, STOPPED))
                return

    def _is_asked(self) -> bool:
        """Whether there is a request, and not one that an earlier run did not live to see."""
        try:
            return self._path.stat().st_mtime >= self._log.since
        except OSError:
            return False


def _command() -> list[str]:
    """The words after ``leadline`` of this process, none where it is another program."""
    return sys.argv[1:] if Path(sys.argv[0]).name in _PROGRAMS else []


@dataclass
class Live(Progress):
    """What a run told last. ``seconds``: of the load at hand, oldest first, the last at ``load_at``. Moments are unix
    seconds.
    """

    position: int = 0
    attempt: int = 0
    label: str = ""
    step: str = ""
    told_at: float = 0.0
    load_at: float = 0.0
    seconds: list[LoadSecond] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)
    command: Sequence[str] = ()
    directory: str = ""

    def _take(self, event: dict[str, Any]) -> None:
        self.told_at = float(event["at"])
        match event:
            case {"event": "study"}:
                number, done, beside = int(event["trials"]), int(event["done"]), int(event.get("together", 1))
                shared = float(event.get("sharing", 1.0))
                self.begin(number, done, beside, float(event["left"]), self.told_at, shared)
                self.position = min(self.done, self.trials - 1)  # of the trial that comes first
                self.command, self.directory = [str(word) for word in event["command"]], str(event["directory"])
            case {"event": "trial"}:
                self.position, self.attempt = int(event["position"]), int(event["attempt"])
                self.label, self.seconds = str(event["label"]), []
                self.trial_begins(self.position, float(event["left"]), self.told_at)
            case {"event": "step"}:
                self.step = str(event["name"])
            case {"event": "load"}:
                second = {name: event[name] for name in LoadSecond.__dataclass_fields__ if name in event}
                self.seconds.append(LoadSecond(**second))
                self.load_at = self.told_at
            case {"event": "ended"}:
                self.trial_ends(int(event["position"]))
                if event["failure"]:
                    self.messages.append(f"trial {self.done} failed ({event['failure']}): {event['message']}")
            case {"event": "message"}:
                self.messages.append(str(event["text"]))


def read_live(lab: Path, study_id: int) -> Live | None:
    """What the newest run of a study told; None where none did. A line that is half written is left for later."""
    try:
        text = log_path(lab, study_id).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None
    live = Live()
    for line in text.splitlines():
        with suppress(ValueError, KeyError, TypeError):
            live._take(from_json(line, finite=False))
    return live


def ask_to_stop(lab: Path, study_id: int) -> None:
    """The run of this study ends in order within about a second, and puts back what it changed. Raises OSError."""
    path = stop_path(lab, study_id)
    path.parent.mkdir(exist_ok=True)
    path.touch(mode=0o600)
