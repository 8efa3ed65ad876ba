"""What the page shows, as JSON types, from the lab's files. Everything is read anew; what is costly is kept."""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from leadline.api.labs import Lab
from leadline.api.results import StudyResult
from leadline.api.running import is_running, open_labs, readable
from leadline.conclude.narrowing import Watching, narrowing
from leadline.model.errors import LeadlineError, UsageError
from leadline.model.record import StudyRecord, TrialState
from leadline.trial.progress import Live, read_live

_SECONDS = 900  # of a load that are sent
_MESSAGES = 8
_MOST = 1000  # sentences that wait
_NICE = 15
_RESPONSES = 4  # whose effects are shown as they narrow
_ASKED_AGAIN = 5.0  # seconds for which the list of studies is kept


@dataclass(frozen=True)
class Running:
    """A study that runs now."""

    lab: str  # real or simulated
    result: StudyResult
    live: Live

    @property
    def key(self) -> str:
        return f"{self.lab}/{self.result.record.id}"

    @property
    def seconds_left(self) -> float:
        return max(0.0, self.live.seconds_left(self._now))

    @property
    def left_text(self) -> str:
        return self.live.left_text(self._now)

    @property
    def _now(self) -> float:
        return self.live.left_at if self.lab == "simulated" else time.time()


@dataclass
class Watch:
    """A lab and its simulated studies. Sentences are made one at a time, in a thread of their own, and not while a
    study is measured on this machine.
    """

    directory: Path
    _sentences: dict[tuple[str, int, int], str] = field(default_factory=dict)
    _pending: set[tuple[str, int, int]] = field(default_factory=set)
    _looks: dict[tuple[str, int, str], dict[int, Any]] = field(default_factory=dict)
    _effects_at: dict[str, tuple[int, list[dict[str, Any]]]] = field(default_factory=dict)
    _known: tuple[float, list[tuple[str, StudyResult]]] = (float("-inf"), [])
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _asked: queue.Queue[tuple[tuple[str, int, int], StudyResult]] = field(
        default_factory=lambda: queue.Queue(maxsize=_MOST)
    )
    _worker: threading.Thread | None = None

    def studies(self) -> list[tuple[str, StudyResult]]:
        """Every study with the lab it is in, newest first. Finished ones are read once."""
        with self._lock:
            if time.monotonic() - self._known[0] > _ASKED_AGAIN:
                before = {(name, study.record.id): study for name, study in self._known[1] if not _is_left(study)}
                studies = [
                    (name, study)
                    for name, lab in open_labs(self.directory).items()
                    for study in readable(lab, {number: study for (of, number), study in before.items() if of == name})
                ]
                self._known = (time.monotonic(), studies)
            return self._known[1]

    def lab(self, name: str) -> Lab:
        """Raises UsageError."""
        labs = open_labs(self.directory)
        if name not in labs:
            raise UsageError(f"there is no lab {name}")
        return labs[name]

    def study(self, key: str) -> StudyResult:
        """``real/12``. Raises UsageError for what is not there."""
        name, _, number = key.partition("/")
        if not number.isdecimal():
            raise UsageError(f"{key[:40]!r} names no study; write lab/number")
        return self.lab(name).study(number)

    def running(self) -> list[Running]:
        """Studies that a leadline holds now, newest first."""
        running = []
        for name, study in self.studies():
            if not _is_left(study) or not is_running(study):
                continue
            directory = study.store.directory
            live = read_live(directory, study.record.id)
            if live is not None and live.trials:
                running.append(Running(name, study, live))
        return running

    def live_document(self) -> dict[str, Any]:
        """What runs now, and the list of studies."""
        running = self.running()
        return {
            "running": [self._running(study) for study in running],
            "studies": self._rows({study.key for study in running}, any(study.lab == "real" for study in running)),
        }

    def _running(self, one: Running) -> dict[str, Any]:
        live, study = one.live, one.result.record.study
        steps = live.seconds[-_SECONDS:]
        return {
            "key": one.key,
            "study": one.result.run,
            "question": study.question,
            "simulated": one.result.record.simulated,
            "trial": live.position + 1,
            "trials": live.trials,
            "done": live.done,
            "attempt": live.attempt,
            "label": live.label,
            "phase": steps[-1].phase if steps and live.step == "load" else live.step,
            "left": one.left_text,
            "told": max(0.0, time.time() - live.told_at),
            "seconds": [[s.second, s.throughput, s.p50_ms, s.p99_ms, s.errors, s.unanswered_from_ms] for s in steps],
            "messages": live.messages[-_MESSAGES:],
            "effects": self._effects(one),
        }

    def _effects(self, one: Running) -> list[dict[str, Any]]:
        """Made anew when a trial has ended."""
        key, done = one.key, one.live.done
        with self._lock:
            if key not in self._effects_at or self._effects_at[key][0] != done:
                record = one.result.store.load(one.result.record.id)
                narrowings = [
                    self._narrowing(one.lab, record, response) for response in record.study.responses[:_RESPONSES]
                ]
                self._effects_at[key] = (done, narrowings)
            return self._effects_at[key][1]

    def _narrowing(self, lab: str, record: StudyRecord, response: str) -> dict[str, Any]:
        looks = self._looks.setdefault((lab, record.id, response), {})
        try:
            return asdict(narrowing(record, response, looks))
        except (LeadlineError, ValueError, ArithmeticError) as error:
            return asdict(Watching(response, (), (0, 0), str(error)))

    def _rows(self, running: set[str], measured: bool) -> list[dict[str, Any]]:
        rows = []
        for name, study in self.studies():
            record = study.record
            key = f"{name}/{record.id}"
            done = sum(trial.state == TrialState.DONE for trial in record.trials)
            trials_left = sum(trial.is_left for trial in record.trials)
            rows.append(
                {
                    "key": key,
                    "study": study.run,
                    "name": record.study.study,
                    "simulated": record.simulated,
                    "started": record.created,
                    "trials": len(record.trials),
                    "done": done,
                    "state": "running" if key in running else "unfinished" if trials_left else "finished",
                    "sentence": "" if key in running else self._sentence(name, study, done, measured),
                }
            )
        return rows

    def _sentence(self, lab: str, one: StudyResult, done: int, measured: bool) -> str:
        """The conclusion, or why it is not there yet."""
        key = (lab, one.record.id, done)
        with self._lock:
            if key in self._sentences:
                return self._sentences[key]
            if measured:
                return "shown when no study is measured on this machine"
            if key not in self._pending and not self._asked.full():
                self._pending.add(key)
                self._asked.put_nowait((key, one))
                if self._worker is None:  # a daemon: a conclusion that takes long does not keep the page from ending
                    self._worker = threading.Thread(target=self._conclude, name="sentences", daemon=True)
                    self._worker.start()
        return "analysis under way ..."

    def _conclude(self) -> None:
        behind_others()
        while True:
            key, study = self._asked.get()
            try:
                answer_text = study.answer
            except (LeadlineError, OSError, ValueError) as error:
                answer_text = f"cannot be concluded: {error}"
            with self._lock:
                self._sentences[key] = answer_text
                self._pending.discard(key)


def behind_others() -> None:
    """This thread computes when nothing else wants to: what is measured goes first."""
    os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICE)


def newest(running: Iterable[Running]) -> list[tuple[Running, Any]]:
    """Each running study with the last second of its load, None before the first."""
    return [(study, study.live.seconds[-1] if study.live.seconds else None) for study in running]


def _is_left(one: StudyResult) -> bool:
    return any(trial.is_left for trial in one.record.trials)
