"""Programs timed as whole processes and compared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from leadline.experiments.command_files import compared_files, document
from leadline.host.local import LocalHost
from leadline.model.errors import UsageError
from leadline.report.command_text import answer, lines
from leadline.trial import command as lab
from leadline.trial.command import Command, CommandComparison, Timing, commands_of

__all__ = [
    "Command",
    "CommandComparison",
    "Timing",
    "answer",
    "commands_of",
    "compare",
    "compared_files",
    "document",
    "lines",
]


def compare(commands: Sequence[Command], how: Timing, told: Callable[[str], None]) -> CommandComparison:
    """Time the commands and compare them with the first. Raises UsageError."""
    host: Any = LocalHost()

    def drop() -> None:
        try:
            host.drop_page_cache()
        except LookupError as error:
            raise UsageError(f"--cache cold: {error}") from None

    if how.cache == "cold":
        drop()
    return lab.compare(commands, how, drop, told)
