"""Stand-ins for a host and a system under test: unit tests of the lab only."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from leadline.lab.system import LoadOutcome, Measured, OnLoad, Settings
from leadline.model.errors import FailureClass, TrialFailure
from leadline.model.knob import ApplyCost, Kind, Knob, Level, Risk
from leadline.model.record import AuditRecord, Phases
from leadline.model.result import SteadyState

LIVE = Knob("vm.fake_live", Kind.INTEGER, ApplyCost.LIVE, "a live knob", default=10, minimum=0, maximum=100)
DANGEROUS = Knob(
    "vm.fake_dangerous", Kind.INTEGER, ApplyCost.LIVE, "hangs", risk=Risk.DANGEROUS, dangerous_above=50, minimum=0
)
POOL = Knob("server.pool", Kind.INTEGER, ApplyCost.RESTART, "a restart knob", default=10, minimum=1)
CACHE = Knob("server.cache", Kind.BOOLEAN, ApplyCost.RESTART, "a switch", default=True)


class FakeHost:
    """Knobs in a dictionary; remembers every write."""

    name = "fake"

    def __init__(self, forbidden: str = "") -> None:
        self.values: dict[str, Level] = {"vm.fake_live": 10, "vm.fake_dangerous": 1}
        self.originals: dict[str, Level] = {}
        self.writes: list[tuple[str, Level]] = []
        self.forbidden = forbidden

    def knobs(self) -> Sequence[Knob]:
        return (LIVE, DANGEROUS)

    def read_knob(self, name: str) -> Level:
        return self.values[name]

    def set_knob(self, name: str, level: Level) -> None:
        self.originals.setdefault(name, self.values[name])
        self.values[name] = level
        self.writes.append((name, level))

    def writable(self, name: str) -> str:
        return self.forbidden if name == "vm.fake_live" else ""

    def restore(self) -> Sequence[str]:
        lines = [f"{name} is {value} again" for name, value in self.originals.items()]
        self.values.update(self.originals)
        self.originals.clear()
        return lines

    def facts(self) -> Mapping[str, str]:
        return {"kernel": "fake"}

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"the lab asked the fake host for {name}")


@dataclass
class FakeSystem:
    """A system whose throughput is a function of its settings; ``fail`` maps a step to a failure."""

    host: FakeHost
    effect: Callable[[Settings, Mapping[str, Level]], float] = lambda _s, _h: 100.0
    fail: Callable[[str, Settings], TrialFailure | None] = lambda _step, _settings: None
    at_step: Callable[[str], None] = lambda _step: None
    audits: Sequence[AuditRecord] = (AuditRecord("ledger", True, "0"),)
    errors: float = 0.0
    driver_was_limit: bool = False
    read_wrong: str = ""
    stops: int = 0
    calls: list[str] = field(default_factory=list)
    settings: Settings = field(default_factory=dict)

    def _call(self, step: str) -> None:
        self.calls.append(step)
        self.at_step(step)
        failure = self.fail(step, self.settings)
        if failure:
            raise failure

    def versions(self) -> Mapping[str, str]:
        return {"fake": "1"}

    def prepare(self, message: Callable[[str], None]) -> None:
        message("prepared")

    def reset(self, directory: Path) -> None:
        assert directory.is_dir()
        self._call("reset")

    def start_database(self, settings: Settings, directory: Path) -> None:
        self.settings = settings
        self._call("start-database")

    def start_server(self, settings: Settings, directory: Path) -> float:
        self._call("start-server")
        (directory / "logs" / "server.log").write_text("started\n")
        return 1.5

    def read_back(self, knob: str) -> Level:
        if knob == self.read_wrong:
            return 999
        return self.settings[knob]

    def start_observers(self, directory: Path) -> None:
        self._call("start-observers")

    def stop_observers(self) -> Sequence[str]:
        self._call("stop-observers")
        return ()

    def load(self, directory: Path, seed: int, on_load: OnLoad) -> LoadOutcome:
        on_load(1.0, "steady", 100.0, 3.0, 0)
        (directory / "driver" / "seconds.csv").write_text("one,two\n")
        self._call("load")
        counts = {"buy": {"ok": 1, "failed": 0}}
        return LoadOutcome(counts, self.driver_was_limit, "its core was busy", ())

    def audit(self, directory: Path, counts: Mapping[str, Mapping[str, int]]) -> Sequence[AuditRecord]:
        self._call("audit")
        return self.audits

    def health(self) -> None:
        self._call("health")

    def stop(self) -> Sequence[str]:
        self.stops += 1
        return ()

    def collect(self, directory: Path) -> Sequence[str]:
        self.calls.append("collect")
        return ()

    def measure(self, directory: Path, startup: float) -> Measured:
        self._call("measure")
        value = self.effect(self.settings, getattr(self.host, "values", {}))
        return Measured(
            {"throughput": value, "p99": 1000 / value, "errors": self.errors, "startup": startup},
            SteadyState("steady", 0.0, "steady from the first second"),
            Phases(0.0, 1.0, 2.0, 3.0),
        )


def failing(step: str, failure_class: FailureClass, when: Callable[[Settings], bool] = lambda _s: True) -> Any:
    """A ``fail`` function: that step fails with that class where ``when`` holds."""

    def fail(at: str, settings: Settings) -> TrialFailure | None:
        return (
            TrialFailure(failure_class, f"planted at {at}", "the server's words")
            if at == step and when(settings)
            else None
        )

    return fail
