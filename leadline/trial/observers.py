"""The observers of a trial: a row each."""

from __future__ import annotations

from collections.abc import Callable

from leadline.host.base import Host
from leadline.observe.base import Observer
from leadline.observe.counters import CounterObserver, database_observer
from leadline.observe.gc import GcObserver
from leadline.observe.host import HostObserver
from leadline.observe.pools import PoolsObserver
from leadline.observe.processes import ProcessObserver
from leadline.stack.assembly import Stack
from leadline.stack.web.common import GAUGES as WEB_GAUGES

# Makes one for a trial; None where the stack has nothing of the kind.
OBSERVERS: tuple[Callable[[Host, Stack], Observer | None], ...] = (
    lambda host, _: HostObserver(host.files),
    lambda _host, _stack: GcObserver(),
    lambda host, stack: PoolsObserver(host) if stack.has_jvm else None,
    lambda _, stack: (
        database_observer(stack.database.stats, stack.database.gauges(), interval=1.0) if stack.database.runs else None
    ),
    lambda _, stack: (
        None
        if (counters := stack.web_counters()) is None
        else CounterObserver("web", "web", counters, WEB_GAUGES, interval=1.0)
    ),
)


def observers_of(observe: bool, host: Host, stack: Stack) -> list[Observer]:
    """CPU per transaction is a response, so processes are observed always; the rest where ``observe`` says so."""
    observers = [make(host, stack) for make in OBSERVERS] if observe else []
    return [ProcessObserver(host.files), *(observer for observer in observers if observer is not None)]
