"""Who may use the host while a run goes on, and what happens when leadline dies in it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from leadline.host.local import LocalHost


@contextmanager
def guarded(host: LocalHost, dead_man: float) -> Iterator[None]:
    """Hold the host's lease, with a watchdog that puts the host back when leadline is gone for ``dead_man`` s."""
    with host.lease(), host.watched(dead_man):
        yield
