"""Ctrl-C, SIGTERM, SIGHUP and the loss of the watchdog as one orderly end of a trial; while things are put back they
wait.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any, ClassVar

from leadline.model.errors import FailureClass, TrialFailure

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_WAKE = signal.SIGURG  # nothing happens where nobody listens to it


class Interruption:
    """Context manager for the main thread. Inside ``listening`` the first signal raises TrialFailure(interrupted);
    everywhere else, and after the first, they wait: what comes after ``listening`` is never cut short.

    A signal that was ignored when leadline began (nohup) stays ignored.
    """

    cut_short: ClassVar[int] = 0  # number of the signal that has ended a run of this process

    def __init__(self) -> None:
        self._cause: TrialFailure | None = None
        self._raised = False
        self._listening = False
        self._shielded = 0
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> Interruption:
        Interruption.cut_short = 0
        for number in _SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._previous[number] = signal.signal(number, self._on_signal)
        self._previous[_WAKE] = signal.signal(_WAKE, self._on_wake)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, previous in self._previous.items():
            signal.signal(number, previous)

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        if self._cause is None:
            Interruption.cut_short = number
            self._cause = TrialFailure(FailureClass.INTERRUPTED, f"ended by {signal.Signals(number).name}")
        self._raise()

    def _on_wake(self, _number: int, _frame: FrameType | None) -> None:
        self._raise()

    def _raise(self) -> None:
        if self._cause is not None and self._listening and not self._raised and not self._shielded:
            self._raised = True
            raise self._cause

    def end(self, cause: TrialFailure) -> None:
        """As a signal, for a reason of leadline's own; from any thread."""
        if self._cause is None:
            self._cause = cause
        main = threading.main_thread().ident
        assert main is not None
        signal.pthread_kill(main, _WAKE)

    @contextmanager
    def listening(self) -> Iterator[None]:
        """The body may be cut short."""
        try:
            self._listening = True
            yield
        finally:
            self._listening = False

    @contextmanager
    def shield(self) -> Iterator[None]:
        """Signals wait while the body puts things back."""
        self._shielded += 1
        try:
            yield
        finally:
            self._shielded -= 1

    def check(self) -> None:
        """Raise if a signal came while shielded, or was swallowed by what it cut short."""
        if self._cause is not None:
            raise self._cause
