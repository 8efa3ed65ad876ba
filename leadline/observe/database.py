"""Observer "database": the database's own counters (transactions, blocks read and hit, temporary files, WAL)."""

from __future__ import annotations

from collections.abc import Sequence

from leadline.observe.counters import CounterObserver, Source

SUBJECT = "database"


def database_observer(stats: Source, gauges: Sequence[str] = (), interval: float | None = 0.0) -> CounterObserver:
    """``stats`` is the service's own: counter name to value since the database started.

    ``gauges`` are names whose rate means nothing (connections now open). ``interval`` as in ``CounterObserver``.
    """
    return CounterObserver("database", SUBJECT, stats, gauges, interval)
