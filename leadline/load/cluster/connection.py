"""Commands on another host: by ssh, or by any prefix that runs a command there."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from leadline.host import here, ssh
from leadline.model.drivers import DriverHost
from leadline.model.errors import FailureClass, TrialFailure
from leadline.model.received import ReceivedError


class LabClock:
    """Unix nanoseconds of this host that follow the monotonic clock from the moment this was made."""

    def __init__(self) -> None:
        self._offset = time.time_ns() - time.monotonic_ns()

    def now_ns(self) -> int:
        return time.monotonic_ns() + self._offset


@dataclass(frozen=True)
class Offset:
    """The other clock minus this one: ``ns``, at most ``uncertainty_ns`` off either way."""

    ns: float
    uncertainty_ns: float


def offset(samples: Iterable[tuple[int, int, int]]) -> Offset | None:
    """From (asked, answer, received): this clock, the other one, this clock, nanoseconds.

    The other clock was read between the two, so the offset lies between ``answer - received`` and ``answer - asked``,
    for every sample (Cristian 1989); the intersection of all these intervals is the bound (Marzullo 1984). None when
    they have no point in common: a clock was set meanwhile.
    """
    usable = list(samples)
    low = max(answer - received for _, answer, received in usable)
    high = min(answer - sent for sent, answer, _ in usable)
    if low > high:
        return None
    return Offset((low + high) / 2, (high - low) / 2)


def sampled(clock: LabClock, ask: Callable[[], int], samples: int) -> Offset | None:
    """The offset of the clock that ``ask`` reads from this one; None where a clock was set meanwhile."""
    return offset([(clock.now_ns(), ask(), clock.now_ns()) for _ in range(samples)])


_PATIENCE = 30.0  # seconds a command of leadline's own may take there


class Connection:
    """One driver's host. ``sockets``: a directory for the connections that ssh shares."""

    def __init__(self, driver: DriverHost, sockets: Path) -> None:
        self.driver = driver
        words = shlex.split(driver.via)
        self.local = words == ["local"]
        self._words = [] if self.local else words
        self._sockets = sockets

    @property
    def title(self) -> str:
        name, via = self.driver.name, self.driver.via
        return f"driver {name}" if name == via else f"driver {name} ({via})"

    def argv(self, script: str, keeps: bool = False) -> list[str]:
        """The command line that runs a shell script there, with its input and output. One that ``keeps`` carries the
        sessions after it, and takes their directory away when it ends.
        """
        if not self.driver.destination:
            return [*self._words, "sh", "-c", script]
        keep = ("sh", "-c", '"$@"; code=$?; rmdir "$0" 2> /dev/null; exit $code', str(self._sockets))
        return [
            *(keep if keeps else ()),
            self._words[0],
            *ssh.options(),
            *ssh.shared(self._sockets, keeps),
            *self._words[1:],
            f"exec sh -c {shlex.quote(script)}",
        ]

    def run(self, script: str, data: bytes = b"", codes: Sequence[int] = (0,)) -> here.Exchanged:
        """Its output. Raises TrialFailure(infrastructure) for any other exit code."""
        try:
            done = here.exchange(self.argv(script), data, timeout=_PATIENCE)
        except TimeoutError:
            raise self.failure(f"no answer within {_PATIENCE:.0f} s") from None
        except OSError as error:
            raise self.failure(f"{error.filename}: {error.strerror}") from None
        if done.returncode not in codes:
            raise self.unusable(done.returncode, done.stderr.decode(errors="replace"))
        return done

    def fetch(self, script: str, into: Path) -> None:
        """The files of the archive that a command there writes. Raises as ``run``."""
        try:
            done = here.unpacked(self.argv(script), into, f"{self.title}: an archive", _PATIENCE)
        except OSError as error:
            raise self.failure(f"{error.filename}: {error.strerror}") from None
        except ReceivedError as error:
            raise TrialFailure(FailureClass.INFRASTRUCTURE, str(error)) from error
        if done.returncode:
            raise self.unusable(done.returncode, done.stderr.decode(errors="replace"))

    def unusable(self, code: int | None, said: str) -> TrialFailure:
        """What a command that failed there means."""
        lines = [line for line in said.strip().splitlines() if line.strip()]
        last = lines[-1].strip() if lines else f"exit code {code}"
        evidence = said if len(lines) > 1 else ""
        if self.driver.destination and code == ssh.FAILED:
            return self.failure(f"cannot be reached: {last}", evidence)
        return self.failure(last, evidence)

    def failure(self, why: str, evidence: str = "") -> TrialFailure:
        return TrialFailure(FailureClass.INFRASTRUCTURE, f"{self.title}: {why}", evidence.strip())
