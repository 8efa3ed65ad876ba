"""How far a run is: the time left as it is corrected, in the log and on the live page; a log that is never silent."""

import io
import json
import threading
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console
from test_livelog import STUDY, bed

from leadline.checks.files.study import parse_study
from leadline.cli import live
from leadline.cli.live import PlainWatcher
from leadline.model.errors import FailureClass
from leadline.model.record import TrialRecord, TrialState
from leadline.store.claims import log_path
from leadline.trial.livelog import read_live
from leadline.trial.progress import Progress
from leadline.web import server
from leadline.web.server import Running

# trials, together, done, seconds passed of 60 per trial -> what is said; None: no trial runs
SAID: list[tuple[int, int, int, float, str]] = [
    (2, 1, 0, 0, "about 2m left"),
    (2, 1, 0, 60, "about 1m left"),
    (2, 1, 0, 150, "about 2m30s left"),  # the first took longer than planned: the second will
    (2, 1, 1, 59.7, "about to end"),
    (2, 1, 1, 61, "longer than planned: 1 of 2 trials done"),
    (4, 4, 0, 200, "about 40s left"),  # side by side
    (4, 4, 0, 260, "longer than planned: 0 of 4 trials done"),
    (8, 4, 0, 300, "about 5m left"),
    (8, 4, 4, 300, "longer than planned: 4 of 8 trials done"),
]


@pytest.mark.parametrize(("trials", "together", "done", "passed", "said"), SAID)
def test_the_time_left_is_corrected_by_what_was_seen(
    trials: int, together: int, done: int, passed: float, said: str
) -> None:
    progress = Progress()
    progress.begin(trials, done, together, 60.0 * (trials - done), 1000.0)
    progress.trial_begins(done + together - 1, 60.0 * (trials - done), 1000.0)
    assert progress.left_text(1000.0 + passed) == said


def test_the_first_fork_pays_for_the_start_of_all() -> None:
    """The fault: 5 h left of 50 min, while the first of 138 forks started its world's server."""
    progress = Progress()
    progress.begin(138, 0, 1, 3000.0, 0.0, sharing=23.0)
    progress.trial_begins(0, 3000.0, 0.0)
    assert progress.left_text(300.0) == "about 45m left"
    assert progress.left_text(900.0) == "about 1h29m21s left"


@pytest.mark.parametrize(
    ("passed", "said"), [(30, "about 1m30s left"), (90, "about 1m30s left"), (200, "about 3m20s left")]
)
def test_the_page_says_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, passed: int, said: str) -> None:
    """The fault: *about 0 s left* with 0 of 2 trials done."""
    events: list[dict[str, Any]] = [
        {"event": "study", "trials": 2, "done": 0, "together": 1, "left": 120, "command": [], "directory": ""},
        {"event": "trial", "position": 0, "attempt": 1, "label": "baseline", "left": 120},
    ]
    log_path(tmp_path, 1).parent.mkdir()
    log_path(tmp_path, 1).write_text("".join(json.dumps({**event, "at": 1000.0}) + "\n" for event in events))
    told = read_live(tmp_path, 1)
    assert told is not None
    monkeypatch.setattr(server, "time", SimpleNamespace(time=lambda: 1000.0 + passed))
    running = Running("real", None, told)  # type: ignore[arg-type]
    assert running.left_text == said
    assert Running("simulated", None, told).left_text == "about 2m left"  # type: ignore[arg-type]


class Lines(io.StringIO):
    """Wakes who waits for so many lines that end like this."""

    def __init__(self, wanted: int, of: str = "\n") -> None:
        super().__init__()
        self._wanted, self._of, self.there = wanted, of, threading.Event()

    def write(self, text: str) -> int:
        count = super().write(text)
        if self.getvalue().count(self._of) >= self._wanted:
            self.there.set()
        return count


def test_a_log_is_never_silent_for_long_and_ends_with_the_last_outcome(monkeypatch: pytest.MonkeyPatch) -> None:
    assert live.SILENT == 30
    plan = bed(Path()).plan(parse_study(STUDY, "told.yaml")).plan
    lines = Lines(2, "  load; about 1m left\n")
    with PlainWatcher(Console(file=lines, width=200), silent=0.02) as watcher:
        watcher.study(1, plan, len(plan.trials) - 1, 60.0)
        watcher.trial(plan.trials[-1], 1, "server.a=20", 60.0)
        watcher.step("load")
        assert lines.there.wait(30)
    ended = TrialRecord(1, plan.trials[-1], TrialState.DONE, 1, responses={"throughput": 97.5})
    lines = Lines(1)
    watcher = PlainWatcher(Console(file=lines, width=200))
    watcher.trial(plan.trials[-1], 1, "server.a=20", 588.0)
    watcher.trial_ended(ended)
    assert lines.getvalue().splitlines()[-1].endswith("server.a=20: 97.5/s")
    for _ in range(2):
        failed = replace(ended, state=TrialState.FAILED, failure=FailureClass.INTERRUPTED, failure_message="too busy")
        watcher.trial_ended(failed)
    first, second = lines.getvalue().splitlines()[-2:]
    assert first.endswith("  failed (interrupted): too busy")
    assert second.endswith("  failed for the same reason")
