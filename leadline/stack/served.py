"""A server that runs already, at a URL, in the place of a stack: nothing of it is started, set, asked or stopped."""

# ruff: noqa: ARG002 - most of what a stack is told is of services that it starts

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from leadline.host.base import Process
from leadline.model.errors import (
    FailureClass,
    TrialFailure,
)
from leadline.model.knob import AtStart, Knob, Level
from leadline.stack.base import AskedFor, AuditResult, Counts, Progress, Settings
from leadline.stack.probe import unreached

_PORTS = {"http": 80, "https": 443}


class Served(AtStart):
    """Implements ``leadline.stack.base.Services``."""

    def __init__(self, url: str) -> None:
        self._url = url

    def versions(self) -> dict[str, str]:
        return {"server": f"runs already at {self._url}"}

    def knobs(self) -> Sequence[Knob]:
        return ()

    def read_back(self, name: str) -> Level:
        raise LookupError(f"the server at {self._url} has no knob {name} that leadline knows")

    def provision(self, progress: Progress) -> None:
        """Nothing is fetched."""

    prepare_data = provision

    def reset_data(self, directory: Path) -> None:
        """Its data are its own."""

    def has_data(self) -> bool:
        return True

    def start_database(self, settings: Settings, directory: Path) -> float:
        return 0.0

    def start_server(self, settings: Settings, directory: Path) -> float:
        """Seconds that a connection to it took. Raises TrialFailure(infrastructure)."""
        at, begun = urlsplit(self._url), time.monotonic()
        if why := unreached(at.hostname or "", at.port or _PORTS[at.scheme]):
            message = f"{self._url}: {why}; start the server: leadline only loads it"
            raise TrialFailure(FailureClass.INFRASTRUCTURE, message)
        return time.monotonic() - begun

    def url(self) -> str:
        return self._url

    def population_urls(self) -> Mapping[str, str]:
        return {}

    def certificate(self) -> str | None:
        """None: its certificate is checked as that of any server."""

    def processes(self) -> Mapping[str, Process]:
        return {}

    def check_alive(self) -> None:
        """Its responses tell."""

    check_members = check_connections = check_messages = check_alive

    def restarts(self) -> int:
        return 0

    def drain(self, times: Path) -> None:
        """Nothing that it accepts is waited for."""

    def audit(self, counts: Counts, log: Path, load: AskedFor = None) -> Sequence[AuditResult]:
        return ()

    def down(self) -> list[str]:
        return []
