"""The database of an application that brings its own, or has none: leadline starts and stops nothing."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from leadline.host import here
from leadline.host.base import Process
from leadline.model.errors import FailureClass, LeadlineError, TrialFailure
from leadline.model.knob import Knob, Level
from leadline.model.owners import AtStart
from leadline.model.ownstack import OwnFile
from leadline.stack.base import Endpoint, Progress, ServiceContext, Settings
from leadline.stack.own.words import full


class OwnDatabase(AtStart):
    """Implements ``leadline.stack.base.Database`` where there is nothing to start (``runs`` is false); ``restore``
    runs the reset command of the stack file, where there is one.
    """

    runs = False
    stop_signal = 0

    def __init__(self, own: OwnFile) -> None:
        self._own = own
        self._context: ServiceContext | None = None

    @property
    def name(self) -> str:
        return "database"

    @property
    def version(self) -> str:
        """How its data are put back."""
        stack = self._own.content.database
        ways = {"none": "none", "keep": "the application's own, never put back"}
        return ways.get(stack.kind, f"the application's own, put back by {' '.join(stack.reset or [])}")

    def knobs(self) -> Sequence[Knob]:
        return ()

    def read_back(self, name: str) -> Level:
        raise LookupError(f"leadline does not know the application's own database: no {name}")

    def provision(self, progress: Progress) -> None:
        del progress

    def configure(self, context: ServiceContext, settings: Settings) -> None:
        del settings
        self._context = context

    def start(self) -> Process:
        raise LeadlineError("the application's own database is not started by leadline")

    def wait_ready(self, timeout: float) -> float:
        del timeout
        return 0.0

    def stop(self) -> bool:
        return True

    def words(self) -> str:
        """Nothing that leadline hears."""
        return ""

    def log_tail(self, lines: int = 40) -> str:
        del lines
        return ""

    def artefacts(self) -> Sequence[Path]:
        return ()

    def endpoint(self) -> Endpoint:
        """Without a subprotocol: nothing that leadline could ask."""
        return Endpoint("", 0, "", "", "", subprotocol="")

    def settle(self) -> None:
        """Nothing is loaded."""

    def stats(self) -> Mapping[str, float]:
        raise LookupError("leadline does not know the application's own database")

    def gauges(self) -> Sequence[str]:
        return ()

    def snapshot(self, name: str) -> None:
        del name

    def has_snapshot(self, name: str) -> bool:
        del name
        return True

    def restore(self, name: str) -> None:
        """Raises TrialFailure(infrastructure) when the reset command fails, with its last words."""
        del name
        database = self._own.content.database
        if database.reset is None:
            return
        words = full(self._own, database.reset)
        try:
            done = here.run(words, timeout=database.within, env=dict(os.environ), cwd=Path(self._own.file).parent)
        except OSError as error:  # also: it took too long
            raise TrialFailure(FailureClass.INFRASTRUCTURE, f"the reset command {words[0]}: {error}") from error
        output = f"{done.stdout}{done.stderr}".strip()
        if self._context is not None:
            self._context.artefacts.mkdir(parents=True, exist_ok=True)
            (self._context.artefacts / "reset.log").write_text(f"{output}\n")
        if done.returncode:
            last = output.splitlines()[-1] if output else "without a word"
            problem = f"the reset command {words[0]} ended with exit code {done.returncode}: {last}"
            raise TrialFailure(FailureClass.INFRASTRUCTURE, problem, output)
