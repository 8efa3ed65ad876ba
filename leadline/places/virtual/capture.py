"""What a stack starts, recorded on this host: its processes with their files as they were at the start of each.

The stack runs here once, as in a trial, so every level is rendered, started and read back by the code of all studies.
A guest then starts the same processes on the same files at the same paths.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from leadline.host.base import ProcessSpec
from leadline.host.local import LocalHost
from leadline.host.process import LocalProcess
from leadline.model.errors import FailureClass, TrialFailure
from leadline.model.knob import Level
from leadline.model.study import Study
from leadline.stack.assembly import Stack
from leadline.stack.base import Progress
from leadline.stack.options import StackOptions

SERVICES = ("database", "server", "web")  # in the order of their start
_FIRST_PORT = 28_401  # a guest has all its ports free: the same ones in every capture, as far as this host allows


@dataclass(frozen=True)
class Started:
    """A process, and where its own files are kept as they were when it was started."""

    spec: ProcessSpec
    files: Path  # stands for /


@dataclass(frozen=True)
class Captured:
    """A stack at one combination of levels. ``found``: the levels that its services told here; ``directory`` stands
    for a trial's; ``reads``: what the processes reach beside their own files.
    """

    directory: Path
    processes: Sequence[Started]
    url: str
    ready_url: str
    database_port: int
    found: Mapping[str, Level]
    reads: Sequence[Path] = ()

    def on_disk(self) -> list[Path]:
        """Directories that a guest's disk holds: the database's own, of a stack without one its first service's."""
        first = next((process for process in self.processes if process.spec.name == "database"), self.processes[0])
        paths = dict.fromkeys(
            path.absolute() for path in [*first.spec.owns, *([first.spec.cwd] if first.spec.cwd else [])]
        )
        existing = [path for path in paths if (first.files / path.relative_to("/")).is_dir()]
        return [path for path in existing if not any(other in path.parents for other in existing)]


class RecordingHost(LocalHost):
    """This host, which keeps what is started on it while it records. Ports are then handed out in a fixed order."""

    ending = False  # nothing is started any more
    started: list[Started]
    _kept: Path | None = None
    _next_port = _FIRST_PORT

    @contextmanager
    def recording(self, kept: Path) -> Iterator[None]:
        self._kept, self._next_port, self.started = kept, _FIRST_PORT, []
        try:
            yield
        finally:
            self._kept = None

    def start(self, spec: ProcessSpec) -> LocalProcess:
        """Also raises TrialFailure(interrupted) when the run ends."""
        if self.ending:
            raise TrialFailure(FailureClass.INTERRUPTED, f"{spec.name} is not started: the run ends")
        if self._kept is not None and spec.name in SERVICES:
            files = self._kept / spec.name
            for path in dict.fromkeys([*spec.owns, *([spec.cwd] if spec.cwd else [])]):
                _copy(path.absolute(), files)
            self.started.append(Started(spec, files))
            spec = replace(spec, cpus=None, limits={})  # those of the guest
        return super().start(spec)

    def free_port(self) -> int:
        if self._kept is None:
            return super().free_port()
        while self.port_taken(self._next_port):
            self._next_port += 1
        self._next_port += 1
        return self._next_port - 1


class Captures:
    """Captures of one study's stack. ``home`` holds its directories: the same in every run, for paths are part of what
    a guest computes.
    """

    def __init__(self, study: Study, host: RecordingHost, home: Path) -> None:
        self._host, self._home = host, home
        options = StackOptions(
            load_units=study.workload.load_units,
            placement=study.placement,
            observe=study.observe,
            ready_timeout=study.ready_timeout,
        )
        self._stack = Stack(study.stack, host, home / "services", options)

    def versions(self) -> Mapping[str, str]:
        return self._stack.versions()

    def prepare(self, progress: Progress) -> None:
        """Distributions, application, data. Raises TrialFailure, LeadlineError."""
        self._stack.provision(progress)
        self._stack.prepare_data(progress)

    def take(self, levels: Mapping[str, Level], number: int) -> Captured:
        """Start the stack with these levels of its services, read them back, stop it.

        Raises TrialFailure with its class, UsageError for levels that contradict each other.
        """
        directory, kept_at, stack = self._home / "trial", self._home / f"capture-{number}", self._stack
        for path in (directory, kept_at):
            shutil.rmtree(path, ignore_errors=True)
        for part in ("logs", "raw"):
            (directory / part).mkdir(parents=True)
        with self._host.recording(kept_at):
            try:
                stack.reset_data(directory)
                stack.start_database(levels, directory)
                stack.start_server(levels, directory)
                levels_read, port = {name: stack.read_back(name) for name in levels}, stack.endpoint().port
                urls = stack.url(), stack.ready_url()
            finally:
                unclean = stack.down()
        if unclean:
            raise TrialFailure(FailureClass.INFRASTRUCTURE, f"the stack did not stop in order: {'; '.join(unclean)}")
        started = self._host.started
        reads = dict.fromkeys(path for process in started for path in process.spec.reads)
        return Captured(directory, started, *urls, port, levels_read, tuple(reads))


def _copy(path: Path, root: Path) -> None:
    """``path`` below ``root``, links as links; nothing where it does not exist."""
    target = root / path.relative_to("/")
    target.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir() and not path.is_symlink():
        shutil.copytree(path, target, symlinks=True, dirs_exist_ok=True)
    elif path.exists():
        shutil.copy2(path, target, follow_symlinks=False)
