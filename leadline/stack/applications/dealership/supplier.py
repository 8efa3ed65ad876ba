"""The supplier emulator of dealership: a process of its own that takes purchase orders and delivers them later."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from leadline.host.base import Process
from leadline.stack.applications.dealership import knobs
from leadline.stack.applications.dealership.beside import Beside
from leadline.stack.applications.health import ask
from leadline.stack.base import CompanionContext, Settings
from leadline.stack.local import LOOPBACK


class Supplier(Beside):
    """Restartable: its journal, kept until ``reset``, holds what it has taken and delivered."""

    title = "the supplier emulator"
    name = "supplier"
    knob_names = (knobs.DELAY.name,)

    def __init__(self, tools: Callable[[], Path], java_home: Path | None) -> None:
        super().__init__(tools, java_home)
        self._delay = float(str(knobs.DELAY.default))

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
        super().configure(context, settings)
        self._delay = float(str(settings.get(knobs.DELAY.name, knobs.DELAY.default)))

    def reset(self, directory: Path) -> None:
        """Forget the orders of an earlier start in ``directory``; nothing runs."""
        for journal in directory.glob("journal*"):
            journal.unlink()

    def start(self) -> Process:
        context = self.context
        beside = urlsplit(context.url).hostname == LOOPBACK  # of the server: nobody else calls it
        words = ["emulate", "--host", LOOPBACK if beside else context.listen, "--port", str(context.port)]
        words += ["--delay", f"{self._delay:g}"]
        words += ["--seed", str(context.seed), "--deliver-to", context.url]
        return self.run((), (), [*words, "--journal", str(context.directory / "journal")])

    def counts(self) -> dict[str, Any]:
        """Orders received, delivered, pending and failed as it says itself. Raises LookupError."""
        if self._process is None and not self._elsewhere:
            raise LookupError(f"{self.title} has not been started")
        return ask(self.name, self.url, "/orders", timeout=10.0)
