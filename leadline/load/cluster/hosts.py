"""A driver's host for the length of a run, over SSH: a directory there, the driver's binary, its clock; nothing is
left behind but the binary, which is kept by its hash.
"""

from __future__ import annotations

import hashlib
import shlex
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path, PurePosixPath
from typing import IO

from leadline.host import here, ssh
from leadline.host.base import Process, ProcessSpec
from leadline.host.received import packed
from leadline.load.driver import find_binary
from leadline.load.scenario import read_scenario
from leadline.model.errors import FailureClass, TrialFailure, UsageError
from leadline.model.hosts import DriverHost
from leadline.model.received import ReceivedError, from_json


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
        argv = ssh.command(self._words[1:], script, self._sockets, keeps, self._words[0])
        return [*keep, *argv] if keeps else argv

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
        why = ssh.reason(code, said)
        evidence = said if "\n" in said.strip() else ""
        if self.driver.destination and code == ssh.FAILED:
            why = f"cannot be reached: {why.rstrip('.')}{ssh.hint(said, self._words[1:])}"
        return self.failure(why, evidence)

    def failure(self, why: str, evidence: str = "") -> TrialFailure:
        return TrialFailure(FailureClass.INFRASTRUCTURE, f"{self.title}: {why}", evidence.strip())


def scenario_files(scenario: Path) -> dict[str, Path]:
    """Name there -> file here, the scenario first. Raises UsageError for a feed that cannot be sent along."""
    files = {scenario.name: scenario}
    feeds = read_scenario(scenario).get("feeds")
    for name, feed in (feeds if isinstance(feeds, dict) else {}).items():
        csv = feed.get("csv") if isinstance(feed, dict) else None
        if csv is None:
            continue
        place = PurePosixPath(str(csv))
        if "${" in str(csv) or place.is_absolute() or ".." in place.parts:
            raise UsageError(
                f"{scenario}: feed {name}: {csv} cannot be sent to other hosts: "
                "name a file beside or below the scenario, without parameters"
            )
        path = scenario.parent / place
        if path.is_file():
            files[str(place)] = path
    return files


Starter = Callable[[ProcessSpec], Process]

_SAMPLES = 25
_KILLED = 10.0  # seconds until a killed process has ended
_OPENING = 30.0  # seconds until a host must have answered
_MARK = "leadline-directory "
# The directory lives as long as this script, which ends with its input: also when leadline was killed.
_KEEPER = (
    'd=$(mktemp -d "${TMPDIR:-/tmp}/leadline-XXXXXXXX") || exit 1; trap "" HUP INT TERM PIPE; '
    f'echo "{_MARK}$d"; cat > /dev/null; rm -rf "$d" || {{ sleep 1; rm -rf "$d"; }}'
)


@dataclass(frozen=True)
class HostReport:
    """What a host says of itself, and its clock."""

    version: str
    cpus: int
    open_files: int
    name: str
    clock: Offset


@cache
def _hash(binary: Path, size: int, changed: int) -> str:  # noqa: ARG001 - a new file is read again
    return hashlib.sha256(binary.read_bytes()).hexdigest()[:32]


class RemoteHost:
    """Beyond a connection. Every method raises TrialFailure(infrastructure) that names the host."""

    def __init__(self, connection: Connection, log: Path, start: Starter) -> None:
        self.connection = connection
        self._log = log
        self._start = start
        self._keeper: Process | None = None
        self.directory = ""
        self.binary = ""

    def open(self) -> None:
        """A directory of its own there, and the driver's binary."""
        self._log.unlink(missing_ok=True)
        spec = ProcessSpec(
            f"keeper-{self.connection.driver.name}",
            self.connection.argv(_KEEPER, keeps=True),
            self._log,
            input=True,
            unprivileged=False,  # ssh reads the keys of who runs leadline
        )
        try:
            self._keeper = self._start(spec)
        except OSError as error:
            raise self.connection.failure(f"{error.filename}: {error.strerror}") from None
        self.directory = self._wait_for_directory(self._keeper)
        self.binary = self._place_binary()

    def _wait_for_directory(self, keeper: Process) -> str:
        deadline = time.monotonic() + _OPENING
        while True:
            over = not keeper.alive()
            text = self._log.read_text(encoding="utf-8", errors="replace")
            for line in text.splitlines():
                if line.startswith(_MARK) and text.endswith("\n"):
                    return line.removeprefix(_MARK)
            if over:
                raise self.connection.unusable(keeper.exit_code(), text)
            if time.monotonic() > deadline:
                raise self.connection.failure(f"no answer within {_OPENING:.0f} s", text)
            time.sleep(0.02)

    def _place_binary(self) -> str:
        binary = find_binary()
        stat = binary.stat()
        digest = _hash(binary, stat.st_size, stat.st_mtime_ns)
        folder = f'"${{XDG_CACHE_HOME:-$HOME/.cache}}/leadline/drivers/{digest}"'
        look = f'cd {folder} 2> /dev/null && [ -x leadline-load ] && echo "$PWD/leadline-load" || exit 9'
        present = self.connection.run(look, codes=(0, 9))
        if present.returncode == 9:
            put = (
                f"mkdir -p {folder} && cd {folder} && cat > part.$$ && chmod 755 part.$$ && mv -f part.$$ leadline-load"
                ' && echo "$PWD/leadline-load"'
            )
            present = self.connection.run(put, binary.read_bytes())
        return present.stdout.decode().strip().splitlines()[-1]

    def send(self, files: Mapping[str, Path]) -> None:
        """Files into ``in`` of its directory, by their names there."""
        place = shlex.quote(f"{self.directory}/in")
        self.connection.run(f"mkdir -p {place} && tar -x -f - -C {place}", packed(files))

    def input(self, name: str) -> str:
        """Where a sent file is."""
        return f"{self.directory}/in/{name}"

    def out(self) -> str:
        return f"{self.directory}/out"

    def argv(self, command: Sequence[str]) -> list[str]:
        """The command line here that runs a command there."""
        pin = ["taskset", "-c", self.connection.driver.cpus] if self.connection.driver.cpus else []
        return self.connection.argv(f"exec {shlex.join([*pin, *command])}")

    def fetch(self, into: Path) -> None:
        """What the driver wrote."""
        self.connection.fetch(f"exec tar -c -f - -C {shlex.quote(self.out())} .", into)

    def close(self) -> None:
        """Its directory is removed; whatever this connection carries ends."""
        if self._keeper is not None:
            self._keeper.close_input()
            deadline = time.monotonic() + 5
            while self._keeper.alive() and time.monotonic() < deadline:
                time.sleep(0.02)
            self._keeper.stop(grace=1.0)
            self._keeper = None


class LocalHost:
    """This host, by the same words."""

    def __init__(self, connection: Connection, out: Path) -> None:
        self.connection = connection
        self._out = out
        self._files: Mapping[str, Path] = {}
        self.binary = ""

    def open(self) -> None:
        self.binary = str(find_binary())

    def send(self, files: Mapping[str, Path]) -> None:
        self._files = files

    def input(self, name: str) -> str:
        return str(self._files[name])

    def out(self) -> str:
        return str(self._out)

    def argv(self, command: Sequence[str]) -> list[str]:
        pin = ["taskset", "-c", self.connection.driver.cpus] if self.connection.driver.cpus else []
        return [*pin, *command]

    def fetch(self, into: Path) -> None:
        """It wrote there itself."""

    def close(self) -> None:
        """Nothing was made."""


DriverPlace = RemoteHost | LocalHost


def look(host: DriverPlace, clock: LabClock) -> HostReport:
    """Ask an open host about itself and its clock. Raises TrialFailure(infrastructure)."""
    connection = host.connection
    argv = host.argv([host.binary, "host"])
    with here.opened(argv, _OPENING) as agent:
        assert agent.stdin is not None
        assert agent.stdout is not None
        assert agent.stderr is not None
        try:
            told = from_json(agent.stdout.readline())
            clock_offset = sampled(clock, partial(_clock_there, agent.stdin, agent.stdout), _SAMPLES)
            agent.stdin.close()
            report = HostReport(
                told["version"], told["cpus"], told["open_files"], told["name"], clock_offset or Offset(0, 0)
            )
        except (ValueError, KeyError, OSError):
            agent.kill()
            message = agent.stderr.read().decode(errors="replace")
            raise connection.unusable(agent.wait(_KILLED), message) from None
    if clock_offset is None:
        raise connection.failure("its clock was set while it was read")
    return report


def _clock_there(asking: IO[bytes], told: IO[bytes]) -> int:
    asking.write(b"\n")
    asking.flush()
    return int(told.readline())
