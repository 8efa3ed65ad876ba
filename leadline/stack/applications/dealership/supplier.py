"""The supplier emulator of dealership: a process of its own that takes purchase orders and delivers them later."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from leadline.host.base import Process, ProcessSpec
from leadline.host.java import find_java
from leadline.host.jvm import JAVA_ENVIRONMENT
from leadline.model.errors import FailureClass, TrialFailure
from leadline.stack import local
from leadline.stack.applications.dealership import knobs
from leadline.stack.applications.health import ask
from leadline.stack.base import CompanionContext, Settings
from leadline.stack.started import Started

_POLL = 0.05
_STOP = 10.0  # seconds until it is killed


class Supplier(Started[CompanionContext]):
    """Restartable: its journal, kept until ``reset``, holds what it has taken and delivered."""

    title = "the supplier emulator"
    name = "supplier"

    def __init__(self, tools: Callable[[], Path], java_home: Path | None) -> None:
        super().__init__()
        self._tools, self._java_home = tools, java_home
        self._delay = float(str(knobs.DELAY.default))

    @property
    def log(self) -> Path:
        return self.context.artefacts / "supplier.log"

    @property
    def url(self) -> str:
        return f"http://{local.LOOPBACK}:{self.context.port}"

    def delay(self) -> float:
        """Mean seconds to a delivery, as the running process says. Raises LookupError."""
        try:
            return float(ask(self.name, self.url, "/health", timeout=10.0)["delay"])
        except (ValueError, KeyError, TypeError) as error:
            raise LookupError(f"{self.title} does not tell its delay: {error}") from error

    def properties(self) -> Mapping[str, str]:
        """System properties by which the server knows of it."""
        return {"dealership.supplier": self.url}

    def configure(self, context: CompanionContext, settings: Settings) -> None:
        self._context = context
        self._delay = float(str(settings.get(knobs.DELAY.name, knobs.DELAY.default)))
        context.directory.mkdir(parents=True, exist_ok=True)
        context.artefacts.mkdir(parents=True, exist_ok=True)

    def reset(self, directory: Path) -> None:
        """Forget the orders of an earlier start in ``directory``; nothing runs."""
        for left in directory.glob("journal*"):
            left.unlink()

    def start(self) -> Process:
        context = self.context
        java = (self._java_home or find_java()) / "bin" / "java"
        unset = [word for name in JAVA_ENVIRONMENT for word in ("-u", name)]
        command = [
            "env",
            *unset,
            str(java),
            "-XX:+UseSerialGC",
            "-Xmx256m",
            "-XX:TieredStopAtLevel=1",
            "-jar",
            str(self._tools()),
        ]
        command += ["emulate", "--port", str(context.port), "--delay", f"{self._delay:g}"]
        command += ["--seed", str(context.seed), "--deliver-to", context.url]
        command += ["--journal", str(context.directory / "journal")]
        spec = ProcessSpec(
            name=self.name,
            argv=command,
            output=self.log,
            cwd=context.directory,
            cpus=context.cpus,
            owns=(context.directory,),
            reads=(java.parent.parent, self._tools()),
        )
        return self.launch(context.host, spec)

    def wait_ready(self, timeout: float) -> float:
        """Seconds from the start to its first answer. Raises TrialFailure(infrastructure): it is part of the load."""
        end = self._started + timeout
        while True:
            try:
                ask(self.name, self.url, "/health", timeout=2.0)
                return time.monotonic() - self._started
            except LookupError as error:
                if not self.process.alive() or time.monotonic() > end:
                    told = f"{self.title} did not answer within {timeout:g} s ({error})"
                    raise TrialFailure(FailureClass.INFRASTRUCTURE, told, self.log_tail()) from error
            time.sleep(_POLL)

    def counts(self) -> dict[str, Any]:
        """Orders received, delivered, pending and failed as it says itself. Raises LookupError."""
        if self._process is None:
            raise LookupError(f"{self.title} has not been started")
        return ask(self.name, self.url, "/orders", timeout=10.0)

    def stop(self) -> bool:
        process, self._process = self._process, None
        if process is None:
            return True
        return process.stop(_STOP)

    def log_tail(self, lines: int = 40) -> str:
        return local.tail(self.log, lines)

    def artefacts(self) -> Sequence[Path]:
        return [self.log] if self._context is not None and self.log.exists() else []
