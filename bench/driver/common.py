"""Target, generator processes, ratios and verdicts: what the comparisons share."""

from __future__ import annotations

import math
import os
import signal
import statistics
import struct
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from scipy.stats import t as student

ROOT = Path(__file__).parents[2]
RELEASE = ROOT / "driver" / "target" / "release"
PORT = 16000
URL = f"http://127.0.0.1:{PORT}"
CPUS = sorted(os.sched_getaffinity(0))


def on_targets_cpu() -> None:
    os.sched_setaffinity(0, {CPUS[0]})


def on_generators_cpu() -> None:
    os.sched_setaffinity(0, {CPUS[-1]})


class Unfit(Exception):
    """A generator did not do what it was to do."""


class Target:
    """A server of driver/examples, alone on the first CPU."""

    def __init__(self, *options: str, example: str = "known_answers") -> None:
        self._argv = [str(RELEASE / "examples" / example), "--port", str(PORT), *options]

    def __enter__(self) -> Target:
        self.process = subprocess.Popen(self._argv, stdout=subprocess.PIPE, text=True, preexec_fn=on_targets_cpu)
        assert self.process.stdout is not None
        if "listening" not in self.process.stdout.readline():
            raise SystemExit(f"the target did not start; is port {PORT} in use?")
        return self

    def __exit__(self, *_: object) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()


class Busy:
    """A process that never rests, on the generators' CPU."""

    def __init__(self, wanted: bool) -> None:
        self._wanted = wanted

    def __enter__(self) -> None:
        if self._wanted:
            self._process = subprocess.Popen(["sh", "-c", "while :; do :; done"], preexec_fn=on_generators_cpu)

    def __exit__(self, *_: object) -> None:
        if self._wanted:
            self._process.kill()
            self._process.wait()


class Awake:
    """Idle CPUs of this host do not halt: no idle state that takes time to leave is entered (/dev/cpu_dma_latency)."""

    def __init__(self, wanted: bool) -> None:
        self._wanted = wanted

    def __enter__(self) -> None:
        if self._wanted:
            try:
                self._request = Path("/dev/cpu_dma_latency").open("wb", buffering=0)
                self._request.write(struct.pack("i", 0))
            except OSError as error:
                raise Unfit(f"CPUs cannot be kept awake: {error}") from error

    def __exit__(self, *_: object) -> None:
        if self._wanted:
            self._request.close()


def child(argv: Sequence[str], environment: dict[str, str] | None = None) -> tuple[str, float, float]:
    """Output, CPU seconds and wall seconds of a generator on the second CPU. Raises Unfit when it fails."""
    begin = time.monotonic()
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(
            argv,
            stdout=output,
            stderr=subprocess.STDOUT,
            preexec_fn=on_generators_cpu,
            env={**os.environ, **(environment or {})},
        )
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        text = output.read()
    if process.returncode != 0:
        raise Unfit(f"{Path(argv[0]).name} ended with code {process.returncode}: {text.strip()[-300:]}")
    return text, usage.ru_utime + usage.ru_stime, time.monotonic() - begin


@dataclass(frozen=True)
class Ratio:
    """Geometric mean of paired ratios with its 95 % interval, which takes two pairs or more."""

    middle: float
    low: float | None = None
    high: float | None = None

    def text(self, digits: int = 2) -> str:
        if self.low is None or self.high is None:
            return f"{self.middle:.{digits}f}"
        return f"{self.middle:.{digits}f} ({self.low:.{digits}f} to {self.high:.{digits}f})"

    def lies(self, low: float, high: float) -> str:
        """Whether the interval shows that the ratio is in [low, high]."""
        if self.low is None or self.high is None:
            return "not shown"
        if low <= self.low and self.high <= high:
            return "met"
        return "not met" if self.high < low or high < self.low else "not shown"


def ratio(ours: Sequence[float], theirs: Sequence[float]) -> Ratio:
    """Of the pairs (Student's t on the logarithms)."""
    logs = [math.log(a / b) for a, b in zip(ours, theirs, strict=True)]
    middle = statistics.mean(logs)
    if len(logs) < 2:
        return Ratio(math.exp(middle))
    half = float(student.ppf(0.975, len(logs) - 1)) * statistics.stdev(logs) / math.sqrt(len(logs))
    return Ratio(math.exp(middle), math.exp(middle - half), math.exp(middle + half))


def spread(values: Sequence[float], digits: int = 2) -> str:
    """Median (least, most)."""
    low, middle, high = min(values), statistics.median(values), max(values)
    return f"{middle:.{digits}f} ({low:.{digits}f}, {high:.{digits}f})"


@dataclass
class Verdicts:
    """The targets and what this run says about them."""

    rows: list[tuple[str, str, str]] = field(default_factory=list)

    def most(self, target: str, found: Ratio | None, limit: float) -> None:
        """The ratio is to be at most ``limit``."""
        if found is None:
            self.rows.append((target, "not measured", "not shown"))
        else:
            self.rows.append((target, found.text(), found.lies(0.0, limit)))

    def table(self) -> str:
        rows = [f"| {' | '.join(row)} |" for row in self.rows]
        return "\n".join(["| target | measured | verdict |", "| --- | --- | --- |", *rows])


def turns(names: Sequence[str], rounds: int) -> list[tuple[int, str]]:
    """(round, name): all in every round, each time beginning with another one."""
    ordered = list(names)
    order = [ordered[turn % len(ordered) :] + ordered[: turn % len(ordered)] for turn in range(rounds)]
    return [(turn, name) for turn, names in enumerate(order) for name in names]


Part = Callable[["Lengths", Verdicts], None]


@dataclass(frozen=True)
class Lengths:
    """Rounds, and seconds of what is run in each."""

    rounds: int = 3
    saturated: float = 2.0  # whole seconds: wrk takes no others
    rate: float = 1.0
    whole: float = 10.0
    window: tuple[float, float] = (2.0, 9.5)
    warm: int = 24  # until then Hyperfoil and Gatling still compile
    warmed: float = 5.0
    warmed_window: tuple[float, float] = (0.7, 4.5)
    full: float = 2.5
    full_window: tuple[float, float] = (0.7, 2.3)
    least: int = 4  # whole seconds
    frozen: float = 2.0  # a multiple of the time from freeze to freeze
    idle: int = 10_000


SHORT = Lengths(1, 1.0, 0.5, 2.0, (0.3, 1.6), 2, 2.0, (0.3, 1.6), 1.0, (0.2, 0.8), 1, 2.0, 500)
