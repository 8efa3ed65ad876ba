"""Errors that people see, and the failure classes of a trial."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class LeadlineError(Exception):
    """A message for the user; the command ends with ``exit_code``."""

    exit_code = 1


class UsageError(LeadlineError):
    """Bad input: says where, what is wrong and the nearest valid choice."""

    exit_code = 2


class KeyedError(ValueError):
    """A value that contradicts another; ``path`` is the key to blame, below the one that is checked."""

    def __init__(self, path: Sequence[str | int], message: str) -> None:
        super().__init__(message)
        self.path = tuple(path)


class RestoreError(LeadlineError):
    """A host could not be put back."""

    exit_code = 3


class NotInPlay(LookupError):
    """A knob of a part that these levels leave out: there is nothing to read back. Says which part."""


class FailureClass(StrEnum):
    """Why a trial has no responses.

    ``configuration``: the treatment itself broke the stack; evidence, never retried blindly.
    ``workload``: errors or a failed audit.
    ``infrastructure``: a host, disk or network failed; retried, bounded.
    ``interrupted``: leadline or its user ended the trial.
    ``bottleneck``: the driver was the limit, so the figures are not the server's.
    """

    CONFIGURATION = "configuration"
    WORKLOAD = "workload"
    INFRASTRUCTURE = "infrastructure"
    INTERRUPTED = "interrupted"
    BOTTLENECK = "bottleneck"


# What a treatment can be blamed for; a lost network, a slow driver or Ctrl-C says nothing about it.
BLAMED = (FailureClass.CONFIGURATION, FailureClass.WORKLOAD)


@dataclass(eq=False)
class TrialFailure(LeadlineError):
    """Ends a trial with its class, one sentence, and the evidence (a server's own words)."""

    failure_class: FailureClass
    message: str
    evidence: str = ""

    def __str__(self) -> str:
        return self.message


def nearest(word: str, choices: list[str]) -> str | None:
    """The choice most like ``word``, or None when nothing is close (difflib ratio < 0.6)."""
    import difflib

    found = difflib.get_close_matches(word, choices, n=1)
    return found[0] if found else None
