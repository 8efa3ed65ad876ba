"""An application whose inside leadline does not know: one mode, no knobs of its own, nothing beside its server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from pathlib import Path

from leadline.model.knob import Knob, Level
from leadline.stack.base import Companion, Settings
from leadline.stack.deployment import Feature


class Opaque:
    """The part of ``leadline.stack.base.Application`` that such applications share."""

    def __init__(self) -> None:
        self._url = ""  # of what runs

    def modes(self) -> Sequence[str]:
        return ("direct",)

    def knobs(self) -> Sequence[Knob]:
        return ()

    def knobs_on(self, mode: str, server: str, servers: Mapping[str, Set[Feature]]) -> Sequence[Knob]:
        del mode, server, servers
        return ()

    def companions(self, settings: Settings) -> Sequence[Companion]:
        """It needs none, or starts it itself."""
        del settings
        return ()

    def read_back(self, url: str, knob: str) -> Level:
        raise LookupError(f"{url} has no knob {knob}")

    def change(self, url: str, levels: Settings) -> None:
        raise LookupError(f"{url} has no live knobs {', '.join(levels)}")

    def login(self) -> str:
        return ""

    def drain(self, url: str, settings: Settings, times: Path) -> None:
        """Nothing is accepted that has no effect yet; the audits that follow ask at this address."""
        del settings, times
        self._url = url
