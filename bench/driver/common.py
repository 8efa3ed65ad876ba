"""Target, generator processes and ratios: what the comparisons share."""

from __future__ import annotations

import math
import os
import signal
import statistics
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from scipy.stats import t as student

ROOT = Path(__file__).parents[2]
RELEASE = ROOT / "driver" / "target" / "release"
PORT = 16000
URL = f"http://127.0.0.1:{PORT}"


def pin(which: int) -> None:
    cpus = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cpus[which % len(cpus)]})


class Target:
    """A server of driver/examples, alone on the first CPU."""

    def __init__(self, *options: str, example: str = "known_answers") -> None:
        self._argv = [str(RELEASE / "examples" / example), "--port", str(PORT), *options]

    def __enter__(self) -> Target:
        self.process = subprocess.Popen(self._argv, stdout=subprocess.PIPE, text=True, preexec_fn=lambda: pin(0))
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
            self._process = subprocess.Popen(["sh", "-c", "while :; do :; done"], preexec_fn=lambda: pin(1))

    def __exit__(self, *_: object) -> None:
        if self._wanted:
            self._process.kill()
            self._process.wait()


def child(argv: Sequence[str], environment: dict[str, str] | None = None) -> tuple[str, float, float]:
    """Output, CPU seconds and wall seconds of a generator on the second CPU."""
    begin = time.monotonic()
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(
            argv,
            stdout=output,
            stderr=subprocess.STDOUT,
            preexec_fn=lambda: pin(1),
            env={**os.environ, **(environment or {})},
        )
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        text = output.read()
    if process.returncode != 0:
        raise SystemExit(f"{' '.join(argv)} ended with code {process.returncode}:\n{text}")
    return text, usage.ru_utime + usage.ru_stime, time.monotonic() - begin


def ratio(ours: Sequence[float], theirs: Sequence[float], digits: int = 2) -> str:
    """Geometric mean of the paired ratios with its 95 % interval (Student's t on the logarithms)."""
    logs = [math.log(a / b) for a, b in zip(ours, theirs, strict=True)]
    middle = statistics.mean(logs)
    if len(logs) < 2:
        return f"{math.exp(middle):.{digits}f}"
    half = float(student.ppf(0.975, len(logs) - 1)) * statistics.stdev(logs) / math.sqrt(len(logs))
    low, high = math.exp(middle - half), math.exp(middle + half)
    return f"{math.exp(middle):.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"
