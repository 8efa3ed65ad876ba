"""This host: what it can do, and putting it back."""

from __future__ import annotations

from leadline.host.checks import Finding, findings
from leadline.host.local import LocalHost

__all__ = ["Finding", "doctor", "restore"]


def doctor() -> list[Finding]:
    """What this machine can do and how noisy it is, each finding with the command that mends it."""
    return list(findings(LocalHost()))


def restore() -> list[str]:
    """Undo every open entry of the journal, end what was started; a line for each thing that was put back.

    Raises LeadlineError where another leadline uses the host, RestoreError naming what could not be put back.
    """
    host = LocalHost()
    with host.lease():
        return list(host.restore())
