"""A pool of hosts that are reached over SSH: leadline is installed on each, and runs one block at a time.

A job is ``leadline pool job -`` there: it reads the job from its standard input, runs for as long as that stays open,
and writes its directory to its standard output as a tar archive, which is unpacked as it comes
(``leadline.host.received``). So a job ends, and puts its host back, when leadline here or the connection does.
"""

from __future__ import annotations

import json
import resource
import shlex
import subprocess
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from leadline.host import here, ssh
from leadline.host.received import unpack
from leadline.model.errors import UsageError, quoted
from leadline.model.hosts import SshHost
from leadline.model.received import ReceivedError
from leadline.places.pool.base import JOB, OUTPUT, HostState, JobState, JobStatus, Pool, PoolHost, SshHosts, Wish
from leadline.places.pool.job import END, read_ending

_ANSWER = 30.0  # seconds until a host must have answered
_PLANS = 120.0  # seconds that it may take to make a plan
_AT_ONCE = 64  # hosts that are asked at the same time
_MOST_LOST = 3  # jobs in a row, after which a host gets no more
_REST = 15.0  # seconds that a host which lost a job gets none


@dataclass
class _Running:
    host: SshHost
    process: subprocess.Popen[bytes]
    directory: Path
    feeder: threading.Thread
    taker: threading.Thread | None = None
    refused: str = ""  # why what it sent is not taken
    ended: JobStatus | None = None

    def take(self) -> None:
        """Unpack what it hands in, for as long as that is in order: else its connection is ended, and so is the job."""
        assert self.process.stdout is not None
        try:
            unpack(self.process.stdout, self.directory, f"what {self.host.name} handed in")
            if (ending := read_ending(self.directory)) is not None and ending.host != self.host.name:
                raise ReceivedError(f"what {self.host.name} handed in", f"it is another's, {quoted(ending.host)}")
        except (ReceivedError, OSError) as error:
            if self.process.stdout.read(1) or self.process.wait() == 0:  # else it was cut off
                self.refused = str(error)
            self.process.terminate()


@dataclass
class SshPool(Pool):
    """``known``: hosts and the program of leadline there."""

    known: SshHosts
    name: str = "ssh"
    outlives: bool = False
    pause: float = 0.2
    _jobs: dict[str, _Running] = field(default_factory=dict)
    _drained: dict[str, str] = field(default_factory=dict)
    _lost: dict[str, int] = field(default_factory=dict)
    _rests: dict[str, float] = field(default_factory=dict)  # until when
    _begun: int = 0

    @property
    def kernels(self) -> Sequence[str]:
        return ()  # a job cannot boot the host that it runs on

    def hosts(self) -> list[PoolHost]:
        """Puts each back, if need be."""
        return self._of_all(lambda host: self._asked(host, "restore"))

    def look(self, job: Mapping[str, Any]) -> list[PoolHost]:
        """Has each make the plan."""
        request = json.dumps(job).encode() + b"\n"
        return self._of_all(lambda host: self._asked(host, f"pool job - --look --as {shlex.quote(host.name)}", request))

    def _of_all(self, ask: Callable[[SshHost], PoolHost]) -> list[PoolHost]:
        """Of every host that runs no job here, all at the same time."""

        def told(host: SshHost) -> PoolHost:
            if (why := self._drained.get(host.name)) is not None:
                return PoolHost(host.name, HostState.DRAINED, why)
            if self._runs_on(host):
                return PoolHost(host.name, HostState.BUSY, "runs a block of this study")
            return ask(host)

        with ThreadPoolExecutor(min(len(self.known.machines), _AT_ONCE)) as threads:
            return list(threads.map(told, self.known.machines))

    def _asked(self, host: SshHost, command: str, given: bytes = b"") -> PoolHost:
        argv = self._argv(host, f"{shlex.quote(self.known.leadline)} {command}")
        try:
            done = here.run(argv, given, timeout=_PLANS if given else _ANSWER)
        except OSError as error:
            return PoolHost(host.name, HostState.DOWN, str(error))
        streams = (done.stdout, done.stderr) if given else (done.stderr, done.stdout)
        reason = next(filter(None, map(ssh.last_line, streams)), "")
        match done.returncode:
            case 0:
                return PoolHost(host.name, HostState.FREE, reason if given else "")
            case 1:
                return PoolHost(host.name, HostState.BUSY, reason)
            case 2 | 3:  # another version of leadline; what cannot be run, or put back
                return PoolHost(host.name, HostState.DRAINED, reason)
        return PoolHost(
            host.name, HostState.DOWN, (reason or f"exit code {done.returncode}") + ssh.hint(reason, host.words)
        )

    def _runs_on(self, host: SshHost) -> bool:
        return any(job.host == host and job.ended is None for job in self._jobs.values())

    def _free(self) -> list[SshHost]:
        now = time.monotonic()
        return [
            host
            for host in self.known.machines
            if host.name not in self._drained and not self._runs_on(host) and self._rests.get(host.name, 0.0) < now
        ]

    def gather(self, hosts: int) -> None:
        if hosts > 1:
            raise UsageError(
                f"--pool {self.name}: a list of hosts gives each block one; Slurm gives several (--pool slurm)"
            )

    def room(self, jobs: int) -> int:  # noqa: ARG002 - those of this run are known
        return len(self._free())

    def usable(self) -> bool:
        return any(host.name not in self._drained for host in self.known.machines)

    def submit(self, directory: Path, title: str, wish: Wish) -> str:  # noqa: ARG002 - they keep their kernels
        ssh.require_client()
        # Those that lost jobs come last, the others in turn.
        host = min(self._free(), key=lambda each: (self._lost.get(each.name, 0), self._given(each)))
        argv = self._argv(host, f"exec {shlex.quote(self.known.leadline)} pool job - --as {shlex.quote(host.name)}")
        with (directory / OUTPUT).open("wb") as output:
            process = subprocess.Popen(
                argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=output, start_new_session=True
            )
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (here.MOST_SAID, here.MOST_SAID))
        feeder = threading.Thread(target=_feed, args=(process, (directory / JOB).read_bytes()), name=title, daemon=True)
        feeder.start()
        self._begun += 1
        name = f"{host.name}/{self._begun}"
        job = self._jobs[name] = _Running(host, process, directory, feeder)
        job.taker = threading.Thread(target=job.take, name=f"{title}-output", daemon=True)
        job.taker.start()
        return name

    def _given(self, host: SshHost) -> int:
        return sum(job.host == host for job in self._jobs.values())

    def _argv(self, host: SshHost, command: str) -> list[str]:
        script = f"sudo -n {command.removeprefix('exec ')}" if host.sudo else command
        return ["ssh", *ssh.options(interval=5, count=6), *host.words, "--", script]

    def states(self, names: Collection[str]) -> Mapping[str, JobStatus]:
        return {name: self._state(self._jobs[name]) for name in names if name in self._jobs}

    def _state(self, job: _Running) -> JobStatus:
        if job.ended is None:
            code = job.process.poll()
            if code is None or (job.taker is not None and job.taker.is_alive()):
                return JobStatus(JobState.RUNNING, job.host.name)
            job.ended = self._over(job, code)
        return job.ended

    def _over(self, job: _Running, code: int) -> JobStatus:
        name = job.host.name
        handed_in = not job.refused and (job.directory / END).exists()
        lost = "the connection is lost" if code == ssh.FAILED else f"it ended with code {code} there"
        why = "" if handed_in else job.refused or lost
        if job.refused:
            self.drain(name, job.refused)
        if not why:
            self._lost.pop(name, None)
            return JobStatus(JobState.ENDED, name)
        (job.directory / END).unlink(missing_ok=True)
        self._lost[name] = self._lost.get(name, 0) + 1
        self._rests[name] = time.monotonic() + _REST
        if self._lost[name] >= _MOST_LOST:
            self.drain(name, f"{_MOST_LOST} jobs in a row were lost there")
        return JobStatus(JobState.LOST, name, why)

    def cancel(self, name: str) -> None:
        """The end of its input ends a job in order."""
        if (job := self._jobs.get(name)) is not None:
            job.feeder.join(_ANSWER)
            if job.process.stdin is not None:
                with suppress(OSError):
                    job.process.stdin.close()

    def drain(self, host: str, why: str) -> None:
        self._drained.setdefault(host, why)

    def close(self) -> None:
        for job in self._jobs.values():
            if job.process.poll() is None:
                job.process.terminate()
            with suppress(subprocess.TimeoutExpired):
                job.process.wait(5)


def _feed(process: subprocess.Popen[bytes], job: bytes) -> None:
    """The job, as one line; the input stays open."""
    assert process.stdin is not None
    with suppress(OSError):
        process.stdin.write(job + b"\n")
        process.stdin.flush()
