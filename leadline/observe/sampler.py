"""The one thread that every polling observer runs on."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

Sample = Callable[[int], None]  # called with the lateness in nanoseconds


class Sampler:
    """Calls ``sample`` at once, then on a fixed grid of ``interval`` seconds, and once more when it is stopped.

    A sample that takes longer than the interval makes the grid skip, never a burst. An exception in ``sample`` is
    kept in ``warnings`` (each text once) and the next sample is still taken. ``interval`` None: only the first and
    the last sample.
    """

    def __init__(self, name: str, sample: Sample, interval: float | None) -> None:
        if interval is not None and interval <= 0:
            raise ValueError(f"{name}: the sampling interval must be above 0 s, not {interval}")
        self.warnings: list[str] = []
        self._name = name
        self._sample = sample
        self._interval_ns = None if interval is None else int(interval * 1e9)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"observer-{name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, patience: float = 5.0) -> bool:
        """End the thread; False (and a warning) if it was still stuck in a sample after ``patience`` seconds."""
        self._stop.set()
        if not self._thread.ident:
            return True
        self._thread.join(patience)
        if self._thread.is_alive():
            self._warn(f"a sample did not return within {patience:g} s of the end")
            return False
        return True

    def _run(self) -> None:
        begin = due = time.monotonic_ns()
        self._take(0)
        while True:
            now = time.monotonic_ns()
            if self._interval_ns is None:
                self._stop.wait()
            else:
                due += self._interval_ns * max(1, -(-(now - due) // self._interval_ns))
                self._stop.wait(max(0.0, (due - now) / 1e9))
            if self._stop.is_set():
                break
            self._take(time.monotonic_ns() - due)
        # Rates over a sliver of time are mostly rounding of the kernel's 10 ms ticks.
        since = time.monotonic_ns() - (due - self._interval_ns if self._interval_ns else begin)
        if self._interval_ns is None or since > self._interval_ns // 4:
            self._take(0)

    def _take(self, lateness_ns: int) -> None:
        try:
            self._sample(lateness_ns)
        except Exception as error:
            self._warn(f"{type(error).__name__}: {error}")

    def _warn(self, text: str) -> None:
        warning = f"{self._name}: {text}"
        if warning not in self.warnings:
            self.warnings.append(warning)
