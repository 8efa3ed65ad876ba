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

from leadline.api.planning import Watcher
from leadline.model.plan import Plan, PlannedTrial
from leadline.model.record import LoadSecond, TrialRecord
from leadline.model.units import format_duration, format_number


def _ended(record: TrialRecord, label: str) -> str:
    if record.failure:
        return f"failed ({record.failure.value}): {record.failure_message}"
    found = record.responses
    shown = [
        f"{format_number(1000 * found['wall'], 4)} ms" if "wall" in found else "",
        f"{found['throughput']:.1f}/s" if "throughput" in found else "",
        f"p50 {format_number(found['p50'])} ms" if "p50" in found else "",
        f"p99 {format_number(found['p99'])} ms" if "p99" in found else "",
    ]
    return f"{label}: " + ", ".join(part for part in shown if part)


SILENT = 30.0  # seconds, after which a log hears that the run goes on


def left_text(seconds: float) -> str:
    """Of an estimate that has passed: by how much."""
    if seconds > 0:
        return f"about {format_duration(seconds)} left"
    return f"{format_duration(round(-seconds))} longer than estimated" if seconds <= -1 else "about to end"


class PlainWatcher:
    """One line an event, for logs and pipes; and one when nothing was said for ``silent`` seconds."""

    def __init__(self, console: Console, silent: float = SILENT) -> None:
        self._silent = silent
        self._over = threading.Event()
        self._said = time.monotonic()
        self._thread = threading.Thread(target=self._keep_saying, name="progress", daemon=True)
        self._step = self._load = ""
        self._left, self._left_at = 0.0, time.monotonic()
        self._console = console
        self._plan: Plan | None = None
        self._label = ""
        self._labels: dict[int, str] = {}  # by position: trials side by side end together
        self._done = 0

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
                left = left_text(self._left - (time.monotonic() - self._left_at)) if self._plan else ""
                self._line("  " + "; ".join(filter(None, [self._step or "preparing", self._load, left])))

    def _set_left(self, seconds: float) -> None:
        self._left, self._left_at = seconds, time.monotonic()

    def _line(self, text: str) -> None:
        self._said = time.monotonic()
        self._console.print(f"{time.strftime('%H:%M:%S')} {text}", soft_wrap=True)

    def message(self, text: str) -> None:
        self._line(text)

    def study(self, study_id: int, plan: Plan, done: int, seconds_left: float) -> None:
        self._plan, self._done = plan, done
        self._set_left(seconds_left)
        begun = f"{done} of {len(plan.trials)} trials done, about {format_duration(seconds_left)} left"
        self._line(f"study {study_id}: {begun}")

    def trial(self, planned: PlannedTrial, attempt: int, label: str, seconds_left: float) -> None:
        total = len(self._plan.trials) if self._plan else 0
        self._label = self._labels[planned.position] = label
        again = f" (attempt {attempt})" if attempt > 1 else ""
        self._set_left(seconds_left)
        self._line(f"trial {planned.position + 1}/{total}{again} {label}; {left_text(seconds_left)}")

    def step(self, name: str) -> None:
        self._step, self._load = name, ""

    def load(self, second: LoadSecond) -> None:
        self._load = load_text(second)

    def trial_ended(self, record: TrialRecord) -> None:
        self._line(f"  {_ended(record, self._labels.get(record.planned.position, self._label))}")


def load_text(second: LoadSecond) -> str:
    """The load at hand in a line."""
    failed = f", {second.errors} errors" if second.errors else ""
    rate = f"{second.throughput:.0f} transactions/s, p99 {format_number(second.p99_ms)} ms"
    return f"{second.phase} {second.second:.0f} s: {rate}{failed}"


class LiveWatcher:
    """A progress line, the trial's phase and today's throughput and latency; finished trials scroll above."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._plan: Plan | None = None
        self._done = 0
        self._label = self._step = self._load = ""
        self._labels: dict[int, str] = {}
        self._left = 0.0
        self._since = time.monotonic()
        self._live = Live(console=console, refresh_per_second=4, get_renderable=self._render)  # renders at once

    def __enter__(self) -> Watcher:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._plan = None
        self._live.stop()

    def _render(self) -> RenderableType:
        if self._plan is None:
            return Text(self._step, style="dim")
        total = len(self._plan.trials)
        left = self._left - (time.monotonic() - self._since)
        line = Table.grid(padding=(0, 1))
        line.add_row(
            ProgressBar(total=total, completed=self._done, width=30),
            Text(f"trial {min(self._done + 1, total)}/{total}"),
            Text(left_text(left), style="dim"),
        )
        return Group(line, Text(f"  {self._label} · {self._step}"), Text(f"  {self._load}", style="cyan"))

    def message(self, text: str) -> None:
        self._console.print(text)

    def study(self, study_id: int, plan: Plan, done: int, seconds_left: float) -> None:
        self._plan, self._done = plan, done
        self.message(f"study {study_id}: {done} of {len(plan.trials)} trials done")
        self._set_left(seconds_left)

    def _set_left(self, seconds: float) -> None:
        self._left, self._since = seconds, time.monotonic()

    def trial(self, planned: PlannedTrial, attempt: int, label: str, seconds_left: float) -> None:
        self._label = label + (f" (attempt {attempt})" if attempt > 1 else "")
        self._labels[planned.position] = self._label
        self._load = ""
        self._done = planned.position
        self._set_left(seconds_left)

    def step(self, name: str) -> None:
        self._step = name

    def load(self, second: LoadSecond) -> None:
        self._load = load_text(second)

    def trial_ended(self, record: TrialRecord) -> None:
        self._done = record.planned.position + 1
        style = "red" if record.failure else ""
        number = f"{record.planned.position + 1:3d} "
        label = self._labels.get(record.planned.position, self._label)
        self._console.print(Text(number + _ended(record, label), style=style))


def watcher(console: Console) -> PlainWatcher | LiveWatcher:
    """Live in a terminal, plain lines elsewhere."""
    return LiveWatcher(console) if console.is_terminal else PlainWatcher(console)
