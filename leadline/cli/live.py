"""The live view of a run: a few updating lines in a terminal, plain lines elsewhere."""

from __future__ import annotations

import threading
import time
from types import TracebackType

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from leadline.model.plan import Plan, PlannedTrial
from leadline.model.record import LoadSecond, TrialRecord
from leadline.model.units import format_duration, format_number
from leadline.trial.progress import Progress, Watcher, sharing, together


def _ended(record: TrialRecord, label: str) -> str:
    if record.failure:
        return f"failed ({record.failure.value}): {record.failure_message}"
    responses = record.responses
    figures = [
        f"{format_number(1000 * responses['wall'], 4)} ms" if "wall" in responses else "",
        f"{responses['throughput']:.1f}/s" if "throughput" in responses else "",
        f"p50 {format_number(responses['p50'])} ms" if "p50" in responses else "",
        f"p99 {format_number(responses['p99'])} ms" if "p99" in responses else "",
    ]
    return f"{label}: " + ", ".join(part for part in figures if part)


SILENT = 30.0  # seconds, after which a log hears that the run goes on


class PlainWatcher:
    """One line an event, for logs and pipes; and one when nothing was said for ``silent`` seconds."""

    def __init__(self, console: Console, silent: float = SILENT) -> None:
        self._silent = silent
        self._over = threading.Event()
        self._said = time.monotonic()
        self._thread = threading.Thread(target=self._keep_saying, name="progress", daemon=True)
        self._step = self._load = ""
        self._progress = Progress()
        self._console = console
        self._label = ""
        self._labels: dict[int, str] = {}  # by position: trials side by side end together
        self._failed = ""

    def __enter__(self) -> Watcher:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    def _keep_saying(self) -> None:
        while not self._over.wait(max(0.0, self._said + self._silent - time.monotonic())):
            if time.monotonic() >= self._said + self._silent:
                left_text = self._progress.left_text(time.monotonic()) if self._progress.trials else ""
                self._line("  " + "; ".join(filter(None, [self._step or "preparing", self._load, left_text])))

    def _line(self, text: str) -> None:
        self._said = time.monotonic()
        self._console.print(f"{time.strftime('%H:%M:%S')} {text}", soft_wrap=True)

    def message(self, text: str) -> None:
        self._line(text)

    def study(self, study_id: int, plan: Plan, done: int, seconds_left: float) -> None:
        self._progress.begin(len(plan.trials), done, together(plan), seconds_left, time.monotonic(), sharing(plan))
        begun = f"{done} of {len(plan.trials)} trials done, about {format_duration(seconds_left)} left"
        self._line(f"study {study_id}: {begun}")

    def trial(self, planned: PlannedTrial, attempt: int, label: str, seconds_left: float) -> None:
        self._label = self._labels[planned.position] = label
        again = f" (attempt {attempt})" if attempt > 1 else ""
        now = time.monotonic()
        self._progress.trial_begins(planned.position, seconds_left, now)
        number = f"{planned.position + 1}/{self._progress.trials}"
        self._line(f"trial {number}{again} {label}; {self._progress.left_text(now)}")

    def step(self, name: str) -> None:
        self._step, self._load = name, ""

    def load(self, second: LoadSecond) -> None:
        self._load = load_text(second)

    def trial_ended(self, record: TrialRecord) -> None:
        self._progress.trial_ends(record.planned.position)
        text = _ended(record, self._labels.get(record.planned.position, self._label))
        again = bool(record.failure) and text == self._failed  # trials side by side fail together
        self._failed = text if record.failure else ""
        self._line("  failed for the same reason" if again else f"  {text}")


def load_text(second: LoadSecond) -> str:
    """The load at hand in a line."""
    failed = f", {second.errors} errors" if second.errors else ""
    rate = f"{second.throughput:.0f} transactions/s, p99 {format_number(second.known(second.p99_ms))} ms"
    return f"{second.phase} {second.second:.0f} s: {rate}{failed}"


class LiveWatcher:
    """A progress line, the trial's phase and today's throughput and latency; finished trials scroll above."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._progress = Progress()
        self._label = self._step = self._load = ""
        self._labels: dict[int, str] = {}
        self._live = Live(console=console, refresh_per_second=4, get_renderable=self._render)  # renders at once

    def __enter__(self) -> Watcher:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress = Progress()
        self._live.stop()

    def _render(self) -> RenderableType:
        progress = self._progress
        if not progress.trials:
            return Text(self._step, style="dim")
        line = Table.grid(padding=(0, 1))
        line.add_row(
            ProgressBar(total=progress.trials, completed=progress.done, width=30),
            Text(f"trial {min(progress.done + 1, progress.trials)}/{progress.trials}"),
            Text(progress.left_text(time.monotonic()), style="dim"),
        )
        return Group(line, Text(f"  {self._label} · {self._step}"), Text(f"  {self._load}", style="cyan"))

    def message(self, text: str) -> None:
        self._console.print(text)

    def study(self, study_id: int, plan: Plan, done: int, seconds_left: float) -> None:
        self._progress.begin(len(plan.trials), done, together(plan), seconds_left, time.monotonic(), sharing(plan))
        self.message(f"study {study_id}: {done} of {len(plan.trials)} trials done")

    def trial(self, planned: PlannedTrial, attempt: int, label: str, seconds_left: float) -> None:
        self._label = label + (f" (attempt {attempt})" if attempt > 1 else "")
        self._labels[planned.position] = self._label
        self._load = ""
        self._progress.trial_begins(planned.position, seconds_left, time.monotonic())

    def step(self, name: str) -> None:
        self._step = name

    def load(self, second: LoadSecond) -> None:
        self._load = load_text(second)

    def trial_ended(self, record: TrialRecord) -> None:
        self._progress.trial_ends(record.planned.position)
        style = "red" if record.failure else ""
        number = f"{record.planned.position + 1:3d} "
        label = self._labels.get(record.planned.position, self._label)
        self._console.print(Text(number + _ended(record, label), style=style))


def watcher(console: Console) -> PlainWatcher | LiveWatcher:
    """Live in a terminal, plain lines elsewhere."""
    return LiveWatcher(console) if console.is_terminal else PlainWatcher(console)
