"""What an observer is to the lab, and the one form in which series are stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from leadline.host.base import Process

# Every series file is a tall Parquet table ``series/<observer>.parquet`` with these columns:
#   time_ns  Int64   unix time, nanoseconds
#   metric   Utf8    "cpu.user", "pool.in_use", "gc.pause"
#   subject  Utf8    what it is of: "host", "cpu0", "vda", "server", "jdbc/orders", a collector's pause kind
#   value    Float64 in the unit given by ``UNITS`` of the observer's module
COLUMNS = ("time_ns", "metric", "subject", "value")


@dataclass(frozen=True)
class ObserverContext:
    """What there is to observe in one trial."""

    directory: Path  # the trial's directory; raw files go to ``raw/``, tables to ``series/``
    processes: Mapping[str, Process] = field(default_factory=dict)  # "server", "database"
    java_home: Path | None = None
    interval: float = 1.0
    # Process ids by role of all trials that run now, by directory: whoever observes processes adds those of its own.
    side_by_side: dict[Path, dict[str, list[int]]] = field(default_factory=dict)


class Observer(Protocol):
    """Records a layer between ``start`` and ``stop``; raw files are on disk while it records."""

    @property
    def name(self) -> str: ...
    def start(self, context: ObserverContext) -> None: ...
    def stop(self) -> None: ...
    def collect(self) -> Path | None:
        """Turn what was recorded into ``series/<name>.parquet``; None when there was nothing. Works also after a
        crash, from the raw files alone.
        """


class ObserverSet:
    """Starts, stops and collects ``observers``; what went wrong is in ``warnings``, each text once.

    Raises ValueError when two observers have one name, as one would overwrite the other's files.
    """

    def __init__(self, observers: Sequence[Observer]) -> None:
        names = [observer.name for observer in observers]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"two observers are named {', '.join(twice)}")
        self._observers = tuple(observers)
        self._running: list[Observer] = []
        self._own: list[str] = []

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(observer.name for observer in self._observers)

    @property
    def warnings(self) -> tuple[str, ...]:
        theirs = [text for observer in self._observers for text in getattr(observer, "warnings", ())]
        return tuple(dict.fromkeys([*self._own, *theirs]))

    def start(self, context: ObserverContext) -> None:
        for observer in self._observers:
            try:
                observer.start(context)
            except Exception as error:
                self._warn(observer, "did not start", error)
            else:
                self._running.append(observer)

    def stop(self) -> None:
        """Stop those that run, last started first. Harmless when called again."""
        while self._running:
            observer = self._running.pop()
            try:
                observer.stop()
            except Exception as error:
                self._warn(observer, "did not stop", error)

    def collect(self) -> dict[str, Path]:
        """Observer to its series file, for those that recorded something."""
        paths: dict[str, Path] = {}
        for observer in self._observers:
            try:
                path = observer.collect()
            except Exception as error:
                self._warn(observer, "could not turn its raw files into series", error)
            else:
                if path is not None:
                    paths[observer.name] = path
        return paths

    def collect_from(self, directory: Path) -> dict[str, Path]:
        """The same from the raw files of a trial whose process has ended; for the observers that can."""
        paths: dict[str, Path] = {}
        for observer in self._observers:
            method = getattr(observer, "collect_from", None)
            try:
                path = method(directory) if method else None
            except Exception as error:
                self._warn(observer, "could not turn its raw files into series", error)
            else:
                if path is not None:
                    paths[observer.name] = path
        return paths

    def _warn(self, observer: Observer, what: str, error: Exception) -> None:
        self._own.append(f"{observer.name}: {what}: {type(error).__name__}: {error}")
