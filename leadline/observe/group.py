"""Several observers as one: a failing one is told about and never costs the trial."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from leadline.observe.base import Observer, ObserverContext


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
