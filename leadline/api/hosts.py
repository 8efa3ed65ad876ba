"""This host: what it can do, and putting it back."""

from __future__ import annotations

from leadline.host.checks import Finding, findings
from leadline.host.local import LocalHost
from leadline.model.errors import LeadlineError

__all__ = ["Finding", "doctor", "restore"]


def doctor() -> list[Finding]:
    """What this machine can do and how noisy it is, each finding with the command that mends it."""
    return list(findings(LocalHost()))


def restore() -> list[str]:
    """Undo every open entry of the journal, end what was started; a line for each thing that was put back.

    Raises LeadlineError where another leadline uses the host, RestoreError naming what could not be put back.
    """
    host = LocalHost()
    open_before = _open_entries(host)
    with host.lease():  # where a leadline died its watchdog comes first
        lines = list(host.restore())
    if open_before and not lines:
        log = host.journal.path.parent.parent / "watchdog.log"
        lines = [f"put back by the watchdog of the leadline that died, journal entries: {open_before}; {log}"]
    return lines


def _open_entries(host: LocalHost) -> int:
    try:
        return len(host.journal.open_entries())
    except LeadlineError:  # restore says what is wrong with it
        return 0
