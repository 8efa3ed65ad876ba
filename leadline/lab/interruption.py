"""Ctrl-C, SIGTERM and SIGHUP as one orderly end of a trial; while things are put back they wait."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any

from leadline.model.errors import FailureClass, TrialFailure

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interruption:
    """Context manager for the main thread: the first signal raises TrialFailure(interrupted), later ones wait."""

    def __init__(self) -> None:
        self.requested = False
        self._shielded = 0
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> Interruption:
        for number in _SIGNALS:
            self._previous[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, previous in self._previous.items():
            signal.signal(number, previous)

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        already, self.requested = self.requested, True
        if not already and not self._shielded:
            raise self.failure(number)

    def failure(self, number: int = signal.SIGINT) -> TrialFailure:
        return TrialFailure(FailureClass.INTERRUPTED, f"ended by {signal.Signals(number).name}")

    @contextmanager
    def shield(self) -> Iterator[None]:
        """Signals wait while the body puts things back."""
        self._shielded += 1
        try:
            yield
        finally:
            self._shielded -= 1

    def check(self) -> None:
        """Raise if a signal came while shielded."""
        if self.requested:
            raise self.failure()
