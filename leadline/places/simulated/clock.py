"""Time that passes only when it is told to."""

from __future__ import annotations

EPOCH = 1_704_067_200.0  # 2024-01-01 00:00 UTC: where simulated time begins unless said otherwise


class VirtualClock:
    """Unix time in seconds. Also a ``leadline.trial.system.LoadClock``: sleeping moves it forward at once."""

    def __init__(self, start: float = EPOCH) -> None:
        self._ns = round(start * 1e9)

    def now(self) -> float:
        return self._ns / 1e9

    def now_ns(self) -> int:
        return self._ns

    def advance(self, seconds: float) -> None:
        """Raises ValueError for a negative time."""
        if seconds < 0:
            raise ValueError(f"time cannot go back by {-seconds} s")
        self._ns += round(seconds * 1e9)

    def sleep_until(self, unix_ns: int) -> None:
        self._ns = max(self._ns, unix_ns)
