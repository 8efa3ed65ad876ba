"""This host, or one over SSH: what it can do, and putting it back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from leadline.host.checks import HostFinding, findings, spoilers
from leadline.host.local import LocalHost
from leadline.model.errors import LeadlineError, RestoreError, UsageError
from leadline.model.hosts import SSH_NAMES, SshHost, ssh_host
from leadline.model.knob import Level, Machine

if TYPE_CHECKING:
    from leadline.places.ssh.host import FarHost


def doctor(host: str = "here", tell: Callable[[str], None] = lambda _: None) -> list[HostFinding]:
    """What a machine (``ssh:NAME``) can do and how noisy it is, each finding with the command that mends it."""
    with _far(host, tell) as far:
        return list(findings(LocalHost())) if far is None else list(far.ask("doctor"))


def before_a_run() -> list[str]:
    """What would spoil a study on this machine now, a line for each finding of ``doctor`` with its command."""
    return [
        f"doctor: {spoiler.name}: {spoiler.sentence}; to mend it: {spoiler.mend}" for spoiler in spoilers(LocalHost())
    ]


def today(host: str, tell: Callable[[str], None] = lambda _: None) -> tuple[Machine, Mapping[str, tuple[Level, str]]]:
    """A host over SSH: what limits depend on, and of its own knobs today's level and why it cannot be set."""
    with _far(host, tell) as far:
        if far is None:
            raise UsageError("--host here is what is shown without it: leave it out")
        return far.machine(), far.today()


def _ssh(word: str) -> SshHost | None:
    """A host over SSH, None for this one. Raises UsageError."""
    try:
        ssh = ssh_host(word)
    except ValueError as error:
        raise UsageError(f"--host {error}") from None
    if ssh is None and word not in ("here", "local"):
        raise UsageError(f"--host {word}: write here or ssh:NAME, {SSH_NAMES}")
    return ssh


@contextmanager
def _far(word: str, tell: Callable[[str], None]) -> Iterator[FarHost | None]:
    """The host over SSH of this name; None for this one. Raises UsageError."""
    ssh = _ssh(word)
    if ssh is None:
        yield None
        return
    from leadline.places.ssh.host import FarHost

    far = FarHost(ssh, tell=tell)
    try:
        far.reach()
        yield far
    finally:
        far.hang_up()


def restore(hosts: Sequence[str] = ("here",), tell: Callable[[str], None] = lambda _: None) -> list[str]:
    """Undo every open entry of the journal of each host, end what was started; a line for each thing that was put back.
    ``hosts``: ``here``, ``ssh:NAME``; each is tried, whatever becomes of the others.

    Raises LeadlineError where another leadline uses a host, RestoreError naming what could not be put back. What was
    put back elsewhere then goes to ``tell``.
    """
    for name in hosts:
        _ssh(name)
    if len(hosts) == 1:
        return _restore(hosts[0], tell)
    lines: list[str] = []
    failed: dict[str, LeadlineError] = {}
    for name in hosts:
        try:
            lines += [f"{name}: {line}" for line in _restore(name, tell)]
        except LeadlineError as error:
            failed[name] = error
    if failed:
        for line in lines:
            tell(line)
        lost = any(isinstance(error, RestoreError) for error in failed.values())
        failures = "\n".join(f"{name}: {str(error).removeprefix(f'{name}: ')}" for name, error in failed.items())
        raise RestoreError(failures) if lost else LeadlineError(failures)
    return lines


def _restore(host: str, tell: Callable[[str], None]) -> list[str]:
    with _far(host, tell) as far:
        return _restore_here() if far is None else list(far.restore())


def _restore_here() -> list[str]:
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
        return len(host.journal.left())
    except LeadlineError:  # restore says what is wrong with it
        return 0
