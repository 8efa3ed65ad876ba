"""What the life of a trial needs from the system under test, its driver and its observers.

``leadline.lab.real`` joins the real parts; a simulated system implements the same in virtual time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from leadline.model.knob import Level
from leadline.model.record import AuditRecord, Phases
from leadline.model.result import SteadyState

Settings = Mapping[str, Level]
OnLoad = Callable[[float, str, float, float, int], None]  # second, phase, transactions/s, p99 ms, errors


@dataclass(frozen=True)
class LoadOutcome:
    """What the driver says of its own run."""

    counts: Mapping[str, Mapping[str, int]]  # transaction -> ok, failed; whole run, drain included
    driver_was_limit: bool
    evidence: str
    checks: Sequence[AuditRecord]  # arrivals against plan, Little's law


@dataclass(frozen=True)
class Measured:
    """Responses of the steady state with the verdict on it."""

    responses: Mapping[str, float]
    steady: SteadyState
    phases: Phases


class System(Protocol):
    """One stack on one host. Every method raises TrialFailure with its class when it cannot do its work."""

    def versions(self) -> Mapping[str, str]: ...
    def prepare(self, message: Callable[[str], None]) -> None:
        """Provision, build, load and snapshot the data: once a run, before the first trial."""

    def reset(self, directory: Path) -> None:
        """Database from its snapshot, page cache and swap as the study says; nothing runs."""

    def start_database(self, settings: Settings, directory: Path) -> None: ...
    def start_server(self, settings: Settings, directory: Path) -> float:
        """Seconds from the start to the first right answer."""

    def read_back(self, knob: str) -> Level:
        """The level in force in the running services. Raises LookupError if it cannot be asked."""

    def start_observers(self, directory: Path) -> None: ...
    def stop_observers(self) -> Sequence[str]:
        """Ends recording; returns warnings."""

    def load(self, directory: Path, seed: int, on_load: OnLoad) -> LoadOutcome: ...
    def audit(self, directory: Path, counts: Mapping[str, Mapping[str, int]]) -> Sequence[AuditRecord]: ...
    def health(self) -> None:
        """Raises TrialFailure when a service died under the load."""

    def stop(self) -> Sequence[str]:
        """Stops whatever runs, in reverse order; returns warnings (killed, not clean). Never raises."""

    def collect(self, directory: Path) -> Sequence[str]:
        """Turn raw recordings into series; returns warnings. Works after a failure too."""

    def measure(self, directory: Path, startup: float) -> Measured: ...
