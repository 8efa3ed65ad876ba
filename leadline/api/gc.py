"""GC logs: what they say."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from leadline.gcanalysis.events import GcLog
from leadline.observe.gclog.follow import Follower
from leadline.observe.gclog.report import LogFigures, Logs


@contextmanager
def following(source: Path) -> Iterator[Follower]:
    """The log ``source``, or that of the JVM whose process number it is. Raises LeadlineError."""
    if source.exists() or not str(source).isdecimal():
        yield Follower(source)
        return
    from leadline.host.java import gc_log, heap_of
    from leadline.host.procfs import read_stat

    pid = int(str(source))
    with gc_log(pid) as path:
        begun = read_stat(pid)

        def ended() -> bool:
            now = read_stat(pid)
            return begun is None or now is None or now.start != begun.start or not now.alive

        yield Follower(path, ended, heap_of(pid))


def pages(out: Path) -> tuple[Callable[[GcLog, LogFigures], None], Callable[[Logs], Path]]:
    """What takes each log as it is read, and what writes the page of all of them to ``out`` (raises OSError)."""
    from leadline.api.results import kept_parts
    from leadline.report.gc_page import Entry, build, entries_of

    shown: list[Entry] = []
    return lambda log, figures: shown.extend(entries_of(log, figures)), lambda logs: build(
        logs, shown, out, kept_parts()
    )
