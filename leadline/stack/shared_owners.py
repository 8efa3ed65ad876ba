"""Owners of knobs that are not one service's: the servers of a stack whose server is a factor, the application."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from leadline.model.errors import FailureClass, TrialFailure
from leadline.model.knob import ApplyCost, Knob, Level
from leadline.model.owners import AtStart
from leadline.stack import registry
from leadline.stack.base import Application
from leadline.stack.servers.common import JavaServer


class OneOfServers:
    """What the ``servers`` of a stack have in common; ``current``: the one that was started last."""

    def __init__(self, servers: Mapping[str, JavaServer], current: Callable[[], JavaServer]) -> None:
        self._servers, self._current = servers, current

    def knobs(self) -> Sequence[Knob]:
        return registry.common_knobs([server.knobs() for server in self._servers.values()])

    def apply(self, levels: Mapping[str, Level]) -> None:
        self._current().apply(levels)

    def read_back(self, name: str) -> Level:
        if name != registry.SERVER_KNOB.name:
            return self._current().read_back(name)
        return next(name for name, server in self._servers.items() if server is self._current())


class Deployed(AtStart):
    """The application at an address."""

    def __init__(self, application: Application, url: Callable[[], str]) -> None:
        self._url, self._application = url, application

    def knobs(self) -> Sequence[Knob]:
        return self._application.knobs()

    def apply(self, levels: Mapping[str, Level]) -> None:
        known = {knob.name: knob for knob in self.knobs()}
        if fixed := {name: level for name, level in levels.items() if known[name].apply_cost is not ApplyCost.LIVE}:
            super().apply(fixed)
        try:
            self._application.change(self._url(), levels)
            wrong = [f"{name} {level}" for name, level in levels.items() if self.read_back(name) != level]
        except LookupError as error:
            raise TrialFailure(FailureClass.CONFIGURATION, str(error)) from error
        if wrong:
            raise TrialFailure(FailureClass.CONFIGURATION, f"{self._application.name} did not take {', '.join(wrong)}")

    def read_back(self, name: str) -> Level:
        return self._application.read_back(self._url(), name)
